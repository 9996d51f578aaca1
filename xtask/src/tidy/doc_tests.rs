//! No Rust stands in a doc comment as an example: `cargo xtask test` runs no doc tests, since rustdoc takes minutes for
//! them. An example is a file in `examples/`, or a test.

use super::Finding;
use super::house::House;

/// What rustdoc takes for Rust.
const RUST: &[&str] = &["", "rust", "no_run", "ignore", "should_panic", "compile_fail"];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in house.files.iter().filter(|file| file.has_extension(&["rs"])) {
        let mut is_inside = false;
        for (number, line) in file.lines() {
            let text = line.trim_start();
            let Some(doc) = text.strip_prefix("///").or_else(|| text.strip_prefix("//!")) else { continue };
            let Some(language) = doc.trim().strip_prefix("```") else { continue };
            if !is_inside && language.split(',').any(|word| RUST.contains(&word)) {
                let what =
                    "this doc test is never run: make it a file in examples/, or a test; other text is ```text";
                findings.push(Finding::at(&file.path, number, what));
            }
            is_inside = !is_inside;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_in_a_doc_comment_is_found_and_other_text_is_not() {
        let found = |text: &str| check(&House::of(&[("crates/x/src/lib.rs", text)])).len();
        assert_eq!(found("/// ```\n/// a();\n/// ```\nfn b() {}\n"), 1);
        assert_eq!(found("//! ```no_run\n//! a();\n//! ```\n"), 1);
        assert_eq!(found("//! ```text\n//! a\n//! ```\n//! ```toml\n//! ```\n"), 0);
        assert_eq!(found("// ```\n"), 0);
    }
}
