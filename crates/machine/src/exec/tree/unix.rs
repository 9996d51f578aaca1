//! On Unix a tree is a process group, plus on Linux whoever left it.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

#[cfg(target_os = "linux")]
use crate::exec::marked;

/// A running tree. Dropped before the leader's end was seen, it is killed.
pub(in crate::exec) struct Tree {
    child: Child,
    mark: String,
}

impl Tree {
    pub(in crate::exec) fn spawn(mut command: Command, mark: String) -> io::Result<Self> {
        command.process_group(0);
        Ok(Self { child: command.spawn()?, mark })
    }

    pub(in crate::exec) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(in crate::exec) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(in crate::exec) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for the leader. Cancel-safe.
    pub(in crate::exec) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills the tree and reaps its leader.
    pub(in crate::exec) async fn kill(&mut self) {
        if let Some(leader) = self.leader() {
            let mark = self.mark.clone();
            // Not one of the runtime's threads for blocking work: all of them may be waiting for commands to end.
            let (done, swept) = tokio::sync::oneshot::channel::<()>();
            let sweeper = std::thread::Builder::new().name("sweep".into()).spawn(move || {
                sweep(leader, &mark);
                drop(done);
            });
            // The leader stays a zombie until it is reaped below, so nobody else can have its number meanwhile.
            match sweeper {
                Ok(_) => drop(swept.await),
                Err(_) => drop(killpg(leader, Signal::SIGKILL)),
            }
            let _ = self.child.wait().await;
        }
    }

    /// The leader's number, while it is certain to be the leader's.
    fn leader(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(leader) = self.leader() {
            // At once, so that most of it is gone even if the program is ending; tokio reaps the leader.
            #[cfg(target_os = "linux")]
            marked::kill_family(leader);
            let _ = killpg(leader, Signal::SIGKILL);
            // By now its number may be somebody else's, so what left the family is known by the mark alone.
            #[cfg(target_os = "linux")]
            {
                let mark = std::mem::take(&mut self.mark);
                let _ = std::thread::Builder::new().name("sweep".into()).spawn(move || marked::kill(None, &mark));
            }
        }
    }
}

/// Kills the group, the descendants and the marked. The group comes last: a child whose parent has died is nobody's
/// descendant any more, and may have neither group nor mark (`sudo` gives both away).
fn sweep(leader: Pid, mark: &str) {
    #[cfg(target_os = "linux")]
    marked::kill(Some(leader), mark);
    #[cfg(not(target_os = "linux"))]
    let _ = mark;
    let _ = killpg(leader, Signal::SIGKILL);
}

/// The exit code, as shells say it.
pub(in crate::exec) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
