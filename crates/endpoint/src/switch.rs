//! The kill switch: whether this machine may be changed from afar. Whoever has rights on the state directory decides, and
//! nobody on the wire can.
//!
//! The file is the original agent's: `{"remote_control_enabled": bool}`. It is read before every call that changes
//! something, so a change holds for the very next one. No file means on. A file that cannot be read or understood means
//! off: a switch that somebody has touched and broken must not fail open.

use std::io;
use std::path::{Path, PathBuf};

use convoke_kenny::frame::RemoteControl;
use serde::{Deserialize, Serialize};

use crate::state::{StateError, read, write_whole};

#[derive(Serialize, Deserialize)]
struct Contents {
    remote_control_enabled: bool,
}

/// The switch of one agent.
#[derive(Clone, Debug)]
pub struct Switch {
    path: PathBuf,
}

impl Switch {
    /// The switch in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// How it stands now.
    pub fn read(&self) -> RemoteControl {
        match read(&self.path) {
            Ok(bytes) => match serde_json::from_slice::<Contents>(&bytes) {
                Ok(Contents { remote_control_enabled: true }) => RemoteControl::Enabled,
                Ok(Contents { remote_control_enabled: false }) | Err(_) => RemoteControl::Disabled,
            },
            Err(StateError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => RemoteControl::Enabled,
            Err(_) => RemoteControl::Disabled,
        }
    }

    /// Sets it. It stays so across restarts.
    pub fn set(&self, to: RemoteControl) -> Result<(), StateError> {
        let contents = Contents { remote_control_enabled: to.is_enabled() };
        let bytes = serde_json::to_vec(&contents).expect("a flag always serialises");
        write_whole(&self.path, &bytes)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_until_switched_off_and_off_when_in_doubt() {
        let dir = tempfile::tempdir().expect("a directory");
        let switch = Switch::new(dir.path().join("control.json"));
        assert!(switch.read().is_enabled(), "no file");
        switch.set(RemoteControl::Disabled).expect("set");
        assert!(!switch.read().is_enabled());
        switch.set(RemoteControl::Enabled).expect("set");
        assert!(switch.read().is_enabled());
        for torn in ["", "{", "{}", r#"{"remote_control_enabled":"yes"}"#] {
            std::fs::write(switch.path(), torn).expect("written");
            assert!(!switch.read().is_enabled(), "{torn:?}");
        }
        std::fs::write(switch.path(), r#"{"remote_control_enabled": true, "who": "tray"}"#).expect("written");
        assert!(switch.read().is_enabled(), "further keys are the tray's business");
    }

    #[test]
    fn what_is_no_file_is_off() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(!Switch::new(dir.path()).read().is_enabled());
    }
}
