//! A NATS server of Debian's package, for the tests of one process.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port of this machine. It ends with the process, however that ends.
#[derive(Debug)]
pub struct Nats {
    port: u16,
    stop: mpsc::Sender<()>,
    ended: Option<thread::JoinHandle<()>>,
}

impl Nats {
    /// Starts a server; none where the package is not installed, which the caller skips for.
    ///
    /// # Panics
    ///
    /// If the package is there and no server starts.
    pub fn start() -> Option<Self> {
        Self::on("-1")
    }

    /// Ends the server and starts it again on its port.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        self.end();
        let port = self.port.to_string();
        let again = Self::on(&port).expect("it was there before");
        *self = again;
    }

    /// Ends the server.
    pub fn end(&mut self) {
        let _ = self.stop.send(());
        if let Some(ended) = self.ended.take() {
            let _ = ended.join();
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    fn on(port: &str) -> Option<Self> {
        Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().ok()?;
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let mut server = Command::new("setpriv");
        server.args(["--pdeathsig", "KILL", "nats-server", "-a", "127.0.0.1", "-p", port, "--ports_file_dir"]);
        server.arg(dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (stop, stopped) = mpsc::channel::<()>();
        // The system ends the server with the thread that started it, so that thread stays.
        let ended = thread::spawn(move || {
            let mut child = server.spawn().expect("the server program can be started");
            let _ = stopped.recv();
            let _ = child.kill();
            let _ = child.wait();
        });
        let begun = Instant::now();
        let port = loop {
            let mut files = fs::read_dir(dir.path()).expect("the directory is ours").flatten();
            let told = files.find_map(|file| port_in(&fs::read_to_string(file.path()).ok()?));
            match told {
                Some(port) => break port,
                None => assert!(begun.elapsed() < PATIENCE, "the NATS server does not start"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        Some(Self { port, stop, ended: Some(ended) })
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.end();
    }
}

/// The port in what the server wrote: `{"nats":["nats://127.0.0.1:4222"],…}`.
fn port_in(text: &str) -> Option<u16> {
    let from = &text[text.find("nats://127.0.0.1:")? + "nats://127.0.0.1:".len()..];
    let digits = from.find('"')?;
    from[..digits].parse().ok()
}
