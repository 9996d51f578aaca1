//! Where session files are: one folder per workspace, as clients compute it themselves.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::load::load_file;
use crate::environment::shown;
use crate::files::Lock;

/// The folder of a workspace's sessions.
pub(crate) fn of_workspace(sessions: &Path, workspace: &Path) -> PathBuf {
    let path = shown(workspace);
    let name = path.strip_prefix('/').unwrap_or(&path);
    let safe: String = name.chars().map(|c| if matches!(c, '/' | '\\' | ':') { '-' } else { c }).collect();
    sessions.join(format!("--{safe}--"))
}

/// The name of a new session's file.
pub(crate) fn file_name(created: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", created.replace(':', "-"))
}

/// Removes a file that nobody has used and nobody has open, here or in another process. Says whether it did.
pub(crate) fn remove_if_unused(path: &Path) -> io::Result<bool> {
    let Some(dir) = path.parent() else { return Ok(false) };
    let _lock = Lock::of_dir(dir)?;
    let Ok(file) = File::open(path) else { return Ok(false) };
    if file.try_lock().is_err() {
        return Ok(false);
    }
    match load_file(path)? {
        Some(loaded) if !loaded.is_used && loaded.name.is_none() => fs::remove_file(path).map(|()| true),
        _ => Ok(false),
    }
}

/// Removes a file because somebody asked for it.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    let Some(dir) = path.parent() else { return Ok(false) };
    let _lock = Lock::of_dir(dir)?;
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The newest session file of a folder.
pub(crate) fn newest(dir: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(dir).ok()?.flatten();
    let sessions = files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
    sessions.filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path))).max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::file::SessionFile;
    use super::super::record::Header;
    use super::*;

    #[test]
    fn the_folder_is_the_one_that_clients_compute() {
        let dir = of_workspace(Path::new("/c/sessions"), Path::new("/srv/my project/a:b"));
        assert_eq!(dir, Path::new("/c/sessions/--srv-my project-a-b--"));
        assert_eq!(file_name("2026-01-02T03:04:05.678Z", "u"), "2026-01-02T03-04-05.678Z_u.jsonl");
    }

    #[test]
    fn only_what_nobody_has_open_is_cleaned_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let header = Header { kind: "session", version: 1, id: "u".into(), cwd: "/w".into(), ..Header::default() };
        let open = SessionFile::create(&path, &header, Arc::default()).unwrap();
        assert!(!remove_if_unused(&path).unwrap(), "it is open");
        drop(open);
        assert!(remove_if_unused(&path).unwrap());
        assert!(!remove_if_unused(&path).unwrap(), "it is gone");
        let mut used = SessionFile::create(&path, &header, Arc::default()).unwrap();
        used.append(b"{\"type\":\"session_info\",\"name\":\"n\"}\n").unwrap();
        drop(used);
        assert!(!remove_if_unused(&path).unwrap(), "it has a name");
    }
}
