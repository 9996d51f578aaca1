//! Shell text as its pieces: what is quoted, what is escaped, what is plain. The guard and the redaction read commands
//! through this, so that a `;` in quotes is not taken for the end of one.
//!
//! It knows quoting, comments and here-documents, and no grammar beyond that. Text that a shell would reject is still read:
//! a quote that nothing closes stands for itself.

use std::borrow::Cow;

/// Most `$(…)` inside one another that are followed to the end of a quoted text.
const MAX_DEPTH: usize = 16;
/// Most here-documents that one line may begin.
const MAX_DOCUMENTS: usize = 8;

/// Whose quoting rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Posix,
    /// PowerShell, with the `^` of cmd.
    Powershell,
}

/// What a piece is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'t> {
    /// Stands for itself.
    Plain,
    /// Quoted text, and what is in the quotes.
    Quoted(Cow<'t, str>),
    /// A character that an escape makes an ordinary one.
    Escaped(&'t str),
    /// A line break that ends nothing.
    Joined,
    Comment,
    /// The text of a here-document; the piece ends with the line that ends it.
    Document(&'t str),
}

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'t> {
    /// As it was written.
    pub(crate) text: &'t str,
    pub(crate) kind: Kind<'t>,
}

/// The pieces of a text, which together are the text.
pub(crate) fn pieces(text: &str, dialect: Dialect) -> Pieces<'_> {
    Pieces {
        rest: text,
        dialect,
        begins_word: true,
        is_broken: false,
        is_bare: false,
        documents: Vec::new(),
        in_document: false,
    }
}

/// PowerShell takes typographic quotes for quotes.
pub(crate) fn is_quote(c: char) -> bool {
    is_single(c) || is_double(c)
}

fn is_single(c: char) -> bool {
    matches!(c, '\'' | '\u{2018}'..='\u{201b}')
}

fn is_double(c: char) -> bool {
    matches!(c, '"' | '\u{201c}'..='\u{201e}')
}

/// How long the line break is that a text begins with.
pub(crate) fn line_break(text: &str) -> Option<usize> {
    if text.starts_with("\r\n") { Some(2) } else { text.starts_with('\n').then_some(1) }
}

/// See [`pieces`].
#[derive(Clone, Debug)]
pub(crate) struct Pieces<'t> {
    rest: &'t str,
    dialect: Dialect,
    begins_word: bool,
    /// A quote was not closed. No later one is looked for: that would cost the square of the text.
    is_broken: bool,
    /// A here-string did not end.
    is_bare: bool,
    /// What ends the here-documents that begin with the next line, and whether tabs before it do not count.
    documents: Vec<(String, bool)>,
    in_document: bool,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.rest;
        let first = rest.chars().next()?;
        let (len, kind) = match self.dialect {
            _ if self.in_document => self.document(),
            Dialect::Posix => self.posix(first),
            Dialect::Powershell => self.powershell(first),
        };
        let (text, rest) = rest.split_at(len);
        self.rest = rest;
        let ends_word = |c: char| c.is_whitespace() || ";|&()<>`{}".contains(c);
        self.begins_word = match kind {
            Kind::Plain => text.ends_with(ends_word),
            Kind::Joined => self.begins_word,
            Kind::Comment | Kind::Document(_) => true,
            Kind::Quoted(_) | Kind::Escaped(_) => false,
        };
        self.in_document |= kind == Kind::Plain && text.ends_with('\n') && !self.documents.is_empty();
        Some(Piece { text, kind })
    }
}

impl<'t> Pieces<'t> {
    fn posix(&mut self, first: char) -> (usize, Kind<'t>) {
        let rest = self.rest;
        let quoted = match first {
            '\\' => return escaped(rest),
            '#' if self.begins_word => return (line(rest), Kind::Comment),
            '<' => return (self.redirection(), Kind::Plain),
            _ if self.is_broken => None,
            '\'' => single(rest, 1),
            '"' => double(rest, 1),
            '$' if rest.starts_with("$'") => ansi(rest),
            '$' if rest.starts_with("$\"") => double(rest, 2),
            _ => None,
        };
        self.quoted_or_plain(quoted, |c| matches!(c, '\\' | '\'' | '"' | '$' | '#' | '<' | '\n'))
    }

    fn powershell(&mut self, first: char) -> (usize, Kind<'t>) {
        let rest = self.rest;
        let quoted = match first {
            '`' => return escaped(rest),
            '^' if rest[1..].starts_with(|c: char| c == '\r' || c == '\n' || c.is_ascii_punctuation()) => {
                return escaped(rest);
            }
            '#' if self.begins_word => return (line(rest), Kind::Comment),
            _ if self.is_broken => None,
            // One that does not end is not looked for again: that would cost the square of the text.
            '@' if !self.is_bare => {
                let found = here_string(rest);
                self.is_bare = found.is_none() && rest[1..].starts_with(is_quote);
                found
            }
            '<' if rest.starts_with("<#") => match rest.find("#>") {
                Some(end) => return (end + 2, Kind::Comment),
                None => {
                    self.is_broken = true;
                    None
                }
            },
            c if is_single(c) => doubled(rest, c.len_utf8(), is_single, None),
            c if is_double(c) => doubled(rest, c.len_utf8(), is_double, Some('`')),
            _ => None,
        };
        self.quoted_or_plain(quoted, |c| is_quote(c) || matches!(c, '`' | '^' | '@' | '#' | '<'))
    }

    /// The quoted text, or what is plain up to the next character that may not be.
    fn quoted_or_plain(
        &mut self,
        quoted: Option<(usize, Cow<'t, str>)>,
        special: impl Fn(char) -> bool,
    ) -> (usize, Kind<'t>) {
        match quoted {
            Some((len, inner)) if !self.is_broken => return (len, Kind::Quoted(inner)),
            None if self.rest.starts_with(is_quote) => self.is_broken = true,
            _ => {}
        }
        let mut chars = self.rest.char_indices();
        let first = chars.next().map_or(0, |(_, c)| c.len_utf8());
        if self.rest.starts_with('\n') {
            return (first, Kind::Plain);
        }
        let len = chars.find(|(_, c)| special(*c)).map_or(self.rest.len(), |(at, _)| at);
        (len.max(first), Kind::Plain)
    }

    /// `<`, `<<<`, or `<<` and what ends the here-document that it begins.
    fn redirection(&mut self) -> usize {
        let Some(after) = self.rest.strip_prefix("<<") else { return 1 };
        if after.starts_with('<') {
            return 3;
        }
        let tabs = after.starts_with('-');
        let word = after.strip_prefix('-').unwrap_or(after).trim_start_matches([' ', '\t']);
        let end = word.find(|c: char| c.is_whitespace() || ";|&()<>".contains(c)).unwrap_or(word.len());
        let word: String = word[..end].chars().filter(|c| !"'\"\\".contains(*c)).collect();
        if !word.is_empty() && self.documents.len() < MAX_DOCUMENTS {
            self.documents.push((word, tabs));
        }
        2
    }

    /// The here-document that begins here; all the rest when nothing ends it.
    fn document(&mut self) -> (usize, Kind<'t>) {
        let (end, tabs) = self.documents.remove(0);
        self.in_document = !self.documents.is_empty();
        let mut at = 0;
        for line in self.rest.split_inclusive('\n') {
            let text = line.trim_end_matches(['\n', '\r']);
            let text = if tabs { text.trim_start_matches('\t') } else { text };
            if text == end {
                return (at + line.len(), Kind::Document(&self.rest[..at]));
            }
            at += line.len();
        }
        (at, Kind::Document(self.rest))
    }
}

fn line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

fn escaped(text: &str) -> (usize, Kind<'_>) {
    if let Some(len) = line_break(&text[1..]) {
        return (1 + len, Kind::Joined);
    }
    match text[1..].chars().next() {
        Some(c) => (1 + c.len_utf8(), Kind::Escaped(&text[1..1 + c.len_utf8()])),
        None => (1, Kind::Plain),
    }
}

/// Up to the next `'`.
fn single(text: &str, open: usize) -> Option<(usize, Cow<'_, str>)> {
    let inner = &text[open..open + text[open..].find('\'')?];
    Some((open + inner.len() + 1, inner.into()))
}

/// Up to the `"` that closes it, past escapes and past the quotes of a `$(…)`.
fn double(text: &str, open: usize) -> Option<(usize, Cow<'_, str>)> {
    let end = open + double_end(&text[open..], 0)?;
    let inner = &text[open..end];
    if !inner.contains('\\') {
        return Some((end + 1, inner.into()));
    }
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some('\n') if c == '\\' => drop(chars.next()),
            Some('"' | '\\' | '$' | '`') if c == '\\' => plain.extend(chars.next()),
            _ => plain.push(c),
        }
    }
    Some((end + 1, plain.into()))
}

/// Where the `"` is that ends what begins here.
fn double_end(text: &str, depth: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'"' => return Some(at),
            b'\\' => 2,
            b'$' if bytes.get(at + 1) == Some(&b'(') && depth < MAX_DEPTH => {
                2 + substitution_end(&text[at + 2..], depth + 1)? + 1
            }
            _ => 1,
        };
    }
    None
}

/// Where the `)` is that ends the `$(` before this.
fn substitution_end(text: &str, depth: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 0usize);
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b')' if open == 0 => return Some(at),
            b')' => {
                open -= 1;
                1
            }
            b'(' => {
                open += 1;
                1
            }
            b'\\' => 2,
            b'\'' => 1 + text.get(at + 1..)?.find('\'')? + 1,
            b'"' if depth < MAX_DEPTH => 1 + double_end(text.get(at + 1..)?, depth + 1)? + 1,
            _ => 1,
        };
    }
    None
}

/// `$'…'`, whose escapes are characters of any kind.
fn ansi(text: &str) -> Option<(usize, Cow<'_, str>)> {
    let mut plain = String::new();
    let mut at = 2;
    loop {
        let rest = text.get(at..)?;
        let c = rest.chars().next()?;
        at += c.len_utf8();
        match c {
            '\'' => return Some((at, plain.into())),
            '\\' => {
                let (len, c) = ansi_escape(&rest[1..])?;
                plain.push(c);
                at += len;
            }
            c => plain.push(c),
        }
    }
}

/// What is behind the backslash, and the character it is.
fn ansi_escape(text: &str) -> Option<(usize, char)> {
    let first = text.chars().next()?;
    let number = |from: usize, most: usize, radix: u32| {
        let digits = text[from..].bytes().take(most).take_while(|b| char::from(*b).is_digit(radix)).count();
        let value = u32::from_str_radix(&text[from..from + digits], radix).ok()?;
        Some((from + digits, char::from_u32(value)?))
    };
    let known = match first {
        'x' => number(1, 2, 16),
        'u' => number(1, 4, 16),
        'U' => number(1, 8, 16),
        '0'..='7' => number(0, 3, 8),
        'n' => Some((1, '\n')),
        't' => Some((1, '\t')),
        _ => None,
    };
    Some(known.unwrap_or((first.len_utf8(), first)))
}

/// `@'` or `@"` at the end of a line, up to the quote and the `@` that begin one.
fn here_string(text: &str) -> Option<(usize, Cow<'_, str>)> {
    let quote = text[1..].chars().next().filter(|c| is_quote(*c))?;
    let from = 1 + quote.len_utf8();
    let from = from + line_break(&text[from..])?;
    let same = if is_single(quote) { is_single } else { is_double };
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        if let Some(close) = line.chars().next().filter(|c| same(*c))
            && line[close.len_utf8()..].starts_with('@')
        {
            return Some((at + close.len_utf8() + 1, text[from..at].into()));
        }
        at += line.len();
    }
    None
}

/// Up to a quote that is not doubled.
fn doubled(text: &str, open: usize, closes: fn(char) -> bool, escape: Option<char>) -> Option<(usize, Cow<'_, str>)> {
    let mut plain = String::new();
    let mut chars = text[open..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if Some(c) == escape {
            plain.extend(chars.next().map(|(_, c)| c));
        } else if !closes(c) {
            plain.push(c);
        } else if let Some((_, next)) = chars.next_if(|(_, next)| closes(*next)) {
            plain.push(next);
        } else {
            return Some((open + at + c.len_utf8(), plain.into()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quoted text as `‹…›`, escapes as `\`, a joined line as `+`, comments as `#`, documents as `=…=`.
    #[track_caller]
    fn check(dialect: Dialect, text: &str, expect: &str) {
        let shown: String = pieces(text, dialect)
            .map(|piece| match piece.kind {
                Kind::Plain => piece.text.to_owned(),
                Kind::Quoted(inner) => format!("‹{inner}›"),
                Kind::Escaped(c) => format!("\\{c}"),
                Kind::Joined => "+".to_owned(),
                Kind::Comment => "#".to_owned(),
                Kind::Document(body) => format!("={body}="),
            })
            .collect();
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn posix_pieces() {
        for (text, expect) in [
            ("cat ';' x", "cat ‹;› x"),
            (r#"a "b \"c\" \n $x"d"#, r#"a ‹b "c" \n $x›d"#),
            (
                r"a\;b \
c",
                r"a\;b +c",
            ),
            (r"$'\x2fetc\057s\'\n' $'a", "‹/etc/s'\n› $'a"),
            (r#""$(cat "a;b" 'c"d' /x)" y"#, r#"‹$(cat "a;b" 'c"d' /x)› y"#),
            ("ls # don't\ncat 'x'", "ls #\ncat ‹x›"),
            ("a#b 'c' $#", "a#b ‹c› $#"),
            ("cat <<E | x 'y'\ndon't\nE\nz", "cat <<E | x ‹y›\n=don't\n=z"),
            ("cat <<-\"E\" <<F\n\ta\n\tE\nb\nF\n", "cat <<-‹E› <<F\n=\ta\n==b\n="),
            ("echo $((1<<2))\nb 'c'", "echo $((1<<2))\n=b 'c'="),
            ("x <<< 'a b'", "x <<< ‹a b›"),
            ("it's; 'b'", "it‹s; ›b'"),
            ("a \"b", "a \"b"),
        ] {
            check(Dialect::Posix, text, expect);
        }
    }

    #[test]
    fn powershell_pieces() {
        for (text, expect) in [
            (r"ri 'a;b', C:\", r"ri ‹a;b›, C:\"),
            (r#"'it''s' "a ""b"" `"c`" \""#, r#"‹it's› ‹a "b" "c" \›"#),
            ("a`;b `\r\nc", "a\\;b +c"),
            ("rd a^&b ^x", "rd a\\&b ^x"),
            ("\u{201c}a;b\u{201d} x", "‹a;b› x"),
            ("@'\na'b\n'@ | x", "‹a'b\n› | x"),
            ("ls # don't\nx <# 'y #> z", "ls #\nx # z"),
            ("don't", "don't"),
        ] {
            check(Dialect::Powershell, text, expect);
        }
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_are_the_text(text in "(\\PC|[\\\\'\"`^$@#<>();| \n\r\t]|<<E|\nE\n|\\$\\(){0,60}") {
            for dialect in [Dialect::Posix, Dialect::Powershell] {
                let joined: String = pieces(&text, dialect).map(|piece| piece.text).collect();
                proptest::prop_assert_eq!(&joined, &text);
            }
        }
    }
}
