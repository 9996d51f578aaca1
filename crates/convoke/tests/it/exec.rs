//! `exec`, `shell`, `calls list` and `status`, against a hub with an agent.

use crate::support::{Agent, Done, Hub, convoke};

#[test]
fn a_command_ends_here_as_it_ended_there() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let done = hub.run(&["exec", "pc-1", "--", "echo", "a b"]).code(3).notes("a warning");
    assert_eq!(agent.asked().1["command"], "echo 'a b'");
    assert_eq!(done.stdout, "ran echo 'a b'\n", "nothing but the command's own output");
    hub.run(&["exec", "pc-1", "--", "exit 0"]).code(3);
    let json = hub.run(&["--json", "exec", "pc-1", "--", "uptime"]).code(3).json();
    assert_eq!(json["result"]["exit_code"], 3);

    hub.run(&["calls", "list"]).ok().says("shell_exec").says("pc-1").says("operator").says("ok");
    hub.run(&["calls", "list", "--state", "waiting"]).ok().notes("no calls");
    hub.run(&["status"]).ok().says("1, 1 online").says("records").says("nothing");
    assert_eq!(hub.run(&["status", "--json"]).ok().json()["fleet"]["agents"][0]["agent_id"], "pc-1");
}

#[test]
fn what_did_not_run_is_told_by_its_own_code() {
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    hub.run(&["exec", "nobody", "--", "uptime"]).code(255).notes("no agent `nobody`");
    hub.run(&["exec", "pc-1"]).code(255).notes("required");
    hub.run(&["exec", "pc-1", "--timeout", "0", "--", "x"]).code(255).notes("above 0");
    hub.run(&["exec", "pc-1", "--", "rm -rf /"]).code(255).notes("(blocked)");
    let nowhere = ["exec", "pc-1", "--hub", "http://127.0.0.1:1", "--token", "t", "--", "x"];
    Done::of(&mut convoke(nowhere)).code(255).notes("cannot reach the hub");
}

#[test]
fn a_command_runs_on_every_machine_that_a_query_finds() {
    let hub = Hub::start();
    let agents = ["pc-1", "pc-2", "pc-3"].map(|id| Agent::join(&hub, id));
    for id in ["pc-1", "pc-2"] {
        hub.run(&["agents", "tag", id, "lab"]).ok();
    }
    hub.run(&["exec", "--query", "tag:lab", "--", "uptime"]).code(255).notes("2 machines: pc-1, pc-2").notes("--yes");
    let done = hub.run(&["exec", "--query", "tag:lab", "--yes", "--", "uptime"]).code(1);
    done.says("pc-1").says("pc-2").says("ran uptime");
    hub.run(&["exec", "--query", "tag:none", "--yes", "--", "uptime"]).code(255).notes("no machine matches");
    let json = hub.run(&["--json", "exec", "--query", "tag:lab", "--yes", "--", "uptime"]).code(1).json();
    assert_eq!(json["results"].as_array().map(Vec::len), Some(2));
    drop(agents);
}

#[test]
fn a_shell_takes_line_after_line() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let done = Done::with_input(&mut hub.verb(&["shell", "pc-1"]), "uptime\n\nls | wc\nexit\nnever\n").code(3);
    assert_eq!(done.stdout, "ran uptime\nran ls | wc\n");
    assert_eq!([agent.asked().1["command"].clone(), agent.asked().1["command"].clone()], ["uptime", "ls | wc"]);
    hub.run(&["audit", "list", "--agent", "pc-1", "--kind", "call"]).ok().says("shell_exec");
}

#[test]
fn exec_waits_for_a_person_and_ends_with_the_commands_code() {
    use crate::support::Server;
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    hub.run(&["policy", "confirm", "add", "--id", "manage", "--effects", "manage"]).ok();
    let other = hub.run(&["tokens", "create", "anna", "--role", "admin", "--approve", "--json"]).ok().json();
    let mut exec = Server::start(&mut hub.verb(&["exec", "pc-1", "--", "uptime"]));
    let told = exec.told("convoke approvals approve");
    let id = told.split("approve ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an id").to_owned();
    hub.run_as(other["token"].as_str().expect("a token"), &["approvals", "approve", &id]).ok();
    assert_eq!(exec.line(), "ran uptime");
    assert_eq!(exec.end().code(), Some(3));
}
