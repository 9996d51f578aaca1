//! The form of a command in which a quoted `;` ends nothing: `cat ';' /etc/shadow` is one command.
//!
//! A quoted text with a separator becomes a word without one. When it may be a command of its own, for `sh -c` or a
//! here-document, it is matched in a line of its own instead, read in the same way.

use std::borrow::Cow;

use super::normal::Collapsed;
use crate::shell::{Dialect, Kind, pieces};

/// How deep commands are looked for in the quotes of commands.
const MAX_DEPTH: usize = 4;
/// What stands for what cannot be told apart from a separator.
const WORD: char = '_';

/// The form, unless quotes, escapes and comments hide nothing.
pub(super) fn form(text: &str, dialect: Dialect) -> Option<String> {
    let mut form = Form { dialect, out: Collapsed::new(text.len()), differs: false };
    form.command(text, 0);
    form.differs.then_some(form.out.text)
}

struct Form {
    dialect: Dialect,
    out: Collapsed,
    differs: bool,
}

impl Form {
    fn command(&mut self, text: &str, depth: usize) {
        let mut inner: Vec<Cow<'_, str>> = Vec::new();
        let (mut after_quote, mut all) = (false, pieces(text, self.dialect).peekable());
        while let Some(piece) = all.next() {
            let was_quoted = std::mem::take(&mut after_quote);
            match piece.kind {
                Kind::Plain => {
                    let mut quoted_next = || all.peek().is_some_and(|next| matches!(next.kind, Kind::Quoted(_)));
                    if self.dialect == Dialect::Posix {
                        self.out.push_posix(piece.text);
                    } else if !(was_quoted && piece.text.trim() == "+" && quoted_next()) {
                        let hyphen = |c| if matches!(c, '\u{2013}'..='\u{2015}') { '-' } else { c };
                        piece.text.chars().filter(|c| *c != '^').for_each(|c| self.out.push(hyphen(c)));
                    }
                }
                Kind::Joined if self.dialect == Dialect::Posix => {}
                Kind::Joined => self.out.push(' '),
                Kind::Escaped(text) => self.word(text),
                Kind::Quoted(text) => {
                    after_quote = true;
                    // What an escape of `$'…'` stood for is in no other form.
                    self.differs |= piece.text.starts_with("$'") && piece.text.contains('\\');
                    if text.contains(|c: char| self.separates(c)) && text.contains(char::is_whitespace) {
                        self.differs = true;
                        self.out.push(WORD);
                    } else {
                        self.word(&text);
                    }
                    inner.push(text);
                }
                Kind::Comment => self.differs = true,
                Kind::Document(text) => {
                    self.differs = true;
                    self.out.push('\n');
                    inner.push(text.into());
                }
            }
        }
        // Without quotes of its own the other form shows it already.
        let is_hidden = |text: &Cow<'_, str>| text.contains(['\'', '"', '\\', '`', '^', '#']);
        for text in inner.iter().filter(|text| depth < MAX_DEPTH && is_hidden(text)) {
            self.out.push('\n');
            self.command(text, depth + 1);
        }
    }

    /// Writes quoted text that is part of a word.
    fn word(&mut self, text: &str) {
        for c in text.chars() {
            let hidden = self.separates(c);
            self.differs |= hidden;
            self.out.push(if hidden { WORD } else { c });
        }
    }

    fn separates(&self, c: char) -> bool {
        match self.dialect {
            Dialect::Posix => ";|&<>()#\n\r".contains(c),
            Dialect::Powershell => ";|&<>(){}#\n\r".contains(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dialect: Dialect, text: &str, expect: &str) {
        assert_eq!(form(text, dialect).as_deref().unwrap_or("the same"), expect, "{text}");
    }

    #[test]
    fn quoted_separators_are_part_of_words() {
        for (text, expect) in [
            ("cat ';' /etc/shadow", "cat _ /etc/shadow"),
            ("dd status='a;b' of=/dev/sda", "dd status=a_b of=/dev/sda"),
            (r"cat \; x; ls", "cat _ x; ls"),
            ("pkill '(a|b)'", "pkill _a_b_"),
            ("sh -c 'rm -r x; ls /'", "sh -c _"),
            (r#"sh -c "cat ';' x""#, "sh -c _\ncat _ x"),
            (r#"sh -c "sh -c \"cat ';' x\"""#, "sh -c _\nsh -c _\ncat _ x"),
            ("sh <<'E'\ncat ';' x\nE\nls", "sh <<E\nls\ncat _ x"),
            ("ls # it's\ncat 'x y'", "ls\ncat x y"),
            (r"cat $'\x2fetc'", "cat /etc"),
            ("cat 'a b' \"$HOME\"", "the same"),
        ] {
            check(Dialect::Posix, text, expect);
        }
        for (text, expect) in [
            (r"ri -r 'a;b', C:\", r"ri -r a_b, C:\"),
            (r"rd a^&b C:\", r"rd a_b C:\"),
            (r"ri ('a;' + 'b')", r"ri (a_b)"),
            ("a `\n b", "the same"),
        ] {
            check(Dialect::Powershell, text, expect);
        }
    }
}
