//! Texts of others on a person's terminal.

use convoke_core::hidden::is_hidden;

/// A text from elsewhere on one line. A machine names itself and writes its own log lines: neither may move the
/// operator's cursor, recolour a line or turn its reading order around.
pub(crate) fn clean(text: &str) -> String {
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
pub(crate) fn clean_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(clean).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Bytes in a unit that fits.
pub(crate) fn bytes(n: u64) -> String {
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
pub(crate) fn list<T: AsRef<str>>(items: &[T]) -> String {
    if items.is_empty() { "-".into() } else { items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
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
    fn sizes_have_a_unit_that_fits() {
        for (n, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB"), (1 << 30, "1.0 GiB")]
        {
            assert_eq!(bytes(n), text);
        }
    }
}
