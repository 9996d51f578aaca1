//! Outside tests nothing panics by habit: no `unwrap`, and an `expect` says why it cannot fail.

use super::Finding;
use super::house::House;
use super::source::code_lines;

/// A message shorter than this says what, not why.
const MIN_WORDS: usize = 3;

/// Put together from parts, so that they are not found here.
const UNWRAPS: &[&str] = &[concat!(".unw", "rap()"), concat!(".unw", "rap_err()")];
const EXPECT: &str = concat!(".exp", "ect(");

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in house.files.iter().filter(|file| file.has_extension(&["rs"])) {
        let lines = code_lines(file);
        for (index, (number, line)) in lines.iter().enumerate() {
            for unwrap in UNWRAPS.iter().filter(|unwrap| line.contains(*unwrap)) {
                let what = format!("`{unwrap}` outside tests: handle it, or say with `expect` why it cannot fail");
                findings.push(Finding::at(&file.path, *number, what));
            }
            for (at, _) in line.match_indices(EXPECT) {
                let rest = &line[at + EXPECT.len()..];
                // rustfmt puts a long message on the next line.
                let next = lines.get(index + 1).map_or("", |(_, next)| next);
                let argument = if rest.trim().is_empty() { next.trim() } else { rest };
                if !says_why(argument) {
                    let what =
                        format!("this `expect` needs a text of {MIN_WORDS} words or more: why can it not fail?");
                    findings.push(Finding::at(&file.path, *number, what));
                }
            }
        }
    }
    findings
}

/// Whether an argument begins with a text that is long enough.
fn says_why(argument: &str) -> bool {
    let Some(text) = argument.strip_prefix('"') else { return false };
    let text = text.split('"').next().unwrap_or_default();
    text.split_whitespace().count() >= MIN_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&House::of(&[("crates/x/src/lib.rs", line)])).len()
    }

    #[test]
    fn unwrap_is_found_outside_tests() {
        for unwrap in UNWRAPS {
            assert_eq!(found(&format!("let a = b(){unwrap};\n")), 1);
            assert_eq!(found(&format!("/// let a = b(){unwrap};\n")), 0, "a comment runs nothing");
            assert_eq!(found(&format!("#[cfg(test)]\nmod tests {{\n    b(){unwrap};\n}}\n")), 0);
        }
        assert_eq!(found("let a = b().unwrap_or_default();\n"), 0);
    }

    #[test]
    fn an_expect_says_why() {
        assert_eq!(found(&format!("b(){EXPECT}\"the table is not empty\");\n")), 0);
        assert_eq!(found(&format!("b(){EXPECT}\n    \"the table is not empty\",\n);\n")), 0);
        assert_eq!(found(&format!("b(){EXPECT}\"works\");\n")), 1);
        assert_eq!(found(&format!("b(){EXPECT}\n    \"it works\",\n);\n")), 1);
        assert_eq!(found(&format!("b(){EXPECT}MESSAGE);\n")), 1);
    }
}
