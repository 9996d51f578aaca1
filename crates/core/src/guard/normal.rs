//! The forms a text is matched in: as it was sent, and normalised.
//!
//! | Group | Normalised |
//! | --- | --- |
//! | `posix` | backslash-newline joined; quotes, backslashes and the `$` of `$'…'` dropped; `$IFS`, `${IFS…}` a space; white space collapsed. Of that, once more, with its words expanded (`guard/expand.rs`) and told where they are (`guard/place.rs`); both once more with a quoted `;` as part of a word (`guard/quoted.rs`) |
//! | `powershell` | backtick-newline and caret-newline a space; backticks, carets and quotes dropped; `'a' + 'b'` joined; typographic dashes a `-`; white space collapsed. Of that, once more, with its words told where they are; both once more with a quoted `;` as part of a word |
//! | `self_protection` | all of the above, since either kind of text is checked |
//! | `path` | `/` a `\`; `\\?\`, `\\.\` and `\??\` prefixes dropped; separators collapsed; `.` components, trailing dots and spaces, stream suffixes such as `::$DATA` dropped; a name of three dots or more is one |
//!
//! Collapsed white space is one space, or one line break when there was one in it: a line break ends a command, and
//! `rm -r ./build`, `ls /` on two lines must not become one command on `/`.
//!
//! A text that ends in a line break is also matched without it: `$` then means the same as in Python, where it matches
//! before a last line break too.

use super::place::{self, Shell};
use super::{AppliesTo, expand, quoted};
use crate::shell::{self, Dialect, is_quote};

/// The texts to match for one surface: the raw one first, then those that differ from it.
#[derive(Debug)]
pub(super) struct Forms<'a> {
    raw: &'a str,
    unterminated: Option<&'a str>,
    normal: Vec<String>,
}

impl Forms<'_> {
    /// Each form once.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let normal = self.normal.iter().map(String::as_str);
        std::iter::once(self.raw).chain(self.unterminated).chain(normal)
    }
}

/// The forms of `text` as a surface of `group`.
pub(super) fn forms(group: AppliesTo, text: &str) -> Forms<'_> {
    let mut normal = Vec::new();
    let mut add = |form: String| {
        if form != text && !normal.contains(&form) {
            normal.push(form);
        }
    };
    if matches!(group, AppliesTo::Posix | AppliesTo::SelfProtection) {
        for plain in [Some(posix(text)), quoted::form(text, Dialect::Posix)].into_iter().flatten() {
            let expanded = expand::expanded(&plain);
            add(plain);
            expanded.into_iter().for_each(&mut add);
        }
    }
    if matches!(group, AppliesTo::Powershell | AppliesTo::SelfProtection) {
        for plain in [Some(powershell(text)), quoted::form(text, Dialect::Powershell)].into_iter().flatten() {
            let placed = place::placed(&plain, Shell::Powershell);
            add(plain);
            placed.into_iter().for_each(&mut add);
        }
    }
    if group == AppliesTo::Path {
        add(path(text));
    }
    Forms { raw: text, unterminated: text.strip_suffix('\n'), normal }
}

fn posix(text: &str) -> String {
    let mut out = Collapsed::new(text.len());
    out.push_posix(text);
    out.text
}

/// What follows `IFS` or `{IFS…}` when that is what the text behind a `$` begins with.
fn after_ifs(text: &str) -> Option<&str> {
    let after = if let Some(tail) = text.strip_prefix("{IFS") {
        // A short look ahead only: an unclosed brace per `$` would otherwise cost the square of the text.
        let near = tail.len().min(32);
        &tail[tail.as_bytes()[..near].iter().position(|&b| b == b'}')? + 1..]
    } else {
        let tail = text.strip_prefix("IFS")?;
        if tail.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric()) {
            return None;
        }
        tail
    };
    // `$IFS$9` is the usual way to end the name: an unset parameter that adds nothing.
    let parameter = after.strip_prefix('$').and_then(|a| a.strip_prefix(|c: char| c.is_ascii_digit() || c == '@'));
    Some(parameter.unwrap_or(after))
}

fn powershell(text: &str) -> String {
    let mut out = Collapsed::new(text.len());
    let mut rest = out.push_plain(text, b"`^'\"");
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '`' | '^' => {
                if let Some(after) = after_line_break(rest) {
                    rest = after;
                    out.push(' ');
                }
            }
            c if is_quote(c) => {
                let joined = rest.trim_start().strip_prefix('+').and_then(|r| r.trim_start().strip_prefix(is_quote));
                rest = joined.unwrap_or(rest);
            }
            // PowerShell takes each of these for the `-` of a parameter.
            '\u{2013}' | '\u{2014}' | '\u{2015}' => out.push('-'),
            c => out.push(c),
        }
        rest = out.push_plain(rest, b"`^'\"");
    }
    out.text
}

fn after_line_break(text: &str) -> Option<&str> {
    shell::line_break(text).map(|len| &text[len..])
}

fn path(text: &str) -> String {
    let mut text = text.trim_matches(|c: char| c.is_whitespace() || c == '"').replace('/', "\\");
    for prefix in [r"\\?\", r"\\.\", r"\??\"] {
        if let Some(rest) = text.strip_prefix(prefix) {
            text = rest.to_owned();
        }
    }
    let mut out = String::with_capacity(text.len());
    if text.starts_with('\\') {
        out.push('\\');
    }
    for component in text.split('\\') {
        let component = without_stream(component);
        let component = match component.trim_end_matches(['.', ' ']) {
            // Two dots and a space still lead up on some systems; more dots are a name on every one.
            "" if component.starts_with("..") => leading_dots(component),
            rest => rest,
        };
        if component.is_empty() {
            continue;
        }
        if !out.is_empty() && !out.ends_with('\\') {
            out.push('\\');
        }
        out.push_str(component);
    }
    out
}

fn leading_dots(component: &str) -> &str {
    &component[..component.bytes().take_while(|&b| b == b'.').count()]
}

/// A component without `::$DATA`, `::$INDEX_ALLOCATION` or `:name:$DATA`, which name the same file or directory.
fn without_stream(component: &str) -> &str {
    match component.find(':') {
        Some(at) if component[at..].contains(":$") => &component[..at],
        _ => component,
    }
}

/// Text with its white space collapsed as it is written.
pub(super) struct Collapsed {
    pub(super) text: String,
    gap: Option<char>,
}

impl Collapsed {
    pub(super) fn new(capacity: usize) -> Self {
        Self { text: String::with_capacity(capacity), gap: None }
    }

    /// Writes what stands for itself, up to a `special` byte, white space or text that is not ASCII; the rest is
    /// returned. Most of a command is such text, and a run of it is copied at once.
    fn push_plain<'t>(&mut self, text: &'t str, special: &[u8]) -> &'t str {
        let plain = text.bytes().position(|b| !b.is_ascii_graphic() || special.contains(&b)).unwrap_or(text.len());
        let (run, rest) = text.split_at(plain);
        if !run.is_empty() {
            self.close_gap();
            self.text.push_str(run);
        }
        rest
    }

    /// Writes the text of a POSIX shell without its quotes and escapes.
    pub(super) fn push_posix(&mut self, text: &str) {
        let mut rest = self.push_plain(text, b"\\'\"$");
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\\' => rest = after_line_break(rest).unwrap_or(rest),
                '\'' | '"' => {}
                '$' => {
                    if let Some(after) = after_ifs(rest) {
                        rest = after;
                        self.push(' ');
                    } else if !rest.starts_with(['\'', '"']) {
                        self.push('$');
                    }
                }
                c => self.push(c),
            }
            rest = self.push_plain(rest, b"\\'\"$");
        }
    }

    pub(super) fn push(&mut self, c: char) {
        if matches!(c, '\n' | '\r') {
            self.gap = Some('\n');
        } else if c.is_whitespace() {
            self.gap.get_or_insert(' ');
        } else {
            self.close_gap();
            self.text.push(c);
        }
    }

    /// A gap is written only between characters, so that white space at either end is dropped.
    fn close_gap(&mut self) {
        if let Some(gap) = self.gap.take().filter(|_| !self.text.is_empty()) {
            self.text.push(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posix_quoting_and_spacing() {
        for (text, expect) in [
            ("r\\m  -r'f' \"/\"", "rm -rf /"),
            ("rm -rf \\\n  /", "rm -rf /"),
            ("rm -rf ./a\n\n ls /\n", "rm -rf ./a\nls /"),
            ("rm${IFS}-rf$IFS/", "rm -rf /"),
            ("rm$IFS$9-rf${IFS%?}/", "rm -rf /"),
            ("echo $IFSX ${IFS", "echo $IFSX ${IFS"),
            ("$'rm' -rf $\"/\" $HOME", "rm -rf / $HOME"),
            (" \t ", ""),
        ] {
            assert_eq!(posix(text), expect, "{text}");
        }
    }

    #[test]
    fn powershell_quoting_and_spacing() {
        for (text, expect) in [
            ("For`mat-Vol\"ume\"  C", "Format-Volume C"),
            ("'kenny' + '-ag'+\"ent\"", "kenny-agent"),
            ("Stop-Service `\r\n  x", "Stop-Service x"),
            ("vss^admin del^ete", "vssadmin delete"),
            ("Remove-Item \u{2013}Recurse \u{201c}C:\\\u{201d}", "Remove-Item -Recurse C:\\"),
            ("a\r\n\r\nb\u{a0}c", "a\nb c"),
        ] {
            assert_eq!(powershell(text), expect, "{text}");
        }
    }

    #[test]
    fn paths_that_name_the_same_file() {
        for (text, expect) in [
            ("/etc//./shadow", r"\etc\shadow"),
            (r"\\?\C:\Windows\\System32/config/SAM. .", r"C:\Windows\System32\config\SAM"),
            (r"C:\x\id_rsa::$DATA", r"C:\x\id_rsa"),
            (r"C:\.ssh::$INDEX_ALLOCATION\id", r"C:\.ssh\id"),
            ("/root/.ssh/", r"\root\.ssh"),
            (r"\\host\share\x", r"\host\share\x"),
            ("../x", r"..\x"),
            ("a/.. /x", r"a\..\x"),
            ("a/.. ./x", r"a\..\x"),
            ("a/.../x/... ", r"a\...\x\..."),
            ("/", "\\"),
            ("/tmp/a:b", r"\tmp\a:b"),
            (" \"C:\\x\" ", r"C:\x"),
        ] {
            assert_eq!(path(text), expect, "{text}");
        }
    }

    #[test]
    fn forms_that_say_nothing_new_are_left_out() {
        assert_eq!(forms(AppliesTo::Posix, "ls -l").iter().count(), 1);
        assert_eq!(forms(AppliesTo::SelfProtection, "ls 'x'").iter().count(), 2);
        assert_eq!(forms(AppliesTo::SelfProtection, "a`b \\c").iter().count(), 3);
        assert_eq!(forms(AppliesTo::Posix, "ls a/../b {x,y}").iter().count(), 2);
        assert_eq!(forms(AppliesTo::Posix, "'x'\n").iter().collect::<Vec<_>>(), ["'x'\n", "'x'", "x"]);
    }
}
