//! Reads JSON text the way `JSON.parse` does: the same grammar, any number as a double, lone surrogates kept.

use std::borrow::Cow;

use super::{Js, JsonError, MAX_DEPTH, Wtf8};

pub(super) fn read(text: &str) -> Result<Js<'_>, JsonError> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at < text.len() { Err(reader.error("something follows the value")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, what: &'static str) -> JsonError {
        JsonError { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Js<'a>, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Js::Text(self.text()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => Err(self.error("the text ends too soon")),
        }
    }

    fn word(&mut self) -> Result<Js<'a>, JsonError> {
        for word in ["null", "true", "false"] {
            if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(Js::Word(word));
            }
        }
        Err(self.error("no value begins like this"))
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<Js<'a>, JsonError> {
        let from = self.at;
        self.take(b'-');
        let zero_first = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (zero_first && whole > 1) {
            return Err(self.error("a number's digits are wrong"));
        }
        if self.take(b'.') && self.digits() == 0 {
            return Err(self.error("a number has no digits after its point"));
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _sign = self.take(b'+') || self.take(b'-');
            if self.digits() == 0 {
                return Err(self.error("a number has no digits in its exponent"));
            }
        }
        // Rust reads every form above, rounds to the nearest double as JavaScript does, and gives infinity beyond.
        self.text[from..self.at].parse().map(Js::Number).map_err(|_| self.error("a number cannot be read"))
    }

    fn list(&mut self, depth: usize) -> Result<Js<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Js::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Js::List(items));
            }
            if !self.take(b',') {
                return Err(self.error("a list needs a comma or its end here"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Js<'a>, JsonError> {
        self.at += 1;
        let mut members = Members::default();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Js::Object(Vec::new()));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.error("an object needs a key here"));
            }
            let key = self.text()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.error("a key needs a colon after it"));
            }
            let value = self.value(depth + 1)?;
            members.insert(key, value);
            self.skip_space();
            if self.take(b'}') {
                return Ok(Js::Object(members.in_order()));
            }
            if !self.take(b',') {
                return Err(self.error("an object needs a comma or its end here"));
            }
        }
    }

    fn text(&mut self) -> Result<Wtf8<'a>, JsonError> {
        self.at += 1;
        let from = self.at;
        // Most texts have no escape and are borrowed as they stand.
        loop {
            match self.peek() {
                None => return Err(self.error("a text has no end")),
                Some(b'"') => {
                    let plain = &self.text.as_bytes()[from..self.at];
                    self.at += 1;
                    return Ok(Cow::Borrowed(plain));
                }
                Some(b'\\') => break,
                Some(0..=0x1f) => return Err(self.error("a text has a bare control character")),
                Some(_) => self.at += 1,
            }
        }
        let mut out = self.text.as_bytes()[from..self.at].to_vec();
        let mut high: Option<u16> = None;
        loop {
            let byte = self.peek().ok_or_else(|| self.error("a text has no end"))?;
            if byte != b'\\' || self.text.as_bytes().get(self.at + 1) != Some(&b'u') {
                flush(&mut high, &mut out);
            }
            self.at += 1;
            match byte {
                b'"' => return Ok(Cow::Owned(out)),
                b'\\' => {
                    let escape = self.peek().ok_or_else(|| self.error("a text has no end"))?;
                    self.at += 1;
                    match escape {
                        b'"' | b'\\' | b'/' => out.push(escape),
                        b'b' => out.push(0x08),
                        b'f' => out.push(0x0c),
                        b'n' => out.push(b'\n'),
                        b'r' => out.push(b'\r'),
                        b't' => out.push(b'\t'),
                        b'u' => self.unit(&mut high, &mut out)?,
                        _ => return Err(self.error("a text has an escape that does not exist")),
                    }
                }
                0..=0x1f => return Err(self.error("a text has a bare control character")),
                plain => out.push(plain),
            }
        }
    }

    /// The four digits after `\u`: two halves of a pair become one character, a half alone stays a half.
    fn unit(&mut self, high: &mut Option<u16>, out: &mut Vec<u8>) -> Result<(), JsonError> {
        let hex = self.text.as_bytes().get(self.at..self.at + 4).filter(|h| h.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.ok_or_else(|| self.error("an escape needs four hexadecimal digits"))?;
        let unit = hex.iter().fold(0u16, |n, digit| n << 4 | (*digit as char).to_digit(16).unwrap_or(0) as u16);
        self.at += 4;
        match (*high, unit) {
            (Some(first), 0xDC00..=0xDFFF) => {
                *high = None;
                let code = 0x10000 + ((u32::from(first) - 0xD800) << 10) + (u32::from(unit) - 0xDC00);
                push_code(code, out);
            }
            (_, 0xD800..=0xDBFF) => {
                flush(high, out);
                *high = Some(unit);
            }
            _ => {
                flush(high, out);
                push_code(u32::from(unit), out);
            }
        }
        Ok(())
    }
}

fn flush(high: &mut Option<u16>, out: &mut Vec<u8>) {
    if let Some(unit) = high.take() {
        push_code(u32::from(unit), out);
    }
}

fn push_code(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        // A lone surrogate in the three bytes that UTF-8 forbids for it.
        None => out.extend_from_slice(&[0xED, 0x80 | (code >> 6 & 0x3f) as u8, 0x80 | (code & 0x3f) as u8]),
    }
}

/// An object's members in the order in which JavaScript walks them.
#[derive(Default)]
struct Members<'a> {
    indices: std::collections::BTreeMap<u32, (Wtf8<'a>, Js<'a>)>,
    named: Vec<(Wtf8<'a>, Js<'a>)>,
    /// Where each name is, once there are enough for a search to cost more.
    places: std::collections::BTreeMap<Wtf8<'a>, usize>,
}

/// From so many names on they are looked up in a tree: an object of a hundred thousand keys must not cost their square.
const TREE_FROM: usize = 16;

impl<'a> Members<'a> {
    fn insert(&mut self, key: Wtf8<'a>, value: Js<'a>) {
        if let Some(index) = array_index(&key) {
            self.indices.insert(index, (key, value));
            return;
        }
        let place = if self.places.is_empty() {
            self.named.iter().position(|(name, _)| *name == key)
        } else {
            self.places.get(&key).copied()
        };
        if let Some(place) = place {
            self.named[place].1 = value;
            return;
        }
        self.named.push((key, value));
        match self.named.len() {
            n if n == TREE_FROM => {
                self.places = self.named.iter().enumerate().map(|(i, (name, _))| (name.clone(), i)).collect();
            }
            n if n > TREE_FROM => {
                self.places.insert(self.named[n - 1].0.clone(), n - 1);
            }
            _ => {}
        }
    }

    fn in_order(self) -> Vec<(Wtf8<'a>, Js<'a>)> {
        self.indices.into_values().chain(self.named).collect()
    }
}

/// The number that a key is, if it is an array index: 0 to 2^32 - 2 in its shortest form.
fn array_index(key: &[u8]) -> Option<u32> {
    let well_formed = matches!(key, [b'0'] | [b'1'..=b'9', ..]) && key.len() <= 10;
    let text = std::str::from_utf8(key).ok().filter(|t| well_formed && t.bytes().all(|b| b.is_ascii_digit()))?;
    text.parse().ok().filter(|index| *index != u32::MAX)
}
