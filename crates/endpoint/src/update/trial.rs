//! A version on trial: it counts only once it has come back to the hub.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Supervision;
use crate::state::{StateDir, StateError, read, write_whole};

/// Starts that a version on trial may need. One more means that it dies before it can be judged.
const MAX_STARTS: u32 = 3;

/// What must be known across the restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: String,
    program: PathBuf,
    previous: PathBuf,
    trial_s: u64,
    /// Starts that the version itself has counted.
    starts: u32,
    /// Starts that the previous version has counted, before the new one was run.
    attempts: u32,
    /// The previous version is back; only the telling is left.
    rolled_back: bool,
}

/// What the start of an agent finds.
#[derive(Debug)]
pub enum Settled {
    /// No update under way.
    Nothing,
    /// This is a version on trial.
    OnTrial(Trial),
    /// It was one time too many: the previous version is in place, and this process should make way for it.
    RolledBack,
}

/// A version on trial.
#[derive(Debug)]
pub struct Trial {
    record: Record,
    state: StateDir,
    deadline: Instant,
}

impl Record {
    pub(super) fn new(version: String, program: PathBuf, previous: PathBuf, trial_s: u64) -> Self {
        Self { version, program, previous, trial_s, starts: 0, attempts: 0, rolled_back: false }
    }

    fn read(state: &StateDir) -> Option<Self> {
        serde_json::from_slice(&read(&state.update_file()).ok()?).ok()
    }

    pub(super) fn write(&self, state: &StateDir) -> Result<(), StateError> {
        let bytes = serde_json::to_vec(self).expect("texts and numbers always serialise");
        write_whole(&state.update_file(), &bytes)
    }

    pub(super) fn remove(state: &StateDir) {
        let _ = fs::remove_file(state.update_file());
    }

    /// Puts the previous version back.
    fn undo(mut self, state: &StateDir) -> bool {
        match put_back(&self.previous, &self.program) {
            Ok(()) => {
                tracing::error!(
                    version = self.version,
                    "the update did not reconnect; restored the previous version"
                );
                self.rolled_back = true;
                if self.write(state).is_err() {
                    // Better not told than tried for ever.
                    Self::remove(state);
                }
                true
            }
            Err(why) => {
                tracing::error!(
                    version = self.version, %why,
                    "the update did not reconnect, and the previous version cannot be restored; keeping this one"
                );
                Self::remove(state);
                false
            }
        }
    }
}

fn put_back(previous: &Path, program: &Path) -> std::io::Result<()> {
    // A running program cannot be replaced on Windows, only renamed.
    if cfg!(windows) {
        let _ = fs::rename(program, super::stage::beside(program, "failed"));
    }
    fs::rename(previous, program)?;
    // Put back it is; a failed sync only costs what a power cut may undo.
    let _ = program.parent().map(convoke_files::sync_dir);
    Ok(())
}

/// Looks, at the start of an agent, whether an update is under way. The very first thing it does, so that a version that
/// dies soon is still counted.
pub fn settle(state: &StateDir, supervision: &Supervision) -> Settled {
    let Some(mut record) = Record::read(state) else {
        // Torn or never written: a leftover must not block the next update.
        if state.update_file().exists() {
            tracing::warn!("cannot read the record of an update; removing it");
            Record::remove(state);
        }
        return Settled::Nothing;
    };
    if record.rolled_back {
        tracing::error!(version = record.version, "undid an update that did not reconnect");
        Record::remove(state);
        return Settled::Nothing;
    }
    if !supervision.is_service() {
        return Settled::Nothing;
    }
    record.starts += 1;
    if record.starts > MAX_STARTS {
        return if record.undo(state) { Settled::RolledBack } else { Settled::Nothing };
    }
    if let Err(why) = record.write(state) {
        tracing::warn!(%why, "cannot count the start of a version on trial");
    }
    tracing::warn!(
        version = record.version,
        start = record.starts,
        "this version is on trial until it has authenticated at the hub"
    );
    let deadline = Instant::now() + Duration::from_secs(record.trial_s);
    Settled::OnTrial(Trial { record, state: state.clone(), deadline })
}

/// What the previous version does before the new one is started, where a service manager can be told to run it first: a
/// count by a program that is known to work, for a new one that cannot even begin. True when it put itself back.
pub fn recover(state: &StateDir) -> bool {
    let Some(mut record) = Record::read(state).filter(|record| !record.rolled_back) else { return false };
    record.attempts += 1;
    // One more than the new version allows itself, so that it comes first where it can.
    if record.attempts > MAX_STARTS + 1 {
        return record.undo(state);
    }
    // Not counted: then the next start is.
    let _ = record.write(state);
    false
}

impl Trial {
    /// By when it must have come back.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The hub has let it in.
    pub(crate) fn succeed(self) {
        tracing::warn!(version = self.record.version, "the update has authenticated at the hub; keeping it");
        Record::remove(&self.state);
        // On Windows the file may still be in use; the next update replaces it.
        let _ = fs::remove_file(&self.record.previous);
    }

    /// It has had its time.
    pub(crate) fn roll_back(self) {
        self.record.undo(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> (tempfile::TempDir, StateDir, Supervision) {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("state"));
        state.create().expect("made");
        let (program, previous) = (dir.path().join("convoke"), dir.path().join("convoke.previous"));
        fs::write(&program, "new").expect("written");
        fs::write(&previous, "old").expect("written");
        Record::new("2.0".into(), program.clone(), previous, 60).write(&state).expect("recorded");
        (dir, state, Supervision::Service { program })
    }

    fn program(supervision: &Supervision) -> String {
        let Supervision::Service { program } = supervision else { panic!("a service") };
        fs::read_to_string(program).expect("there")
    }

    #[tokio::test]
    async fn a_version_that_comes_back_stays() {
        let (dir, state, service) = stage();
        let Settled::OnTrial(trial) = settle(&state, &service) else { panic!("on trial") };
        trial.succeed();
        assert!(matches!(settle(&state, &service), Settled::Nothing));
        assert_eq!(program(&service), "new");
        assert!(!dir.path().join("convoke.previous").exists());
    }

    #[tokio::test]
    async fn a_version_that_does_not_is_undone_and_that_is_told_once() {
        let (_dir, state, service) = stage();
        let Settled::OnTrial(trial) = settle(&state, &service) else { panic!("on trial") };
        trial.roll_back();
        assert_eq!(program(&service), "old");
        assert!(matches!(settle(&state, &service), Settled::Nothing));
        assert!(!state.update_file().exists());
    }

    #[tokio::test]
    async fn a_version_that_dies_again_and_again_is_undone() {
        let (_dir, state, service) = stage();
        for _ in 0..MAX_STARTS {
            assert!(matches!(settle(&state, &service), Settled::OnTrial(_)));
        }
        assert!(matches!(settle(&state, &service), Settled::RolledBack));
        assert_eq!(program(&service), "old");
    }

    #[tokio::test]
    async fn a_version_that_cannot_even_begin_is_undone_by_the_previous_one() {
        let (_dir, state, service) = stage();
        for _ in 0..=MAX_STARTS {
            assert!(!recover(&state));
        }
        assert!(recover(&state));
        assert_eq!(program(&service), "old");
        assert!(!recover(&state));
    }

    #[tokio::test]
    async fn a_torn_record_blocks_nothing() {
        let (_dir, state, service) = stage();
        fs::write(state.update_file(), "{\"version\":").expect("written");
        assert!(matches!(settle(&state, &service), Settled::Nothing));
        assert!(!state.update_file().exists());
        assert_eq!(program(&service), "new");
    }

    #[tokio::test]
    async fn a_plain_run_is_not_on_trial() {
        let (_dir, state, _) = stage();
        assert!(matches!(settle(&state, &Supervision::None), Settled::Nothing));
        assert!(state.update_file().exists());
    }
}
