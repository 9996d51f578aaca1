//! The agent as a service: what starts it with the machine, and again when it ends.
//!
//! The texts of units and property lists are made here from one description, on every platform, so that they can be
//! looked at and tested everywhere; putting them in place is for the platform that has the manager.

mod launchd;
mod systemd;
#[cfg(windows)]
pub mod windows;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::state::{StateDir, is_superuser};

pub use launchd::plist;
pub use systemd::unit;

/// The service's name, wherever services have names.
pub const NAME: &str = "convoke-agent";

/// A service to be.
#[derive(Clone, Debug)]
pub struct Service {
    /// Where its program goes: a place of its own, so that an update can replace it.
    pub program: PathBuf,
    /// Its state directory.
    pub state: PathBuf,
}

/// Why a service was not installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Not allowed.
    #[error("installing services needs root; run this as root or with sudo")]
    NotSuperuser,
    /// No manager that we know.
    #[error("{0}")]
    NoManager(String),
    /// Not enrolled.
    #[error(
        "no agent is enrolled in {}; enrol it first:\n  convoke agent enroll --hub URL --id ID --token TOKEN --hub-key KEY --state {}",
        .0.display(), .0.display()
    )]
    NotEnrolled(PathBuf),
    /// A file.
    #[error("cannot {doing} {}: {why}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        why: io::Error,
    },
    /// The manager said no.
    #[error("`{command}` failed: {why}")]
    Manager {
        /// The command.
        command: String,
        /// Its words.
        why: String,
    },
}

impl Service {
    /// The service with its usual places.
    pub fn usual(state: Option<PathBuf>) -> Self {
        let state = state.or_else(StateDir::system_path).unwrap_or_else(|| PathBuf::from("convoke-agent"));
        let program = if cfg!(windows) {
            let files = std::env::var_os("ProgramFiles").map_or_else(|| "C:\\Program Files".into(), PathBuf::from);
            files.join("Convoke Agent").join("convoke.exe")
        } else {
            // A `bin` below /opt is what security modules expect programs in.
            PathBuf::from("/opt/convoke-agent/bin/convoke")
        };
        Self { program, state }
    }

    /// How the manager starts it.
    pub fn arguments(&self) -> Vec<String> {
        let state = self.state.display().to_string();
        ["agent", "run", "--service", "--state"].map(str::to_owned).into_iter().chain([state]).collect()
    }

    /// Copies this program into its place, tells the manager, and starts it. Repeating it brings everything up to date.
    pub fn install(&self) -> Result<(), ServiceError> {
        self.check_rights()?;
        self.check_manager()?;
        if !StateDir::new(&self.state).config_file().is_file() {
            return Err(ServiceError::NotEnrolled(self.state.clone()));
        }
        let own = std::env::current_exe().map_err(|why| ServiceError::File {
            doing: "find",
            path: "this program".into(),
            why,
        })?;
        // A program that runs cannot be replaced there.
        #[cfg(windows)]
        windows::halt()?;
        place(&own, &self.program)?;
        self.register()
    }

    /// Stops it, tells the manager to forget it, and removes its program. The state stays unless `purge`.
    pub fn uninstall(&self, purge: bool) -> Result<(), ServiceError> {
        self.check_rights()?;
        self.check_manager()?;
        self.unregister()?;
        for name in ["", ".previous", ".new", ".failed"] {
            let mut path = self.program.clone().into_os_string();
            path.push(name);
            remove(Path::new(&path))?;
        }
        // Only when they are empty: they may be somebody else's too.
        for dir in self.program.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(dir);
        }
        if purge
            && let Err(why) = fs::remove_dir_all(&self.state)
            && why.kind() != io::ErrorKind::NotFound
        {
            return Err(ServiceError::File { doing: "remove", path: self.state.clone(), why });
        }
        Ok(())
    }

    fn check_rights(&self) -> Result<(), ServiceError> {
        // On Windows the service manager itself says no.
        if cfg!(windows) || is_superuser() { Ok(()) } else { Err(ServiceError::NotSuperuser) }
    }

    #[cfg(target_os = "linux")]
    fn check_manager(&self) -> Result<(), ServiceError> {
        if Path::new("/run/systemd/system").is_dir() {
            return Ok(());
        }
        Err(ServiceError::NoManager(format!(
            "systemd is not running. Have your service manager start and restart this:\n  {} {}",
            self.program.display(),
            self.arguments().join(" ")
        )))
    }

    #[cfg(not(target_os = "linux"))]
    fn check_manager(&self) -> Result<(), ServiceError> {
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn register(&self) -> Result<(), ServiceError> {
        write(Path::new(systemd::PATH), &unit(self))?;
        run("systemctl", &["daemon-reload"])?;
        run("systemctl", &["enable", NAME])?;
        run("systemctl", &["restart", NAME])
    }

    #[cfg(target_os = "linux")]
    fn unregister(&self) -> Result<(), ServiceError> {
        if Path::new(systemd::PATH).exists() {
            run("systemctl", &["disable", "--now", NAME])?;
            remove(Path::new(systemd::PATH))?;
            run("systemctl", &["daemon-reload"])?;
        }
        Ok(())
    }

    #[cfg(target_os = "macos")]
    fn register(&self) -> Result<(), ServiceError> {
        write(Path::new(launchd::PATH), &plist(self))?;
        // Not loaded yet, as a rule.
        let _ = run("launchctl", &["bootout", "system", launchd::PATH]);
        run("launchctl", &["bootstrap", "system", launchd::PATH])
    }

    #[cfg(target_os = "macos")]
    fn unregister(&self) -> Result<(), ServiceError> {
        if Path::new(launchd::PATH).exists() {
            let _ = run("launchctl", &["bootout", "system", launchd::PATH]);
            remove(Path::new(launchd::PATH))?;
        }
        Ok(())
    }

    #[cfg(windows)]
    fn register(&self) -> Result<(), ServiceError> {
        windows::register(self)
    }

    #[cfg(windows)]
    fn unregister(&self) -> Result<(), ServiceError> {
        windows::unregister()
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    fn register(&self) -> Result<(), ServiceError> {
        Err(ServiceError::NoManager("no supported service manager on this platform".into()))
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    fn unregister(&self) -> Result<(), ServiceError> {
        self.register()
    }
}

/// Copies a program, so that at every moment there is a whole one in the place.
fn place(from: &Path, to: &Path) -> Result<(), ServiceError> {
    if from == to {
        return Ok(());
    }
    let failed = |why| ServiceError::File { doing: "put the program into", path: to.to_owned(), why };
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    let mut program = fs::File::open(from).map_err(failed)?;
    let copy = |file: &mut fs::File| io::copy(&mut program, file).map(drop);
    convoke_files::replace_with(to, convoke_files::Mode::Program, copy).map_err(failed)
}

#[cfg_attr(windows, expect(dead_code, reason = "the manager there keeps its own database"))]
fn write(path: &Path, text: &str) -> Result<(), ServiceError> {
    fs::write(path, text).map_err(|why| ServiceError::File { doing: "write", path: path.to_owned(), why })
}

fn remove(path: &Path) -> Result<(), ServiceError> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(ServiceError::File { doing: "remove", path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}

#[cfg_attr(windows, expect(dead_code, reason = "the manager there is called, not run"))]
fn run(program: &str, args: &[&str]) -> Result<(), ServiceError> {
    let failed = |why: String| ServiceError::Manager { command: format!("{program} {}", args.join(" ")), why };
    let output = Command::new(program).args(args).output().map_err(|why| failed(why.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(if said.is_empty() { output.status.to_string() } else { said }))
}
