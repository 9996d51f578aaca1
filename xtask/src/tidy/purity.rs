//! The pure crates (`core` and the protocols) do no input or output and have no clock and no randomness: the time and
//! random bytes are passed in.

use super::Finding;
use super::arrows::{HIGHEST_PURE, level, package_name};
use super::house::House;
use super::source::code_lines;

/// What gives it away. `std::net` as such is not among them: an `IpAddr` in a snapshot is data.
const FORBIDDEN: &[(&str, &str)] = &[
    ("TcpStream", "sockets"),
    ("TcpListener", "sockets"),
    ("UdpSocket", "sockets"),
    ("ToSocketAddrs", "sockets"),
    ("std::fs", "files"),
    ("std::env", "environment"),
    ("std::process", "processes"),
    ("std::time::Instant", "clock"),
    ("Instant::now", "clock"),
    ("SystemTime", "clock"),
    ("Timestamp::now", "clock"),
    ("Uuid::new_v4", "randomness"),
    ("Uuid::now_v7", "clock"),
];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (manifest_file, manifest) in house.manifests() {
        let is_pure = package_name(&manifest).and_then(level).is_some_and(|level| level <= HIGHEST_PURE);
        if !is_pure {
            continue;
        }
        let sources = manifest_file.path.replace("Cargo.toml", "src/");
        let in_crate = house.files.iter().filter(|f| f.path.starts_with(&sources) && f.has_extension(&["rs"]));
        for file in in_crate {
            for (number, line) in code_lines(file) {
                for (word, what) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
                    let text = format!("`{word}`: this crate knows no {what}; pass in what it needs");
                    findings.push(Finding::at(&file.path, number, text));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> usize {
        let manifest = format!("[package]\nname = \"{name}\"\n");
        check(&House::of(&[("crates/x/Cargo.toml", &manifest), ("crates/x/src/y.rs", text)])).len()
    }

    #[test]
    fn a_clock_in_a_pure_crate_is_found_outside_tests() {
        for (word, _) in FORBIDDEN {
            assert!(found("convoke-kenny", &format!("use {word};\n")) >= 1, "{word}");
            assert_eq!(found("convoke-kenny", &format!("#[cfg(test)]\nuse {word};\n")), 0, "{word}");
            assert_eq!(found("convoke-hub", &format!("use {word};\n")), 0, "{word}");
        }
        assert_eq!(found("convoke-core", "use std::time::Duration;\nuse std::net::IpAddr;\n"), 0);
    }
}
