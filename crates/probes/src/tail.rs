//! The ends of log files, inside the directories that are allowed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_machine::open::{self, OpenError, Refused, Rules, Shows};
use serde_json::{Map, Value, json};

use crate::context::{last_lines, needed, number};
use crate::{Context, ProbeError};

/// How much of a file's end is looked at.
const MAX_READ: u64 = 1024 * 1024;

pub(crate) async fn system(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    tail(cx, needed(params, "path")?, &cx.config.log_dirs, number(params, "lines", 50)).await
}

pub(crate) async fn nginx(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    tail(cx, needed(params, "logPath")?, &cx.config.nginx_log_dirs, number(params, "lines", 100)).await
}

async fn tail(cx: &Context<'_>, path: &str, allowed: &[PathBuf], count: u64) -> Result<Value, ProbeError> {
    let (owned, inside) = (PathBuf::from(path), Inside::new(path, allowed, cx.rules()));
    // A file on a dead network mount can block.
    let read = tokio::task::spawn_blocking(move || read_end(&owned, &inside)).await;
    let end = read.map_err(|_| ProbeError::Failed("reading the file panicked".into()))??;
    let (lines, truncated) = last_lines(end.text.lines(), count);
    let mut result = json!({ "logPath": path, "lineCount": lines.len(), "lines": lines });
    if truncated || end.is_part_of_a_line {
        result["truncated"] = true.into();
    }
    Ok(result)
}

/// The directories below which a log may be read: of those that are allowed the ones that its name is in, so that a link
/// leads from none into another.
#[derive(Debug)]
struct Inside {
    dirs: Vec<PathBuf>,
    allowed: String,
    rules: Option<Arc<dyn Rules>>,
}

impl Inside {
    fn new(path: &str, allowed: &[PathBuf], rules: Option<Arc<dyn Rules>>) -> Self {
        let real = |dir: &PathBuf| dir.canonicalize().ok();
        let names = |dir: &PathBuf| Path::new(path).starts_with(dir);
        let dirs = allowed.iter().filter_map(|dir| Some((dir, real(dir)?)));
        let dirs = dirs.filter(|(dir, real)| names(dir) || names(real)).map(|(_, real)| real).collect();
        let allowed: Vec<String> = allowed.iter().map(|dir| dir.display().to_string()).collect();
        Self { dirs, allowed: allowed.join(" or "), rules }
    }

    fn holds(&self, real: &Path) -> bool {
        self.dirs.iter().any(|dir| real.starts_with(dir))
    }
}

impl Rules for Inside {
    fn refusal(&self, real: &str, shows: Shows) -> Option<Refused> {
        if !self.holds(Path::new(real)) {
            return Some(Refused { rule: "log_dirs".into(), reason: format!("It is not inside {}.", self.allowed) });
        }
        self.rules.as_ref()?.refusal(real, shows)
    }
}

/// What was read of a file's end.
#[derive(Debug)]
struct End {
    text: String,
    /// It is the end of a line that is longer than what is read.
    is_part_of_a_line: bool,
}

fn read_end(path: &Path, inside: &Inside) -> Result<End, ProbeError> {
    let failed = |why: &dyn std::fmt::Display| ProbeError::Failed(format!("{}: {why}", path.display()));
    let file = open::file(path, Some(inside)).map_err(|why| match why {
        OpenError::Refused(refused) => ProbeError::Forbidden(format!("{}: {refused}", path.display())),
        OpenError::Io(why) => {
            // An absent file outside is not told from a present one.
            let parent = || path.parent().and_then(|parent| parent.canonicalize().ok());
            match path.canonicalize().ok().or_else(parent).is_some_and(|real| inside.holds(&real)) {
                true => failed(&why),
                false => ProbeError::Forbidden(format!("{} is not inside {}", path.display(), inside.allowed)),
            }
        }
    })?;
    let (bytes, is_whole) = file.end(MAX_READ).map_err(|why| match why {
        OpenError::Refused(refused) => ProbeError::Forbidden(format!("{}: {refused}", path.display())),
        OpenError::Io(why) => failed(&why),
    })?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line is whole only where the file begins.
    Ok(match text.split_once('\n') {
        Some((_, whole)) if !is_whole && !whole.is_empty() => {
            End { text: whole.to_owned(), is_part_of_a_line: false }
        }
        _ => End { is_part_of_a_line: !is_whole, text },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_in_a_log_is_not_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.log");
        std::fs::write(&path, "a\n-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n").expect("writes");
        let inside = Inside::new(&path.to_string_lossy(), &[dir.path().to_owned()], None);
        assert!(matches!(read_end(&path, &inside), Err(ProbeError::Forbidden(_))));
    }

    fn check(path: &Path, allowed: &Path) -> Result<String, ProbeError> {
        Ok(read_end(path, &Inside::new(&path.to_string_lossy(), &[allowed.to_owned()], None))?.text)
    }

    #[test]
    fn of_a_line_without_end_its_last_part_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("long.log");
        for end in ["", "\n"] {
            std::fs::write(&path, format!("{}tail{end}", "x".repeat(3 << 20))).expect("writes");
            let read = read_end(&path, &Inside::new(&path.to_string_lossy(), &[dir.path().to_owned()], None));
            let read = read.expect("reads");
            assert!(read.is_part_of_a_line && read.text.trim_end().ends_with("tail"), "{}", read.text.len());
        }
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
