//! Several hubs under faults, for half a minute each: `cargo xtask cluster` runs longer, and with more that goes wrong.
#![cfg(target_os = "linux")]

use std::process::Command;

/// Runs the cluster with a seed; what it says is shown if a promise was broken.
fn promises_hold(seed: &str) {
    if let Some(why) = convoke_sim::cluster::lacking() {
        convoke_testing::skip(why);
        return;
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_convoke"));
    program.args(["sim", "cluster", "--seed", seed, "--minutes", "0.3", "--agents", "30", "--callers", "4"]);
    program.args(["--faults", "kill,agents,nats"]);
    let status = program.status().expect("the program can be started");
    assert!(status.success(), "seed {seed}");
}

#[test]
fn promises_hold_with_seed_11() {
    promises_hold("11");
}

#[test]
fn promises_hold_with_seed_12() {
    promises_hold("12");
}
