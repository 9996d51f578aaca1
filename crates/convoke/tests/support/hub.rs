//! A hub as a process of its own.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::run::{Done, convoke};

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Server {
    /// Starts it.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let (stderr, to) = std::io::pipe().expect("a pipe");
        let mut server = Self::start_unread(command, to);
        server.read(stderr);
        server
    }

    /// Starts it with a standard error that nobody reads yet.
    #[track_caller]
    pub(crate) fn start_unread(command: &mut Command, stderr: PipeWriter) -> Self {
        command.stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the program runs");
        // The command holds its end of the pipe as well: what ends with the process would not end with it.
        command.stderr(Stdio::null());
        let stdout = lines(child.stdout.take().expect("piped"));
        Self { child, stdout, stderr: channel().1 }
    }

    /// Begins to read its standard error.
    pub(crate) fn read(&mut self, stderr: PipeReader) {
        self.stderr = lines(stderr);
    }

    /// The next line of standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(why) => panic!("no line: {why}; stderr: {:?}", self.stderr.try_iter().collect::<Vec<_>>()),
        }
    }

    /// Standard error up to a line with this text.
    #[track_caller]
    pub(crate) fn told(&self, text: &str) -> String {
        let mut told = String::new();
        loop {
            match self.stderr.recv_timeout(PATIENCE) {
                Ok(line) => {
                    told.push_str(&line);
                    told.push('\n');
                    if line.contains(text) {
                        return told;
                    }
                }
                Err(why) => panic!("no {text:?}: {why}; so far: {told}"),
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.pid().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let since = Instant::now();
        // Its outputs close when it ends, and that can be waited for with a limit.
        while self.stdout.recv_timeout(PATIENCE.saturating_sub(since.elapsed())).is_ok() {}
        assert!(since.elapsed() < PATIENCE, "it did not end");
        self.child.wait().expect("it ends")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a stream, read as they come so that the process never waits for us.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    from
}

/// A hub that is ready, in a directory of its own.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) server: Server,
    pub(crate) ready: Value,
    dir: TempDir,
}

impl Hub {
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With further arguments.
    #[track_caller]
    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), args)
    }

    /// In a directory whose `data` is the data directory.
    #[track_caller]
    pub(crate) fn start_in(dir: TempDir, args: &[&str]) -> Self {
        let server = Server::start(Self::command(&dir.path().join("data")).args(args));
        let ready = serde_json::from_str(&server.line()).expect("one line of JSON");
        Self { server, ready, dir }
    }

    /// The command line of a hub in this data directory.
    pub(crate) fn command(data: &Path) -> Command {
        let mut command = convoke(["hub", "--print-json", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(data);
        command
    }

    /// Stops it and starts it again in the same directory.
    #[track_caller]
    pub(crate) fn restart(self, args: &[&str]) -> Self {
        let dir = self.stop();
        Self::start_in(dir, args)
    }

    /// Starts it again after its process was killed.
    #[track_caller]
    pub(crate) fn restart_killed(self) -> Self {
        let Self { dir, .. } = self;
        Self::start_in(dir, &[])
    }

    /// Kills it, and takes its port as another program may.
    #[track_caller]
    pub(crate) fn kill_and_take_port(&mut self) -> TcpListener {
        self.server.signal("KILL");
        assert!(!self.server.end().success());
        let address = self.http().trim_start_matches("http://");
        let listener = TcpListener::bind(address).expect("its port is free");
        listener.set_nonblocking(true).expect("set");
        listener
    }

    /// Stops it cleanly; its directory stays.
    #[track_caller]
    pub(crate) fn stop(mut self) -> TempDir {
        self.server.signal("TERM");
        assert!(self.server.end().success());
        self.dir
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A place for files beside the data directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn http(&self) -> &str {
        self.ready["http"].as_str().expect("an address")
    }

    /// A verb as the local operator.
    pub(crate) fn verb(&self, args: &[&str]) -> Command {
        let mut command = convoke(["--data"]);
        command.arg(self.data()).args(args);
        command
    }

    /// Runs a verb as the local operator.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(&mut self.verb(args))
    }

    /// Runs a verb with another token, as from another machine.
    #[track_caller]
    pub(crate) fn run_as(&self, token: &str, args: &[&str]) -> Done {
        Done::of(convoke(args).env("CONVOKE_HUB", self.http()).env("CONVOKE_TOKEN", token))
    }
}
