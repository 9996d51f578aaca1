//! `export` and `apply`: a hub's tags, policy, rules and rooms as a file.

use crate::support::{Agent, Done, Hub};

#[test]
fn a_hub_is_made_as_a_file_says_and_the_file_is_made_from_a_hub() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    let file = hub.beside("fleet.toml");
    std::fs::write(
        &file,
        r#"
        [machines.pc-1]
        tags = ["lab"]
        [[deny]]
        id = "no-reboots"
        applies_to = "posix"
        pattern = "reboot"
        reason = "ask first"
        [[confirm]]
        id = "manage"
        effects = ["manage"]
        [[rules]]
        rule = "chat"
        target = { inbox = {} }
        [[rooms]]
        name = "standup"
        open = true
        "#,
    )
    .expect("written");
    let file = file.to_str().expect("UTF-8").to_owned();
    hub.run(&["apply", "-f", &file, "--dry-run"]).ok().notes("+ deny no-reboots").notes("tags none → lab");
    hub.run(&["apply", "-f", &file]).code(2).notes("--yes");
    assert!(!hub.run(&["export"]).ok().stdout.contains("no-reboots"), "nothing was changed");
    hub.run(&["apply", "-f", &file, "--yes"]).ok().says("5 changed");
    hub.run(&["apply", "-f", &file, "--yes"]).ok().notes("nothing to change");
    hub.run(&["agents", "show", "pc-1"]).ok().says("lab");

    let exported = hub.run(&["export"]).ok();
    for text in ["no-reboots", "manage", "chat", "standup", "[machines.pc-1]"] {
        assert!(exported.stdout.contains(text), "{}", exported.stdout);
    }
    let apply = |input: &str, args: &[&str]| {
        let mut command = hub.verb(&["apply", "-f", "-"]);
        Done::with_input(command.args(args), input)
    };
    apply(&exported.stdout, &["--yes", "--prune"]).ok().notes("nothing to change");
    apply("deny = []", &["--yes"]).ok().notes("deny no-reboots is not in the file and stays");
    apply("deny = []", &["--yes", "--prune"]).ok().notes("- deny no-reboots");
    apply("dney = []", &["--yes"]).code(2).notes("unknown field `dney`");
    apply("[[deny]]\npattern = \"x\"", &["--yes"]).code(2).notes("has no `id`");
    apply("[[confirm]]\nid = \"x\"\neffects = [\"fly\"]", &["--yes"]).code(1).notes("0 of 1 changes");
}
