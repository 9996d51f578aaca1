//! Prints values the way `JSON.stringify` does.

use std::fmt::Write as _;

use super::{Js, write_number};

pub(super) fn print(value: &Js<'_>, out: &mut String) {
    match value {
        Js::Word(word) => out.push_str(word),
        Js::Number(number) => write_number(*number, out),
        Js::Text(text) => print_text(text, out),
        Js::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                print(item, out);
            }
            out.push(']');
        }
        Js::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                print_text(key, out);
                out.push(':');
                print(value, out);
            }
            out.push('}');
        }
    }
}

fn print_text(wtf8: &[u8], out: &mut String) {
    out.push('"');
    let mut rest = wtf8;
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                print_plain(text, out);
                break;
            }
            Err(error) => {
                let (text, after) = rest.split_at(error.valid_up_to());
                print_plain(std::str::from_utf8(text).unwrap_or_default(), out);
                // The reader leaves nothing else that is not UTF-8.
                let Some((&[_, b, c], after)) = after.split_first_chunk::<3>() else { break };
                let _ = write!(out, "\\u{:04x}", 0xD000 | u32::from(b & 0x3f) << 6 | u32::from(c & 0x3f));
                rest = after;
            }
        }
    }
    out.push('"');
}

fn print_plain(text: &str, out: &mut String) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
    }
    out.push_str(&text[from..]);
}

/// Canonical text has a `\ud…` escape only for a lone surrogate; a backslash before it would be escaped itself.
pub(super) fn replace_lone(canonical: &str) -> String {
    let mut out = String::with_capacity(canonical.len());
    let mut rest = canonical;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let skip = match after.as_bytes() {
            [b'\\', b'u', b'd', ..] => {
                out.push('\u{FFFD}');
                6
            }
            _ => {
                out.push_str(&after[..2]);
                2
            }
        };
        rest = &after[skip..];
    }
    out.push_str(rest);
    out
}
