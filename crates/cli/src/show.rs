//! Escapes foreign texts for a terminal.

use convoke_core::hidden::is_hidden;
use serde_json::Value;

/// A text from elsewhere on one line. A machine names itself and writes its own log lines: neither may move the
/// operator's cursor, recolour a line or turn its reading order around.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            // Makes a sign before it a coloured one, as log lines like to have it, and nothing else.
            '\u{fe0f}' => out.push(c),
            c if c.is_control() || is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Like [`clean`], with the line breaks and tabs of a longer text left in.
pub fn clean_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(clean).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// JSON on several lines. What [`clean`] would write out is escaped as JSON has it, so that the text stays JSON.
pub fn json(value: &Value) -> String {
    let pretty = format!("{value:#}");
    let mut out = String::with_capacity(pretty.len());
    for c in pretty.chars() {
        match c {
            '\n' | '\u{fe0f}' => out.push(c),
            // Only texts have such characters, and what is beyond 16 bits is a pair there.
            c if c.is_control() || is_hidden(c) => {
                out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    out
}

/// Bytes in a unit that fits.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Texts in a row, or a dash.
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    if items.is_empty() { "-".into() } else { items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_cannot_drive_the_operators_terminal() {
        assert_eq!(clean("pc\u{1b}[2J\u{7}"), "pc\\u{1b}[2J\\u{7}");
        assert_eq!(clean("a\u{202e}b\nc"), "a\\u{202e}b c");
        assert_eq!(clean("rm\u{200b} \u{3164}/"), "rm\\u{200b} \\u{3164}/");
        assert_eq!(clean("Grüße 你好"), "Grüße 你好");
        assert_eq!(clean_lines("a\n\tb\r"), "a\n\tb\\u{d}");
    }

    #[test]
    fn json_stays_json() {
        let value = json!({ "a\u{202e}b": ["\u{7f}\u{1b}[2J\n", "\u{e0041}", "Grüße ✔\u{fe0f}"], "n": 1.5 });
        let text = super::json(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value, "{text}");
        let expect = r#"{
  "a\u202eb": [
    "\u007f\u001b[2J\n",
    "\udb40\udc41",
    "Grüße ✔️"
  ],
  "n": 1.5
}"#;
        assert_eq!(text, expect);
    }

    #[test]
    fn sizes_have_a_unit_that_fits() {
        for (n, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB"), (1 << 30, "1.0 GiB")]
        {
            assert_eq!(bytes(n), text);
        }
    }
}
