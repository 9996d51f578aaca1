//! The texts of a probe's request that the agent's guard reads: the paths it names, and the command of an owner's pack.

use convoke_core::guard::{AppliesTo, Surface};
use convoke_sonde::manifest::ProbeSpec;
use convoke_sonde::params::{self, Format};
use serde_json::{Map, Value};

use crate::Probes;

/// Parameters that are paths whatever their manifest says.
const PATHS: [&str; 2] = ["path", "logPath"];

impl Probes {
    /// What the guard must look at, with defaults filled in. A probe that is not here and parameters that do not fit the
    /// manifest have nothing to look at: [`Probes::run`] never runs them.
    pub fn surfaces(&self, probe: &str, given: Option<&str>) -> Vec<Surface<'static>> {
        let Ok((_, spec)) = self.find(probe) else { return Vec::new() };
        let Ok(params) = params::validate(&spec.params, given) else { return Vec::new() };
        let paths = self.named_paths(probe, spec, &params);
        let mut surfaces: Vec<_> = paths.iter().map(|path| surface(AppliesTo::Path, path)).collect();
        if let Some((program, arguments)) = self.own_pack(probe).and_then(|pack| pack.command(probe, &params)) {
            let texts: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
            surfaces.extend(commands(&program, &texts));
        }
        surfaces
    }

    /// The paths that a request names.
    pub(crate) fn named_paths(&self, probe: &str, spec: &ProbeSpec, params: &Map<String, Value>) -> Vec<String> {
        let mut named: Vec<String> = paths(spec, params).map(str::to_owned).collect();
        if let Some((_, arguments)) = self.own_pack(probe).and_then(|pack| pack.command(probe, params)) {
            // `/etc/{name}` names a file as well as a parameter of the form `path` does.
            let built = arguments.into_iter().filter(|argument| argument.is_built && argument.text.contains('/'));
            named.extend(built.map(|argument| argument.text));
        }
        named
    }
}

fn surface(group: AppliesTo, text: &str) -> Surface<'static> {
    Surface { group, text: text.to_owned().into() }
}

fn paths<'p>(spec: &'p ProbeSpec, params: &'p Map<String, Value>) -> impl Iterator<Item = &'p str> {
    let is_path = |name: &str| {
        PATHS.contains(&name) || spec.params.get(name).is_some_and(|param| param.format == Some(Format::Path))
    };
    params.iter().filter(move |(name, _)| is_path(name)).filter_map(|(_, value)| value.as_str())
}

/// The command as one line, and each argument that can be a command itself, as after `sh -c`.
fn commands(program: &str, arguments: &[&str]) -> Vec<Surface<'static>> {
    let line = [&[program], arguments].concat().join(" ");
    let lower = line.to_ascii_lowercase();
    let mut groups = vec![AppliesTo::Posix, AppliesTo::SelfProtection];
    // Ordinary downloads would trip over PowerShell's rules.
    if lower.contains("pwsh") || lower.contains("powershell") {
        groups.push(AppliesTo::Powershell);
    }
    let inner = arguments.iter().copied().filter(|argument| argument.contains(char::is_whitespace));
    let texts: Vec<&str> = inner.chain([line.as_str()]).collect();
    groups.iter().flat_map(|group| texts.iter().map(|text| surface(*group, text))).collect()
}
