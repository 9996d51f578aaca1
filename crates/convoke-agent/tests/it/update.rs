//! An update of the program in its place.

use std::fs;

use serde_json::json;

use super::{Agent, ID, PROGRAM, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_is_put_in_place_and_stays() {
    let offers = tempfile::tempdir().expect("a directory");
    let stage = Stage::new(&[("kenny.update_dir", offers.path().to_str().expect("UTF-8"))]).await;
    stage.enrol().await;
    let program = stage.dir.path().join("convoke-agent");
    fs::copy(PROGRAM, &program).expect("copied");
    let run = || Agent::start(stage.verb(&program, &["agent", "run", "--service"]));
    let mut agent = run();
    agent.told("connected");

    // The same program with something behind its end: another file, another hash, and it runs.
    let mut bytes = fs::read(PROGRAM).expect("read");
    bytes.extend_from_slice(b"9.0.0");
    let name = format!("kenny-agent-9.0.0-linux-{}", std::env::consts::ARCH);
    fs::write(offers.path().join(name), &bytes).expect("written");
    stage.post(&format!("/api/agents/{ID}/update"), json!({})).await;
    agent.ended();
    assert!(fs::read(&program).expect("read") == bytes, "the new version is in place");
    assert!(stage.state().join("update.json").exists(), "it is on trial");

    let agent = run();
    agent.told("the update has authenticated at the hub");
    agent.stop();
    assert!(!stage.state().join("update.json").exists());
    let (_, log) = stage.ask(&["logs", "-n", "1000"]);
    assert!(log.contains("the update is installed"), "{log}");
    stage.hub.stop().await.expect("stops");
}
