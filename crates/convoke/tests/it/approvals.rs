//! Calls that need a person.

use crate::support::{Agent, Hub, Server};

const CALL: [&str; 5] = ["call", "pc-1", "shell_exec", "--args", r#"{"command":"reboot-later"}"#];

fn hub_that_asks() -> (Hub, Agent) {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    hub.run(&["policy", "confirm", "add", "--id", "ask", "--doors", "cli", "--effects", "manage"]).ok();
    hub.run(&["policy", "confirm", "list"]).ok().says("ask").says("mcp-needs-a-person");
    (hub, agent)
}

fn second_person(hub: &Hub) -> String {
    let create = ["tokens", "create", "bela", "--role", "viewer", "--approve"];
    hub.run(&create).ok().stdout.trim().to_owned()
}

#[test]
fn somebody_else_approves_and_the_call_runs() {
    let (hub, agent) = hub_that_asks();
    let waiting = hub.run(&CALL).code(3).notes("convoke approvals approve").notes("convoke calls show");
    let after = |word: &str| {
        let rest = waiting.stderr.split_once(word).unwrap_or_else(|| panic!("no {word:?}")).1;
        rest.split_whitespace().next().expect("an id").to_owned()
    };
    let (approval, call) = (after("approvals approve"), after("calls show"));
    hub.run(&["approvals", "list"]).ok().says(&approval).says("reboot-later").says("in 1");
    hub.run(&["calls", "show", &call]).code(3).says("waiting").says(&approval);
    hub.run(&["approvals", "approve", &approval]).code(1).notes("own_call");

    let bela = second_person(&hub);
    hub.run_as(&bela, &["approvals", "approve", &approval, "--reason", "planned"]).ok().says("approved");
    let done = hub.run(&["calls", "show", &call, "--wait"]).ok();
    assert_eq!(done.stdout, "ran reboot-later\n");
    assert_eq!(agent.asked().0, "shell_exec");
    hub.run(&["approvals", "list"]).ok().notes("no waiting calls");
    hub.run(&["approvals", "list", "--all"]).ok().says(&approval);
    hub.run_as(&bela, &["approvals", "approve", &approval]).code(1).notes("conflict");
}

#[test]
fn a_caller_can_wait_for_the_person() {
    let (hub, _agent) = hub_that_asks();
    let bela = second_person(&hub);
    let mut caller = Server::start(hub.verb(&CALL).arg("--wait"));
    let told = caller.told("approvals approve");
    let call = told.split_once("call ").expect("its id").1.split_whitespace().next().expect("an id");
    hub.run(&["calls", "show", call]).code(3);
    let approval = told.split_once("approvals approve").expect("told").1.split_whitespace().next().expect("an id");
    hub.run_as(&bela, &["approvals", "approve", approval]).ok();
    assert_eq!(caller.line(), "ran reboot-later");
    assert!(caller.end().success());
}

#[test]
fn who_waits_outlasts_a_restart_of_the_hub() {
    let (mut hub, _agent) = hub_that_asks();
    let bela = second_person(&hub);
    let mut caller = Server::start(hub.verb(&CALL).arg("--wait"));
    let told = caller.told("approvals approve");
    let approval = told.split_once("approvals approve").expect("told").1.split_whitespace().next().expect("an id");
    let _somebody = hub.kill_and_take_port();
    caller.told("the hub does not answer");
    let hub = hub.restart_killed();
    let waiting = hub.run(&["approvals", "list", "--json"]).ok().json();
    assert_eq!(waiting["approvals"].as_array().map(Vec::len), Some(1), "asked for once: {waiting}");
    hub.run_as(&bela, &["approvals", "deny", approval, "--reason", "no"]).ok();
    caller.told("bela said no");
    assert_eq!(caller.end().code(), Some(1));
}

#[test]
fn an_empty_list_says_nothing_of_others_calls() {
    let (hub, _agent) = hub_that_asks();
    let create = ["tokens", "create", "cleo", "--role", "operator"];
    let cleo = hub.run(&create).ok().stdout.trim().to_owned();
    hub.run(&CALL).code(3);
    hub.run(&["approvals", "list"]).ok().says("reboot-later");
    hub.run_as(&cleo, &["approvals", "list"]).ok().notes("no waiting calls that you asked for or may decide");
    hub.run_as(&cleo, &["approvals", "list", "--all"]).ok().notes("no calls that you asked for or may decide");
    hub.run_as(&cleo, &CALL).code(3);
    hub.run_as(&cleo, &["approvals", "list"]).ok().says("cleo");
}

#[test]
fn a_denied_call_fails() {
    let (hub, _agent) = hub_that_asks();
    let bela = second_person(&hub);
    let pending = hub.run(&[&CALL[..], &["--json"]].concat()).code(3).json();
    let id = |value: &serde_json::Value| value.as_str().expect("an id").to_owned();
    let (approval, call) = (id(&pending["approval"]["id"]), id(&pending["call_id"]));
    hub.run(&["calls", "show", &call, "--wait", "0.1"]).code(3).says("waiting");
    hub.run_as(&bela, &["approvals", "deny", &approval, "--reason", "no"]).ok().says("denied");
    hub.run(&["calls", "show", &call, "--wait"]).code(1).notes("error:");
    hub.run(&["policy", "confirm", "remove", "ask"]).ok();
    hub.run(&CALL).ok();
}

#[test]
fn a_program_that_waits_reads_json_only() {
    let (hub, _agent) = hub_that_asks();
    let bela = second_person(&hub);
    let caller = Server::start(hub.verb(&CALL).args(["--wait", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&caller.told("approval")).expect("JSON");
    let approval = told["approval"]["id"].as_str().expect("an id");
    hub.run_as(&bela, &["approvals", "approve", approval]).ok();
    let done: serde_json::Value = serde_json::from_str(&caller.line()).expect("JSON");
    assert_eq!((&done["state"], &done["call_id"]), (&"done".into(), &told["call_id"]), "{done}");
}
