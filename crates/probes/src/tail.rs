//! The ends of log files, inside the directories that are allowed.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::context::{last_lines, needed, number};
use crate::{Context, ProbeError};

/// How much of a file's end is looked at.
const MAX_READ: u64 = 1024 * 1024;

pub(crate) async fn system(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    tail(needed(params, "path")?, &cx.config.log_dirs, number(params, "lines", 50)).await
}

pub(crate) async fn nginx(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    tail(needed(params, "logPath")?, &cx.config.nginx_log_dirs, number(params, "lines", 100)).await
}

async fn tail(path: &str, allowed: &[PathBuf], count: u64) -> Result<Value, ProbeError> {
    let (owned, allowed) = (PathBuf::from(path), allowed.to_vec());
    // A file on a dead network mount can block.
    let read = tokio::task::spawn_blocking(move || read_end(&owned, &allowed)).await;
    let text = read.map_err(|_| ProbeError::Failed("reading the file panicked".into()))??;
    let (lines, truncated) = last_lines(text.lines(), count);
    let mut result = json!({ "logPath": path, "lineCount": lines.len(), "lines": lines });
    if truncated {
        result["truncated"] = true.into();
    }
    Ok(result)
}

fn read_end(path: &Path, allowed: &[PathBuf]) -> Result<String, ProbeError> {
    let failed = |why: &dyn std::fmt::Display| ProbeError::Failed(format!("{}: {why}", path.display()));
    let inside = |real: &Path| allowed.iter().any(|dir| dir.canonicalize().is_ok_and(|dir| real.starts_with(&dir)));
    let forbidden = || {
        let dirs: Vec<String> = allowed.iter().map(|d| d.display().to_string()).collect();
        ProbeError::Forbidden(format!("{} is not inside {}", path.display(), dirs.join(" or ")))
    };
    // Before opening, so that nothing outside is ever opened; an absent file outside is not told from a present one.
    let real = path.canonicalize().map_err(|why| {
        let parent = path.parent().and_then(|p| p.canonicalize().ok());
        if parent.is_some_and(|parent| inside(&parent)) { failed(&why) } else { forbidden() }
    })?;
    if !inside(&real) {
        return Err(forbidden());
    }
    let mut file = open(&real).map_err(|why| failed(&why))?;
    // And after it: a link that was put in its place in between leads elsewhere.
    if real_path(&file).is_some_and(|opened| !inside(&opened)) {
        return Err(forbidden());
    }
    let metadata = file.metadata().map_err(|why| failed(&why))?;
    if !metadata.is_file() {
        return Err(failed(&"it is not a regular file"));
    }
    let from = metadata.len().saturating_sub(MAX_READ);
    file.seek(SeekFrom::Start(from)).map_err(|why| failed(&why))?;
    let mut bytes = Vec::new();
    file.take(MAX_READ).read_to_end(&mut bytes).map_err(|why| failed(&why))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line is whole only where the file begins.
    Ok(match text.split_once('\n') {
        Some((_, whole)) if from > 0 => whole.to_owned(),
        _ => text,
    })
}

#[cfg(target_os = "linux")]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    /// `O_NONBLOCK`: opening a pipe that nobody writes to must not wait.
    const NONBLOCK: i32 = 0o4000;
    File::options().read(true).custom_flags(NONBLOCK).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

#[cfg(target_os = "linux")]
fn real_path(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn real_path(_: &File) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path, allowed: &Path) -> Result<String, ProbeError> {
        read_end(path, &[allowed.to_owned()])
    }

    #[test]
    fn links_lead_nowhere_outside() {
        let home = tempfile::tempdir().expect("a directory");
        let (logs, secret) = (home.path().join("logs"), home.path().join("secret"));
        std::fs::create_dir(&logs).expect("makes");
        std::fs::write(&secret, "hunter2").expect("writes");
        std::fs::write(logs.join("good.log"), "a\nb\n").expect("writes");
        std::os::unix::fs::symlink(&secret, logs.join("link.log")).expect("links");
        std::os::unix::fs::symlink(home.path(), logs.join("up")).expect("links");
        std::os::unix::fs::symlink(logs.join("good.log"), logs.join("inner.log")).expect("links");
        assert_eq!(check(&logs.join("good.log"), &logs).expect("allowed"), "a\nb\n");
        assert_eq!(check(&logs.join("inner.log"), &logs).expect("a link inside"), "a\nb\n");
        for bad in [
            secret.clone(),
            logs.join("link.log"),
            logs.join("up/secret"),
            logs.join("../secret"),
            home.path().join("gone"),
            "/etc/shadow".into(),
        ] {
            assert!(matches!(check(&bad, &logs), Err(ProbeError::Forbidden(_))), "{}", bad.display());
        }
        assert!(matches!(check(&logs.join("gone.log"), &logs), Err(ProbeError::Failed(_))));
        assert!(matches!(check(&logs, &logs), Err(ProbeError::Failed(_))), "a directory");
        let sibling = home.path().join("logs-other");
        std::fs::write(&sibling, "x").expect("writes");
        assert!(matches!(check(&sibling, &logs), Err(ProbeError::Forbidden(_))), "a name that only begins alike");
    }

    #[test]
    fn only_the_end_of_a_large_file_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("big.log");
        let line = format!("{}\n", "x".repeat(99));
        std::fs::write(&path, line.repeat(30_000)).expect("writes");
        let text = check(&path, dir.path()).expect("reads");
        assert!(text.len() as u64 <= MAX_READ && text.lines().all(|l| l.len() == 99));
    }
}
