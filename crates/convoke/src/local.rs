//! The hub on this machine, as its data directory tells: where it listens, and the first operator's token.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_hub::OPERATOR_TOKEN_SECRET;
use convoke_store::Paths;
use serde::{Deserialize, Serialize};

use crate::commands::config;
use crate::exit::usage;

/// The data directory: as named, else as the environment says, else the platform's.
pub(crate) fn data_dir(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = named {
        return Ok(dir.to_owned());
    }
    if let Some(dir) = std::env::var_os("CONVOKE_DATA").filter(|dir| !dir.is_empty()) {
        return Ok(dir.into());
    }
    let base = dirs::data_local_dir();
    base.map(|base| base.join("convoke"))
        .ok_or_else(|| usage("this account has no default data directory; name one with --data"))
}

/// The data key, where the environment has it and not the data directory.
pub(crate) fn data_key() -> Result<Option<SecretBytes>> {
    let text = std::env::var("CONVOKE_DATA_KEY").ok().filter(|text| !text.is_empty()).map(SecretText::new);
    text.map(|text| convoke_store::keys::parse(&text).map_err(|why| usage(why.to_string()))).transpose()
}

/// Runs what waits for a server on a thread where that is allowed: a verb may be on a runtime's.
pub(crate) fn blocking<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// The first operator's token. Who may read the data directory and its key may act as its owner.
pub(crate) fn operator_token(data: &Path) -> Result<SecretText> {
    let (store, key) = (config::store(data), data_key()?);
    let sealed = blocking(|| convoke_store::peek_secret(store, OPERATOR_TOKEN_SECRET, key.as_ref()))?;
    let sealed = sealed.context("the data directory has no operator token yet")?;
    let text = String::from_utf8(sealed.reveal().to_vec()).context("the operator token is not text")?;
    Ok(SecretText::new(text))
}

/// Where a running hub is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Whereabouts {
    /// Its address, as seen from this machine.
    pub(crate) http: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Its public key, where its certificate is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) public_key: Option<String>,
}

impl Whereabouts {
    /// What the data directory says; nothing when no hub runs there.
    pub(crate) fn read(data: &Path) -> Result<Option<Self>> {
        let path = Paths::new(data).whereabouts;
        let (text, file) = match fs::read_to_string(&path).and_then(|text| Ok((text, fs::metadata(&path)?))) {
            Ok(found) => found,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
        };
        let here: Self =
            serde_json::from_str(&text).with_context(|| format!("{} was not written by a hub", path.display()))?;
        // Another that holds the directory has not announced itself yet, and this is what the one before it left.
        let is_its = |holder: convoke_store::Holder| holder.pid.is_none_or(|pid| pid == here.pid);
        Ok((convoke_store::holder(data).is_some_and(is_its) && here.still_runs(&file)).then_some(here))
    }

    /// Whether the process that wrote `file` still runs, as far as its id tells. A hub that was killed leaves it behind, and
    /// whoever takes its port next must not be sent the operator's token. Its id may be another process's by now, so a hub
    /// must hold the directory as well.
    #[cfg(target_os = "linux")]
    fn still_runs(&self, file: &fs::Metadata) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        match fs::metadata(format!("/proc/{}", self.pid)) {
            Ok(process) => process.uid() == file.uid(),
            Err(_) => !Path::new("/proc/self").exists(),
        }
    }

    /// Elsewhere there is no way to tell without a library.
    #[cfg(not(target_os = "linux"))]
    fn still_runs(&self, _: &fs::Metadata) -> bool {
        true
    }

    /// Announces a hub that is ready. Whole or not at all: a command that starts at this moment reads no half of it.
    pub(crate) fn announce(&self, data: &Path) -> Result<Announced> {
        let path = Paths::new(data).whereabouts;
        let text = serde_json::to_vec(self)?;
        convoke_files::replace(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Announced { path })
    }
}

/// A hub that is announced; withdrawn when dropped.
#[derive(Debug)]
pub(crate) struct Announced {
    path: PathBuf,
}

impl Drop for Announced {
    fn drop(&mut self) {
        // Gone already, or not ours to remove: either way nobody is misled for long.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_is_found_while_it_is_announced() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Whereabouts::read(dir.path()).expect("readable"), None);
        let here = Whereabouts { http: "http://127.0.0.1:1".into(), pid: std::process::id(), public_key: None };
        let announced = here.announce(dir.path()).expect("announced");
        assert_eq!(Whereabouts::read(dir.path()).expect("readable"), None, "nobody holds the directory");
        let held = fs::File::create(Paths::new(dir.path()).lock).expect("a file");
        assert_eq!(Whereabouts::read(dir.path()).expect("readable"), None, "a file is no lock");
        held.lock().expect("held");
        assert_eq!(Whereabouts::read(dir.path()).expect("readable").as_ref(), Some(&here));
        let lock = Paths::new(dir.path()).lock;
        for (pid, found) in [(here.pid + 1, None), (here.pid, Some(here))] {
            fs::write(&lock, format!("{pid}\n")).expect("written");
            assert_eq!(Whereabouts::read(dir.path()).expect("readable"), found, "held by {pid}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(Paths::new(dir.path()).whereabouts).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        drop(announced);
        assert_eq!(Whereabouts::read(dir.path()).expect("readable"), None);
    }

    #[test]
    fn the_named_directory_comes_first() {
        assert_eq!(data_dir(Some(Path::new("here"))).expect("named"), PathBuf::from("here"));
    }
}
