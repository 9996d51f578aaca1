//! Parses the command line's values into types that are always valid.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::grant::Role;
use convoke_core::guard::AppliesTo;
use convoke_core::id::{PeerId, Protocol};
use convoke_core::journal::{Decision, Kind};
use convoke_core::time::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// An agent's id.
pub(crate) fn agent(text: &str) -> Result<PeerId, String> {
    PeerId::parse(text).map_err(|why| why.to_string())
}

/// What a person calls an agent: its id, or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentName(String);

impl AgentName {
    /// Where the hub has it, by whatever it is called.
    pub(crate) fn path(&self) -> String {
        format!("/api/agents/{}", segment(&self.0))
    }
}

impl std::fmt::Display for AgentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent's id, or a name. It becomes one part of an address, whatever it holds.
pub(crate) fn agent_name(text: &str) -> Result<AgentName, String> {
    let fits = (1..=255).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    let leads_elsewhere = text == "." || text == "..";
    if fits && !leads_elsewhere {
        Ok(AgentName(text.into()))
    } else {
        Err("an agent's id or name has 1 to 255 characters".into())
    }
}

/// A rule's id. It becomes part of an address, so what could lead elsewhere is refused here.
pub(crate) fn rule(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text != "."
        && text != ".."
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if fits { Ok(text.into()) } else { Err("a rule's id is 1 to 64 letters, digits, '_', '.' or '-'".into()) }
}

/// A Yonexus client's identifier.
pub(crate) fn identifier(text: &str) -> Result<String, String> {
    PeerId::kenny(text).map(|_| text.to_owned()).map_err(|why| why.to_string())
}

/// A Yonexus rule identifier.
pub(crate) fn rule_identifier(text: &str) -> Result<String, String> {
    convoke_yonexus::message::check_registered(text).map(|()| text.to_owned()).map_err(|why| why.to_string())
}

/// `rule=command`.
pub(crate) fn processor(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((rule, command)) if !command.trim().is_empty() => Ok((rule_identifier(rule)?, command.into())),
        _ => Err("write RULE=COMMAND".into()),
    }
}

/// A text as one part of an address, whatever it holds.
pub(crate) fn segment(text: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// A length of time: `90s`, `15m`, `12h`, `30d`, `2w`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let help = || "write a number and a unit: 90s, 15m, 12h, 30d or 2w".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(help()),
    };
    let count: u64 = digits.parse().map_err(|_| help())?;
    match count.checked_mul(unit) {
        Some(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err(help()),
    }
}

/// A moment in the past.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    Ago(Duration),
    At(Timestamp),
}

impl Since {
    /// The moment, seen from now.
    pub(crate) fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(ago) => Timestamp::from_millis(
                now.millis().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)),
            ),
            Self::At(at) => at,
        }
    }
}

/// A length of time that has gone by, or a moment.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    let at = || Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z"))).map(Since::At);
    let parsed = span(text).ok().map(Since::Ago).or_else(at);
    parsed.ok_or_else(|| "write a length of time, such as 2h or 7d, or a date, such as 2026-06-04".into())
}

/// A number of seconds above zero.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => Ok(seconds),
        _ => Err("write a number of seconds above 0".into()),
    }
}

/// `name=value`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    convoke_cli::parse::setting(text, "`convoke hub --check-config`")
}

/// An effect.
pub(crate) fn effect() -> impl TypedValueParser<Value = Effect> {
    words(Effect::ALL.map(Effect::name), |name| Effect::ALL.into_iter().find(|e| e.name() == name))
}

/// A door.
pub(crate) fn door() -> impl TypedValueParser<Value = Door> {
    words(Door::ALL.map(Door::name), Door::parse)
}

/// A role.
pub(crate) fn role() -> impl TypedValueParser<Value = Role> {
    words(Role::ALL.map(Role::name), Role::parse)
}

/// A group of deny rules.
pub(crate) fn group() -> impl TypedValueParser<Value = AppliesTo> {
    words(AppliesTo::ALL.map(AppliesTo::name), AppliesTo::parse)
}

/// A kind of journal records.
pub(crate) fn kind() -> impl TypedValueParser<Value = Kind> {
    words(Kind::ALL.map(Kind::name), Kind::parse)
}

/// The gate's decision.
pub(crate) fn decision() -> impl TypedValueParser<Value = Decision> {
    words(Decision::ALL.map(Decision::name), |name| Decision::ALL.into_iter().find(|d| d.name() == name))
}

/// A protocol.
pub(crate) fn protocol() -> impl TypedValueParser<Value = Protocol> {
    let all = [Protocol::Kenny, Protocol::Sonde, Protocol::Yonexus];
    words(all.map(Protocol::name), Protocol::parse)
}

/// One of some words, so that help and completions list them.
fn words<T: Clone + Send + Sync + 'static, const N: usize>(
    names: [&'static str; N],
    read: impl Fn(&str) -> Option<T> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).map(move |name| read(&name).expect("clap lets only the listed names through"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_unit() {
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for bad in ["", "30", "d", "0d", "-1d", "1y", "99999999999999999999w", "18446744073709551615w", "1 d"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_cannot_lead_to_another_address() {
        for bad in ["", "..", "a/b", "a?b", "a%2fb", "a b"] {
            assert!(rule(bad).is_err(), "{bad}");
            assert!(agent(bad).is_err(), "{bad}");
        }
        assert_eq!(agent_name("a/b?c").expect("a name").path(), "/api/agents/a%2Fb%3Fc");
        assert!(agent_name("..").is_err() && agent_name("").is_err() && agent_name("a\nb").is_err());
        assert!(rule("no-reboots.1").is_ok());
        assert!(agent("yonexus:client-a").is_ok());
    }
}
