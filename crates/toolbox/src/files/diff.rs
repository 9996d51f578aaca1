//! What changed, for people and models.

use std::time::Duration;

use similar::TextDiff;

use crate::limits::DIFF_BYTES;

/// How long may be spent on the smallest diff. After it a larger one will do.
const PATIENCE: Duration = Duration::from_millis(300);

/// A diff, and the first line of the new text that differs.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) diff: String,
    pub(super) first_line: Option<usize>,
}

/// The unified diff of two versions of a file, with three lines around each change; cut when it is long.
pub(super) fn change(path: &str, old: &[u8], new: &[u8]) -> Change {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old.as_ref(), new.as_ref());
    let text = diff.unified_diff().context_radius(3).header(path, path).to_string();
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    Change { diff: cut(text), first_line: (old != new).then_some(same + 1) }
}

fn cut(mut text: String) -> String {
    if text.len() > DIFF_BYTES {
        let end = (0..=DIFF_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let left = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n... diff cut, {left} bytes left out"));
    }
    text.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "line ten\n");
        let change = change("src/a.txt", old.as_bytes(), new.as_bytes());
        let expected = "--- src/a.txt\n+++ src/a.txt\n@@ -7,7 +7,7 @@\n line 7\n line 8\n line 9\n-line 10\n+line ten\n \
                        line 11\n line 12\n line 13";
        assert_eq!(change.diff, expected);
        assert_eq!(change.first_line, Some(10));
    }

    #[test]
    fn a_missing_last_newline_is_told() {
        let change = change("a", b"x", b"x\n");
        assert!(change.diff.contains("No newline at end of file"), "{}", change.diff);
    }

    #[test]
    fn a_long_diff_is_cut_between_characters() {
        let new = "ää\n".repeat(5_000);
        let change = change("a", b"", new.as_bytes());
        assert!(change.diff.len() < DIFF_BYTES + 60);
        assert!(change.diff.contains("... diff cut, "), "it says so");
    }
}
