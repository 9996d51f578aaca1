//! The agent's state directory: key, configuration, kill switch, status, logs. Nobody else's.
//!
//! Every file is written whole or not at all (a new file, synced, renamed into place), so that neither a power cut nor a
//! full disk leaves half of one. The directory is for its owner alone: whoever may write here may switch remote control
//! on, and whoever may read here has the machine's key.

mod access;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use convoke_kenny::wire_bytes;
use ed25519_dalek::SigningKey;
use zeroize::Zeroizing;

const KEY: &str = "convoke-agent.key";
const CONFIG: &str = "agent.toml";
const LOCK: &str = "agent.lock";
const SWITCH: &str = "convoke-agent.control.json";
const STATUS: &str = "status.json";
const UPDATE: &str = "update.json";
const LOG: &str = "agent.log";
const SHELL: &str = "shell-policy.json";
const RULES: &str = "deny-rules.json";
const WORK: &str = "work";

/// Most bytes of any file here that are read.
const MAX_FILE: u64 = 1 << 20;

/// A state directory.
#[derive(Clone, Debug)]
pub struct StateDir {
    dir: PathBuf,
    key: PathBuf,
    /// Whether a new key is written as its bytes alone.
    bare_key: bool,
    switch: PathBuf,
}

/// Why the state is of no use.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The directory or a file of it.
    #[error("cannot {doing} {}: {why}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        why: io::Error,
    },
    /// A key file that holds no key.
    #[error(
        "{} holds no agent key (base64 of 32 bytes). If it is damaged, remove it and enrol again with a token of `convoke agents rotate-key`",
        .0.display()
    )]
    BadKey(PathBuf),
    /// A key that others can read.
    #[error("{} can be read by other users (mode {mode:o}); make it 0600, or remove it and enrol again", path.display())]
    OpenKey {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A key that others can read, where access is a list.
    #[error(
        "{} can be read by others ({who}); remove their access (icacls), or remove the file and enrol again",
        path.display()
    )]
    SharedKey {
        /// The file.
        path: PathBuf,
        /// Who they are.
        who: String,
    },
    /// Another agent runs with this state.
    #[error(
        "another agent is running with the state in {}; two agents with one key would replace each other",
        .0.display()
    )]
    Locked(PathBuf),
}

/// Held while an agent runs; let go when dropped, or when the process dies.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl StateDir {
    /// A directory that need not exist yet. A relative path is meant from where we are now.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = absolute(dir.into());
        Self { key: dir.join(KEY), bare_key: false, switch: dir.join(SWITCH), dir }
    }

    /// With the key somewhere else: where the original agent has it, and in its form, so that it can take over again.
    #[must_use]
    pub fn with_key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key = absolute(path.into());
        self.bare_key = true;
        self
    }

    /// With the kill switch somewhere else.
    #[must_use]
    pub fn with_switch_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.switch = absolute(path.into());
        self
    }

    /// Where an agent of this user keeps its state unless told otherwise: for the superuser the system's place.
    pub fn default_path() -> Option<PathBuf> {
        if is_superuser() { Self::system_path() } else { Some(user_data()?.join("convoke-agent")) }
    }

    /// Where an agent that is installed as a service keeps its state.
    pub fn system_path() -> Option<PathBuf> {
        if cfg!(windows) {
            let data = std::env::var_os("ProgramData").filter(|dir| !dir.is_empty())?;
            Some(PathBuf::from(data).join("convoke-agent"))
        } else if cfg!(target_os = "macos") {
            Some("/Library/Application Support/convoke-agent".into())
        } else {
            Some("/var/lib/convoke-agent".into())
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Where the key is.
    pub(crate) fn key_dir(&self) -> Option<&Path> {
        self.key.parent()
    }

    /// The kill switch's file.
    pub fn switch_file(&self) -> &Path {
        &self.switch
    }

    /// Where commands run that should run nowhere else. It need not exist.
    pub fn work_dir(&self) -> PathBuf {
        self.dir.join(WORK)
    }

    /// The configuration's file.
    pub fn config_file(&self) -> PathBuf {
        self.dir.join(CONFIG)
    }

    /// What a running agent tells of itself.
    pub fn status_file(&self) -> PathBuf {
        self.dir.join(STATUS)
    }

    /// What an update under way must know.
    pub fn update_file(&self) -> PathBuf {
        self.dir.join(UPDATE)
    }

    /// The deny rules that the hub has sent.
    pub(crate) fn rules_file(&self) -> PathBuf {
        self.dir.join(RULES)
    }

    /// What the hub has said of commands as such.
    pub(crate) fn shell_file(&self) -> PathBuf {
        self.dir.join(SHELL)
    }

    /// The newest log file.
    pub fn log_file(&self) -> PathBuf {
        self.dir.join(LOG)
    }

    /// Makes the directory, for its owner alone.
    pub fn create(&self) -> Result<(), StateError> {
        let failed = |why| StateError::Io { doing: "make the directory", path: self.dir.clone(), why };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.dir).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&self.dir).map_err(failed)?.permissions().mode();
            // One that was made by hand may be open to others.
            if mode & 0o077 != 0 {
                fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700)).map_err(failed)?;
            }
        }
        #[cfg(windows)]
        access::make_private(&self.dir, Self::system_path().as_deref() == Some(self.dir.as_path()))
            .map_err(failed)?;
        Ok(())
    }

    /// Makes sure that nobody else runs with this state.
    pub fn lock(&self) -> Result<Lock, StateError> {
        let path = self.dir.join(LOCK);
        let failed = |why| StateError::Io { doing: "lock", path: path.clone(), why };
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(fs::TryLockError::WouldBlock) => Err(StateError::Locked(self.dir.clone())),
            Err(fs::TryLockError::Error(why)) => Err(failed(why)),
        }
    }

    /// Whether there is a key.
    pub fn has_key(&self) -> bool {
        self.key.exists()
    }

    /// The agent's key.
    pub fn key(&self) -> Result<SigningKey, StateError> {
        self.check_key_mode()?;
        let bytes = Zeroizing::new(read(&self.key)?);
        let text = Zeroizing::new(String::from_utf8_lossy(&bytes).trim().to_owned());
        let seed = wire_bytes::decode::<32>(&text).ok().or_else(|| bytes.as_slice().try_into().ok());
        let seed = Zeroizing::new(seed.ok_or_else(|| StateError::BadKey(self.key.clone()))?);
        Ok(SigningKey::from_bytes(&seed))
    }

    /// The agent's key, made now if there is none. It never leaves the device.
    pub fn key_or_new(&self) -> Result<SigningKey, StateError> {
        match self.key() {
            Err(StateError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => self.new_key(),
            other => other,
        }
    }

    /// The same, with the key that shall take the place of this one's: beside it until a hub has taken it.
    pub fn next(&self) -> Self {
        let mut key = self.key.clone().into_os_string();
        key.push(".new");
        Self { key: key.into(), ..self.clone() }
    }

    /// Puts the next key in its place, as durably as it was written: the hub takes the one before it no more.
    pub fn take_next(&self) -> Result<(), StateError> {
        let failed = |why| StateError::Io { doing: "put the new key into place", path: self.key.clone(), why };
        fs::rename(self.next().key, &self.key).map_err(failed)?;
        self.key_dir().map_or(Ok(()), convoke_files::sync_dir).map_err(failed)
    }

    /// The key to try when the hub has refused this one. An enrolment that ended too early, with a lost answer or a power
    /// cut, leaves the key that the hub has bound beside the one that it takes no more.
    pub(crate) fn key_after(&self, refused: &SigningKey) -> Option<SigningKey> {
        [self.next().key(), self.key()].into_iter().flatten().find(|key| key != refused)
    }

    /// The hub has let us in with this key. If it is the next one, that is its turn: an agent has one key at its hub, so
    /// the one before it is good for nothing there.
    pub(crate) fn let_in_with(&self, key: &SigningKey) -> Result<bool, StateError> {
        let is_next = self.next().key().is_ok_and(|next| next == *key);
        if is_next {
            self.take_next()?;
        }
        Ok(is_next)
    }

    /// Forgets a next key that was never taken.
    pub fn drop_next(&self) {
        let _ = fs::remove_file(self.next().key);
    }

    /// A new key, in place of the one that is there.
    pub fn new_key(&self) -> Result<SigningKey, StateError> {
        let mut seed = Zeroizing::new([0; 32]);
        let failed = |why| StateError::Io { doing: "make the key", path: self.key.clone(), why };
        getrandom::fill(seed.as_mut()).map_err(|why| failed(io::Error::other(why)))?;
        if self.bare_key {
            write_whole(&self.key, seed.as_ref())?;
        } else {
            let text = Zeroizing::new(format!("{}\n", wire_bytes::encode(seed.as_ref())));
            write_whole(&self.key, text.as_bytes())?;
        }
        Ok(SigningKey::from_bytes(&seed))
    }

    #[cfg(unix)]
    fn check_key_mode(&self) -> Result<(), StateError> {
        use std::os::unix::fs::PermissionsExt as _;
        // Absent is for the read to tell.
        let Ok(found) = fs::metadata(&self.key) else { return Ok(()) };
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 == 0 { Ok(()) } else { Err(StateError::OpenKey { path: self.key.clone(), mode }) }
    }

    #[cfg(windows)]
    fn check_key_mode(&self) -> Result<(), StateError> {
        // Absent is for the read to tell; where the system does not say who may read, its directory's list has to do.
        if !self.key.exists() {
            return Ok(());
        }
        match access::others_who_read(&self.key) {
            Some(who) if !who.is_empty() => {
                Err(StateError::SharedKey { path: self.key.clone(), who: who.join(", ") })
            }
            _ => Ok(()),
        }
    }

    #[cfg(not(any(unix, windows)))]
    fn check_key_mode(&self) -> Result<(), StateError> {
        Ok(())
    }
}

/// A path that stays the same wherever it is used.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// A file's bytes, up to a bound.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, StateError> {
    use io::Read as _;
    let failed = |why| StateError::Io { doing: "read", path: path.to_owned(), why };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

/// Writes a file for its owner alone, whole or not at all, and as durable as the disk allows.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    convoke_files::replace(path, bytes).map_err(|why| StateError::Io { doing: "write", path: path.to_owned(), why })
}

/// Whether this process may do everything.
#[cfg(unix)]
pub fn is_superuser() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether this process may do everything: as the system, or elevated.
#[cfg(windows)]
pub fn is_superuser() -> bool {
    access::is_elevated()
}

/// Whether this process may do everything. Who that is, is not known here.
#[cfg(not(any(unix, windows)))]
pub fn is_superuser() -> bool {
    false
}

fn user_data() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    if cfg!(target_os = "macos") {
        return Some(variable("HOME")?.join("Library/Application Support"));
    }
    variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("state"));
        state.create().expect("made");
        (dir, state)
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let (_dir, state) = state();
        let key = state.key_or_new().expect("made");
        assert_eq!(state.key_or_new().expect("read").to_bytes(), key.to_bytes());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
            assert_eq!((mode(state.path()), mode(&state.key)), (0o700, 0o600));
            fs::set_permissions(&state.key, fs::Permissions::from_mode(0o644)).expect("set");
            assert!(matches!(state.key(), Err(StateError::OpenKey { mode: 0o644, .. })));
        }
    }

    #[test]
    fn a_damaged_key_is_told_and_never_replaced() {
        let (_dir, state) = state();
        write_whole(&state.key, b"AAEC").expect("written");
        assert!(matches!(state.key_or_new(), Err(StateError::BadKey(_))));
        write_whole(&state.key, &[7; 32]).expect("written");
        assert_eq!(state.key().expect("raw bytes are a key, too").to_bytes(), [7; 32]);
    }

    #[test]
    fn a_key_in_the_original_agents_place_has_its_form() {
        let (dir, state) = state();
        let file = dir.path().join("kenny-agent.key");
        let state = state.with_key_file(&file);
        let key = state.key_or_new().expect("made");
        assert_eq!(fs::read(&file).expect("there"), key.to_bytes());
        assert_eq!(state.key_or_new().expect("read").to_bytes(), key.to_bytes());
    }

    #[test]
    fn only_one_agent_runs_with_a_state() {
        let (_dir, state) = state();
        let lock = state.lock().expect("the first");
        let why = state.lock().expect_err("the second");
        assert!(matches!(why, StateError::Locked(_)));
        drop(lock);
        state.lock().expect("it is free again");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let (_dir, state) = state();
        let path = state.config_file();
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("written");
        assert_eq!(read(&path).expect("there"), b"two");
    }
}
