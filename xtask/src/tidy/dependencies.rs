//! Every dependency has a line in `docs/dependencies.md` that says why it is here, and no line outlives its dependency.

use std::collections::BTreeSet;

use toml::Value;

use super::Finding;
use super::arrows::dependencies;
use super::house::House;

const PAGE: &str = "docs/dependencies.md";

pub(super) fn check(house: &House) -> Vec<Finding> {
    let Some(page) = house.file(PAGE) else { return vec![Finding::in_file(PAGE, "this page is missing")] };
    let documented: BTreeSet<&str> = page.text.lines().filter_map(documented).collect();
    let declared = declared(house);
    let used = used(house);
    let mut findings = Vec::new();
    for name in declared.union(&used).filter(|name| !documented.contains(name.as_str())) {
        findings.push(Finding::in_file(PAGE, format!("`{name}` has no line: what is it for, and why this one?")));
    }
    for name in documented.iter().filter(|name| !used.contains(**name) && !declared.contains(**name)) {
        findings.push(Finding::in_file(PAGE, format!("`{name}` is not used any more")));
    }
    for name in declared.iter().filter(|name| !used.contains(*name)) {
        findings.push(Finding::in_file("Cargo.toml", format!("`{name}` is used by no crate")));
    }
    findings
}

/// The dependency that a row of the page's tables is about.
fn documented(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split('`').next()
}

/// Dependencies of the workspace that are not its own crates.
fn declared(house: &House) -> BTreeSet<String> {
    let workspace = house.workspace().unwrap_or_default();
    let table = workspace.get("workspace").and_then(|w| w.get("dependencies")).and_then(Value::as_table);
    let foreign = table.into_iter().flatten().filter(|(_, value)| value.get("path").is_none());
    foreign.map(|(name, _)| name.clone()).collect()
}

/// Dependencies that some crate names.
fn used(house: &House) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (_, manifest) in house.manifests() {
        let names = dependencies(&manifest).into_iter().map(|(name, _)| name);
        all.extend(names.filter(|name| *name != "convoke" && !name.starts_with("convoke-")).map(str::to_owned));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\nserde = \"1\"\nconvoke-core = { path = \"crates/core\" }\n";
    const CRATE: &str = "[dependencies]\nserde.workspace = true\nconvoke-core.workspace = true\n";

    fn found(root: &str, manifest: &str, page: &str) -> Vec<String> {
        let house = House::of(&[("Cargo.toml", root), ("crates/a/Cargo.toml", manifest), (PAGE, page)]);
        check(&house).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_dependency_has_a_line_and_each_line_a_dependency() {
        assert!(found(ROOT, CRATE, "| `serde` | wire types |\n").is_empty());
        assert_eq!(found(ROOT, CRATE, "").len(), 1, "no line");
        let stale = found(ROOT, CRATE, "| `serde` | x |\n| `gone` | x |\n");
        assert!(matches!(stale.as_slice(), [one] if one.contains("`gone`")), "{stale:?}");
    }

    #[test]
    fn a_dependency_outside_the_workspaces_table_needs_a_line_too() {
        let manifest = "[dependencies]\nserde.workspace = true\nlibfuzzer-sys = \"0.4\"\n";
        let missing = found(ROOT, manifest, "| `serde` | x |\n");
        assert!(matches!(missing.as_slice(), [one] if one.contains("`libfuzzer-sys`")), "{missing:?}");
    }

    #[test]
    fn what_no_crate_uses_is_found() {
        let unused = found(ROOT, "", "| `serde` | x |\n");
        assert!(matches!(unused.as_slice(), [one] if one.contains("used by no crate")), "{unused:?}");
        assert_eq!(check(&House::of(&[])).len(), 1, "no page");
    }
}
