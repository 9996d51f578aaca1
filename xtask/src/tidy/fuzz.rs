//! Every wire protocol has a fuzz target, and every target is compiled.

use toml::Value;

use super::Finding;
use super::arrows::{HIGHEST_PURE, crates_up_to};
use super::house::House;

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGETS: &str = "fuzz/fuzz_targets/";

/// Decodes nothing that a stranger sends.
const NO_DECODER: &str = "convoke-core";

pub(super) fn check(house: &House) -> Vec<Finding> {
    let Some(manifest) = house.file(MANIFEST).and_then(|file| file.text.parse::<toml::Table>().ok()) else {
        return vec![Finding::in_file(MANIFEST, "this file is missing, or is no TOML")];
    };
    let bins = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    let built: Vec<&str> = bins.filter_map(|bin| bin.get("path")?.as_str()).collect();
    let targets = || house.files.iter().filter(|file| file.path.starts_with(TARGETS));
    let is_built = |path: &str| built.iter().any(|built| path.strip_prefix("fuzz/") == Some(built));
    let left_out = targets().filter(|file| !is_built(&file.path));
    let mut findings: Vec<Finding> =
        left_out.map(|file| Finding::in_file(&file.path, format!("no [[bin]] of {MANIFEST} builds it"))).collect();
    for name in crates_up_to(HIGHEST_PURE).filter(|name| *name != NO_DECODER) {
        let path = format!("{}::", name.replace('-', "_"));
        if !targets().any(|file| file.text.contains(&path)) {
            findings.push(Finding::in_file(TARGETS, format!("no target feeds `{name}`")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_not_built_and_a_protocol_without_one_are_found() {
        let all: String =
            crates_up_to(HIGHEST_PURE).map(|name| format!("{}::x();\n", name.replace('-', "_"))).collect();
        let manifest = "[[bin]]\npath = \"fuzz_targets/a.rs\"\n";
        let a = "fuzz/fuzz_targets/a.rs";
        assert!(check(&House::of(&[(MANIFEST, manifest), (a, &all)])).is_empty());
        assert_eq!(check(&House::of(&[(MANIFEST, manifest), (a, &all), ("fuzz/fuzz_targets/b.rs", "")])).len(), 1);
        let without = all.replace("convoke_kenny::x();\n", "");
        assert_eq!(check(&House::of(&[(MANIFEST, manifest), (a, &without)])).len(), 1);
        assert_eq!(check(&House::of(&[])).len(), 1);
    }
}
