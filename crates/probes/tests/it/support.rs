//! Running probes in tests.

use std::path::Path;
use std::time::Duration;

use convoke_machine::Call;
use convoke_probes::{Config, Probes};
use convoke_sonde::agent::{Failure, Ran};
use serde_json::Value;

/// All that is installed here.
pub fn probes(config: Config) -> Probes {
    Probes::load(config, "0.1.0").expect("no patterns of one's own")
}

pub async fn ask(probes: &Probes, probe: &str, params: Value) -> Ran {
    let params = params.to_string();
    let call = Call { timeout: Some(Duration::from_secs(30)), ..Call::default() };
    probes.run(probe, Some(&params), &call).await
}

#[track_caller]
pub fn good(ran: Ran) -> Value {
    match ran.outcome {
        Ok(raw) => serde_json::from_str(raw.get()).expect("JSON"),
        Err(failure) => panic!("{failure:?}"),
    }
}

#[track_caller]
pub fn bad(ran: Ran) -> Failure {
    match ran.outcome {
        Ok(raw) => panic!("{}", raw.get()),
        Err(failure) => failure,
    }
}

/// Every name in a result, so that a probe's fields can be compared with the contract's.
pub fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// A program that prints this.
pub fn program(dir: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join(name);
    // Written under another name: a program that is being written cannot be started, and a test in another thread may
    // hold the handle for a moment while it starts something itself.
    let fresh = dir.join(format!("{name}.new"));
    std::fs::write(&fresh, format!("#!/bin/sh\n{script}\n")).expect("writes");
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755)).expect("allows");
    std::fs::rename(&fresh, &path).expect("renames");
}
