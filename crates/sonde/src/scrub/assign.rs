//! `NAME=value` and `name: value` in running text.

use std::sync::LazyLock;

use regex::Regex;

use super::{REDACTED, names};

/// A name, perhaps in quotes, and its separator.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?P<open>["']?)(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,127})["']?[ \t]{0,4}(?P<sep>=>|[:=])[ \t]*"#)
        .expect("a fixed pattern")
});

pub(super) fn scrub(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    let mut from = 0;
    while let Some(found) = NAME.captures_at(text, from) {
        let whole = found.get(0).map_or(from..from, |m| m.range());
        if !found.name("name").is_some_and(|name| names::is_secret(name.as_str())) {
            // The value may begin a name itself (`url=token:x`).
            from = found.name("sep").map_or(whole.end, |sep| sep.end());
            continue;
        }
        let at_line_start = is_line_start(&text[..whole.start]);
        let colon = found.name("sep").is_some_and(|sep| sep.as_str() == ":");
        let quoted_name = found.name("open").is_some_and(|open| !open.as_str().is_empty());
        if text[whole.end..].starts_with(REDACTED) {
            from = whole.end + REDACTED.len();
            continue;
        }
        let (start, end) = value(text, whole.end, colon, at_line_start, quoted_name);
        if end > start {
            out.push_str(&text[done..start]);
            out.push_str(REDACTED);
            done = end;
        }
        from = end.max(whole.end);
    }
    out.push_str(&text[done..]);
    out
}

/// Where a secret's value begins and ends.
fn value(text: &str, at: usize, colon: bool, at_line_start: bool, quoted_name: bool) -> (usize, usize) {
    let rest = &text[at..];
    let line = rest.find(['\n', '\r']).unwrap_or(rest.len());
    let Some(first) = rest[..line].chars().next() else { return (at, at) };
    if matches!(first, '"' | '\'' | '`') {
        // To the closing quote, wherever it is; an escaped one is part of the value.
        let mut escaped = false;
        for (i, c) in rest.char_indices().skip(1) {
            if c == first && !escaped {
                return (at + 1, at + i);
            }
            escaped = c == '\\' && !escaped;
        }
        return (at + 1, text.len());
    }
    let until = |stop: fn(char) -> bool| rest[..line].find(stop).unwrap_or(line);
    let end = if quoted_name {
        // JSON: a number, or a list or object of which the parts are found by their own names.
        if matches!(first, '{' | '[') { 0 } else { until(|c| matches!(c, ',' | '}' | ']')) }
    } else if colon || at_line_start {
        // A header or a line of a file: everything to its end is the value. A list of pairs on one line is not.
        let pair = rest[..line].find([';', ',']).filter(|i| NAME.is_match(&rest[*i..line]));
        pair.unwrap_or(line)
    } else {
        until(|c| c.is_whitespace() || matches!(c, ',' | ';' | '&' | ')' | ']' | '}' | '"' | '\'' | '|'))
    };
    (at, at + end)
}

/// Whether only what may stand before an assignment stands before it on its line.
fn is_line_start(before: &str) -> bool {
    let line = before.rsplit(['\n', '\r']).next().unwrap_or("");
    let line = line.trim();
    line.is_empty() || matches!(line, "export" | "set" | "-" | "#" | "Environment=" | "env")
}
