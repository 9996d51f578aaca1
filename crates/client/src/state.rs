//! What a client keeps (contract, 10.2): its identifier, its private key, its secret, and when it last paired and proved
//! itself. One file, readable by its owner only, replaced whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_yonexus::client::Identity;
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::clock;

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read or written.
    #[error("cannot {what} {}: {why}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// It is not what we wrote.
    #[error("{} is not a client's state file: {why}", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it. Never its content.
        why: String,
    },
    /// Others can read it.
    #[error("others can read {}, so its secret may be known; run `chmod 600` on it, and pair again", .0.display())]
    Exposed(PathBuf),
    /// Another process is this client.
    #[error(
        "another process is using {}; two connections of one client would replace each other",
        .0.display()
    )]
    InUse(PathBuf),
}

/// A state file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    kept: Kept,
    /// Held where this process took the client before it looked at the file.
    held: Option<Lock>,
    /// Whether there was no file before.
    made: bool,
}

/// What is in it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Kept {
    /// The file's version.
    version: u32,
    /// Who.
    pub identifier: String,
    /// The hub's address, as it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<String>,
    /// The seed of the private key, base64.
    private_key: Hidden,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Hidden>,
    /// When it was paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired_at: Option<Timestamp>,
    /// When it last proved itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_auth: Option<Timestamp>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("identifier", &self.identifier).finish_non_exhaustive()
    }
}

/// A secret in the file: written and read, never printed.
#[derive(Clone)]
struct Hidden(SecretText);

impl Serialize for Hidden {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.reveal())
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(SecretText::new(text)))
    }
}

/// Where a running client stands: beside the state file, for whoever looks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The contract's name of the state.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// The process.
    pub pid: u32,
    /// How far this machine's clock is ahead of the hub's, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_s: Option<i64>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Held while a process is this client.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

impl StateFile {
    /// Opens a state file that is there.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let text = fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|why| StateError::Io { what: "read", path: path.into(), why })?;
        check_private(path)?;
        // serde's own text may quote what it did not expect, and that may be the secret.
        let damaged = |why: &str| StateError::Damaged { path: path.into(), why: why.into() };
        let kept: Kept = serde_json::from_str(&text).map_err(|_| damaged("it is not readable"))?;
        if kept.version != 1 {
            return Err(damaged("it was written by a newer version"));
        }
        let state = Self { path: path.into(), kept, held: None, made: false };
        state.key().ok_or_else(|| damaged("its private key is malformed"))?;
        Ok(state)
    }

    /// Opens a state file, or makes one with a fresh key. It is on disk when this answers: a pairing is bound to the
    /// key that it began with.
    pub fn open_or_make(path: &Path, identifier: &str) -> Result<Self, StateError> {
        match Self::open(path) {
            Err(StateError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let state = opened?;
                if state.kept.identifier != identifier {
                    let why = format!("it belongs to `{}`", state.kept.identifier);
                    return Err(StateError::Damaged { path: path.into(), why });
                }
                return Ok(state);
            }
        }
        let seed = Zeroizing::new(clock::random::<32>());
        let kept = Kept {
            version: 1,
            identifier: identifier.into(),
            hub: None,
            private_key: Hidden(SecretText::new(STANDARD.encode(*seed))),
            secret: None,
            paired_at: None,
            last_auth: None,
        };
        let state = Self { path: path.into(), kept, held: None, made: true };
        state.save()?;
        Ok(state)
    }

    /// Takes this client for this process, and then opens its state file or makes one: nothing is made or read while
    /// another process is this client. A file that was made goes away again if the client ends with no pairing, and
    /// none under way.
    pub fn claim(path: &Path, identifier: &str) -> Result<Self, StateError> {
        let folder = folder(path);
        convoke_files::private_dir(folder).map_err(|why| StateError::Io {
            what: "make",
            path: folder.into(),
            why,
        })?;
        let held = lock(path)?;
        Ok(Self { held: Some(held), ..Self::open_or_make(path, identifier)? })
    }

    /// What is in it.
    pub const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a secret.
    pub const fn is_paired(&self) -> bool {
        self.kept.secret.is_some()
    }

    /// Who this client is.
    pub fn identity(&self) -> Identity {
        let key = self.key().expect("checked when it was opened, and nothing else sets it");
        let secret = self.kept.secret.as_ref().map(|hidden| hidden.0.clone());
        Identity { identifier: self.kept.identifier.clone(), key, secret }
    }

    fn key(&self) -> Option<SigningKey> {
        let bytes = Zeroizing::new(STANDARD.decode(self.kept.private_key.0.reveal()).ok()?);
        let seed = Zeroizing::new(<[u8; 32]>::try_from(bytes.as_slice()).ok()?);
        Some(SigningKey::from_bytes(&seed))
    }

    /// Remembers the hub.
    pub fn set_hub(&mut self, hub: &str) -> Result<(), StateError> {
        if self.kept.hub.as_deref() == Some(hub) {
            return Ok(());
        }
        self.kept.hub = Some(hub.into());
        self.save()
    }

    /// Keeps a new secret, and whose it is: from here on an earlier pairing is over.
    pub fn paired(&mut self, hub: &str, secret: &SecretText, at: Timestamp) -> Result<(), StateError> {
        self.kept.hub = Some(hub.into());
        self.kept.secret = Some(Hidden(secret.clone()));
        self.kept.paired_at = Some(at);
        self.save()
    }

    /// A hub says that the secret is of no use any more. It has no say over one that another hub gave.
    pub fn unpaired(&mut self, by: &str) -> Result<(), StateError> {
        if self.kept.hub.as_ref().is_some_and(|hub| hub != by) || self.kept.secret.take().is_none() {
            return Ok(());
        }
        self.save()
    }

    /// The client has proved itself.
    pub fn authenticated(&mut self, at: Timestamp) -> Result<(), StateError> {
        self.kept.last_auth = Some(at);
        self.save()
    }

    /// Takes this client for this process.
    pub fn lock(&self) -> Result<Lock, StateError> {
        lock(&self.path)
    }

    /// The lock of this process, and the state as it is now that nobody else can change it.
    pub(crate) fn locked(mut self) -> Result<(Self, Lock), StateError> {
        match self.held.take() {
            Some(held) => Ok((self, held)),
            None => {
                let held = self.lock()?;
                Ok((Self::open(&self.path)?, held))
            }
        }
    }

    /// Takes a file away that was made for a pairing that did not come about.
    pub(crate) fn unmake(&self) {
        if !self.made {
            return;
        }
        // The lock stays: without it two could each hold one.
        for path in [&self.path, &beside(&self.path, "status")] {
            let _ = fs::remove_file(path);
        }
    }

    /// Whether a process is this client now.
    pub fn is_in_use(&self) -> bool {
        matches!(self.lock(), Err(StateError::InUse(_)))
    }

    /// Where the running client stands, or stood.
    pub fn status(&self) -> Option<Status> {
        serde_json::from_str(&fs::read_to_string(beside(&self.path, "status")).ok()?).ok()
    }

    /// Tells whoever looks where this client stands.
    pub(crate) fn set_status(&self, status: &Status) {
        // Nobody depends on it: a disk that is full must not end the connection.
        let text = serde_json::to_string(status).unwrap_or_default();
        let _ = replace(&beside(&self.path, "status"), text.as_bytes());
    }

    fn save(&self) -> Result<(), StateError> {
        let text = Zeroizing::new(serde_json::to_string_pretty(&self.kept).unwrap_or_default());
        replace(&self.path, text.as_bytes()).map_err(|why| StateError::Io {
            what: "write",
            path: self.path.clone(),
            why,
        })
    }
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(what);
    path.with_file_name(name)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn lock(state: &Path) -> Result<Lock, StateError> {
    let path = beside(state, "lock");
    let wrong = |why| StateError::Io { what: "open", path: path.clone(), why };
    let file = private(OpenOptions::new().create(true).write(true).truncate(false)).open(&path).map_err(wrong)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(fs::TryLockError::WouldBlock) => Err(StateError::InUse(state.into())),
        Err(fs::TryLockError::Error(why)) => Err(StateError::Io { what: "lock", path, why }),
    }
}

/// Writes a file whole, or not at all.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    convoke_files::private_dir(folder(path))?;
    convoke_files::replace(path, bytes)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn check_private(path: &Path) -> Result<(), StateError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).map(|m| m.permissions().mode()).unwrap_or(0);
    if mode & 0o077 == 0 { Ok(()) } else { Err(StateError::Exposed(path.into())) }
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), StateError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_and_does_not_print() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep/er/client-a.json");
        let mut state = StateFile::open_or_make(&path, "client-a").expect("makes");
        assert!(!state.is_paired());
        state.paired("ws://h/yonexus", &SecretText::new("hunter2"), clock::wall()).expect("keeps");
        let again = StateFile::open(&path).expect("opens");
        assert_eq!(again.identity().secret.expect("there").reveal(), "hunter2");
        assert_eq!(again.identity().key, state.identity().key);
        assert!(!format!("{again:?}").contains("hunter2"));
        assert!(matches!(StateFile::open_or_make(&path, "other"), Err(StateError::Damaged { .. })));
        state.unpaired("ws://another/yonexus").expect("keeps");
        assert!(StateFile::open(&path).expect("opens").is_paired(), "another hub has no say");
        state.unpaired("ws://h/yonexus").expect("keeps");
        assert!(!StateFile::open(&path).expect("opens").is_paired());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it_and_a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("client-a.json");
        StateFile::open_or_make(&path, "client-a").expect("makes");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("sets");
        assert!(matches!(StateFile::open(&path), Err(StateError::Exposed(_))));
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateFile::open_or_make(&dir.path().join("a.json"), "a").expect("makes");
        let lock = state.lock().expect("free");
        assert!(matches!(state.lock(), Err(StateError::InUse(_))));
        assert!(state.is_in_use());
        drop(lock);
        assert!(!state.is_in_use());
    }

    #[test]
    fn what_is_no_state_is_told_without_being_quoted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.json");
        for text in ["", "{}", r#"{"version":1,"identifier":"a","private_key":"short"}"#, r#"["hunter2"]"#] {
            replace(&path, text.as_bytes()).expect("writes");
            let error = StateFile::open(&path).expect_err(text).to_string();
            assert!(!error.contains("hunter2") && error.contains("not a client's state file"), "{error}");
        }
    }
}
