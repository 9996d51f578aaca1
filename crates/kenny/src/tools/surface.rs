//! The texts of a call that the guard examines, and the groups of deny rules for each.

use std::borrow::Cow;

use convoke_core::guard::{AppliesTo, Surface};
use serde_json::Value;

const SCRIPT: &[AppliesTo] = &[AppliesTo::Powershell, AppliesTo::Posix, AppliesTo::SelfProtection];
const COMMAND: &[AppliesTo] = &[AppliesTo::Posix, AppliesTo::SelfProtection];
const TYPED: &[AppliesTo] = &[AppliesTo::Powershell, AppliesTo::SelfProtection];

/// The texts of a call that the guard must look at, each with the group of rules to look with.
///
/// * `powershell_exec` meets the rules of both shells: a 0.8 agent on Linux runs it with `sh`. `shell_exec` meets those
///   of POSIX shells, and PowerShell's only where it starts one: ordinary downloads would trip over them.
/// * Names that an agent may paste into a command line (`winget_*`, `net_*`, accounts) meet PowerShell and
///   self-protection rules; filters of the `diag_*` tools only PowerShell's, since asking after the agent's own service
///   harms nobody.
/// * The file tools' paths meet the path rules, both as given and with `\` for `/`: the shared catalogue is written for
///   backslashes, an operator's own rule may not be.
/// * `agent_update.url` meets every group, so that an operator's rule of any group can refuse an address. Where updates
///   may come from at all is checked beside the rules, by the hub and again by the agent.
/// * Of a tool that we do not know, every text (and every key) meets every group.
///
/// Texts nested in lists and objects count, and where there are several, so does their joining: a command handed over
/// as a list of words is still that command. The work is bounded by the size of `args`.
pub fn guard_surfaces<'a>(tool: &str, args: &'a Value) -> Vec<Surface<'a>> {
    match tool {
        "powershell_exec" => spread(texts(args), SCRIPT),
        "shell_exec" if starts_powershell(args) => {
            spread(texts(args), &[AppliesTo::Posix, AppliesTo::SelfProtection, AppliesTo::Powershell])
        }
        "shell_exec" => spread(texts(args), COMMAND),
        "winget_install" | "winget_uninstall" | "winget_update" | "winget_list" | "net_config" | "net_dns_flush"
        | "net_adapter_reset" => spread(texts(args), TYPED),
        "diag_processes" | "diag_services" | "diag_eventlog" | "diag_autostart" => {
            spread(texts(args), &[AppliesTo::Powershell])
        }
        "agent_update" => spread(args.get("url").map(texts).unwrap_or_default(), &AppliesTo::ALL),
        "fs_list" | "fs_read" | super::FILE_GET | super::FILE_PUT => paths(args.get("path")),
        "fs_search" => paths(args.get("root")),
        name if name.starts_with("account_") || name == "password_policy_set" => {
            spread(not_secret(name, args), TYPED)
        }
        name if super::find(name).is_some() => Vec::new(),
        _ => spread(texts_and_keys(args), &AppliesTo::ALL),
    }
}

/// Whether a command mentions PowerShell at all.
fn starts_powershell(args: &Value) -> bool {
    texts(args).iter().any(|text| {
        let text = text.to_ascii_lowercase();
        text.contains("pwsh") || text.contains("powershell")
    })
}

fn spread<'a>(texts: Vec<&'a str>, groups: &[AppliesTo]) -> Vec<Surface<'a>> {
    let joined = (texts.len() > 1).then(|| texts.join(" "));
    let each = |group: AppliesTo| texts.iter().map(move |text| Surface { group, text: Cow::Borrowed(*text) });
    let mut surfaces: Vec<_> = groups.iter().flat_map(|group| each(*group)).collect();
    if let Some(joined) = joined {
        surfaces.extend(groups.iter().map(|group| Surface { group: *group, text: Cow::Owned(joined.clone()) }));
    }
    surfaces
}

fn paths(value: Option<&Value>) -> Vec<Surface<'_>> {
    value.map(texts).unwrap_or_default().into_iter().flat_map(path_surfaces).collect()
}

/// What the path rules look at for one path: as it is, and with `\` for `/`.
pub fn path_surfaces(path: &str) -> Vec<Surface<'_>> {
    let other = path.contains('/').then(|| Cow::Owned(path.replace('/', "\\")));
    [Some(Cow::Borrowed(path)), other]
        .into_iter()
        .flatten()
        .map(|text| Surface { group: AppliesTo::Path, text })
        .collect()
}

/// The files whose contents a call shows, by the names that it gives. One that is no text counts as the empty name.
pub fn contents<'a>(tool: &str, args: &'a Value) -> Vec<&'a str> {
    match tool {
        "fs_read" | super::FILE_GET => vec![args.get("path").and_then(Value::as_str).unwrap_or_default()],
        _ => Vec::new(),
    }
}

/// The texts of a tool's arguments without its secrets: a new password is data, and what it happens to spell is
/// nobody's business.
fn not_secret<'a>(tool: &str, args: &'a Value) -> Vec<&'a str> {
    let Some(map) = args.as_object() else { return texts(args) };
    let secret = |key: &str| super::find(tool).and_then(|t| t.arg(key)).is_some_and(|arg| arg.secret);
    map.iter().filter(|(key, _)| !secret(key)).flat_map(|(_, value)| texts(value)).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    walk(value, false)
}

fn texts_and_keys(value: &Value) -> Vec<&str> {
    walk(value, true)
}

/// Depth first, in order, with a stack of its own: nesting must not be able to exhaust the thread's.
fn walk(value: &Value, keys: bool) -> Vec<&str> {
    enum Item<'a> {
        Key(&'a str),
        Value(&'a Value),
    }
    let mut found = Vec::new();
    let mut stack = vec![Item::Value(value)];
    while let Some(item) = stack.pop() {
        match item {
            Item::Key(text) => found.push(text),
            Item::Value(Value::String(text)) => found.push(text),
            Item::Value(Value::Array(list)) => stack.extend(list.iter().rev().map(Item::Value)),
            Item::Value(Value::Object(map)) => {
                let from = stack.len();
                for (key, value) in map {
                    if keys {
                        stack.push(Item::Key(key));
                    }
                    stack.push(Item::Value(value));
                }
                stack[from..].reverse();
            }
            Item::Value(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `group:text` per surface, sorted.
    fn surfaces(tool: &str, args: Value) -> Vec<String> {
        let mut list: Vec<_> =
            guard_surfaces(tool, &args).iter().map(|s| format!("{}:{}", s.group.name(), s.text)).collect();
        list.sort_unstable();
        list
    }

    #[test]
    fn scripts_meet_the_rules_of_the_shells_that_may_run_them() {
        let both = ["posix:rm x", "powershell:rm x", "self_protection:rm x"];
        assert_eq!(surfaces("powershell_exec", json!({"script": "rm x", "timeout_s": 3})), both);
        assert_eq!(surfaces("shell_exec", json!({"command": "rm x"})), ["posix:rm x", "self_protection:rm x"]);
        let list = surfaces("shell_exec", json!({"command": "PwSh -c 'rm x'"}));
        assert!(list.contains(&"powershell:PwSh -c 'rm x'".to_owned()), "{list:?}");
    }

    #[test]
    fn a_command_in_pieces_is_still_that_command() {
        let list = surfaces("shell_exec", json!({"command": ["rm", ["-rf", {"x": "/"}]]}));
        assert!(list.contains(&"posix:rm -rf /".to_owned()), "{list:?}");
    }

    #[test]
    fn paths_are_read_with_either_slash() {
        assert_eq!(surfaces("fs_read", json!({"path": "C:\\x"})), ["path:C:\\x"]);
        assert_eq!(surfaces("fs_list", json!({"path": "/a/b"})), ["path:/a/b", "path:\\a\\b"]);
        assert_eq!(surfaces("fs_search", json!({"root": "C:\\", "pattern": "id_rsa"})), ["path:C:\\"]);
        assert_eq!(surfaces("fs_read", json!({"path": ["/a"]})), ["path:/a", "path:\\a"]);
        assert_eq!(surfaces("file_put", json!({"path": "/a", "url": "/b"})), ["path:/a", "path:\\a"]);
    }

    #[test]
    fn names_that_end_in_a_command_line_are_read() {
        assert_eq!(surfaces("winget_install", json!({"id": "a"})), ["powershell:a", "self_protection:a"]);
        assert_eq!(surfaces("diag_services", json!({"filter": "a"})), ["powershell:a"]);
    }

    #[test]
    fn secrets_are_not_read() {
        let list = surfaces("account_create", json!({"name": "kid", "password": "iex x"}));
        assert_eq!(list, ["powershell:kid", "self_protection:kid"]);
    }

    #[test]
    fn plain_data_is_not_read_and_an_unknown_tool_is_read_whole() {
        assert!(surfaces("telemetry_collect", json!({"sections": ["disk"]})).is_empty());
        let list = surfaces("agent_update", json!({"version": "1", "url": "https://x", "sha256": "0"}));
        assert_eq!(list, ["path:https://x", "posix:https://x", "powershell:https://x", "self_protection:https://x"]);
        assert!(surfaces("webfilter_apply", json!({"domains": ["format.com"]})).is_empty());
        let list = surfaces("registry_write", json!({"key": [{"deep": "v"}]}));
        assert!(list.contains(&"path:v".to_owned()) && list.contains(&"powershell:deep".to_owned()), "{list:?}");
        assert!(list.contains(&"posix:key deep v".to_owned()), "{list:?}");
    }

    #[test]
    fn deep_nesting_is_walked_without_recursion() {
        let deep = (0..10_000).fold(json!("bottom"), |inner, _| Value::Array(vec![inner]));
        assert_eq!(guard_surfaces("x", &deep).len(), 4);
        // Dropping the tree would recurse where walking it does not.
        std::mem::forget(deep);
    }
}
