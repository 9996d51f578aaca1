//! JSON as agents write it. Its grammar allows what programs cannot take: half a pair of surrogates, a number without
//! end, brackets by the thousand. One such value must not make a page unreadable on which it is only one of many.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// One member of a JSON object, as its exact text.
pub fn member(object: &str, name: &str) -> Option<Box<RawValue>> {
    let mut map: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).ok()?;
    map.remove(name)
}

/// Deepest nesting of what is kept and shown: parsers commonly take 100 to 128, and there is something around it.
pub const MAX_DEPTH: usize = 64;

/// What stands where something was nested too deeply.
const TOO_DEEP: &str = "\"[nested too deeply]\"";

/// JSON text that any program can take: as it is, if it can be. `text` must be grammatical JSON.
pub fn tame(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied, mut depth) = (0, 0, 0_usize);
    let mut replace = |from: usize, to: usize, with: &str| {
        out.push_str(text.get(copied..from).unwrap_or_default());
        out.push_str(with);
        copied = to;
    };
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'"' => {
                at = string_end(bytes, start).unwrap_or(bytes.len());
                for half in lone_halves(text.get(start..at).unwrap_or_default()) {
                    replace(start + half, start + half + ESCAPE, "\\ufffd");
                }
            }
            b'{' | b'[' if depth == MAX_DEPTH => {
                at = nest_end(bytes, start).unwrap_or(bytes.len());
                replace(start, at, TOO_DEEP);
            }
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' => (depth, at) = (depth.saturating_sub(1), at + 1),
            b'-' | b'0'..=b'9' => {
                let digit = |b: &u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                at += bytes[start..].iter().take_while(|b| digit(b)).count();
                let number = text.get(start..at).unwrap_or_default();
                if number.parse::<f64>().is_ok_and(f64::is_infinite) {
                    replace(start, at, &format!("\"{number}\""));
                }
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The same of a value within other JSON.
pub fn tamed(raw: Box<RawValue>) -> Box<RawValue> {
    match tame(raw.get()) {
        Cow::Borrowed(_) => raw,
        Cow::Owned(text) => RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()),
    }
}

/// Whether JSON text is nested more deeply than is kept.
pub fn is_too_deep(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Nearly always there are not even as many brackets.
    if bytes.iter().filter(|b| matches!(b, b'{' | b'[')).count() <= MAX_DEPTH {
        return false;
    }
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at).unwrap_or(bytes.len()) - 1,
            b'{' | b'[' if depth == MAX_DEPTH => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The length of `\u` and four digits.
const ESCAPE: usize = 6;

/// Where a string has an escape that is half of a pair without the other.
fn lone_halves(string: &str) -> Vec<usize> {
    let bytes = string.as_bytes();
    let half = |at: usize| match bytes.get(at..at + ESCAPE)? {
        [b'\\', b'u', digits @ ..] => u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok(),
        _ => None,
    };
    let (mut lone, mut at) = (Vec::new(), 0);
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += next;
        at += match half(at) {
            Some(0xD800..=0xDBFF) if matches!(half(at + ESCAPE), Some(0xDC00..=0xDFFF)) => 2 * ESCAPE,
            Some(0xD800..=0xDFFF) => {
                lone.push(at);
                ESCAPE
            }
            Some(_) => ESCAPE,
            None => 2,
        };
    }
    lone
}

/// The end of the string that starts at `start`.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The end of the object or array that starts at `start`. Counts brackets, so that no depth costs stack.
pub(crate) fn nest_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at)? - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn what_no_program_takes_is_written_otherwise() {
        for (given, expect) in [
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ufffd"}"#),
            (r#"["\udc00x","\ud83d\ude00","\\ud800"]"#, r#"["\ufffdx","\ud83d\ude00","\\ud800"]"#),
            (r#"["\ud800\ud800\udc00"]"#, r#"["\ufffd\ud800\udc00"]"#),
            (r#"{"\uD800":1}"#, r#"{"\ufffd":1}"#),
            ("[1e999,-1e999,1e300,-0.5]", r#"["1e999","-1e999",1e300,-0.5]"#),
            ("1e999", r#""1e999""#),
        ] {
            assert_eq!(tame(given), expect, "{given}");
            assert!(serde_json::from_str::<Value>(&tame(given)).is_ok(), "{given}");
        }
        assert_eq!(tame(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
        for depth in [MAX_DEPTH + 1, 5000] {
            let tame = tame(&nested(depth)).into_owned();
            assert!(tame.contains("nested too deeply") && tame.len() < 200, "{tame}");
            assert!(serde_json::from_str::<Value>(&tame).is_ok());
        }
    }

    #[test]
    fn depth_is_counted_without_recursion() {
        assert!(!is_too_deep(&nested(MAX_DEPTH)));
        assert!(is_too_deep(&nested(MAX_DEPTH + 1)));
        assert!(is_too_deep(&nested(100_000)));
        let wide = serde_json::json!({ "text": "[".repeat(100), "list": vec![[0]; 100] }).to_string();
        assert!(!is_too_deep(&wide), "many, but none within another");
    }

    proptest! {
        #[test]
        fn what_can_be_taken_stays_as_it_is(
            text in ".{0,40}",
            number in any::<f64>().prop_filter("JSON has none", |n| n.is_finite()),
            ascii in any::<bool>(),
        ) {
            let mut json = serde_json::json!({ &text: [number, { "x": [text, null, true] }] }).to_string();
            if ascii {
                // As programs write that escape all they can.
                json = json.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                }).collect();
            }
            prop_assert_eq!(tame(&json), json.as_str());
        }

        #[test]
        fn any_json_can_be_read_afterwards(halves in prop::collection::vec(0xD700_u16..0xE100, 0..6), exponent in 0..2000_u32, depth in 0..200_usize) {
            let text: String = halves.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("{}\"{text}\",1e{exponent}{}", "[".repeat(depth + 1), "]".repeat(depth + 1));
            prop_assert!(serde_json::from_str::<Value>(&tame(&json)).is_ok(), "{json}");
        }
    }
}
