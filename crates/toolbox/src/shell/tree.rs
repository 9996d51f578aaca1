//! A command and everything it has started.
//!
//! The shell leads a process group of its own, so one signal reaches whatever it starts. What leaves the group (a daemon
//! that calls `setsid`) is still known by a mark in its environment, which children inherit, by its parents, and by the
//! groups and sessions of whatever was known before. Linux only; elsewhere only the group is killed.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::limits::SHELL_GRACE;

/// How long is waited before looking again.
const PAUSE: Duration = Duration::from_millis(10);
/// How often a process that does not go is killed again. One that waits for a broken disk cannot be killed at all.
const ROUNDS: usize = 100;

/// The variable that marks a command's processes.
const MARK: &str = "CONVOKE_COMMAND";

/// A running command. Dropped, it takes everything with it.
#[derive(Debug)]
pub(super) struct Tree {
    members: Members,
    is_released: bool,
}

/// Who belongs to a command. Off Linux there is no table of processes to look it up in.
#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
struct Members {
    /// The shell's id, which is its group's as well.
    leader: u32,
    mark: String,
    /// Groups and sessions that a member was seen in: a child that was born just before its parent's death is found in
    /// its parent's.
    seen: Arc<Mutex<BTreeSet<u32>>>,
}

/// Starts a command as the leader of its own tree.
pub(super) fn start(mut command: Command) -> io::Result<(Child, Tree)> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|why| io::Error::other(why.to_string()))?;
    let mark = format!("{:032x}", u128::from_le_bytes(random));
    command.env(MARK, &mark);
    #[cfg(unix)]
    command.process_group(0);
    let child = command.spawn()?;
    let leader = child.id().ok_or_else(|| io::Error::other("it has no process id"))?;
    Ok((child, Tree { members: Members { leader, mark, seen: Arc::default() }, is_released: false }))
}

impl Tree {
    /// The command ended by itself. What it left in the background goes on; gives its ids.
    pub(super) async fn release(mut self) -> Vec<u32> {
        self.is_released = true;
        self.members.running().await
    }

    /// Asks everything to end, and ends what does not within the grace.
    pub(super) async fn end(mut self, shell: &mut Child) {
        self.members.clone().signal(Force::Ask).await;
        let deadline = tokio::time::Instant::now() + SHELL_GRACE;
        while tokio::time::Instant::now() < deadline && !self.is_gone(shell).await {
            tokio::time::sleep(PAUSE).await;
        }
        // A process may be between two forks while its group is signalled: until nothing is left.
        for _ in 0..ROUNDS {
            if self.is_gone(shell).await {
                break;
            }
            self.members.clone().signal(Force::Kill).await;
            tokio::time::sleep(PAUSE).await;
        }
        self.is_released = true;
    }

    async fn is_gone(&self, shell: &mut Child) -> bool {
        // Also takes the shell's remains off the system's table.
        let exited = matches!(shell.try_wait(), Ok(Some(_)) | Err(_));
        exited && self.members.running().await.is_empty()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.is_released {
            self.members.signal_now(Force::Kill);
        }
    }
}

impl Members {
    /// Looks at every process of the machine, which takes a while: not on a thread that others wait for.
    async fn running(&self) -> Vec<u32> {
        let members = self.clone();
        tokio::task::spawn_blocking(move || members.running_now()).await.unwrap_or_default()
    }

    async fn signal(self, force: Force) {
        // It runs to its end in any case.
        let _ = tokio::task::spawn_blocking(move || self.signal_now(force)).await;
    }
}

/// Whether a process is asked to end or killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Force {
    Ask,
    Kill,
}

#[cfg(unix)]
impl Members {
    fn signal_now(&self, force: Force) {
        use rustix::process::{Pid, Signal, kill_process, kill_process_group};

        let signal = if force == Force::Ask { Signal::TERM } else { Signal::KILL };
        // Looked up first: once a parent is dead, its children are nobody's.
        let members = self.running_now();
        if let Some(group) = Pid::from_raw(self.leader.cast_signed()) {
            // It may have ended already.
            let _ = kill_process_group(group, signal);
        }
        for member in members {
            if let Some(process) = Pid::from_raw(member.cast_signed()) {
                let _ = kill_process(process, signal);
            }
        }
    }
}

#[cfg(not(unix))]
impl Members {
    fn signal_now(&self, _: Force) {}
}

#[cfg(target_os = "linux")]
impl Members {
    /// Every process of the tree that still runs.
    fn running_now(&self) -> Vec<u32> {
        let leader = self.leader;
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let processes = linux::processes();
        let mark = format!("{MARK}={}", self.mark);
        let is_ours = |process: &linux::Process| {
            process.id == leader
                || process.group == leader
                || seen.contains(&process.group)
                || seen.contains(&process.session)
                || linux::has_variable(process.id, &mark)
        };
        let mut found: Vec<u32> = processes.iter().filter(|p| is_ours(p)).map(|p| p.id).collect();
        // Children of ours, however they have dressed.
        loop {
            let more: Vec<u32> = processes
                .iter()
                .filter(|process| found.contains(&process.parent) && !found.contains(&process.id))
                .map(|process| process.id)
                .collect();
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        // The shell's own session is the one that this program is in; nobody is known by that.
        let own = linux::own(&processes);
        let members = processes.iter().filter(|process| found.contains(&process.id));
        let theirs = members.flat_map(|process| [process.group, process.session]);
        seen.extend(theirs.filter(|id| own.is_some_and(|(group, session)| *id != group && *id != session)));
        let runs = |id: &u32| processes.iter().any(|process| process.id == *id && !process.is_dead);
        found.retain(runs);
        found
    }
}

#[cfg(not(target_os = "linux"))]
impl Members {
    fn running_now(&self) -> Vec<u32> {
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    /// A process as `/proc` shows it.
    #[derive(Debug)]
    pub(super) struct Process {
        pub(super) id: u32,
        pub(super) parent: u32,
        pub(super) group: u32,
        pub(super) session: u32,
        /// It has ended and waits to be taken off the table.
        pub(super) is_dead: bool,
    }

    pub(super) fn processes() -> Vec<Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter_map(|id| parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)).collect()
    }

    /// The group and session of this program.
    pub(super) fn own(processes: &[Process]) -> Option<(u32, u32)> {
        let own = std::process::id();
        processes.iter().find(|process| process.id == own).map(|process| (process.group, process.session))
    }

    /// `id (name) state parent group session …`; the name may hold anything, so what counts is behind its last bracket.
    pub(super) fn parse(id: u32, stat: &str) -> Option<Process> {
        let (_, after) = stat.rsplit_once(')')?;
        let mut words = after.split_whitespace();
        let state = words.next()?;
        let mut number = || words.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        Some(Process { id, parent, group, session, is_dead: matches!(state, "Z" | "X") })
    }

    /// Whether a process was started with this in its environment. Another user's cannot be looked at.
    pub(super) fn has_variable(id: u32, variable: &str) -> bool {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_name_with_brackets_is_read_over() {
            let process = parse(7, "7 (a) b (c)) S 3 9 9 0 -1").unwrap();
            assert_eq!((process.parent, process.group, process.session, process.is_dead), (3, 9, 9, false));
            assert!(parse(7, "7 (z) Z 1 1 1").unwrap().is_dead);
            assert!(parse(7, "nonsense").is_none());
        }
    }
}
