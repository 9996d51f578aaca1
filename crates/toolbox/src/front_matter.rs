//! The few lines of metadata at the head of a Markdown file, between two lines of `---`.
//!
//! Skills and prompt templates carry `key: value` lines. That much YAML is read here, quotes and folded texts included;
//! anything deeper is skipped.

use std::collections::BTreeMap;

/// The fields and the text after them. A file without front matter has no fields. `None` if the front matter has no end.
pub fn parse(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Some((BTreeMap::new(), text));
    };
    let mut fields = BTreeMap::new();
    let mut folded: Option<String> = None;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        let plain = line.trim_end_matches(['\n', '\r']);
        if plain == "---" {
            return Some((fields, &rest[at..]));
        }
        let is_indented = plain.starts_with([' ', '\t']);
        if let Some(key) = folded.as_ref().filter(|_| is_indented || plain.is_empty()) {
            let value: &mut String = fields.entry(key.clone()).or_default();
            if !value.is_empty() && !plain.trim().is_empty() {
                value.push(' ');
            }
            value.push_str(plain.trim());
            continue;
        }
        folded = None;
        let Some((key, value)) = plain.split_once(':').filter(|_| !is_indented && !plain.starts_with('#')) else {
            continue;
        };
        let (key, value) = (key.trim().to_owned(), value.trim());
        if matches!(value, ">" | "|" | ">-" | "|-") {
            folded = Some(key.clone());
            fields.insert(key, String::new());
        } else {
            fields.insert(key, unquoted(value));
        }
    }
    None
}

fn unquoted(value: &str) -> String {
    let inside = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(text) = inside('"') {
        return text.replace("\\\"", "\"").replace("\\\\", "\\");
    }
    if let Some(text) = inside('\'') {
        return text.replace("''", "'");
    }
    // A comment behind a plain value.
    value.split(" #").next().unwrap_or(value).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&[(&str, &str)], &str)>) {
        let parsed = parse(text);
        let shown = parsed.as_ref().map(|(fields, rest)| {
            (fields.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), *rest)
        });
        assert_eq!(shown, expected.map(|(fields, rest)| (fields.to_vec(), rest)), "{text:?}");
    }

    #[test]
    fn fields_are_read_in_their_usual_forms() {
        check("no matter", Some((&[], "no matter")));
        check("---\nname: a b\n---\nrest\n", Some((&[("name", "a b")], "rest\n")));
        check("---\r\nname: x\r\n---\r\nrest", Some((&[("name", "x")], "rest")));
        check(
            "---\na: \"q: \\\"x\\\"\"\nb: 'it''s'\nc: v # why\n---\n",
            Some((&[("a", "q: \"x\""), ("b", "it's"), ("c", "v")], "")),
        );
        check("---\na: >\n  one\n  two\nb: 1\n---\n", Some((&[("a", "one two"), ("b", "1")], "")));
        check("---\na:\n  - deeper: x\n# note\n---\n", Some((&[("a", "")], "")));
        check("---\n---\n", Some((&[], "")));
        check("---\nname: never ends\n", None);
    }
}
