//! Words that say "not finished": none is left in the source.

use super::Finding;
use super::house::House;

/// Put together from parts, or this file would find itself.
const WORDS: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
    concat!("#[ign", "ore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in house.files.iter().filter(|file| file.is_source()) {
        for (number, line) in file.lines() {
            for word in WORDS.iter().filter(|word| has_word(line, word)) {
                findings.push(Finding::at(&file.path, number, format!("`{word}`: finish it or leave it out")));
            }
        }
    }
    findings
}

/// Whether the word stands there by itself and not inside a longer one, as in the pattern of a temporary file's name.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let goes_on_before = line[..at].ends_with(is_part);
        let goes_on_after = word.ends_with(is_part) && line[at + word.len()..].starts_with(is_part);
        !goes_on_before && !goes_on_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_and_only_as_a_word() {
        for word in WORDS {
            let text = format!("    {word}(\"x\")\n");
            assert_eq!(check(&House::of(&[("a.rs", &text)])).len(), 1, "{word}");
            assert_eq!(check(&House::of(&[("web/a.svelte", &text)])).len(), 1, "{word}");
            assert!(check(&House::of(&[("a.md", &text)])).is_empty(), "{word}");
        }
        let longer = format!("mktemp {0}{0} my_{1}", concat!("XX", "X"), concat!("to", "do!"));
        assert!(check(&House::of(&[("a.rs", &longer)])).is_empty());
    }
}
