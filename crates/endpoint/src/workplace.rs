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
/// system, cannot be told, or is where the agent keeps its key.
pub(crate) fn of(started_in: Option<&Path>, state: &StateDir) -> Option<PathBuf> {
    let fine = |dir: &Path| !is_system(dir) && dir != state.path();
    (!started_in.is_some_and(fine)).then(|| state.work_dir())
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
        let own = Some(PathBuf::from("/srv/agent/work"));
        for dir in
            ["/", "/etc", "/usr/lib/x", "/var/lib", "/home", r"C:\", r"C:\Windows\System32", r"\\?\C:\", "/srv/agent"]
        {
            assert_eq!(of(Some(Path::new(dir)), &state), own, "{dir}");
        }
        assert_eq!(of(None, &state), own);
        for dir in ["/data/bob", "/tmp/x", "/var/tmp/x", "/opt/app", "/work", "/root", r"C:\Users\bob", r"D:\src"] {
            assert_eq!(of(Some(Path::new(dir)), &state), None, "{dir}");
        }
    }
}
