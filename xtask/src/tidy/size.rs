//! No file is longer than a reader's patience.

use super::Finding;
use super::house::House;

const MAX_LINES: usize = 800;

/// Made by a program from another file, and read by nobody.
const MADE: &[&str] = &["web/src/lib/api/schema.d.ts"];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let is_made = |file: &super::house::File| MADE.contains(&file.path.as_str());
    let long =
        |file: &&super::house::File| file.is_source() && !is_made(file) && file.text.lines().count() > MAX_LINES;
    let finding = |file: &super::house::File| {
        let lines = file.text.lines().count();
        Finding::in_file(&file.path, format!("{lines} lines are over {MAX_LINES}: look for the second noun in it"))
    };
    house.files.iter().filter(long).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_too_many_is_found() {
        let fits = "x\n".repeat(MAX_LINES);
        let over = "x\n".repeat(MAX_LINES + 1);
        assert!(check(&House::of(&[("a.rs", &fits), ("data.json", &over)])).is_empty());
        assert!(check(&House::of(&[(MADE[0], &over)])).is_empty());
        for path in ["a.rs", "web/b.ts", "web/c.svelte", "web/d.css", "tests/mcp/e.mjs"] {
            assert_eq!(check(&House::of(&[(path, &over)])).len(), 1);
        }
    }
}
