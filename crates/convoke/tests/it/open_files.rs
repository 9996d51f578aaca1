//! How many files a hub may have open, and its agent.

use std::process::{Command, Stdio};

use crate::endpoint::until;
use crate::support::{Done, Hub, Server, convoke};

/// The same command from a shell with this limit.
fn limited(limit: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[test]
fn a_hub_allows_itself_what_it_may_and_its_agent_what_was_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut up = convoke(["up", "--listen", "127.0.0.1:0", "--data"]);
    let mut up = Server::start(&mut limited("-S -n 300", up.arg(&data)));
    up.told("Ctrl-C stops it");
    #[cfg(target_os = "linux")]
    {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", up.pid())).expect("readable");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
        let numbers: Vec<&str> = line.split_whitespace().skip(3).collect();
        let [now, most] = [numbers[0], numbers[1]].map(|n| n.parse::<u64>().unwrap_or(u64::MAX));
        assert_eq!(now, most.min(18_256), "what its connections need, as far as it may");
    }
    let ask = || {
        let mut call = convoke(["call", "local", "shell_exec", "--args", r#"{"command":"ulimit -n"}"#, "--data"]);
        Done::of(call.arg(&data))
    };
    until("the local agent answers", || ask().code == Some(0));
    assert_eq!(ask().ok().stdout.trim(), "300");
    up.signal("TERM");
    assert!(up.end().success());
}

#[test]
fn a_hub_that_may_not_open_enough_files_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = |connections: &str| {
        let mut hub = Hub::command(dir.path());
        hub.args(["--set", &format!("hub.max_connections={connections}")]);
        let mut hub = Server::start(&mut limited("-n 300", &hub));
        let told = hub.told(" ready ");
        hub.signal("TERM");
        assert!(hub.end().success());
        told
    };
    let told = start("100");
    for word in ["hub.max_connections=100", "356 open files", "may open only 300", "LimitNOFILE=356", "ulimit -n 356"]
    {
        assert!(told.contains(word), "no {word:?} in {told}");
    }
    let told = start("44");
    assert!(!told.contains("open files"), "{told}");
}
