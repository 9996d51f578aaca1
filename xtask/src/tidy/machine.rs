//! Nothing of one person's machine is in the project: no absolute paths, no package mirrors.

use super::Finding;
use super::house::{File, House};

/// Folders that exist on one machine and not on the next. Put together from parts, so that they are not found here.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Where such paths are the subject: the guard refuses commands that name them, and secrets are found in them.
const ABOUT_PATHS: &[&str] =
    &["crates/core/src/guard", "crates/core/src/redact", "crates/core/tests/", "fixtures/guard/", "fixtures/health/"];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &house.files {
        if file.path.ends_with("Cargo.lock") {
            findings.extend(sources(file));
        } else if file.path.ends_with("package-lock.json") {
            findings.extend(resolved(file));
        } else if !ABOUT_PATHS.iter().any(|prefix| file.path.starts_with(prefix)) {
            findings.extend(folders(file));
        }
    }
    findings
}

fn folders(file: &File) -> impl Iterator<Item = Finding> {
    file.lines().filter_map(|(number, line)| {
        let folder = FOLDERS.iter().find(|folder| begins_a_path(line, folder))?;
        Some(Finding::at(&file.path, number, format!("`{folder}` is a path of one machine")))
    })
}

/// Whether a path begins here, rather than goes on: a folder of that name inside the project is nobody's machine.
fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~*/}>".contains(c))
    })
}

/// Packages that come from elsewhere than crates.io.
fn sources(file: &File) -> impl Iterator<Item = Finding> {
    file.lines().filter_map(|(number, line)| {
        let source = line.strip_prefix("source = \"")?.trim_end_matches('"');
        (source != REGISTRY).then(|| Finding::at(&file.path, number, format!("`{source}` is not crates.io")))
    })
}

/// npm writes the address of whatever mirror it used; the hash beside it is what counts.
fn resolved(file: &File) -> impl Iterator<Item = Finding> {
    let key = "\"resolved\": \"http";
    let with_address = move |(_, line): &(usize, &str)| line.contains(key);
    file.lines().filter(with_address).map(|(number, _)| {
        let what = "a `resolved` address; run npm with --omit-lockfile-registry-resolved";
        Finding::at(&file.path, number, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&House::of(&[(path, text)])).len()
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for folder in FOLDERS {
            assert_eq!(found("README.md", &format!("see `{folder}x`\n")), 1, "{folder}");
            assert_eq!(found("README.md", &format!("{folder}x\n")), 1, "{folder}");
            assert_eq!(found("README.md", &format!("see src{folder}x\n")), 0, "{folder}");
            assert_eq!(found("crates/core/src/guard/tests.rs", &format!("\"{folder}x\"\n")), 0, "{folder}");
        }
    }

    #[test]
    fn a_mirror_is_found() {
        assert_eq!(found("Cargo.lock", &format!("source = \"{REGISTRY}\"\n")), 0);
        assert_eq!(found("Cargo.lock", "source = \"registry+https://mirror.example/index\"\n"), 1);
        assert_eq!(found("fuzz/Cargo.lock", "source = \"git+https://example.com/x\"\n"), 1);
        assert_eq!(found("web/package-lock.json", "      \"resolved\": \"https://mirror.example/x.tgz\",\n"), 1);
        assert_eq!(found("web/package-lock.json", "      \"integrity\": \"sha512-x\",\n"), 0);
    }
}
