//! Where commands run. A service manager starts an agent in `/` or in `System32`, and there a command that forgets to say
//! where it works (`rm -rf *`) works on the whole machine.

use std::path::{Path, PathBuf};

use crate::state::StateDir;

/// Directories of the system, with all that is in them.
const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "efi",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "proc",
    "run",
    "sbin",
    "sys",
    "usr",
    "var",
    "applications",
    "library",
    "system",
    "windows",
    "program files",
    "program files (x86)",
    "programdata",
    "recovery",
];
/// Directories in which everybody has one: they themselves are nobody's to work in.
const SHARED: &[&str] = &["home", "users", "opt", "srv", "mnt", "media", "volumes"];

/// Where commands run, if not where the agent was started: a directory of the agent's own when that is a part of the
/// system, cannot be told, or is where the agent keeps its state or its key.
pub(crate) fn of(started_in: Option<&Path>, state: &StateDir) -> Option<PathBuf> {
    let fine = |dir: &Path| {
        let there = real(dir);
        let beside_key = state.key_dir().is_some_and(|keys| there == real(keys));
        let in_state = there.starts_with(real(state.path())) && !there.starts_with(real(&state.work_dir()));
        !is_system(dir) && !is_system(&there) && !beside_key && !in_state
    };
    (!started_in.is_some_and(fine)).then(|| state.work_dir())
}

/// The directory that a path leads to: there are many ways to write one. What is not there is taken as it is written.
fn real(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// Whether it is the root of a file system or a part of the operating system.
fn is_system(dir: &Path) -> bool {
    let dir = dir.to_string_lossy().to_lowercase();
    let mut names = dir.split(['/', '\\']).filter(|name| !name.is_empty() && !name.ends_with(':') && *name != "?");
    match (names.next(), names.next()) {
        (None, _) => true,
        (Some("var"), Some("tmp")) => false,
        (Some(first), second) => SYSTEM.contains(&first) || (second.is_none() && SHARED.contains(&first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_was_started_in_the_system_works_elsewhere() {
        let state = StateDir::new("/srv/agent");
        let own = Some(state.work_dir());
        for dir in ["/", "/etc", "/usr/lib/x", "/var/lib", "/home", r"C:\", r"C:\Windows\System32", r"\\?\C:\"] {
            assert_eq!(of(Some(Path::new(dir)), &state), own, "{dir}");
        }
        assert_eq!(of(None, &state), own);
        for dir in ["/data/bob", "/tmp/x", "/var/tmp/x", "/opt/app", "/work", "/root", r"C:\Users\bob", r"D:\src"] {
            assert_eq!(of(Some(Path::new(dir)), &state), None, "{dir}");
        }
    }

    #[test]
    fn nothing_runs_beside_the_key_however_its_directory_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("agent");
        let below = home.join("work").join("x");
        std::fs::create_dir_all(&below).expect("made");
        std::fs::create_dir(home.join("packs")).expect("made");
        let mut names = vec![home.clone(), home.join("."), home.join("..").join("agent")];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&home, dir.path().join("link")).expect("linked");
            names.push(dir.path().join("link"));
        }
        for name in &names {
            let state = StateDir::new(name);
            for started in [&home, &home.join("packs")].into_iter().chain(&names) {
                assert_eq!(of(Some(started), &state), Some(state.work_dir()), "{started:?} of {name:?}");
            }
            for started in [dir.path(), &home.join("work"), &below] {
                assert_eq!(of(Some(started), &state), None, "{started:?} of {name:?}");
            }
        }
        let elsewhere = StateDir::new(&home).with_key_file(dir.path().join("kenny-agent.key"));
        assert_eq!(of(Some(dir.path()), &elsewhere), Some(elsewhere.work_dir()));
    }

    #[test]
    fn a_state_directory_is_meant_from_where_the_agent_was_started() {
        let here = std::env::current_dir().expect("somewhere");
        let state = StateDir::new(".").with_key_file("a.key").with_switch_file("b.json");
        assert_eq!(of(Some(&here), &state), Some(here.join("work")));
        assert_eq!((state.key_dir(), state.switch_file()), (Some(here.as_path()), here.join("b.json").as_path()));
    }
}
