//! The processes of a run that are not in its group any more, found in `/proc`.

use std::collections::HashSet;
use std::fs;

use nix::sys::signal::{Signal, kill as signal};
use nix::unistd::{Pid, getpid};

use super::MARK;

/// Times to look again: a process may fork while it is being looked for. Each round kills what it finds, so only
/// something that forks faster than that, over and over, is left.
const ROUNDS: usize = 50;

/// Kills every process that descends from `leader`, is in its group, or carries the mark.
pub(super) fn kill(leader: Option<Pid>, mark: &str) {
    let entry = format!("{MARK}={mark}").into_bytes();
    for _ in 0..ROUNDS {
        if !kill_all(members(leader, Some(&entry))) {
            return;
        }
    }
}

/// Kills every process that descends from `leader` or is in its group, as they are now. Quick: no environment is read.
pub(super) fn kill_family(leader: Pid) {
    kill_all(members(Some(leader), None));
}

/// Kills them together; false if there are none.
fn kill_all(found: HashSet<i32>) -> bool {
    let own = getpid().as_raw();
    let alive: Vec<_> = found.into_iter().filter(|pid| *pid != own && *pid > 1).map(Pid::from_raw).collect();
    // Stopped first: nobody forks while the others die.
    for how in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in &alive {
            let _ = signal(*pid, how);
        }
    }
    !alive.is_empty()
}

/// One process as `/proc/<pid>/stat` has it.
struct Entry {
    pid: i32,
    parent: i32,
    group: i32,
}

fn members(leader: Option<Pid>, mark: Option<&[u8]>) -> HashSet<i32> {
    let leader = leader.map(Pid::as_raw);
    let processes: Vec<Entry> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|folder| folder.file_name().to_str()?.parse().ok())
        .filter_map(alive)
        .collect();
    let mut found: HashSet<i32> = processes
        .iter()
        .filter(|process| Some(process.group) == leader || mark.is_some_and(|mark| is_marked(process.pid, mark)))
        .map(|process| process.pid)
        .collect();
    // Descendants of the leader count even when it is a zombie, and so do those of the marked.
    let mut ancestors: HashSet<i32> = found.iter().copied().chain(leader).collect();
    loop {
        let before = found.len();
        for process in &processes {
            if ancestors.contains(&process.parent) && found.insert(process.pid) {
                ancestors.insert(process.pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// A process that is there and no zombie.
fn alive(pid: i32) -> Option<Entry> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too: the last one ends it.
    let after = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
    let text = String::from_utf8_lossy(after);
    let mut words = text.split_ascii_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(Entry { pid, parent, group })
}

fn is_marked(pid: i32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == mark))
}
