//! `agent.register` (contract, "Registration"; field facts, sections 1 and 4).
//!
//! The two shapes differ in the names of fields and in what `packs` is. An agent that sends the field's `agentVersion`
//! is answered as the field's programs are; any other is answered by the contract's text.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attest::Attestation;

/// Longest name of an agent, and of its system.
pub const MAX_NAME: usize = 255;
/// Longest version.
const MAX_VERSION: usize = 64;
/// Longest word on what is wrong.
const MAX_WHAT: usize = 300;
/// Manifests of which it is said what is wrong with them.
const MAX_UNFIT: usize = 4;
/// Most packs and most probes that one agent may announce.
pub const MAX_PACKS: usize = 256;
/// Most probes that one agent may announce.
pub const MAX_CAPABILITIES: usize = 4096;

/// Which of the two shapes a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// The published text.
    Contract,
    /// The programs in the field.
    Field,
}

impl Dialect {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Field => "field",
        }
    }
}

/// A pack that an agent has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackInfo {
    /// Its name.
    pub name: String,
    /// Its version; the contract's shape does not tell.
    pub version: String,
    /// `active` in practice.
    pub status: String,
}

/// An agent's registration, in either format.
#[derive(Clone, Debug)]
pub struct Register {
    /// Which shape it came in.
    pub dialect: Dialect,
    /// The agent's name: its identity across enrolments.
    pub name: String,
    /// The machine's name (contract's shape).
    pub hostname: Option<String>,
    /// `linux`, or the field's `linux x64`.
    pub os: String,
    /// `Ubuntu 22.04` (contract's shape).
    pub os_version: Option<String>,
    /// `x64` (contract's shape).
    pub arch: Option<String>,
    /// The agent's version.
    pub version: String,
    /// Loaded packs.
    pub packs: Vec<PackInfo>,
    /// Available probes (contract's shape).
    pub capabilities: Vec<String>,
    /// The one-time token, where it is not the bearer.
    pub enrollment_token: Option<convoke_core::secret::SecretText>,
    /// The attested state.
    pub attestation: Attestation,
    /// A certificate request: the agent made its own key and wants a certificate for it.
    pub csr: Option<String>,
    /// Manifests of packs that the hub may not know (our agents).
    pub manifests: Vec<crate::manifest::Manifest>,
    /// The machine that shows it to be its second tunnel (our agents).
    pub machine: Option<MachineProof>,
    /// What is wrong with manifests that were left out: packs without one are asked for as if they could do anything.
    pub unfit: Vec<String>,
}

/// That a kenny agent and this agent are one machine: the kenny agent's key signed this agent's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineProof {
    /// The kenny agent's id.
    pub id: String,
    /// The signature, base64.
    pub signature: String,
}

/// Why a registration cannot be taken, and how the peer wants to be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BadRegister {
    /// The shape it seems to speak.
    pub dialect: Dialect,
    /// What is wrong.
    pub what: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    name: Option<String>,
    hostname: Option<String>,
    os: Option<String>,
    os_version: Option<String>,
    arch: Option<String>,
    version: Option<String>,
    agent_version: Option<String>,
    packs: Option<Vec<WirePack>>,
    #[serde(default)]
    capabilities: Vec<String>,
    #[serde(default, deserialize_with = "present")]
    enrollment_token: Option<String>,
    attestation: Option<Value>,
    csr: Option<String>,
    #[serde(default)]
    manifests: Vec<Value>,
    machine: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WirePack {
    Name(String),
    Info { name: String, version: String, status: String },
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    String::deserialize(d).map(Some)
}

impl Register {
    /// Reads the payload of `agent.register`.
    pub fn decode(payload: &str) -> Result<Self, BadRegister> {
        // Found out first, so that even a broken registration is refused in its own shape.
        #[derive(Deserialize)]
        struct Hint {
            #[serde(rename = "agentVersion")]
            agent_version: Option<Value>,
        }
        let hint = serde_json::from_str::<Hint>(payload).ok().and_then(|h| h.agent_version);
        let dialect = if hint.is_some() { Dialect::Field } else { Dialect::Contract };
        // What it says may repeat what the peer wrote.
        let bad = |what: String| BadRegister { dialect, what: cut(what, MAX_WHAT) };
        let wire: Wire = serde_json::from_str(payload).map_err(|why| bad(why.to_string()))?;
        let Wire { name, os, packs, .. } = wire;
        let within = |what: &str, text: Option<String>, longest: usize| match text {
            Some(t) if t.is_empty() || t.chars().count() > longest => {
                Err(bad(format!("`{what}` must have 1 to {longest} characters")))
            }
            Some(t) => Ok(t),
            None => Err(bad(format!("`{what}` is missing"))),
        };
        let version_field = if dialect == Dialect::Field { "agentVersion" } else { "version" };
        let name = within("name", name, MAX_NAME)?;
        if name.chars().any(char::is_control) {
            return Err(bad("`name` has control characters".into()));
        }
        let packs = packs.ok_or_else(|| bad("`packs` is missing".into()))?;
        if packs.len() > MAX_PACKS || wire.capabilities.len() > MAX_CAPABILITIES {
            return Err(bad(format!("at most {MAX_PACKS} packs with {MAX_CAPABILITIES} probes can be announced")));
        }
        let packs = packs.into_iter().map(|pack| match pack {
            WirePack::Name(name) => PackInfo { name, version: String::new(), status: "active".into() },
            WirePack::Info { name, version, status } => {
                PackInfo { name, version: cut(version, MAX_VERSION), status: cut(status, MAX_VERSION) }
            }
        });
        let packs: Vec<PackInfo> = packs.collect();
        if packs.iter().any(|p| p.name.is_empty() || p.name.len() > MAX_NAME) {
            return Err(bad("a pack has no name, or one that is too long".into()));
        }
        // A manifest that does not fit its schema describes nothing.
        let (mut manifests, mut unfit) = (Vec::new(), Vec::new());
        for value in wire.manifests.into_iter().take(MAX_PACKS) {
            match crate::manifest::Manifest::from_value(value) {
                Ok(manifest) => manifests.push(manifest),
                Err(why) if unfit.len() < MAX_UNFIT => unfit.push(cut(why.to_string(), MAX_WHAT)),
                Err(_) => {}
            }
        }
        let short = |text: Option<String>| text.map(|text| cut(text, MAX_NAME));
        // Nor can a probe be asked for by a name that no request has room for.
        let capabilities = wire.capabilities.into_iter().filter(|name| name.len() <= crate::probe::MAX_PROBE_NAME);
        Ok(Self {
            dialect,
            name,
            hostname: short(wire.hostname),
            os: within("os", os, MAX_NAME)?,
            os_version: short(wire.os_version),
            arch: short(wire.arch),
            version: within(version_field, wire.agent_version.or(wire.version), MAX_VERSION)?,
            packs,
            capabilities: capabilities.collect(),
            enrollment_token: wire.enrollment_token.map(convoke_core::secret::SecretText::new),
            attestation: wire.attestation.as_ref().map(Attestation::read).unwrap_or_default(),
            csr: wire.csr,
            manifests,
            machine: wire.machine.and_then(|proof| serde_json::from_value(proof).ok()),
            unfit,
        })
    }
}

/// The first so many characters.
fn cut(mut text: String, longest: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        text.truncate(end);
    }
    text
}

/// A registration as our agent writes it.
#[derive(Clone, Debug)]
pub struct RegisterOut<'a> {
    /// The agent's name.
    pub name: &'a str,
    /// The machine's name.
    pub hostname: &'a str,
    /// `linux`.
    pub os: &'a str,
    /// `Debian GNU/Linux 12`.
    pub os_version: &'a str,
    /// `x64`, `arm64`.
    pub arch: &'a str,
    /// Kernel release.
    pub kernel: &'a str,
    /// The agent's version.
    pub version: &'a str,
    /// Packs with versions.
    pub packs: &'a [PackInfo],
    /// Probes.
    pub capabilities: &'a [String],
    /// SHA-256 of the binary.
    pub binary_hash: &'a str,
    /// SHA-256 of the configuration.
    pub config_hash: &'a str,
    /// The one-time token, when enrolling.
    pub token: Option<&'a convoke_core::secret::SecretText>,
    /// The certificate request, when enrolling.
    pub csr: Option<&'a str>,
    /// Manifests of packs that are not built in.
    pub manifests: &'a [crate::manifest::Manifest],
    /// The machine whose second tunnel it is.
    pub machine: Option<&'a MachineProof>,
}

impl RegisterOut<'_> {
    /// The payload in that shape. The field's has the contract's fields beside its own (unknown ones are ignored
    /// there); the contract's has nothing more than its text names, because a strict reader may want it so.
    pub fn encode(&self, dialect: Dialect) -> String {
        let fingerprint = format!("{} {}", self.os_version, self.kernel);
        let value = match dialect {
            Dialect::Contract => serde_json::json!({
                "name": self.name, "hostname": self.hostname, "os": self.os, "osVersion": self.os_version,
                "arch": self.arch, "version": self.version,
                "packs": self.packs.iter().map(|p| &p.name).collect::<Vec<_>>(),
                "capabilities": self.capabilities,
                "attestation": { "binaryHash": self.binary_hash, "configHash": self.config_hash, "osFingerprint": fingerprint },
            }),
            Dialect::Field => {
                let installed: Vec<Value> =
                    self.packs.iter().map(|p| serde_json::json!({"name": p.name, "version": p.version})).collect();
                let mut value = serde_json::json!({
                    "name": self.name, "os": format!("{} {}", self.os, self.arch), "agentVersion": self.version,
                    "packs": self.packs, "hostname": self.hostname, "osVersion": self.os_version, "arch": self.arch,
                    "version": self.version, "capabilities": self.capabilities,
                    "attestation": {
                        "osVersion": format!("{} {} {}", self.os, self.kernel, self.arch),
                        "binaryHash": self.binary_hash, "installedPacks": installed,
                        "configHash": self.config_hash, "nodeVersion": "none", "osFingerprint": fingerprint,
                    },
                });
                if let Some(csr) = self.csr {
                    value["csr"] = csr.into();
                }
                if !self.manifests.is_empty() {
                    value["manifests"] = serde_json::to_value(self.manifests).unwrap_or_default();
                }
                if let Some(proof) = self.machine {
                    value["machine"] = serde_json::to_value(proof).unwrap_or_default();
                }
                value
            }
        };
        let mut value = value;
        if let Some(token) = self.token {
            value["enrollmentToken"] = token.reveal().into();
        }
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = r#"{"name":"web-1","hostname":"web-1.example","os":"linux","osVersion":"Ubuntu 22.04","arch":"x64","version":"0.1.0","packs":["system","docker"],"capabilities":["system.disk.usage"],"attestation":{"binaryHash":"a","configHash":"b","osFingerprint":"c"}}"#;
    const FIELD: &str = r#"{"name":"web-1","os":"linux x64","agentVersion":"0.2.11","packs":[{"name":"system","version":"0.2.0","status":"active"}],"enrollmentToken":"t","attestation":7}"#;

    #[test]
    fn both_shapes_are_read() {
        let contract = Register::decode(CONTRACT).expect("the contract's shape");
        assert_eq!((contract.dialect, contract.version.as_str()), (Dialect::Contract, "0.1.0"));
        assert_eq!(contract.packs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["system", "docker"]);
        assert_eq!(contract.attestation.field("osFingerprint"), Some("c"));
        let field = Register::decode(FIELD).expect("the field's shape");
        assert_eq!((field.dialect, field.version.as_str()), (Dialect::Field, "0.2.11"));
        assert_eq!(field.packs[0].version, "0.2.0");
        assert!(field.enrollment_token.is_some() && field.attestation.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_in_the_peers_own_shape() {
        for (text, dialect, word) in [
            (CONTRACT.replace("\"web-1\"", "\"\""), Dialect::Contract, "name"),
            (CONTRACT.replace("\"version\":\"0.1.0\",", ""), Dialect::Contract, "version"),
            (FIELD.replace("\"web-1\"", "7"), Dialect::Field, "string"),
            (FIELD.replace("\"t\"", "null"), Dialect::Field, "null"),
            (FIELD.replace("linux x64", ""), Dialect::Field, "os"),
            (
                FIELD.replace("[{\"name\":\"system\",\"version\":\"0.2.0\",\"status\":\"active\"}]", "null"),
                Dialect::Field,
                "packs",
            ),
            ("[]".into(), Dialect::Contract, "struct"),
            (FIELD.replace("web-1", "a\\u0007b"), Dialect::Field, "control"),
        ] {
            let bad = Register::decode(&text).expect_err(&text);
            assert_eq!(bad.dialect, dialect, "{text}");
            assert!(bad.what.contains(word), "{} should speak of {word}", bad.what);
        }
    }

    #[test]
    fn what_it_says_is_bounded_and_a_manifest_that_does_not_fit_is_told_and_left_out() {
        let mut value: Value = serde_json::from_str(FIELD).expect("JSON");
        let long = "x".repeat(20_000);
        value["hostname"] = long.as_str().into();
        value["packs"][0]["version"] = long.as_str().into();
        value["capabilities"] = serde_json::json!([long, "own.look"]);
        let manifest = |pack: &str, param: &str| {
            serde_json::json!({ "name": pack, "version": "1.0.0", "description": "d", "probes": [{ "name": "look",
                "description": "d", "capability": "observe", "params": { param: { "type": "string" } } }] })
        };
        value["manifests"] = serde_json::json!([manifest("own", "logPath"), manifest("sly", "a b\nc"),
            manifest("long", &long), { "name": long, "probes": long }]);
        let register = Register::decode(&value.to_string()).expect("it is let in all the same");
        assert_eq!(register.hostname.map(|h| h.len()), Some(MAX_NAME));
        assert_eq!(register.packs[0].version.len(), MAX_VERSION);
        assert_eq!(register.capabilities, ["own.look"]);
        assert_eq!(register.manifests.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), ["own"]);
        assert_eq!(register.unfit.len(), 3, "{:?}", register.unfit);
        assert!(register.unfit[0].contains("sly") && register.unfit[0].contains("no name for a parameter"));
        assert!(register.unfit.iter().all(|why| why.len() <= MAX_WHAT), "{:?}", register.unfit);
    }

    #[test]
    fn ours_is_read_in_both_shapes() {
        let packs = [PackInfo { name: "system".into(), version: "0.2.0".into(), status: "active".into() }];
        let out = RegisterOut {
            name: "n",
            hostname: "h",
            os: "linux",
            os_version: "Debian 12",
            arch: "x64",
            kernel: "6.1",
            version: "0.1.0",
            packs: &packs,
            capabilities: &["system.disk.usage".into()],
            binary_hash: "aa",
            config_hash: "bb",
            token: None,
            csr: None,
            manifests: &[],
            machine: None,
        };
        for dialect in [Dialect::Contract, Dialect::Field] {
            let register = Register::decode(&out.encode(dialect)).expect("reads back");
            assert_eq!(register.dialect, dialect);
            assert_eq!(register.capabilities, ["system.disk.usage"]);
            assert_eq!(register.attestation.field("osFingerprint"), Some("Debian 12 6.1"));
        }
    }
}
