//! Packs as data (field facts, section 11, "Manifest schema").

use std::collections::BTreeMap;

use convoke_core::effect::Effect;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::params::{self, ParamSpec};

/// A pack: what it needs, what it can find out, how it is detected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Its name: the first part of its probes' names.
    pub name: String,
    /// `agent` or `integration`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PackKind>,
    /// `x.y.z`.
    pub version: String,
    /// For people.
    pub description: String,
    /// The author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Kept and shown; not checked (no key of the field's packs is published).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The requirements of the pack.
    #[serde(default)]
    pub requires: Requires,
    /// The probes of the pack.
    pub probes: Vec<ProbeSpec>,
    /// A simple runbook over its probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<PackRunbook>,
    /// How to tell that it makes sense here: any one match is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect: Option<Detect>,
}

/// The platforms that a pack supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackKind {
    /// On a machine.
    Agent,
    /// In the hub.
    Integration,
}

/// The requirements of a pack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requires {
    /// Groups that the agent's user should be in.
    pub groups: Vec<String>,
    /// Files that must be there.
    pub files: Vec<String>,
    /// Programs that must be there.
    pub commands: Vec<String>,
    /// A role in a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_role: Option<DbRole>,
}

/// A role in a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DbRole {
    /// Of which database.
    #[serde(rename = "type")]
    pub kind: String,
    /// With which rights.
    pub access: String,
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeSpec {
    /// Its name within the pack.
    pub name: String,
    /// For people.
    pub description: String,
    /// The effect.
    pub capability: Effect,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamSpec>,
    /// How long it may take, in milliseconds.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
}

fn default_timeout() -> u64 {
    crate::probe::DEFAULT_TIMEOUT_MS
}

/// A simple runbook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackRunbook {
    /// The category.
    pub category: String,
    /// Probes by their names within the pack.
    pub probes: Vec<String>,
    /// All at once.
    #[serde(default = "yes")]
    pub parallel: bool,
}

fn yes() -> bool {
    true
}

/// How a pack is detected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detect {
    /// Programs.
    pub commands: Vec<String>,
    /// Files or directories.
    pub files: Vec<String>,
    /// Services.
    pub services: Vec<String>,
}

/// An error in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pack {pack}: {what}")]
pub struct ManifestError {
    pack: String,
    what: String,
}

/// Most probes of one pack.
pub const MAX_PROBES: usize = 256;
/// Most parameters of one probe.
pub const MAX_PARAMS: usize = 64;
/// Longest description of a pack, a probe or a parameter, in characters.
pub const MAX_DESCRIPTION: usize = 2000;
/// Most of a manifest's own words that an error repeats, in characters.
const MAX_QUOTED: usize = 80;

impl Manifest {
    /// Reads and checks a manifest.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        Self::checked(serde_json::from_str(text))
    }

    /// The same, from a value.
    pub fn from_value(value: Value) -> Result<Self, ManifestError> {
        Self::checked(serde_json::from_value(value))
    }

    fn checked(read: serde_json::Result<Self>) -> Result<Self, ManifestError> {
        // What it says of a value that is none may repeat that value.
        let manifest =
            read.map_err(|why| ManifestError { pack: "?".into(), what: quoted(&why.to_string()).into() })?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Whether it can be used. Its words are shown to those who ask for its probes, so they are held within bounds.
    pub fn check(&self) -> Result<(), ManifestError> {
        let bad = |what: String| Err(ManifestError { pack: quoted(&self.name).into(), what });
        if !is_name(&self.name) || self.name.contains('.') {
            return bad("`name` must be lower-case letters, digits and '-'".into());
        }
        let numbers: Vec<&str> = self.version.split('.').collect();
        if numbers.len() != 3 || !numbers.iter().all(|n| n.parse::<u32>().is_ok()) {
            return bad(format!("`version` must be x.y.z, not {:?}", quoted(&self.version)));
        }
        if too_long(&self.description) {
            return bad(format!("`description` may have {MAX_DESCRIPTION} characters"));
        }
        if self.probes.is_empty() || self.probes.len() > MAX_PROBES {
            return bad(format!("a pack has 1 to {MAX_PROBES} probes"));
        }
        for (i, probe) in self.probes.iter().enumerate() {
            if !is_name(&probe.name) {
                return bad(format!("{:?} is no name for a probe", quoted(&probe.name)));
            }
            if self.probes[..i].iter().any(|p| p.name == probe.name) {
                return bad(format!("probe {} is there twice", probe.name));
            }
            if probe.timeout == 0 || probe.timeout > crate::probe::MAX_TIMEOUT_MS {
                return bad(format!(
                    "the timeout of {} must be 1 to {} ms",
                    probe.name,
                    crate::probe::MAX_TIMEOUT_MS
                ));
            }
            if too_long(&probe.description) || probe.params.values().any(|spec| too_long(&spec.description)) {
                return bad(format!("a description in {} has more than {MAX_DESCRIPTION} characters", probe.name));
            }
            if probe.params.len() > MAX_PARAMS {
                return bad(format!("{} has more than {MAX_PARAMS} parameters", probe.name));
            }
            for (name, spec) in &probe.params {
                if !params::is_name(name) {
                    let longest = params::MAX_NAME;
                    return bad(format!(
                        "{:?} is no name for a parameter of {}: 1 to {longest} letters, digits and '._-' are",
                        quoted(name),
                        probe.name
                    ));
                }
                if let Err(why) = spec.check() {
                    return bad(format!("parameter {name} of {}: {why}", probe.name));
                }
            }
        }
        let runbook = self.runbook.iter().flat_map(|r| &r.probes);
        match runbook.into_iter().find(|name| self.probe(name).is_none()) {
            Some(name) => bad(format!("its runbook asks for {:?}, which it does not have", quoted(name))),
            None => Ok(()),
        }
    }

    /// A probe by its name within the pack.
    pub fn probe(&self, name: &str) -> Option<&ProbeSpec> {
        self.probes.iter().find(|p| p.name == name)
    }

    /// A probe by its full name.
    pub fn find(&self, full: &str) -> Option<&ProbeSpec> {
        self.probe(full.strip_prefix(&*self.name)?.strip_prefix('.')?)
    }
}

fn too_long(text: &str) -> bool {
    text.chars().nth(MAX_DESCRIPTION).is_some()
}

/// As much of a text as an error repeats.
fn quoted(text: &str) -> &str {
    text.char_indices().nth(MAX_QUOTED).map_or(text, |(end, _)| &text[..end])
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    !name.is_empty() && name.len() <= 128 && name.split('.').all(|part| !part.is_empty() && part.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"name":"web","version":"0.1.0","description":"d","requires":{"groups":[],"files":[],"commands":["curl"]},
        "probes":[{"name":"http.get","description":"d","capability":"observe","params":{"url":{"type":"string","description":"d","required":true}}}],
        "runbook":{"category":"web","probes":["http.get"]},"detect":{"commands":["curl"]}}"#;

    #[test]
    fn a_manifest_reads_with_its_defaults() {
        let manifest = Manifest::parse(GOOD).expect("a good manifest");
        let probe = manifest.find("web.http.get").expect("its probe");
        assert_eq!((probe.timeout, probe.capability), (30_000, Effect::Observe));
        assert!(manifest.find("web.http").is_none() && manifest.find("webhttp.get").is_none());
        assert!(manifest.runbook.as_ref().is_some_and(|r| r.parallel));
        let again = serde_json::to_string(&manifest).expect("writes");
        assert_eq!(Manifest::parse(&again), Ok(manifest));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (from, to, word) in [
            ("\"web\",\"version\"", "\"We b\",\"version\"", "lower-case"),
            ("0.1.0", "1", "x.y.z"),
            ("\"observe\"", "\"root\"", "root"),
            ("\"probes\":[\"http.get\"]", "\"probes\":[\"gone\"]", "gone"),
            ("\"type\":\"string\"", "\"type\":\"object\"", "object"),
            ("\"capability\":\"observe\"", "\"capability\":\"observe\",\"timeout\":0", "timeout"),
            ("\"url\":", "\"u r\\n\":", "no name for a parameter"),
            ("\"required\":true", "\"enum\":[\"a\\nb\"]", "control characters"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = Manifest::parse(&text).expect_err(to).to_string();
            assert!(error.contains(word), "{error} should speak of {word}");
        }
    }

    #[test]
    fn its_words_are_held_within_bounds() {
        let long = "x".repeat(100_000);
        let with = |at: &str, value: Value| {
            let mut manifest: Value = serde_json::from_str(GOOD).expect("JSON");
            *manifest.pointer_mut(at).expect("there") = value;
            Manifest::from_value(manifest)
        };
        let param = |name: &str| serde_json::json!({ name: { "type": "string" } });
        let many: serde_json::Map<String, Value> =
            (0..=MAX_PARAMS).map(|n| (format!("p{n}"), serde_json::json!({ "type": "string" }))).collect();
        for (at, value) in [
            ("/name", Value::from(long.as_str())),
            ("/version", long.as_str().into()),
            ("/description", long.as_str().into()),
            ("/probes/0/name", long.as_str().into()),
            ("/probes/0/description", long.as_str().into()),
            ("/probes/0/capability", long.as_str().into()),
            ("/probes/0/params/url/description", long.as_str().into()),
            ("/probes/0/params", param(&long)),
            ("/probes/0/params", param("")),
            ("/probes/0/params", Value::Object(many)),
            ("/runbook/probes", serde_json::json!([long])),
        ] {
            let error = with(at, value).expect_err(at).to_string();
            assert!(error.len() < 400, "{at}: {} bytes", error.len());
        }
        // As packs in the field name them.
        for name in ["logPath", "vm_id", "schedule_ids", "max-hops", "filter.name"] {
            assert!(with("/probes/0/params", param(name)).is_ok(), "{name}");
        }
    }
}
