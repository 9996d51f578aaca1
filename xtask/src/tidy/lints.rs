//! `unsafe` is forbidden for all, and every crate takes part in the workspace's lints.

use toml::Value;

use super::Finding;
use super::house::House;

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let workspace = house.workspace().unwrap_or_default();
    let unsafe_code = workspace
        .get("workspace")
        .and_then(|w| w.get("lints"))
        .and_then(|l| l.get("rust"))
        .and_then(|r| r.get("unsafe_code"))
        .and_then(Value::as_str);
    if unsafe_code != Some("forbid") {
        let what = "`unsafe_code = \"forbid\"` must stand under [workspace.lints.rust]";
        findings.push(Finding::in_file("Cargo.toml", what));
    }
    for (file, manifest) in house.manifests() {
        let inherits = manifest.get("lints").and_then(|l| l.get("workspace")) == Some(&Value::Boolean(true));
        if !inherits && !manifest.contains_key("workspace") {
            findings.push(Finding::in_file(&file.path, "`[lints] workspace = true` is missing"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) = ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n");

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let with = ("crates/a/Cargo.toml", "[lints]\nworkspace = true\n");
        let without = ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n");
        let own = ("fuzz/Cargo.toml", "[workspace]\n");
        assert!(check(&House::of(&[ROOT, with, own])).is_empty());
        assert_eq!(check(&House::of(&[ROOT, without])).len(), 1);
    }

    #[test]
    fn a_workspace_that_allows_unsafe_is_found() {
        let weaker = ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"\n");
        assert_eq!(check(&House::of(&[weaker])).len(), 1);
        assert_eq!(check(&House::of(&[])).len(), 1);
    }
}
