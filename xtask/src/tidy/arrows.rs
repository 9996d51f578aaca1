//! The arrows between crates: dependencies point down only.
//!
//! `convoke, convoke-agent → cli → hub, client, endpoint, coder, sim → http, page, wires → mcp → doors → gate, probes, room → dial,
//! store, api → files, socket → the protocol crates → core`. A protocol
//! crate knows nothing of another protocol, of tokio, of the store or of HTTP; `core` knows no protocol. The arrows are
//! what lets the same protocol code run in the hub, in a property test, in a fuzzer and in a simulation.

use toml::{Table, Value};

use super::Finding;
use super::house::House;

/// How far up a crate stands. It may use what stands lower.
const LEVELS: &[(&str, u8)] = &[
    ("convoke-core", 0),
    ("convoke-kenny", 1),
    ("convoke-sonde", 1),
    ("convoke-yonexus", 1),
    ("convoke-kibitz", 1),
    ("convoke-kward", 1),
    ("convoke-sse", 1),
    ("convoke-ws", 1),
    ("convoke-files", 2),
    ("convoke-socket", 2),
    ("convoke-rtc", 2),
    ("convoke-api", 3),
    ("convoke-bus", 3),
    ("convoke-models", 3),
    ("convoke-machine", 3),
    ("convoke-dial", 3),
    ("convoke-store", 3),
    ("convoke-toolbox", 3),
    ("convoke-probes", 4),
    ("convoke-room", 4),
    ("convoke-gate", 4),
    ("convoke-doors", 5),
    ("convoke-mcp", 6),
    ("convoke-http", 7),
    ("convoke-page", 7),
    ("convoke-wires", 7),
    ("convoke-hub", 8),
    ("convoke-client", 8),
    ("convoke-endpoint", 8),
    ("convoke-coder", 8),
    ("convoke-sim", 8),
    ("convoke-cli", 9),
    ("convoke", 10),
    ("convoke-agent", 10),
];

/// The highest level whose crates do no input or output, and have no clock and no randomness.
pub(super) const HIGHEST_PURE: u8 = 1;

/// What a pure crate may not use, not even in tests: a test that needs one of these tests something else.
const IMPURE: &[&str] = &["tokio", "axum", "hyper", "reqwest", "rusqlite", "getrandom", "rand"];

/// Developer commands, and what tests of several crates need: they use no crate of ours.
const APART: [&str; 2] = ["xtask", TESTING];

/// Any crate's tests may use it, and nothing else may.
const TESTING: &str = "convoke-testing";

/// The level of a crate.
pub(super) fn level(name: &str) -> Option<u8> {
    LEVELS.iter().find(|(crate_name, _)| *crate_name == name).map(|(_, level)| *level)
}

/// The crates up to a level.
pub(super) fn crates_up_to(highest: u8) -> impl Iterator<Item = &'static str> {
    LEVELS.iter().filter(move |(_, level)| *level <= highest).map(|(name, _)| *name)
}

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, manifest) in house.manifests() {
        // A workspace of its own (the fuzz targets) may look at any crate.
        if manifest.contains_key("workspace") {
            continue;
        }
        let Some(name) = package_name(&manifest) else { continue };
        let own = level(name);
        if own.is_none() && !APART.contains(&name) {
            findings
                .push(Finding::in_file(&file.path, format!("`{name}` has no place in the arrows between crates")));
            continue;
        }
        for (dependency, kind) in dependencies(&manifest) {
            if let Some(what) = refusal(name, own, dependency, kind) {
                findings.push(Finding::in_file(&file.path, what));
            }
        }
    }
    findings
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Dev,
}

fn refusal(name: &str, own: Option<u8>, dependency: &str, kind: Kind) -> Option<String> {
    let is_ours = dependency == "convoke" || dependency.starts_with("convoke-");
    let Some(own) = own else {
        return is_ours.then(|| format!("`{name}` stands apart and may not use `{dependency}`"));
    };
    let is_pure = own <= HIGHEST_PURE;
    if is_pure && IMPURE.contains(&dependency) {
        return Some(format!("`{name}` has no IO, clock or randomness of its own and may not use `{dependency}`"));
    }
    if !is_ours || (dependency == TESTING && kind == Kind::Dev) {
        return None;
    }
    // Tests of the upper crates may look sideways: the hub is tested with simulated agents.
    let allowed =
        level(dependency).is_some_and(|below| below < own || (below == own && kind == Kind::Dev && !is_pure));
    (!allowed).then(|| format!("`{name}` may not use `{dependency}`: dependencies point down only"))
}

/// The name of a manifest's package.
pub(super) fn package_name(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

/// All dependencies of a manifest, by the name of their package.
pub(super) fn dependencies(manifest: &Table) -> Vec<(&str, Kind)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let sections =
        [("dependencies", Kind::Normal), ("build-dependencies", Kind::Normal), ("dev-dependencies", Kind::Dev)];
    let mut found = Vec::new();
    for table in tables {
        for (section, kind) in sections {
            for (key, value) in table.get(section).and_then(Value::as_table).into_iter().flatten() {
                let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
                found.push((package, kind));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a crate with these dependencies.
    fn found(name: &str, sections: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{name}\"\n{sections}");
        let house = House::of(&[("crates/x/Cargo.toml", &manifest)]);
        check(&house).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn arrows_point_down() {
        assert!(found("convoke-hub", "[dependencies]\nconvoke-store.workspace = true\ntokio = \"1\"\n").is_empty());
        assert!(found("convoke", "[dependencies]\nconvoke-kenny.workspace = true\n").is_empty());
        for (name, sections) in [
            ("convoke-core", "[dependencies]\nconvoke-kenny.workspace = true\n"),
            ("convoke-kenny", "[dependencies]\nconvoke-sonde.workspace = true\n"),
            ("convoke-store", "[dependencies]\nconvoke-api.workspace = true\n"),
            ("convoke-hub", "[dependencies]\nconvoke-sim.workspace = true\n"),
            ("convoke-hub", "[build-dependencies]\nconvoke.workspace = true\n"),
            ("convoke-kenny", "[target.'cfg(unix)'.dependencies]\nconvoke-hub.workspace = true\n"),
            ("convoke-kenny", "[dependencies]\nother = { package = \"convoke-hub\", path = \"../hub\" }\n"),
            ("xtask", "[dependencies]\nconvoke-core.workspace = true\n"),
            ("convoke-utils", ""),
        ] {
            assert_eq!(found(name, sections).len(), 1, "{name} {sections}");
        }
    }

    #[test]
    fn tests_of_the_upper_crates_may_look_sideways_and_those_of_the_pure_ones_may_not() {
        assert!(found("convoke-hub", "[dev-dependencies]\nconvoke-sim.workspace = true\n").is_empty());
        assert_eq!(found("convoke-kenny", "[dev-dependencies]\nconvoke-sonde.workspace = true\n").len(), 1);
        assert!(found("convoke-core", "[dev-dependencies]\nconvoke-testing.workspace = true\n").is_empty());
        assert_eq!(found("convoke", "[dependencies]\nconvoke-testing.workspace = true\n").len(), 1);
        assert_eq!(found("convoke-testing", "[dependencies]\nconvoke-core.workspace = true\n").len(), 1);
        assert_eq!(found("convoke-hub", "[dev-dependencies]\nconvoke.workspace = true\n").len(), 1);
    }

    #[test]
    fn pure_crates_use_nothing_that_does_io() {
        for dependency in IMPURE {
            let sections = format!("[dependencies]\n{dependency} = \"1\"\n");
            assert_eq!(found("convoke-core", &sections).len(), 1);
            assert_eq!(found("convoke-kibitz", &sections).len(), 1);
            assert!(found("convoke-sim", &sections).is_empty());
        }
    }
}
