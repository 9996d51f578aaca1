//! The Rust types that settings are read into, and the kinds of the table that go with them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_core::id::PeerId;
use convoke_core::secret::SecretText;

use super::value::{Kind, Value};

/// What a setting takes, and how such a value is read into `T`.
pub(super) struct Spec<T> {
    pub(super) kind: Kind,
    read: fn(&Value) -> Option<T>,
}

impl<T> Spec<T> {
    /// The typed value of one that the kind has parsed.
    pub(super) fn read(&self, value: &Value) -> T {
        (self.read)(value).expect("a kind parses only what its type can be read from")
    }
}

/// `true` or `false`.
pub(super) const fn flag() -> Spec<bool> {
    Spec { kind: Kind::Bool, read: |value| if let Value::Bool(on) = value { Some(*on) } else { None } }
}

/// A whole number within bounds. One that its type cannot hold on this machine is the most that it can.
pub(super) const fn number<T: Whole>(min: u64, max: u64) -> Spec<T> {
    Spec { kind: Kind::Number { min, max }, read: |value| whole(value).map(|n| T::try_from(n).unwrap_or(T::MOST)) }
}

/// A whole number of seconds within bounds.
pub(super) const fn seconds(min: u64, max: u64) -> Spec<Duration> {
    Spec { kind: Kind::Number { min, max }, read: |value| whole(value).map(Duration::from_secs) }
}

/// Any text, unless unset.
pub(super) const fn text() -> Spec<Option<String>> {
    Spec { kind: Kind::Text, read: |value| Some(maybe(value)?.map(str::to_owned)) }
}

/// A file or folder, unless unset.
pub(super) const fn path() -> Spec<Option<PathBuf>> {
    Spec { kind: Kind::Text, read: |value| Some(maybe(value)?.map(PathBuf::from)) }
}

/// A text that is never shown, unless unset.
pub(super) const fn secret() -> Spec<Option<SecretText>> {
    Spec { kind: Kind::Secret, read: |value| Some(maybe(value)?.map(SecretText::new)) }
}

/// Texts.
pub(super) const fn list() -> Spec<Vec<String>> {
    Spec { kind: Kind::List, read: |value| Some(entries(value)?.to_vec()) }
}

/// Browser origins.
pub(super) const fn origins() -> Spec<Vec<String>> {
    Spec { kind: Kind::Origins, ..list() }
}

/// Bearer tokens of agents. Entries that are none are left out here: the check of all settings refuses them by their place.
pub(super) const fn agent_tokens() -> Spec<Vec<AgentToken>> {
    let read = |value: &Value| Some(entries(value)?.iter().filter_map(|entry| AgentToken::parse(entry)).collect());
    Spec { kind: Kind::AgentTokens, read }
}

/// An IP address and port.
pub(super) const fn address() -> Spec<SocketAddr> {
    Spec { kind: Kind::Address, read: |value| maybe(value)??.parse().ok() }
}

/// An IP address and port, unless unset.
pub(super) const fn maybe_address() -> Spec<Option<SocketAddr>> {
    Spec { kind: Kind::MaybeAddress, read: |value| maybe(value)?.map(str::parse).transpose().ok() }
}

/// An http or https address without a slash at its end.
pub(super) const fn url() -> Spec<String> {
    Spec { kind: Kind::Url, read: |value| maybe(value)?.map(str::to_owned) }
}

/// An http or https address without a slash at its end, unless unset.
pub(super) const fn maybe_url() -> Spec<Option<String>> {
    Spec { kind: Kind::MaybeUrl, ..text() }
}

/// One of the words of an enum.
pub(super) const fn word<T: Word>() -> Spec<T> {
    Spec { kind: Kind::Word(T::WORDS), read: |value| T::from_word(maybe(value)??) }
}

fn whole(value: &Value) -> Option<u64> {
    if let Value::Number(n) = value { Some(*n) } else { None }
}

/// A text, which is unset where it is empty.
fn maybe(value: &Value) -> Option<Option<&str>> {
    if let Value::Text(text) = value { Some(Some(text.as_str()).filter(|text| !text.is_empty())) } else { None }
}

fn entries(value: &Value) -> Option<&[String]> {
    if let Value::List(entries) = value { Some(entries) } else { None }
}

/// A type of whole numbers that a setting can have.
pub(super) trait Whole: TryFrom<u64> {
    const MOST: Self;
}

impl Whole for u32 {
    const MOST: Self = Self::MAX;
}

impl Whole for u64 {
    const MOST: Self = Self::MAX;
}

impl Whole for usize {
    const MOST: Self = Self::MAX;
}

/// An enum whose values are words in the settings.
pub(super) trait Word: Sized {
    const WORDS: &'static [&'static str];

    fn from_word(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($(#[$about:meta])* pub enum $Enum:ident { $($(#[$doc:meta])* $Variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Enum {
            $($(#[$doc])* $Variant,)+
        }

        impl Word for $Enum {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$Variant),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $Enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$Variant => $word),+ })
            }
        }
    };
}

words! {
    /// How much the hub writes to standard error.
    pub enum LogLevel {
        /// Only failures.
        Error = "error",
        /// Also what an operator should look at.
        Warn = "warn",
        /// Also what happens in normal operation.
        Info = "info",
        /// Also details for finding a fault.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// What an action asked for in a room counts as.
    pub enum ActEffect {
        /// It changes nothing.
        Observe = "observe",
        /// It touches somebody.
        Interact = "interact",
        /// It changes something.
        Manage = "manage",
    }
}

impl From<ActEffect> for Effect {
    fn from(effect: ActEffect) -> Self {
        match effect {
            ActEffect::Observe => Self::Observe,
            ActEffect::Interact => Self::Interact,
            ActEffect::Manage => Self::Manage,
        }
    }
}

words! {
    /// What becomes of a Sonde agent whose attestation changed, until an operator accepts it.
    pub enum ChangedAgents {
        /// It is flagged and works on.
        Flag = "flag",
        /// It is connected and not asked.
        Restrict = "restrict",
        /// It may not register.
        Refuse = "refuse",
    }
}

/// An agent's bearer token from `kenny.agent_tokens`.
#[derive(Clone, Debug)]
pub struct AgentToken {
    /// The agent that it is for.
    pub agent: PeerId,
    /// The token.
    pub token: SecretText,
}

impl AgentToken {
    /// Reads `id=token`.
    pub(super) fn parse(entry: &str) -> Option<Self> {
        let (id, token) = entry.split_once('=').filter(|(_, token)| !token.is_empty())?;
        Some(Self { agent: PeerId::kenny(id).ok()?, token: SecretText::new(token) })
    }
}
