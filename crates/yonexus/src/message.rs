//! A message on the wire (contract, sections 3, 8 and 14.1): `rule_identifier::content`, where only the first `::` is
//! structural. `builtin` is the reserved rule whose content is a JSON envelope.

use crate::builtin::Malformed;

/// Between rule and content.
pub const DELIMITER: &str = "::";
/// The reserved rule.
pub const BUILTIN: &str = "builtin";
/// Longest rule identifier, in characters.
pub const MAX_RULE: usize = 128;

/// The kind of a text message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The JSON of a builtin frame.
    Builtin(&'a str),
    /// An application's message.
    Rule(RuleMessage<'a>),
}

/// An application's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMessage<'a> {
    /// The rule identifier.
    pub rule: &'a str,
    /// Everything after the first delimiter, whatever it holds.
    pub content: &'a str,
}

/// Splits at the first delimiter and checks the rule identifier.
pub fn split(text: &str) -> Result<Message<'_>, Malformed> {
    let Some((rule, content)) = text.split_once(DELIMITER) else { return Err(Malformed::NoDelimiter) };
    if rule == BUILTIN {
        return Ok(Message::Builtin(content));
    }
    check_rule(rule).map_err(Malformed::Rule)?;
    Ok(Message::Rule(RuleMessage { rule, content }))
}

/// Why a text is no rule identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// Empty or too long.
    #[error("a rule identifier has 1 to {MAX_RULE} characters")]
    Length,
    /// It would be read as something else.
    #[error("a rule identifier has no ':' and no control characters")]
    Character,
    /// Two names that look alike.
    #[error("a rule identifier does not begin or end with a space")]
    Space,
    /// `builtin`.
    #[error("the rule identifier `builtin` is reserved")]
    Reserved,
}

/// Whether a text can name a rule on the wire. (`builtin` can; it cannot be registered.)
pub fn check_rule(rule: &str) -> Result<(), BadRule> {
    // Bytes first: the usual short ASCII name is checked without counting characters.
    if rule.is_empty() || (rule.len() > MAX_RULE && rule.chars().count() > MAX_RULE) {
        return Err(BadRule::Length);
    }
    if rule.chars().any(|c| c == ':' || c.is_control()) {
        return Err(BadRule::Character);
    }
    if rule.starts_with(char::is_whitespace) || rule.ends_with(char::is_whitespace) {
        return Err(BadRule::Space);
    }
    Ok(())
}

/// Whether a rule of this name can be registered.
pub fn check_registered(rule: &str) -> Result<(), BadRule> {
    if rule == BUILTIN { Err(BadRule::Reserved) } else { check_rule(rule) }
}

/// `rule::content`, as it travels.
pub fn encode(rule: &str, content: &str) -> String {
    let mut text = String::with_capacity(rule.len() + content.len() + DELIMITER.len());
    text.push_str(rule);
    text.push_str(DELIMITER);
    text.push_str(content);
    text
}

/// `rule::sender::content`: what a server's processors see of a client's message (contract, section 3.2).
pub fn rewritten(rule: &str, sender: &str, content: &str) -> String {
    let mut text = String::with_capacity(rule.len() + sender.len() + content.len() + 2 * DELIMITER.len());
    text.push_str(rule);
    text.push_str(DELIMITER);
    text.push_str(sender);
    text.push_str(DELIMITER);
    text.push_str(content);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rule(text: &str, rule: &str, content: &str) {
        assert_eq!(split(text), Ok(Message::Rule(RuleMessage { rule, content })), "{text:?}");
    }

    #[test]
    fn only_the_first_delimiter_is_structural() {
        rule("chat_sync::{\"body\":\"hello\"}", "chat_sync", "{\"body\":\"hello\"}");
        rule("a::b::c::d", "a", "b::c::d");
        rule("a:::b", "a", ":b");
        rule("a::", "a", "");
        rule("two words::line\nline", "two words", "line\nline");
        rule("Builtin::{}", "Builtin", "{}");
        assert_eq!(split("builtin::{}::x"), Ok(Message::Builtin("{}::x")));
    }

    #[test]
    fn what_is_no_message_says_why() {
        let long = format!("{}::x", "ü".repeat(129));
        for (text, why) in [
            ("", Malformed::NoDelimiter),
            ("chat", Malformed::NoDelimiter),
            ("a:b", Malformed::NoDelimiter),
            ("::x", Malformed::Rule(BadRule::Length)),
            (long.as_str(), Malformed::Rule(BadRule::Length)),
            ("a:b::x", Malformed::Rule(BadRule::Character)),
            ("a\nb::x", Malformed::Rule(BadRule::Character)),
            (" a::x", Malformed::Rule(BadRule::Space)),
            ("a ::x", Malformed::Rule(BadRule::Space)),
        ] {
            assert_eq!(split(text), Err(why), "{text:?}");
        }
        assert!(split(&format!("{}::x", "ü".repeat(128))).is_ok());
        assert_eq!(check_registered("builtin"), Err(BadRule::Reserved));
    }

    #[test]
    fn a_rewritten_message_names_its_sender() {
        assert_eq!(rewritten("chat_sync", "client-a", "x::y"), "chat_sync::client-a::x::y");
        assert_eq!(encode("chat_sync", "x"), "chat_sync::x");
    }
}
