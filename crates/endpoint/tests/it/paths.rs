//! Path rules are decided on what a call opens, wherever the name that it gives leads.

use std::os::unix::fs::symlink;
use std::path::Path;

use convoke_core::guard::AppliesTo;
use convoke_kenny::tools::{ArgKind, TOOLS, guard_surfaces};
use serde_json::{Map, Value, json};

use crate::kenny::{Endpoint, Kenny, Peer};

/// Every tool with the argument that names a path, by what the guard reads of it.
fn tools_of_paths() -> Vec<(&'static str, &'static str)> {
    let is_path = |tool: &str, arg: &str| {
        let args = json!({ arg: "x" });
        let surfaces = guard_surfaces(tool, &args);
        !surfaces.is_empty() && surfaces.iter().all(|surface| surface.group == AppliesTo::Path)
    };
    let all = TOOLS.iter().flat_map(|tool| tool.args.iter().map(|arg| (tool.name, arg.name)));
    all.filter(|(tool, arg)| is_path(tool, arg)).collect()
}

/// The rule that refuses the call, or nothing.
async fn refusal(peer: &mut Peer, tool: &str, arg: &str, path: &Path) -> Option<String> {
    let known = convoke_kenny::tools::find(tool).expect("in the catalogue");
    let others = known.args.iter().filter(|other| other.required && other.name != arg && other.kind == ArgKind::Text);
    let mut args: Map<String, Value> = others.map(|other| (other.name.to_owned(), "x".into())).collect();
    args.insert(arg.to_owned(), json!(path));
    let answer = peer.call(tool, args.into()).await;
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    let rule = words.rsplit_once("(rule ").and_then(|(_, rule)| rule.strip_suffix(')'));
    assert_eq!(answer["error"]["code"] == "blocked", rule.is_some(), "{answer}");
    rule.map(str::to_owned)
}

/// A file and everything above it.
fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    std::fs::write(path, text).expect("written");
}

#[tokio::test]
async fn no_tool_shows_through_a_link_what_a_rule_protects() {
    let tools = tools_of_paths();
    assert!(tools.len() >= 3 && tools.contains(&("fs_read", "path")), "{tools:?}");
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let dir = endpoint.dir().canonicalize().expect("is there");
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n";
    for (file, text) in [
        ("home/.ssh/notes", "x"),
        ("etc/shadow", "root:x"),
        ("vault/plan.txt", "x"),
        ("store/hub.db", "SQLite"),
        ("store/hub.lock", "1"),
        ("store/clients/a.json", "{}"),
        ("store/agent/work/out.txt", "x"),
        ("copies/monday", "SQLite…convoke-backup\r\n"),
        ("site/server.pem.txt", key),
        ("plain/notes.txt", "x"),
    ] {
        put(&dir.join(file), text);
    }
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let pattern = format!("^{}/vault/", dir.display());
    let rule = json!({ "id": "op_vault", "applies_to": "path", "pattern": pattern, "reason": "operator: the vault" });
    peer.send(json!({ "type": "policy", "rules": [rule] })).await;

    let named = |name: &str, to: &Path| {
        let link = dir.join("plain").join(name);
        symlink(to, &link).expect("linked");
        link
    };
    // A link to it, a link on the way to it, and a link to a link.
    let ways = |name: &str, file: &str| {
        let (to, parent) = (dir.join(file), dir.join(file).parent().expect("a parent").to_owned());
        let first = named(&format!("{name}-1"), &to);
        let way = named(&format!("{name}-2"), &parent).join(to.file_name().expect("a name"));
        [named(&format!("{name}-3"), &first), first, way]
    };
    for (rule, folder, file) in [
        ("path_ssh_dir", "home/.ssh", "home/.ssh/notes"),
        ("path_shadow", "", "etc/shadow"),
        ("op_vault", "vault", "vault/plan.txt"),
        ("path_hub_data", "store", "store/clients/a.json"),
        ("path_hub_backup", "", "copies/monday"),
        ("path_private_key", "", "site/server.pem.txt"),
    ] {
        for path in ways(&format!("{rule}-file"), file) {
            let found = refusal(&mut peer, "fs_read", "path", &path).await;
            assert_eq!(found.as_deref(), Some(rule), "{}", path.display());
        }
        for path in ways(&format!("{rule}-folder"), folder).iter().filter(|_| !folder.is_empty()) {
            // What reads files refuses a folder in any case.
            for (tool, arg) in tools.iter().filter(|(tool, _)| *tool != "fs_read") {
                let found = refusal(&mut peer, tool, arg, path).await;
                assert_eq!(found.as_deref(), Some(rule), "{tool} of {}", path.display());
            }
        }
    }
    for free in ["plain/notes.txt", "store/agent/work/out.txt"] {
        assert_eq!(refusal(&mut peer, "fs_read", "path", &dir.join(free)).await, None, "{free}");
    }
    // What a search meets on its way is protected, too.
    let found = peer.call("fs_search", json!({ "root": dir, "pattern": "n" })).await["result"].to_string();
    assert!(
        found.contains("plain/notes.txt") && !found.contains(".ssh/notes") && !found.contains("vault/plan"),
        "{found}"
    );

    #[cfg(target_os = "linux")]
    {
        let open = std::fs::File::open(dir.join("plain/notes.txt")).expect("open");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
        let me = std::process::id();
        for path in [
            format!("/proc/{me}/fd/{fd}"),
            format!("/proc/{me}/task/{me}/fd/{fd}"),
            format!("/proc/{me}/root/etc/hostname"),
            format!("/proc/{me}/cwd/Cargo.toml"),
            format!("/proc/{me}/cmdline"),
            format!("/proc/{me}/environ"),
        ] {
            let link = named(&path.replace('/', "-"), Path::new(&path));
            for path in [Path::new(&path), &link] {
                assert!(refusal(&mut peer, "fs_read", "path", path).await.is_some(), "{}", path.display());
            }
        }
        for folder in ["fd", "map_files", "fdinfo"] {
            let path = format!("/proc/{me}/{folder}");
            assert!(refusal(&mut peer, "fs_list", "path", Path::new(&path)).await.is_some(), "{path}");
        }
        assert_eq!(refusal(&mut peer, "fs_read", "path", Path::new("/proc/self/stat")).await, None);
    }
    agent.stop().await;
}

#[tokio::test]
async fn a_call_that_may_read_only_below_a_folder_reads_nothing_elsewhere() {
    let kenny = Kenny::start().await;
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    let dir = endpoint.dir().canonicalize().expect("is there");
    put(&dir.join("logs/today.log"), "x");
    put(&dir.join("app/settings.env"), "x");
    symlink(dir.join("app/settings.env"), dir.join("logs/link.log")).expect("linked");
    symlink(dir.join("logs"), dir.join("var-log")).expect("linked");
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let features = peer.register["meta"]["features"].to_string();
    assert!(features.contains("\"below\""), "{features}");
    for (path, below, code) in [
        ("logs/today.log", json!([dir.join("logs")]), Value::Null),
        ("var-log/today.log", json!([dir.join("var-log")]), Value::Null),
        ("logs/link.log", json!([dir.join("logs")]), "blocked".into()),
        ("app/settings.env", json!([dir.join("logs")]), "blocked".into()),
        ("logs/today.log", json!([]), "blocked".into()),
        ("logs/today.log", json!("nonsense"), "blocked".into()),
        ("app/settings.env", Value::Null, Value::Null),
    ] {
        let id = uuid::Uuid::new_v4().to_string();
        let args = json!({ "path": dir.join(path) });
        let request = json!({ "type": "request", "id": id, "tool": "fs_read", "args": args, "below": below });
        peer.send(request).await;
        assert_eq!(peer.next_of("response").await["error"]["code"], code, "{path} below {below}");
    }
    agent.stop().await;
}
