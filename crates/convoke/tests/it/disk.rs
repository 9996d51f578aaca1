//! A disk that takes what is written and fails to keep it: `fdatasync` answers with an error, as it does when a drive
//! dies. strace makes it so, for the running hub and from outside.

use std::process::Command;

use crate::support::{Agent, Hub, Server};

/// Every sync of this hub fails for as long as this lives.
fn fail_syncs(hub: &Hub) -> Server {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO"]);
    let failing = Server::start(strace.args(["-p", &hub.server.pid().to_string()]));
    failing.told("attached");
    failing
}

#[test]
fn what_could_not_be_synced_is_not_answered_for_and_the_hub_goes_on_when_it_can() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let command = ["call", "pc-1", "shell_exec", "--args", r#"{"command":"uptime"}"#, "--json"];
    hub.run(&command).ok();
    agent.asked();

    let mut failing = fail_syncs(&hub);
    // A call that changes something is not sent: its intent could not be kept.
    let not_sent = hub.run(&command).code(1);
    assert!(not_sent.stdout.contains("could not be recorded, so it was not sent"), "{not_sent:?}");
    // One that only looks was made, but the hub does not answer for what it could not record.
    let looked = hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/"}"#, "--json"]).code(1);
    assert!(looked.stdout.contains("could not be recorded") && !looked.stdout.contains("notes.txt"), "{looked:?}");
    assert_eq!(agent.asked().0, "fs_list", "the shell command never reached the agent");
    hub.run(&["enroll-token", "pc-2"]).code(1).notes("store failed");
    // Reading goes on, and who watches the hub is told.
    hub.run(&["agents", "list"]).ok().says("pc-1");
    hub.server.told("the store cannot write");

    failing.signal("INT");
    failing.end();
    hub.run(&command).ok();
    assert_eq!(agent.asked().0, "shell_exec");
    hub.server.told("the store can write again");
    let agents = hub.run(&["agents", "list", "--json"]).ok();
    assert!(!agents.stdout.contains("pc-2"), "what was refused has left nothing");
    hub.run(&["audit", "verify"]).ok();
    // How those calls ended that could not be recorded then, and nothing else is told of them.
    hub.server.told("wrote outcomes to the journal");

    // What was acknowledged after the trouble is as durable as what was before it.
    drop(agent);
    let mut hub = hub;
    hub.server.signal("KILL");
    hub.server.end();
    let hub = hub.restart_killed();
    hub.run(&["audit", "verify"]).ok();
    let records = hub.run(&["audit", "list", "--kind", "call", "--json"]).ok().json();
    let done = |outcome| {
        let all = records["records"].as_array().expect("a list").iter();
        all.filter(|r| r["phase"] == "outcome" && r["outcome"] == outcome).count()
    };
    assert_eq!(done("ok"), 3, "{records}");
    assert_eq!(done("internal"), 1, "{records}");
    let late = records["records"].as_array().expect("a list").iter().filter(|r| r["detail"]["what"].is_string());
    let late: Vec<_> = late.map(|r| (r["tool"].as_str(), r["outcome"].as_str())).collect();
    assert_eq!(late, [(Some("shell_exec"), Some("internal")), (Some("fs_list"), Some("ok"))], "{records}");
}

#[test]
fn a_file_that_may_grow_no_further_does_not_end_the_hub() {
    let hub = Hub::start();
    let limit = |most: &str| {
        let mut prlimit = Command::new("prlimit");
        prlimit.args(["--pid", &hub.server.pid().to_string(), &format!("--fsize={most}:unlimited")]);
        assert!(prlimit.status().expect("prlimit runs").success());
    };
    limit("0");
    hub.run(&["enroll-token", "pc-1"]).code(1).notes("store failed");
    hub.run(&["agents", "list"]).ok();
    limit("unlimited");
    hub.run(&["enroll-token", "pc-1"]).ok();
    hub.run(&["audit", "verify"]).ok();
}
