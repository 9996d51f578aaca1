//! Packs of the machine's owner: loaded from files that only the owner can write, run without a shell.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use convoke_probes::{Config, Probes};
use convoke_sonde::probe::Status;
use serde_json::{Value, json};

use crate::support::{ask, bad, good, probes, program};

struct Owner {
    dir: tempfile::TempDir,
}

impl Owner {
    fn new() -> Self {
        let owner = Self { dir: tempfile::tempdir().expect("a directory") };
        std::fs::create_dir(owner.packs()).expect("makes");
        program(owner.dir.path(), "depth", r#"printf '{"args":%s,"token":"hunter2-hunter2"}' "\"$*\"""#);
        program(owner.dir.path(), "say", "for n in 1 2 3; do echo line $n \"$@\"; done");
        program(owner.dir.path(), "fails", "echo it broke, PASSWORD=hunter2 >&2; exit 3");
        owner
    }

    fn packs(&self) -> std::path::PathBuf {
        self.dir.path().join("packs")
    }

    fn write(&self, name: &str, pack: &Value) {
        std::fs::write(self.packs().join(name), pack.to_string()).expect("writes");
    }

    fn load(&self) -> Probes {
        probes(Config { packs_dir: Some(self.packs()), ..Config::default() })
    }

    fn path(&self, program: &str) -> String {
        self.dir.path().join(program).display().to_string()
    }

    fn pack(&self) -> Value {
        let queue = json!({ "type": "string", "required": true, "format": "name" });
        let count = json!({ "type": "number", "default": 3, "integer": true, "minimum": 0, "maximum": 9 });
        let probe = |name: &str, capability: &str, params: Value, run: Value| json!({ "name": name, "description": "d", "capability": capability, "params": params, "run": run });
        json!({ "name": "queue", "version": "1.0.0", "description": "Queues", "probes": [
            probe("depth", "observe", json!({ "queue": queue, "count": count }),
                json!({ "command": [self.path("depth"), "--queue={queue}", "{count}", "{}", "$HOME;id"] })),
            probe("lines", "observe", json!({}), json!({ "command": [self.path("say")], "output": "text" })),
            probe("fails", "observe", json!({}), json!({ "command": [self.path("fails")] })),
            probe("purge", "manage", json!({}), json!({ "command": [self.path("say")] })),
        ] })
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("allows");
}

#[tokio::test]
async fn a_pack_from_a_file_runs_its_programs_with_checked_parameters_and_no_shell() {
    let owner = Owner::new();
    owner.write("queue.json", &owner.pack());
    let probes = owner.load();
    assert_eq!(probes.problems(), [] as [&str; 0]);
    assert!(probes.capabilities().contains(&"queue.depth".to_owned()));
    let own = probes.own_manifests();
    assert!(!serde_json::to_string(&own).expect("JSON").contains(&owner.path("depth")), "how it is run stays here");
    let ran = ask(&probes, "queue.depth", json!({ "queue": "mail" })).await;
    assert_eq!((ran.metadata.pack_name.as_str(), ran.metadata.pack_version.as_str()), ("queue", "1.0.0"));
    assert_eq!(good(ran), json!({ "args": "--queue=mail 3 {} $HOME;id", "token": "[REDACTED]" }));
    let lines = good(ask(&probes, "queue.lines", json!({})).await);
    assert_eq!(lines, json!({ "lines": ["line 1", "line 2", "line 3"], "lineCount": 3, "truncated": false }));
    let failed = bad(ask(&probes, "queue.fails", json!({})).await);
    assert!(failed.message.contains("it broke") && !failed.message.contains("hunter2"), "{failed:?}");
    let high = bad(ask(&probes, "queue.purge", json!({})).await);
    assert_eq!(high.status, Status::Unauthorized, "the agent's ceiling holds for it too");
    for hostile in ["-x", "a b", "$(id)", "../x", ""] {
        let refused = bad(ask(&probes, "queue.depth", json!({ "queue": hostile })).await);
        assert!(refused.message.contains("queue"), "{refused:?}");
    }
    bad(ask(&probes, "queue.depth", json!({ "queue": "a", "count": -1 })).await);
    let disabled =
        Config { packs_dir: Some(owner.packs()), disabled_packs: vec!["queue".into()], ..Config::default() };
    assert!(crate::support::probes(disabled).own_manifests().is_empty());
}

#[tokio::test]
async fn what_others_can_write_is_not_loaded_and_not_run() {
    let owner = Owner::new();
    owner.write("queue.json", &owner.pack());
    let refused = |word: &str| {
        let probes = owner.load();
        assert!(probes.own_manifests().is_empty(), "{word}");
        assert!(probes.problems().iter().any(|p| p.contains(word)), "{word}: {:?}", probes.problems());
    };
    let file = owner.packs().join("queue.json");
    for (path, usual) in [(&file, 0o644), (&owner.packs(), 0o755), (&owner.dir.path().join("depth"), 0o755)] {
        for open in [0o020, 0o002] {
            mode(path, usual | open);
            refused("others than its owner can write");
        }
        mode(path, usual);
    }
    assert_eq!(owner.load().own_manifests().len(), 1, "as it should be again");
    std::os::unix::fs::symlink(&file, owner.packs().join("zz.json")).expect("links");
    assert!(owner.load().problems().iter().any(|p| p.contains("link")));
    // A program that was fine when the pack was loaded is looked at again.
    let probes = owner.load();
    mode(&owner.dir.path().join("depth"), 0o777);
    let refused = bad(ask(&probes, "queue.depth", json!({ "queue": "mail" })).await);
    assert_eq!(refused.status, Status::Unauthorized, "{refused:?}");
}

#[test]
fn what_is_wrong_with_a_pack_is_said() {
    let owner = Owner::new();
    let check = |change: &dyn Fn(&mut Value), word: &str| {
        let mut pack = owner.pack();
        change(&mut pack);
        owner.write("queue.json", &pack);
        let probes = owner.load();
        assert!(probes.own_manifests().is_empty(), "{word}");
        assert!(
            probes.problems()[0].contains(word) && probes.problems()[0].contains("queue.json"),
            "{word}: {:?}",
            probes.problems()
        );
    };
    check(&|p| p["name"] = "system".into(), "built in");
    check(&|p| p["version"] = "1".into(), "x.y.z");
    check(&|p| p["probes"][0]["run"] = Value::Null, "`command`");
    check(&|p| p["probes"][0]["run"]["command"] = "depth --all".into(), "list");
    check(&|p| p["probes"][0]["run"]["command"][0] = "depth".into(), "an absolute path");
    check(&|p| p["probes"][0]["run"]["command"][0] = "/nowhere/depth".into(), "/nowhere/depth");
    check(&|p| p["probes"][0]["run"]["command"][1] = "{other}".into(), "not a parameter");
    check(&|p| p["probes"][0]["run"]["shell"] = true.into(), "`shell`");
    check(&|p| p["probes"][0]["run"]["output"] = "xml".into(), "json or text");
    check(&|p| p["probes"][0]["params"]["queue"]["required"] = false.into(), "required");
    check(
        &|p| {
            p["probes"][0]["params"]["queue"].as_object_mut().map(|q| q.remove("format"));
        },
        "format",
    );
    check(
        &|p| {
            p["probes"][0]["params"]["count"].as_object_mut().map(|q| q.remove("minimum"));
        },
        "minimum",
    );
    std::fs::write(owner.packs().join("queue.json"), "{").expect("writes");
    assert_eq!(owner.load().problems().len(), 1);
    owner.write("queue.json", &owner.pack());
    owner.write("queue2.json", &owner.pack());
    let twice = owner.load();
    assert_eq!(twice.own_manifests().len(), 1);
    assert!(twice.problems()[0].contains("already"), "{:?}", twice.problems());
    let none = probes(Config { packs_dir: Some(owner.packs().join("gone")), ..Config::default() });
    assert!(none.problems().is_empty() && none.own_text().is_empty());
}
