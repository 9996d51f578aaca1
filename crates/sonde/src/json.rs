//! JSON as JavaScript would print it (field facts, section 6).
//!
//! A signature covers `JSON.stringify` of the *parsed* payload, so a verifier that is not JavaScript must print what
//! JavaScript would: keys that look like array indices first and ascending, a key given twice at the place of its first
//! and with the value of its last, numbers as doubles in ECMAScript's notation, only the escapes that are needed, a lone
//! surrogate as an escape. [`canonical`] does that for any JSON text; a canonical text is its own canonical form.
//!
//! What was verified must also be what is read, so whoever checks a signature goes on with the canonical text.

mod number;
mod print;
mod read;

pub use number::write_number;

/// Deepest nesting that is read. Deeper text is refused: it would only serve to exhaust the stack.
pub const MAX_DEPTH: usize = 128;

/// A value, as far as printing needs it. Texts are WTF-8: UTF-8 in which lone surrogates may occur.
#[derive(Clone, Debug, PartialEq)]
enum Js<'a> {
    /// `null`, `true`, `false`.
    Word(&'static str),
    Number(f64),
    Text(Wtf8<'a>),
    List(Vec<Js<'a>>),
    Object(Vec<(Wtf8<'a>, Js<'a>)>),
}

type Wtf8<'a> = std::borrow::Cow<'a, [u8]>;

/// The text is no JSON, or nests too deeply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at byte {at}: {what}")]
pub struct JsonError {
    at: usize,
    what: &'static str,
}

/// The result of `JSON.stringify(JSON.parse(text))`.
pub fn canonical(text: &str) -> Result<String, JsonError> {
    let value = read::read(text)?;
    let mut out = String::with_capacity(text.len());
    print::print(&value, &mut out);
    Ok(out)
}

/// The same JSON with every lone surrogate replaced by U+FFFD: what can be handed on to programs whose texts are
/// Unicode. Text without one (nearly all) comes back as it is.
pub fn well_formed(text: &str) -> std::borrow::Cow<'_, str> {
    let has_escape = text.as_bytes().windows(3).any(|w| w[0] == b'\\' && w[1] == b'u' && (w[2] | 0x20) == b'd');
    if !has_escape {
        return text.into();
    }
    match canonical(text) {
        Ok(printed) => print::replace_lone(&printed).into(),
        Err(_) => text.into(),
    }
}
