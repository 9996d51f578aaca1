//! Packs of the machine's owner: a manifest as data, and for each probe the program that finds out.
//!
//! Whoever can write such a file, or the program it names, can run things as the agent's user. So both count only where
//! nobody but root and that user can write, all the way up; the program is looked at again each time it is run. There is no
//! shell: a command is a list, and a parameter fills a place in one of its arguments, after it has the form that the
//! manifest demands.

mod command;
mod guard;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use convoke_sonde::builtin;
use convoke_sonde::manifest::Manifest;
use serde_json::{Map, Value, json};

use crate::context::last_lines;
use crate::{Context, ProbeError};
use command::{Argument, Run};

/// Most files that are read.
const MAX_FILES: usize = 64;
/// Longest file.
const MAX_FILE: u64 = 64 * 1024;
/// Most bytes of all manifests together: they go to the hub with the registration.
const MAX_ALL: usize = 128 * 1024;
/// Most lines of a text.
const MAX_LINES: u64 = 500;

/// A pack from a file.
#[derive(Clone, Debug)]
pub(crate) struct OwnPack {
    pub(crate) manifest: Manifest,
    /// What it says, run lines and all: what the attestation covers.
    pub(crate) text: String,
    runs: BTreeMap<String, Run>,
}

/// The packs of a directory, and what is wrong with the files that are none. A directory that is not there has none.
pub(crate) fn read(dir: &Path) -> (Vec<OwnPack>, Vec<String>) {
    let mut packs: Vec<OwnPack> = Vec::new();
    let mut problems = Vec::new();
    if !dir.exists() {
        return (packs, problems);
    }
    let files = match guard::check(dir).and_then(|()| list(dir)) {
        Ok(files) => files,
        Err(why) => return (packs, vec![format!("{}: {why}", dir.display())]),
    };
    if files.len() > MAX_FILES {
        problems.push(format!("{}: only the first {MAX_FILES} packs are read", dir.display()));
    }
    let mut size = 0;
    for path in files.into_iter().take(MAX_FILES) {
        let taken = |name: &str| packs.iter().any(|p| p.manifest.name == name);
        match read_file(&path).and_then(|text| OwnPack::parse(&text)) {
            Ok(pack) if taken(&pack.manifest.name) => {
                problems.push(format!("{}: another file already has a pack {}", path.display(), pack.manifest.name));
            }
            Ok(pack) if size + pack.text.len() > MAX_ALL => {
                problems.push(format!("{}: all packs together must have at most {MAX_ALL} bytes", path.display()));
            }
            Ok(pack) => {
                size += pack.text.len();
                packs.push(pack);
            }
            Err(why) => problems.push(format!("{}: {why}", path.display())),
        }
    }
    (packs, problems)
}

/// One file, looked at as [`read`] would.
pub(crate) fn check(path: &Path) -> Result<Manifest, String> {
    if path.extension().is_none_or(|e| e != "json") {
        return Err("its name must end in .json".into());
    }
    OwnPack::parse(&read_file(path)?).map(|pack| pack.manifest)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|why| why.to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<String, String> {
    guard::check(path)?;
    let length = std::fs::metadata(path).map_err(|why| why.to_string())?.len();
    if length > MAX_FILE {
        return Err(format!("it must have at most {MAX_FILE} bytes"));
    }
    std::fs::read_to_string(path).map_err(|why| why.to_string())
}

impl OwnPack {
    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
        let manifest = Manifest::from_value(value.clone()).map_err(|why| why.to_string())?;
        if builtin::packs().iter().any(|pack| pack.name == manifest.name) {
            return Err(format!("pack {} is built in; choose another name", manifest.name));
        }
        let mut runs = BTreeMap::new();
        for (probe, spec) in value["probes"].as_array().into_iter().flatten().zip(&manifest.probes) {
            let run = Run::read(&probe["run"], spec).map_err(|why| format!("probe {}: {why}", spec.name))?;
            runs.insert(format!("{}.{}", manifest.name, spec.name), run);
        }
        Ok(Self { manifest, text: value.to_string(), runs })
    }

    /// The program and the arguments with which one of its probes runs.
    pub(crate) fn command(&self, probe: &str, params: &Map<String, Value>) -> Option<(String, Vec<Argument>)> {
        let run = self.runs.get(probe)?;
        Some((run.program.display().to_string(), run.arguments(params)))
    }

    /// Runs one of its probes.
    pub(crate) async fn run(
        &self,
        cx: &Context<'_>,
        probe: &str,
        params: &Map<String, Value>,
    ) -> Result<Value, ProbeError> {
        let unknown = || ProbeError::Failed(format!("{probe} has no command"));
        let run = self.runs.get(probe).ok_or_else(unknown)?;
        guard::check_program(&run.program).map_err(ProbeError::Forbidden)?;
        let program = run.program.display().to_string();
        let output = cx.run_path(&run.program, &run.arguments(params)).await?;
        if !output.success() {
            return Err(ProbeError::of_program(&program, output.exit_code, &output.stderr, &output.stdout));
        }
        if run.is_json {
            return serde_json::from_str(&output.stdout).map_err(|why| ProbeError::unreadable(&program, why));
        }
        let (lines, cut) = last_lines(output.stdout.lines(), MAX_LINES);
        let cut = cut || output.stdout.lines().count() as u64 > MAX_LINES;
        Ok(json!({ "lineCount": lines.len(), "lines": lines, "truncated": cut }))
    }
}
