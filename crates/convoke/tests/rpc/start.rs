//! Start-up, silence and the end.

use serde_json::{Value, json};

use crate::world::World;

#[test]
fn the_clients_start_up_works_with_requests_out_of_order() {
    let world = World::new();
    let mut client = world.client();
    let told = client.call("initialize", json!({}));
    assert_eq!(
        (&told["protocolVersion"], &told["serverName"], &told["experimental"]),
        (&json!(1), &json!("kward"), &json!(true))
    );
    assert_eq!(told["capabilities"]["turns"]["busyInput"]["steer"], "native");
    let session = client.call("sessions/create", json!({ "workspaceRoot": world.work(), "resumeLast": true }));
    let id = session["id"].as_str().unwrap().to_owned();
    let work = world.work();
    assert_eq!(session["workspaceRoot"], work.to_str().unwrap());
    assert!(session["path"].as_str().unwrap().starts_with(world.sessions().to_str().unwrap()));
    for absent in ["name", "parentId", "parentPath"] {
        assert_eq!(session[absent], Value::Null);
        assert!(session.as_object().unwrap().contains_key(absent), "{absent} is there as null");
    }
    let of = json!({ "sessionId": id });
    let methods = [
        "runtime/state",
        "runtime/stats",
        "sessions/transcript",
        "commands/list",
        "resources/startup",
        "models/list",
        "auth/providers",
    ];
    let ids: Vec<u64> = methods.iter().map(|method| client.send(method, of.clone())).collect();
    for (method, id) in methods.iter().zip(ids).rev() {
        let answer = client.answer(id);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
    }
    let state = client.call("runtime/state", of.clone());
    assert_eq!(state["rpcSessionId"], id);
    assert_eq!(state["sessionId"], session["persistentId"]);
    assert_eq!(state["model"]["provider"], "Local");
    assert_eq!(state["model"]["id"], "test-model");
    assert_eq!((&state["isStreaming"], &state["transport"]), (&json!(false), &json!("kward-rpc")));
    assert_eq!(client.call("sessions/transcript", of)["messages"], json!([]));
    client.finish();
}

#[test]
fn an_end_of_input_a_signal_and_a_request_each_end_it() {
    let world = World::new();
    let mut hung_up = world.client();
    world.session(&mut hung_up);
    hung_up.finish();

    let mut signalled = world.client();
    world.session(&mut signalled);
    signalled.terminate();
    let ended = signalled.ended();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));

    let mut asked = world.client();
    assert_eq!(asked.call("shutdown", json!({})), json!({ "ok": true }));
    assert_eq!(asked.ended().code, Some(0));

    // What nobody used is gone; nothing else is.
    let left = std::fs::read_dir(world.sessions())
        .unwrap()
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "jsonl"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_stray_blank_line_and_a_bad_header_cost_nothing_but_themselves() {
    let world = World::new();
    let mut client = world.client();
    client.send_raw(b"\r\n\r\nnonsense\r\n");
    let complaint = client.wait("a complaint", |frame| frame["id"].is_null());
    assert_eq!(complaint["error"]["message"], "Invalid JSON-RPC header: nonsense");
    client.call("initialize", json!({}));
    client.finish();
}

#[test]
fn the_schema_is_the_committed_one() {
    let printed =
        std::process::Command::new(env!("CARGO_BIN_EXE_convoke")).args(["rpc", "--schema"]).output().unwrap();
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kward-rpc.schema.json");
    let committed = std::fs::read_to_string(committed).expect("convoke rpc --schema > docs/kward-rpc.schema.json");
    assert!(
        String::from_utf8(printed.stdout).unwrap() == committed,
        "print the schema again and look at the difference"
    );
}

#[test]
fn workspaces_are_directories() {
    let world = World::new();
    let mut client = world.client();
    let info = client.call("workspace/info", json!({ "workspaceRoot": world.work() }));
    assert_eq!(info, json!({ "root": world.work(), "basename": "work", "writable": true }));
    let root = client.call("workspace/validate", json!({}));
    assert_eq!(root["root"], std::fs::canonicalize(world.root()).unwrap().to_str().unwrap());
    let error = client.refused("workspace/validate", json!({ "workspaceRoot": "/nowhere/at/all" }));
    assert_eq!(error["message"], "Workspace root is not an existing directory: /nowhere/at/all");
    client.finish();
}
