//! Where session files are: one folder per workspace. Clients compute the same path.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::load::load_file;
use super::record::{Header, VERSION};
use crate::clock;
use crate::environment::shown;
use crate::files::{self, Lock};

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

/// The time and id in the name of a session file.
pub(crate) fn header_of_name(path: &Path) -> Option<Header> {
    let (time, id) = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.split_once('_')?;
    let fits = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.chars().zip(shape.chars()).all(|(c, wanted)| match wanted {
                '0' => c.is_ascii_digit(),
                'x' => c.is_ascii_hexdigit(),
                wanted => c == wanted,
            })
    };
    if !fits(time, "0000-00-00T00-00-00.000Z") || !fits(id, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
        return None;
    }
    let (date, clock) = time.split_once('T')?;
    let timestamp = format!("{date}T{}", clock.replace('-', ":"));
    Some(Header { kind: "session", version: VERSION, id: id.to_owned(), timestamp, ..Header::default() })
}

/// The pointer to the session that was last opened in a workspace, as Kward keeps it.
#[derive(Serialize, Deserialize)]
struct LastSession {
    path: String,
    #[serde(default)]
    timestamp: String,
}

const LAST_SESSION: &str = "last_session.json";

/// Notes which session of a folder was opened last. A failure is ignored: nothing depends on it.
pub(crate) fn remember_last(dir: &Path, path: &Path) {
    let last = LastSession { path: shown(path), timestamp: clock::now_text() };
    if noted_last(dir).is_some_and(|noted| noted.path == last.path) {
        return;
    }
    if let Ok(mut bytes) = serde_json::to_vec_pretty(&last) {
        bytes.push(b'\n');
        let _ = files::replace_private(&dir.join(LAST_SESSION), &bytes);
    }
}

/// The session that was last opened in a workspace, here or by Kward; if unknown, the newest.
pub(crate) fn last(dir: &Path) -> Option<PathBuf> {
    let noted = noted_last(dir).map(|last| PathBuf::from(last.path));
    noted.filter(|path| path.is_file()).or_else(|| newest(dir))
}

fn noted_last(dir: &Path) -> Option<LastSession> {
    serde_json::from_str(&files::read_text_up_to(&dir.join(LAST_SESSION), 64 * 1024)?).ok()
}

/// Removes a file that is unused and not open in any process. Returns whether it did.
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

/// Removes a file on request.
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
fn newest(dir: &Path) -> Option<PathBuf> {
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
    fn a_files_name_tells_its_sessions_id_and_time() {
        let id = "0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d";
        let path = Path::new("/c").join(file_name("2026-01-02T03:04:05.678Z", id));
        let header = header_of_name(&path).unwrap();
        assert_eq!((header.id.as_str(), header.timestamp.as_str()), (id, "2026-01-02T03:04:05.678Z"));
        for other in
            ["notes.jsonl", "2026-01-02T03-04-05.678Z_x.jsonl", "x_0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d.jsonl"]
        {
            assert!(header_of_name(&Path::new("/c").join(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn the_last_session_is_the_one_that_was_opened_last() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(last(dir.path()), None);
        let (one, two) = (dir.path().join("1.jsonl"), dir.path().join("2.jsonl"));
        fs::write(&one, "").unwrap();
        assert_eq!(last(dir.path()), Some(one.clone()));
        fs::write(&two, "").unwrap();
        remember_last(dir.path(), &one);
        assert_eq!(last(dir.path()), Some(one.clone()));
        let kwards = format!(
            "{{\n  \"path\": {:?},\n  \"timestamp\": \"2026-01-02T03:04:05.678Z\"\n}}\n",
            two.display().to_string()
        );
        fs::write(dir.path().join(LAST_SESSION), kwards).unwrap();
        assert_eq!(last(dir.path()), Some(two.clone()));
        fs::remove_file(&two).unwrap();
        assert_eq!(last(dir.path()), Some(one));
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
