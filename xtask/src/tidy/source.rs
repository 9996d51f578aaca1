//! What of a Rust file is not test code.

use super::house::File;

/// Whether a whole file is for tests, examples or benches.
pub(super) fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/');
    let name = parts.next_back().unwrap_or_default();
    name == "tests.rs" || parts.any(|part| matches!(part, "tests" | "examples" | "benches" | "fuzz"))
}

/// The lines of a Rust file without its test items and comments, counted from 1.
///
/// Goes by indentation: an item ends at the first line that closes it in the column where it began. That holds for
/// code as rustfmt leaves it, which is checked before.
pub(super) fn code_lines(file: &File) -> Vec<(usize, &str)> {
    if is_test_file(&file.path) {
        return Vec::new();
    }
    let mut code = Vec::new();
    let mut skipping = Skip::Nothing;
    for (number, line) in file.lines() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        skipping = match skipping {
            Skip::Nothing if text == "#[cfg(test)]" => Skip::NextItem,
            Skip::Nothing => {
                if !text.starts_with("//") {
                    code.push((number, line));
                }
                Skip::Nothing
            }
            Skip::NextItem if text.starts_with("#[") || text.starts_with("//") || text.is_empty() => Skip::NextItem,
            Skip::NextItem if text.ends_with(';') || text.ends_with('}') => Skip::Nothing,
            Skip::NextItem => Skip::Until { indent },
            Skip::Until { indent: end } if indent == end && closes(text) => Skip::Nothing,
            until @ Skip::Until { .. } => until,
        };
    }
    code
}

#[derive(Clone, Copy)]
enum Skip {
    Nothing,
    NextItem,
    Until { indent: usize },
}

fn closes(text: &str) -> bool {
    text.starts_with('}') || text == ");" || text == "];"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.into(), text: text.into() };
        code_lines(&file).into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn test_items_are_left_out_and_what_follows_is_not() {
        let text = "\
fn a() {}
#[cfg(test)]
mod tests {
    fn b() {
    }
}
fn c() {}
#[cfg(test)]
use d;
fn e() {}
impl F {
    #[cfg(test)]
    #[must_use]
    fn g() {
        h();
    }
    fn i() {}
}
";
        assert_eq!(lines("crates/x/src/lib.rs", text), [1, 7, 10, 11, 17, 18]);
    }

    #[test]
    fn whole_files_of_tests_have_no_code() {
        assert!(lines("crates/x/tests/it/main.rs", "fn a() {}").is_empty());
        assert!(lines("crates/x/src/y/tests.rs", "fn a() {}").is_empty());
        assert!(lines("crates/x/src/y/tests/z.rs", "fn a() {}").is_empty());
        assert_eq!(lines("crates/x/src/contests.rs", "// why\nfn a() {}"), [2]);
    }
}
