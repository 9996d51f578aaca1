//! Reading single fields out of JSON text that an agent wrote, without building a tree and without errors.
//!
//! A [`Field`] is the text of one JSON value, or nothing. Each of its readings gives nothing when the value is of
//! another type, so that a rule sees one thing where a payload can be wrong in many ways.
//!
//! The text comes out of a [`RawValue`], which a JSON parser has read to its end once already. Finding a value in it
//! again is a matter of quotes and brackets; having the parser check it all a second time costs half as much again,
//! and it would stop at a number or an escape that it cannot represent, in fields that nobody reads.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{nest_end, string_end};
use crate::time::Timestamp;

/// The text of one JSON value, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a>(Option<&'a str>);

impl<'a> Field<'a> {
    /// No value.
    pub(super) const ABSENT: Self = Self(None);

    /// A value as it came.
    pub(super) fn of(raw: &'a RawValue) -> Self {
        Self(Some(raw.get()))
    }

    /// Whether it is `null`, which is not the same as absent.
    pub(super) fn is_null(self) -> bool {
        self.0 == Some("null")
    }

    /// A boolean.
    pub(super) fn boolean(self) -> Option<bool> {
        match self.0? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// A number, unless it is too large for one.
    pub(super) fn number(self) -> Option<f64> {
        // The text is valid JSON, so the spellings Rust knows beyond it ("inf", "nan") cannot come; "1e999" can.
        self.0?.parse().ok().filter(|n: &f64| n.is_finite())
    }

    /// A string, unless its escapes are no Unicode.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        let raw = self.0?;
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        if inner.contains('\\') { serde_json::from_str(raw).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
    }

    /// An RFC 3339 time.
    pub(super) fn time(self) -> Option<Timestamp> {
        Timestamp::parse(&self.text()?)
    }

    /// A time, with or without its offset, or a plain date; what has no offset is taken for UTC.
    pub(super) fn about_when(self) -> Option<Timestamp> {
        self.time().or_else(|| self.date()).or_else(|| {
            let time: jiff::civil::DateTime = self.text()?.parse().ok()?;
            Some(Timestamp::from_millis(jiff::tz::Offset::UTC.to_timestamp(time).ok()?.as_millisecond()))
        })
    }

    /// A plain date (`YYYY-MM-DD`), as the first moment of that day in UTC.
    pub(super) fn date(self) -> Option<Timestamp> {
        let text = self.text()?;
        if text.len() != "YYYY-MM-DD".len() {
            return None;
        }
        let date: jiff::civil::Date = text.parse().ok()?;
        let midnight = jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
        Some(Timestamp::from_millis(midnight.as_millisecond()))
    }

    /// The named fields of an object; all absent if it is none.
    pub(super) fn pick<const N: usize>(self, names: [&str; N]) -> [Self; N] {
        let mut found = [Self::ABSENT; N];
        self.pick_into(&names, &mut found);
        found
    }

    /// Puts the fields of those names into `found`, in the order of the names, and says whether this is an object. Of
    /// two fields of one name the first counts: it stops reading once it has them all.
    pub(super) fn pick_into(self, names: &[&str], found: &mut [Self]) -> bool {
        debug_assert_eq!(names.len(), found.len());
        let Some(mut scan) = self.0.and_then(|text| Scan::inside(text, b'{')) else { return false };
        let mut left = names.len();
        while left > 0 {
            let Some((key, value)) = scan.member() else { break };
            let Some(key) = Field(Some(key)).text() else { continue };
            if let Some(at) = names.iter().position(|name| *name == key)
                && found[at] == Self::ABSENT
            {
                found[at] = Self(Some(value));
                left -= 1;
            }
        }
        true
    }

    /// Calls `each` with every element of an array, and says whether it is one.
    pub(super) fn each(self, mut each: impl FnMut(Field<'a>)) -> bool {
        let Some(mut scan) = self.0.and_then(|text| Scan::inside(text, b'[')) else { return false };
        while let Some(element) = scan.element() {
            each(Field(Some(element)));
        }
        true
    }

    /// The text of the value, for comparing values with each other.
    pub(super) const fn raw(self) -> Option<&'a str> {
        self.0
    }
}

/// A place between two values inside an object or array of valid JSON. Given anything else it stops early.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    /// Behind the opening bracket of `text`.
    fn inside(text: &'a str, bracket: u8) -> Option<Self> {
        (text.as_bytes().first() == Some(&bracket)).then_some(Self { text, at: 1 })
    }

    /// The next key, in its quotes, and its value.
    fn member(&mut self) -> Option<(&'a str, &'a str)> {
        let key = self.element()?;
        Some((key, self.element()?))
    }

    /// The next value, or key.
    fn element(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let between = |b: &u8| !matches!(b, b' ' | b'\n' | b'\r' | b'\t' | b',' | b':');
        let start = self.at + bytes.get(self.at..)?.iter().position(between)?;
        let end = match bytes[start] {
            b'"' => string_end(bytes, start)?,
            b'{' | b'[' => nest_end(bytes, start)?,
            b'}' | b']' => return None,
            _ => {
                let after = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                start + bytes[start..].iter().position(after)?
            }
        };
        self.at = end;
        self.text.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_of_another_type_is_nothing() {
        let field = |json| Field(Some(json));
        assert_eq!(field("1.5").number(), Some(1.5));
        for json in ["true", "null", r#""1""#, "[1]", "{}", "1e999", "-1e999"] {
            assert_eq!(field(json).number(), None, "{json}");
        }
        assert_eq!(field("false").boolean(), Some(false));
        for json in ["0", "null", r#""true""#] {
            assert_eq!(field(json).boolean(), None, "{json}");
        }
        assert_eq!(field(r#""a\"b""#).text().as_deref(), Some("a\"b"));
        for json in ["1", "null", r#""\ud800""#] {
            assert_eq!(field(json).text(), None, "{json}");
        }
        assert!(field("null").is_null() && !Field::ABSENT.is_null());
    }

    #[test]
    fn a_plain_date_is_a_whole_day_and_nothing_more() {
        let date = |text: &str| Field(Some(&format!("{text:?}"))).date().map(|t| t.to_string());
        assert_eq!(date("2026-06-04").as_deref(), Some("2026-06-04T00:00:00.000Z"));
        for text in ["2026-02-30", "2026-6-04", "20260604", "2026-06-04T00:00:00", "soon", "2026-06-04 "] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn picks_by_name_and_the_first_of_two() {
        let object = Field(Some(r#"{"x":{"a":9},"a":1,"a":2,"\u0062":[3]}"#));
        assert_eq!(object.pick(["b", "a"]), [Field(Some("[3]")), Field(Some("1"))]);
        assert_eq!(object.pick(["a", "c"]), [Field(Some("1")), Field::ABSENT]);
        assert_eq!(Field(Some("[]")).pick(["a"]), [Field::ABSENT]);
    }

    #[test]
    fn goes_through_an_array_and_through_nothing_else() {
        let mut seen = Vec::new();
        assert!(Field(Some(r#"[1,"\ud800",{}]"#)).each(|f| seen.extend(f.raw())));
        assert_eq!(seen, ["1", r#""\ud800""#, "{}"]);
        assert!(!Field(Some("{}")).each(|_| panic!("no array")));
        assert!(!Field::ABSENT.each(|_| panic!("no array")));
    }
}
