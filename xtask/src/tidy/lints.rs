//! `unsafe` is forbidden for all, and every crate takes part in the workspace's lints. One crate has them under its own
//! name, because it must allow what they forbid; everything else there is as strict.

use toml::Value;

use super::Finding;
use super::house::House;

/// The one crate with `unsafe` code, which it has to allow where it stands.
const WITH_UNSAFE: &str = "crates/ring/Cargo.toml";

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
        if file.path == WITH_UNSAFE {
            if !is_as_strict(manifest.get("lints"), workspace.get("workspace").and_then(|w| w.get("lints"))) {
                let what = "its lints must be the workspace's, but for `unsafe_code = \"deny\"`";
                findings.push(Finding::in_file(&file.path, what));
            }
            continue;
        }
        let inherits = manifest.get("lints").and_then(|l| l.get("workspace")) == Some(&Value::Boolean(true));
        if !inherits && !manifest.contains_key("workspace") {
            findings.push(Finding::in_file(&file.path, "`[lints] workspace = true` is missing"));
        }
    }
    findings
}

/// Whether these lints have all of the workspace's, with `unsafe_code` denied where that forbids it.
fn is_as_strict(own: Option<&Value>, workspace: Option<&Value>) -> bool {
    let (Some(own), Some(workspace)) = (own, workspace.and_then(Value::as_table)) else { return false };
    workspace.iter().all(|(group, lints)| {
        let Some(lints) = lints.as_table() else { return false };
        lints.iter().all(|(name, level)| {
            let own = own.get(group).and_then(|lints| lints.get(name));
            if name == "unsafe_code" { own.and_then(Value::as_str) == Some("deny") } else { own == Some(level) }
        })
    })
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
    #[test]
    fn the_crate_with_unsafe_code_has_all_other_lints() {
        let root = ("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nunused_must_use = \"deny\"\n");
        let own = |lints: &str| format!("[package]\nname = \"convoke-ring\"\n[lints.rust]\n{lints}");
        let found = |lints: &str| check(&House::of(&[root, (WITH_UNSAFE, &own(lints))])).len();
        assert_eq!(found("unsafe_code = \"deny\"\nunused_must_use = \"deny\"\n"), 0);
        assert_eq!(found("unsafe_code = \"allow\"\nunused_must_use = \"deny\"\n"), 1);
        assert_eq!(found("unsafe_code = \"deny\"\n"), 1);
    }
}
