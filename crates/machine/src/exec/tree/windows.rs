//! On Windows a tree is a job object, which nothing that the command starts can leave.

use std::io;
use std::process::ExitStatus;

use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// A running tree. Dropped before the leader's end was seen, it is killed.
pub(in crate::exec) struct Tree {
    child: Box<dyn ChildWrapper>,
    ended: bool,
}

impl Tree {
    pub(in crate::exec) fn spawn(command: Command, _mark: String) -> io::Result<Self> {
        let mut command = CommandWrap::from(command);
        command.wrap(JobObject);
        Ok(Self { child: command.spawn()?, ended: false })
    }

    pub(in crate::exec) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin().take()
    }

    pub(in crate::exec) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout().take()
    }

    pub(in crate::exec) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr().take()
    }

    /// Waits for the leader; the job's own wait would wait for everybody. Cancel-safe.
    pub(in crate::exec) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.inner_mut().wait().await;
        self.ended = true;
        status
    }

    /// Kills the tree.
    pub(in crate::exec) async fn kill(&mut self) {
        let _ = self.child.start_kill();
        let _ = self.wait().await;
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.start_kill();
        }
    }
}

/// The exit code.
pub(in crate::exec) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}
