//! The tool catalogue (contract, "Tool catalog"), with what newer agents add and what the hub's gate must know of each
//! tool: its effect, whether the kill switch refuses it, and which of its arguments the guard reads.

mod catalogue;
mod surface;

use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_core::health::Os;
use serde_json::{Map, Value, json};

use crate::version::ProtocolVersion;

pub use catalogue::{FILES, TOOLS};
pub use surface::{contents, guard_surfaces, path_surfaces};

/// What our agents announce in `register.meta.features` when they answer [`PROBE_LIST`] and [`PROBE_RUN`] (our own
/// addition: these two are no tools of the catalogue).
pub const FEATURE_PROBES: &str = "probes";
/// Lists an agent's probes: `{}` → `{packs, capabilities, manifests}`.
pub const PROBE_LIST: &str = "probe_list";
/// Runs a probe: `{probe, params}` → the answer of the probe. Callers name the probe itself; the hub wraps it.
pub const PROBE_RUN: &str = "probe_run";

/// What our agents announce when they answer [`FILE_GET`] and [`FILE_PUT`] (our own addition, see [`FILES`]).
pub const FEATURE_FILES: &str = "files";
/// Sends a file from the machine: `{path, url}` → `{size, sha256}`.
pub const FILE_GET: &str = "file_get";
/// Writes a file on the machine: `{path, url, sha256, size}` → `{size, sha256}`.
pub const FILE_PUT: &str = "file_put";

/// One tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name on every surface.
    pub name: &'static str,
    /// A description in one or two sentences.
    pub doc: &'static str,
    /// The tool's effect (DESIGN.md, "Effects and roles").
    pub effect: Effect,
    /// Whether an agent whose remote control is switched off refuses it with `disabled` (contract, "response").
    pub mutating: bool,
    /// Calling it twice leaves the machine as calling it once does.
    pub idempotent: bool,
    /// It may destroy something, as opposed to only adding.
    pub destructive: bool,
    /// Its arguments, in the contract's order. The keys are exact.
    pub args: &'static [Arg],
    /// A sketch of its result.
    pub result: &'static str,
    /// Seconds that the hub waits for it at least where the caller does not say how long: it takes longer than most.
    pub least_s: u32,
    /// The first protocol version that has it. What is older than the contract counts as 0.8.
    pub since: ProtocolVersion,
}

/// One argument of a tool.
#[derive(Debug)]
pub struct Arg {
    /// Its key.
    pub name: &'static str,
    /// The kind of value.
    pub kind: ArgKind,
    /// Whether the tool needs it.
    pub required: bool,
    /// Whether it must never be shown or recorded.
    pub secret: bool,
    /// A description.
    pub doc: &'static str,
}

/// The kind of an argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// Text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A whole number, not below the one given.
    Integer(i64),
    /// True or false.
    Bool,
    /// A list of texts.
    TextList,
}

impl ArgKind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Integer(least) => value.as_i64().map_or(value.is_u64(), |number| number >= least),
            Self::Bool => value.is_boolean(),
            Self::TextList => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Integer(least) => format!("a whole number of at least {least}"),
            Self::Bool => "true or false".to_owned(),
            Self::TextList => "a list of texts".to_owned(),
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Integer(least) => json!({"type": "integer", "minimum": least}),
            Self::Bool => json!({"type": "boolean"}),
            Self::TextList => json!({"type": "array", "items": {"type": "string"}}),
        }
    }
}

impl Tool {
    /// The argument of that name.
    pub fn arg(&self, name: &str) -> Option<&'static Arg> {
        self.args.iter().find(|arg| arg.name == name)
    }

    /// Whether a machine of this system, with an agent of this version, can have the tool. What is not known of it speaks for
    /// it, and so does an agent of ours, which has tools that its version does not say. `has_shell`: it announced `shell_exec`.
    pub fn check_machine(
        &self,
        os: Os,
        version: Option<ProtocolVersion>,
        is_ours: bool,
        has_shell: bool,
    ) -> Result<(), String> {
        let name = self.name;
        let is_windows_only = name.starts_with("winget_") || ["remotehelp_start", "remotehelp_stop"].contains(&name);
        match os {
            Os::Linux | Os::Macos if is_windows_only => return Err(format!("`{name}` is only available on Windows")),
            Os::Linux | Os::Macos
                if name == "powershell_exec" && !is_ours && version.is_some_and(|v| v >= ProtocolVersion::V0_14) =>
            {
                return Err("`powershell_exec` is not available on this system; use `shell_exec`".to_owned());
            }
            Os::Linux | Os::Macos
                if name == "shell_exec" && !has_shell && version.is_some_and(|v| v < ProtocolVersion::V0_14) =>
            {
                return Err(
                    "`shell_exec` is not available at agents before protocol 0.14; use `powershell_exec`, which \
                            runs its script with sh there"
                        .to_owned(),
                );
            }
            Os::Windows if name == "shell_exec" => {
                return Err("`shell_exec` is not available on Windows; use `powershell_exec`".to_owned());
            }
            _ => {}
        }
        match version {
            Some(has) if has < self.since && !is_ours && !(has_shell && name == "shell_exec") => {
                Err(format!("`{name}` needs an agent of protocol {} or newer; this one speaks {has}", self.since))
            }
            _ => Ok(()),
        }
    }

    /// A JSON Schema of the arguments.
    pub fn input_schema(&self) -> Value {
        let mut properties = Map::new();
        for arg in self.args {
            let mut schema = arg.kind.schema();
            schema["description"] = arg.doc.into();
            properties.insert(arg.name.to_owned(), schema);
        }
        let required: Vec<_> = self.args.iter().filter(|arg| arg.required).map(|arg| arg.name).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().chain(FILES).find(|tool| tool.name == name)
}

/// The effect of a tool. An unknown tool counts as `manage`.
pub fn effect_of(name: &str) -> Effect {
    find(name).map_or(Effect::Manage, |tool| tool.effect)
}

/// What is known of a machine, for [`Tool::is_offered_by`].
#[derive(Clone, Copy, Debug)]
pub struct Offers<'a> {
    /// `windows`, `linux`, `macos`; empty while it is not known.
    pub os: &'a str,
    /// The version that the agent speaks, where it is known.
    pub version: Option<ProtocolVersion>,
    /// Whether it announced `shell_exec`.
    pub shell_exec: bool,
}

impl Tool {
    /// Whether a machine may have the tool. Only what it surely does not have is left out.
    pub fn is_offered_by(&self, machine: Offers<'_>) -> bool {
        let is_windows = machine.os == "windows";
        let has_shell =
            machine.shell_exec || machine.version.is_some_and(|version| version >= ProtocolVersion::V0_14);
        match self.name {
            _ if machine.os.is_empty() => true,
            "shell_exec" => !is_windows && has_shell,
            "powershell_exec" => is_windows || !has_shell,
            "remotehelp_status" => true,
            name if ["winget_", "remotehelp_", "account_", "webfilter_", "password_policy_"]
                .iter()
                .any(|family| name.starts_with(family)) =>
            {
                is_windows && machine.version.is_none_or(|version| version >= self.since)
            }
            _ => true,
        }
    }
}

/// The default time-out of a tool.
pub fn least_patience(name: &str) -> Duration {
    Duration::from_secs(find(name).map_or(0, |tool| tool.least_s).into())
}

/// Whether the kill switch refuses a tool. One that we do not know is refused.
pub fn is_mutating(name: &str) -> bool {
    find(name).is_none_or(|tool| tool.mutating)
}

/// Whether the arguments fit the tool, said so that a person or a model can mend them. The message names keys of the
/// catalogue and of the call, never a value. Of a tool that we do not know only the shape is checked.
pub fn validate_args(tool: &str, args: &Value) -> Result<(), String> {
    let Value::Object(map) = args else { return Err("args must be an object".to_owned()) };
    let Some(tool) = find(tool) else { return Ok(()) };
    for arg in tool.args {
        match map.get(arg.name) {
            None if arg.required => {
                return Err(format!("{} needs {} ({})", tool.name, arg.name, arg.kind.describe()));
            }
            // Callers that fill in every key of a schema write null for "not given".
            Some(Value::Null) if !arg.required => {}
            Some(value) if !arg.kind.fits(value) => {
                return Err(format!("{}.{} must be {}", tool.name, arg.name, arg.kind.describe()));
            }
            _ => {}
        }
    }
    match map.keys().find(|key| tool.arg(key).is_none()) {
        None => Ok(()),
        Some(key) => {
            let key: String = key.chars().take(64).collect();
            let known: Vec<_> = tool.args.iter().map(|arg| arg.name).collect();
            let known =
                if known.is_empty() { "no arguments".to_owned() } else { format!("only {}", known.join(", ")) };
            Err(format!("{} takes {known}; {key:?} is not one of them", tool.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_the_contracts_plus_the_newer_ones() {
        let since = |version| TOOLS.iter().filter(|t| t.since == version).count();
        assert_eq!(since(ProtocolVersion::V0_8), 22);
        assert_eq!(since(ProtocolVersion::V0_9), 3);
        assert_eq!(since(ProtocolVersion::V0_14), 1);
        assert_eq!(since(ProtocolVersion::V0_15), 7);
        let mut names: Vec<_> = TOOLS.iter().map(|t| t.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 33, "a name appears twice");
    }

    #[test]
    fn a_machine_offers_what_its_system_has() {
        let names = |os, version, shell_exec| -> Vec<_> {
            let machine = Offers { os, version, shell_exec };
            TOOLS.iter().filter(|tool| tool.is_offered_by(machine)).map(|tool| tool.name).collect()
        };
        let linux = names("linux", Some(ProtocolVersion::V0_8), true);
        assert!(linux.contains(&"shell_exec") && linux.contains(&"fs_read") && !linux.contains(&"powershell_exec"));
        assert!(!linux.iter().any(|name| name.starts_with("winget_") || name.starts_with("account_")), "{linux:?}");
        let old = names("linux", Some(ProtocolVersion::V0_8), false);
        assert!(old.contains(&"powershell_exec") && !old.contains(&"shell_exec"));
        let windows = names("windows", Some(ProtocolVersion::V0_8), false);
        assert!(windows.contains(&"winget_list") && !windows.contains(&"webfilter_apply"), "{windows:?}");
        assert_eq!(names("", None, false).len(), TOOLS.len());
    }

    #[test]
    fn effects_follow_the_design() {
        for tool in TOOLS {
            let expect = match tool.name {
                "screen_capture" | "net_dns_flush" | "net_adapter_reset" | "winget_update" | "remotehelp_start"
                | "remotehelp_stop" => Effect::Interact,
                "fs_list" | "fs_search" | "fs_read" | "fs_disk_usage" | "winget_list" | "net_config"
                | "telemetry_collect" | "remotehelp_status" | "webfilter_status" => Effect::Observe,
                name if name.starts_with("diag_") => Effect::Observe,
                _ => Effect::Manage,
            };
            assert_eq!(tool.effect, expect, "{}", tool.name);
            // The kill switch spares what only looks; showing a screen is looking, too.
            let looks = expect == Effect::Observe || tool.name == "screen_capture";
            assert_eq!(tool.mutating, !looks, "{}", tool.name);
            assert!(!tool.destructive || tool.mutating, "{}", tool.name);
        }
        assert_eq!(effect_of("not_a_tool"), Effect::Manage);
        assert!(is_mutating("not_a_tool"));
    }

    #[test]
    fn args_are_checked_and_the_fault_is_named() {
        let check = |tool: &str, args: Value, expect: Result<(), &str>| {
            assert_eq!(validate_args(tool, &args), expect.map_err(str::to_owned), "{tool} {args}");
        };
        check("powershell_exec", json!({"script": "Get-Date", "timeout_s": 30}), Ok(()));
        check("powershell_exec", json!({"script": "Get-Date"}), Ok(()));
        check("powershell_exec", json!({}), Err("powershell_exec needs script (a text)"));
        check("powershell_exec", json!({"script": 5}), Err("powershell_exec.script must be a text"));
        check("powershell_exec", json!({"script": null}), Err("powershell_exec.script must be a text"));
        check(
            "powershell_exec",
            json!({"script": "x", "timeout_s": 0}),
            Err("powershell_exec.timeout_s must be a whole number of at least 1"),
        );
        check(
            "fs_read",
            json!({"path": "/x", "offset": 1}),
            Err("fs_read takes only path; \"offset\" is not one of them"),
        );
        check("winget_list", json!({"x": 1}), Err("winget_list takes no arguments; \"x\" is not one of them"));
        check("winget_update", json!({"id": null}), Ok(()));
        check("telemetry_collect", json!({"sections": ["disk"]}), Ok(()));
        check(
            "telemetry_collect",
            json!({"sections": [1]}),
            Err("telemetry_collect.sections must be a list of texts"),
        );
        check(
            "account_session_action",
            json!({"principal": "kid", "action": "reboot"}),
            Err("account_session_action.action must be one of lock, logoff"),
        );
        check("net_config", json!([]), Err("args must be an object"));
        check("not_a_tool", json!({"anything": true}), Ok(()));
    }

    #[test]
    fn a_tool_that_a_machine_cannot_have_is_told_with_the_right_one() {
        let check = |tool: &str, os: Os, version: &str, is_ours: bool, expect: Option<&str>| {
            let told =
                find(tool).expect("in the catalogue").check_machine(os, version.parse().ok(), is_ours, is_ours).err();
            let fits = match (&told, expect) {
                (None, None) => true,
                (Some(told), Some(part)) => told.contains(part),
                _ => false,
            };
            assert!(fits, "{tool} {os:?} {version}: {told:?}");
        };
        check("winget_install", Os::Linux, "0.8", true, Some("only available on Windows"));
        check("winget_install", Os::Windows, "0.8", false, None);
        check("shell_exec", Os::Windows, "0.15", false, Some("use `powershell_exec`"));
        check("powershell_exec", Os::Linux, "0.15", false, Some("use `shell_exec`"));
        check("powershell_exec", Os::Linux, "0.8", false, None);
        check("powershell_exec", Os::Linux, "0.15", true, None);
        check("account_create", Os::Linux, "0.9", false, Some("protocol 0.15"));
        check("account_create", Os::Linux, "0.15", false, None);
        check("account_create", Os::Other, "", false, None);
        check("shell_exec", Os::Linux, "0.8", false, Some("use `powershell_exec`"));
        check("shell_exec", Os::Linux, "0.8", true, None);
        check("shell_exec", Os::Other, "0.8", false, Some("protocol 0.14"));
    }

    #[test]
    fn schemas_say_what_is_needed() {
        let schema = find("diag_eventlog").expect("in the catalogue").input_schema();
        assert_eq!(schema["required"], json!(["log", "count"]));
        assert_eq!(schema["properties"]["count"]["minimum"], 1);
        assert_eq!(schema["additionalProperties"], false);
    }
}
