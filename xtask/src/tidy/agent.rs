//! `convoke-agent` stays small: neither a hub nor what only a hub needs is among its dependencies.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Finding;
use super::arrows::{Kind, dependencies, package_name};
use super::house::House;

const PROGRAM: &str = "convoke-agent";
const LOCK: &str = "Cargo.lock";
/// The hub, its store, the HTTP server and client, MCP, and the description of the HTTP API.
const ABSENT: &[&str] =
    &["convoke-api", "convoke-hub", "convoke-store", "axum", "reqwest", "rmcp", "rusqlite", "utoipa"];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let Some(lock) = house.file(LOCK).and_then(|file| file.text.parse().ok()) else {
        return vec![Finding::in_file(LOCK, "this file is missing, or is no TOML")];
    };
    let mut edges = locked(&lock);
    for (_, manifest) in house.manifests() {
        // The lock file does not say which dependencies of our own crates are for their tests only.
        let Some(name) = package_name(&manifest) else { continue };
        let normal = dependencies(&manifest).into_iter().filter(|(_, kind)| *kind == Kind::Normal);
        edges.insert(name.to_owned(), normal.map(|(name, _)| name.to_owned()).collect());
    }
    let reached = reached(&edges);
    let present = ABSENT.iter().filter_map(|name| Some((name, reached.get(*name)?)));
    present
        .map(|(name, by)| Finding::in_file(LOCK, format!("`{PROGRAM}` depends on `{name}` through `{by}`")))
        .collect()
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// What each package in the lock file depends on, by name.
fn locked(lock: &Table) -> Edges {
    let mut edges = Edges::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = package.get("name").and_then(Value::as_str) else { continue };
        let all = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        // A name alone, or a name, a version and a source.
        let names = all.filter_map(|one| one.as_str()?.split(' ').next().map(str::to_owned));
        edges.entry(name.to_owned()).or_default().extend(names);
    }
    edges
}

/// Each package that the program is built from, with one that depends on it.
fn reached(edges: &Edges) -> BTreeMap<&str, &str> {
    let mut reached = BTreeMap::new();
    let mut waiting = vec![PROGRAM];
    while let Some(name) = waiting.pop() {
        for dependency in edges.get(name).into_iter().flatten() {
            if reached.insert(dependency.as_str(), name).is_none() {
                waiting.push(dependency);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(endpoint: &str, lock: &str) -> Vec<String> {
        let program = "[package]\nname = \"convoke-agent\"\n[dependencies]\nconvoke-endpoint.workspace = true\n";
        let endpoint = format!("[package]\nname = \"convoke-endpoint\"\n{endpoint}");
        let files = [("crates/a/Cargo.toml", program), ("crates/b/Cargo.toml", &endpoint), (LOCK, lock)];
        check(&House::of(&files)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn what_only_a_hub_needs_is_found_however_far_below() {
        let lock = "[[package]]\nname = \"hyper\"\ndependencies = [\"bytes\", \"other 1.0.0\"]\n\
                    [[package]]\nname = \"other\"\nversion = \"1.0.0\"\ndependencies = [\"axum\"]\n";
        assert_eq!(
            found("[dependencies]\nhyper = \"1\"\n", lock),
            ["`convoke-agent` depends on `axum` through `other`"]
        );
        assert_eq!(found("[dependencies]\nconvoke-hub.workspace = true\n", lock).len(), 1);
        assert!(found("[dependencies]\nbytes = \"1\"\n", lock).is_empty());
    }

    #[test]
    fn what_tests_use_is_not_in_the_program() {
        let lock = "[[package]]\nname = \"convoke-endpoint\"\ndependencies = [\"convoke-hub\"]\n";
        assert!(found("[dev-dependencies]\nconvoke-hub.workspace = true\n", lock).is_empty());
    }

    #[test]
    fn a_checkout_without_a_lock_file_is_found() {
        assert_eq!(check(&House::of(&[])).len(), 1);
    }
}
