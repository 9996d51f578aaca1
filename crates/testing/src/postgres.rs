//! A PostgreSQL server of Debian's package, for the tests of one process.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::is_root;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a directory of its own, reached through a socket in it. It ends with the process, however that ends.
#[derive(Debug)]
pub struct Postgres {
    dir: tempfile::TempDir,
    bin: PathBuf,
    stop: mpsc::Sender<()>,
    ended: Option<thread::JoinHandle<()>>,
}

impl Postgres {
    /// Starts a server; none where the package is not installed, which the caller skips for.
    ///
    /// # Panics
    ///
    /// If the package is there and no server starts.
    pub fn start() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let bin = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max()?;
        if !bin.join("initdb").exists() {
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        // The server refuses to run as root, and another user must get at its files.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("the directory is ours");
        let data = dir.path().join("data");
        let mut init = unprivileged(&bin.join("initdb"), dir.path());
        init.args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--no-locale", "-D"])
            .arg(&data);
        good(&mut init);
        let (stop, stopped) = mpsc::channel();
        let mut server = unprivileged(&bin.join("postgres"), dir.path());
        server.arg("-D").arg(&data).arg("-k").arg(dir.path());
        // What is synced is what a power cut would show; tests kill processes at most.
        for setting in
            ["listen_addresses=", "fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=32MB"]
        {
            server.args(["-c", setting]);
        }
        let log = fs::File::create(dir.path().join("log")).expect("a file can be made there");
        server.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be made there")).stderr(log);
        // The system ends the server with the thread that started it, so that thread stays.
        let ended = thread::spawn(move || {
            let mut child = server.spawn().expect("the server program can be started");
            let _ = stopped.recv();
            let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
            let _ = child.wait();
        });
        let server = Self { dir, bin, stop, ended: Some(ended) };
        let begun = Instant::now();
        while !server.psql("postgres", "SELECT 1").status.success() {
            assert!(begun.elapsed() < PATIENCE, "{}", server.log());
            thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// Makes a new database; answers its address.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn database(&self, name: &str) -> String {
        let made = self.psql("postgres", &format!("CREATE DATABASE \"{name}\""));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        self.url(name)
    }

    /// The address of a database.
    pub fn url(&self, name: &str) -> String {
        format!("postgres:///{name}?host={}&user=postgres", self.dir.path().display())
    }

    /// Runs statements; answers what they print.
    ///
    /// # Panics
    ///
    /// If they fail.
    pub fn run(&self, database: &str, sql: &str) -> String {
        let ran = self.psql(database, sql);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }

    fn psql(&self, database: &str, sql: &str) -> Output {
        Command::new(self.bin.join("psql"))
            .args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-c", sql, "-h"])
            .arg(self.dir.path())
            .output()
            .expect("psql is installed with the server")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(ended) = self.ended.take() {
            let _ = ended.join();
        }
    }
}

/// A command as a user whom the server accepts, ended with its parent.
fn unprivileged(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg(program).current_dir(dir);
    command
}

fn good(command: &mut Command) {
    let ran = command.output().expect("the program is installed");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
