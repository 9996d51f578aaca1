//! What tests of several crates need.

pub mod container;
#[cfg(unix)]
pub mod nats;
#[cfg(unix)]
pub mod postgres;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::panic::Location;
use std::path::Path;
use std::process::Command;
use std::thread;

/// The files of a folder below `fixtures`, by name: each without its extension, and its text without the last newline.
///
/// # Panics
///
/// If the folder is empty, or something in it is not text.
pub fn fixtures(folder: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|why| panic!("{folder}: {why}"));
    let mut files: Vec<(String, String)> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .map(|path| {
            let name =
                path.file_stem().expect("a file has a name").to_str().expect("fixtures have plain names").to_owned();
            let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            (name, text.strip_suffix('\n').unwrap_or(&text).to_owned())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} is empty");
    files
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line() {
        assert_eq!(line("a.rs", "b", "no\nroot\there"), "a.rs\tb\tno root here\n");
    }
}
