//! What tests of several crates need.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// Names the file that [`skip`] appends to. `cargo xtask test` sets it, and prints what is there at its end.
pub const SKIPPED: &str = "CONVOKE_TESTS_SKIPPED";

/// Records that the running test, or the rest of it, cannot run on this machine. The test returns after it.
#[track_caller]
pub fn skip(why: &str) {
    let file = Location::caller().file();
    let test = thread::current().name().unwrap_or("main").to_owned();
    let line = line(file, &test, why);
    eprint!("skipped: {line}");
    let Some(path) = env::var_os(SKIPPED) else { return };
    let mut options = OpenOptions::new();
    // One write of a short line to a file that is only appended to: tests of several processes do not mix.
    let written = options.create(true).append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("a skip that is not recorded would pass for a test that ran");
}

fn line(file: &str, test: &str, why: &str) -> String {
    let why = why.replace(['\n', '\t'], " ");
    format!("{file}\t{test}\t{why}\n")
}

/// Whether the tests run as root. Those that boot a container need it.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// The root of the small Debian with systemd that `cargo xtask setup` makes. Records a skip where nobody may boot it.
///
/// # Panics
///
/// If it is not there, though it could be.
#[track_caller]
pub fn debian() -> Option<PathBuf> {
    if !is_root() {
        skip("booting a container needs root");
        return None;
    }
    let root = roots().and_then(|roots| {
        let whole = |path: &PathBuf| path.join("etc/os-release").exists() && path.extension().is_none();
        roots.read_dir().ok()?.flatten().map(|entry| entry.path()).find(whole)
    });
    Some(root.unwrap_or_else(|| panic!("there is no Debian to boot: run `cargo xtask setup`")))
}

fn roots() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("convoke/roots"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line() {
        assert_eq!(line("a.rs", "b", "no\nroot\there"), "a.rs\tb\tno root here\n");
    }
}
