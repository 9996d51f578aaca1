//! The words of a command line, and where in the text each part of one is.

use std::borrow::Cow;
use std::ops::Range;

use crate::shell::{Dialect, Kind, Piece, pieces};

/// A word without its quotes and escapes.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) text: String,
    parts: Vec<Part>,
    is_whole: bool,
    /// It comes behind a `<<<`.
    pub(super) is_here_string: bool,
    /// It comes behind a `<` or a `>`.
    pub(super) is_file: bool,
}

/// A run of a word.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where it begins in the word.
    at: usize,
    /// Where it is in the text: with its quotes, and without.
    outer: (usize, usize),
    inner: (usize, usize),
    /// What is in the quotes is what the text says, byte for byte.
    is_exact: bool,
    quote: Quote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    None,
    /// What looks like a variable is one.
    Double,
    Single,
}

impl Word {
    /// A word that is no part of a text, and that no shell reads.
    pub(super) fn whole(text: &str) -> Self {
        let range = (0, text.len());
        let part = Part { at: 0, outer: range, inner: range, is_exact: true, quote: Quote::Single };
        Self { text: text.to_owned(), parts: vec![part], is_whole: true, ..Self::default() }
    }

    /// Whether no shell read it.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Where in the text a range of the word is. Quotes around it stay when they can.
    pub(super) fn place(&self, range: Range<usize>) -> Range<usize> {
        let part_of = |at: usize| self.parts.iter().rev().find(|part| part.at <= at).or(self.parts.first());
        let (Some(first), Some(last)) = (part_of(range.start), part_of(range.end.saturating_sub(1))) else {
            return 0..0;
        };
        let exact = |part: &Part, at: usize| (part.inner.0 + at.saturating_sub(part.at)).min(part.inner.1);
        let start = if first.is_exact { exact(first, range.start) } else { first.inner.0 };
        let end = if last.is_exact { exact(last, range.end) } else { last.inner.1 };
        // What begins outside the quotes of its end takes both of them.
        let (start, end) = match (first.at == last.at, first.quote, last.quote) {
            (true, ..) => (start, end),
            (false, _, Quote::None) if first.quote == Quote::None => (start, end),
            (false, ..) => {
                let at_start = start == first.inner.0;
                let at_end = end == last.inner.1;
                (if at_start { first.outer.0 } else { start }, if at_end { last.outer.1 } else { end })
            }
        };
        start..end.max(start)
    }

    /// Whether the byte at this place was in quotes.
    pub(super) fn is_quoted_at(&self, at: usize) -> bool {
        self.parts.iter().rev().find(|part| part.at <= at).is_some_and(|part| part.quote != Quote::None)
    }

    /// The quoted part that ends at this place, if it is all of its text that could be a name.
    pub(super) fn quoted_before(&self, at: usize) -> Option<&str> {
        let index = self.parts.iter().position(|part| part.at == at).unwrap_or(self.parts.len());
        let part = self.parts.get(index.checked_sub(1)?)?;
        self.text.get(part.at..at).filter(|_| part.quote != Quote::None)
    }

    /// Whether what begins here only names where a secret is: `$PASSWORD`, `$(cat file)`, `%PASSWORD%`, `{{ password }}`.
    pub(super) fn is_reference(&self, at: usize) -> bool {
        let value = &self.text[at..];
        let is_live = !self.parts.iter().any(|part| part.quote == Quote::Single && part.inner.1 > part.inner.0);
        let variable = |name: &str| {
            let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
            let is_name = |c: char| c == '_' || c == ':' || c == '.' || c.is_ascii_alphanumeric();
            name.chars().all(is_name)
        };
        let value = value.trim_end_matches([',', ')', '}']);
        // `Bearer $TOKEN`
        let value = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme)).map_or(value, |(_, value)| value);
        let live =
            |rest: &str| rest.is_empty() || rest.starts_with('(') || variable(rest) || variable(&format!("{rest}}}"));
        (is_live && (value.strip_prefix('$').is_some_and(live) || value.starts_with('`')))
            || (value.len() > 2 && value.starts_with('%') && value.ends_with('%'))
            || value.starts_with("{{")
    }
}

/// What comes before the secret of an `Authorization`.
pub(super) fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token", "digest", "apikey", "negotiate"]
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// What is between two separators.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    /// What it writes goes to the next one.
    pub(super) is_piped: bool,
    /// Its words are the arguments of what is called so: `PASSWORD(…)`.
    pub(super) called: Option<String>,
    /// Where its here-documents are.
    pub(super) documents: Vec<Range<usize>>,
}

/// Quoted text and here-documents, which may be commands themselves.
pub(super) struct Inner<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) place: Range<usize>,
}

/// The commands of a text, and what is quoted in it.
pub(super) fn commands(text: &str, dialect: Dialect) -> (Vec<Command>, Vec<Inner<'_>>) {
    let mut reader = Reader { commands: vec![Command::default()], ..Reader::default() };
    let mut inner = Vec::new();
    let mut at = 0;
    for Piece { text: piece, kind } in pieces(text, dialect) {
        let outer = (at, at + piece.len());
        match kind {
            Kind::Plain => reader.plain(piece, at),
            Kind::Joined => reader.end_word(),
            Kind::Comment => reader.end_word(),
            Kind::Escaped(c) => reader.part(c, outer, (outer.1 - c.len(), outer.1), true, Quote::Single),
            Kind::Quoted(quoted) => {
                let close = piece.chars().next_back().map_or(0, char::len_utf8);
                let open = piece.find(crate::shell::is_quote).unwrap_or(0);
                let open = open + piece[open..].chars().next().map_or(0, char::len_utf8);
                let place = (at + open.min(piece.len() - close), at + piece.len() - close);
                let is_exact = quoted.len() == place.1 - place.0;
                let is_single = piece.trim_start_matches('$').starts_with(['\'', '\u{2018}', '\u{2019}']);
                let quote = if is_single { Quote::Single } else { Quote::Double };
                reader.part(&quoted, outer, place, is_exact, quote);
                inner.push(Inner { text: quoted, place: place.0..place.1 });
            }
            Kind::Document(body) => {
                let place = at..at + body.len();
                if !reader.documents.is_empty() {
                    let of = reader.documents.remove(0);
                    reader.commands[of].documents.push(place.clone());
                }
                inner.push(Inner { text: body.into(), place });
            }
        }
        at = outer.1;
    }
    reader.end_word();
    (reader.commands, inner)
}

#[derive(Default)]
struct Reader {
    commands: Vec<Command>,
    word: Option<Word>,
    /// The commands whose here-documents come.
    documents: Vec<usize>,
    redirect: Option<bool>,
}

impl Reader {
    fn part(&mut self, text: &str, outer: (usize, usize), inner: (usize, usize), is_exact: bool, quote: Quote) {
        let redirect = self.redirect.take();
        let word = self.word.get_or_insert_with(|| Word {
            is_here_string: redirect == Some(true),
            is_file: redirect == Some(false),
            ..Word::default()
        });
        word.parts.push(Part { at: word.text.len(), outer, inner, is_exact, quote });
        word.text.push_str(text);
    }

    fn plain(&mut self, text: &str, at: usize) {
        let mut from = 0;
        let is_between = |c: char| c.is_whitespace() || ";|&()<>`".contains(c);
        while from < text.len() {
            let rest = &text[from..];
            let end = rest.find(is_between).unwrap_or(rest.len());
            if end > 0 {
                let place = (at + from, at + from + end);
                self.part(&rest[..end], place, place, true, Quote::None);
            }
            let Some(between) = rest[end..].chars().next() else { break };
            self.between(between, &rest[end..]);
            from += end + between.len_utf8();
        }
    }

    fn between(&mut self, between: char, rest: &str) {
        let called = if between == '(' { self.word.as_ref().map(|word| word.text.clone()) } else { None };
        self.end_word();
        match between {
            '<' if rest.starts_with("<<<") => self.redirect = Some(true),
            '<' if rest.starts_with("<<") && self.redirect.is_none() => {
                self.documents.push(self.commands.len() - 1);
                self.redirect = Some(false);
            }
            // The others of `<<<`, and `2>&1`.
            '<' if self.redirect.is_some() => {}
            '<' | '>' => self.redirect = Some(false),
            '&' if self.redirect.is_some() => {}
            ';' | '|' | '&' | '(' | ')' | '`' | '\n' => {
                self.redirect = None;
                if let Some(last) = self.commands.last_mut() {
                    last.is_piped = between == '|';
                }
                self.commands.push(Command { called, ..Command::default() });
            }
            _ => {}
        }
    }

    fn end_word(&mut self) {
        if let (Some(word), Some(command)) = (self.word.take(), self.commands.last_mut()) {
            command.words.push(word);
        }
    }
}
