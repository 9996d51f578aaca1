//! Characters that a person would not see. What machines wrote is shown with these written out: they could hide words
//! from whoever reads along.

use std::borrow::Cow;
use std::fmt::Write as _;

use convoke_core::hidden::is_hidden;

/// Bytes of one unit when it is written out: `\u200b`.
const UNIT: usize = 6;

/// Whether a text has nothing to write out, as most have.
fn is_plain(json: &str) -> bool {
    // A machine's own text may have a delete in it as it is; what is written here has no other such character below 128.
    json.is_ascii() && !json.contains('\u{7f}')
}

/// JSON text in which such characters are written out.
pub(super) fn visible(json: &str) -> Cow<'_, str> {
    if is_plain(json) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// How many bytes that is.
pub(super) fn length(json: &str) -> usize {
    if is_plain(json) {
        return json.len();
    }
    json.chars().map(|c| if is_hidden(c) { UNIT * c.len_utf16() } else { c.len_utf8() }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_would_see_is_written_out() {
        for (hidden, shown) in [
            ("a\u{202e}b", "a\\u202eb"),
            ("\u{e0041}", "\\udb40\\udc41"),
            ("\u{3164}\u{2800}", "\\u3164\\u2800"),
            ("\u{115f}\u{1160}\u{ffa0}", "\\u115f\\u1160\\uffa0"),
            ("\u{34f}\u{17b4}\u{17b5}", "\\u034f\\u17b4\\u17b5"),
            ("\u{1d173}\u{1d17a}", "\\ud834\\udd73\\ud834\\udd7a"),
            ("Grüße, 한국어, ខ្មែរ, 🙂", "Grüße, 한국어, ខ្មែរ, 🙂"),
        ] {
            assert_eq!(visible(hidden), shown);
            assert_eq!(length(hidden), shown.len(), "{shown}");
        }
    }
}
