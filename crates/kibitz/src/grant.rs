//! What a participant may perceive and do (contract, section 4). A person may everything, an agent starts read-only; a
//! host widens and revokes, and a grant may expire, after which nothing is left of it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Longest name of a model that an agent tells what it perceives.
const MAX_BACKEND: usize = 80;

macro_rules! capabilities {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)?) => {
        /// One capability.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Capability { $($(#[$doc])* $variant),* }

        impl Capability {
            /// All of them: what is perceived first, then what is done.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it is spelled on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The one of that spelling.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|c| c.name() == text)
            }
        }
    };
}

capabilities!(
    /// Shared screens.
    SeeScreen = "see-screen",
    /// Sound.
    HearAudio = "hear-audio",
    /// Content for all.
    ReadChat = "read-chat",
    /// The roster.
    ReadRoster = "read-roster",
    /// Content for this participant alone.
    ReceiveDirected = "receive-directed",
    /// Saying anything at all.
    SendChat = "send-chat",
    /// Being heard as sound.
    Speak = "speak",
    /// Asking the application for an action.
    Act = "act",
);

impl Capability {
    /// Whether it is about perceiving.
    pub const fn perceives(self) -> bool {
        (self as u8) < (Self::SendChat as u8)
    }

    const fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a participant, which decides the default grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A person.
    Human,
    /// A program.
    Agent,
}

impl Kind {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Agent => "agent",
        }
    }
}

/// The grant of one participant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    bits: u8,
    /// The model to which an agent tells what it perceives. Disclosure, not a privilege.
    pub backend: Option<String>,
    /// What it perceives leaves the room.
    pub egress: bool,
    /// Seconds since 1970 from which on nothing of it is left.
    pub expires_at: Option<i64>,
}

impl Grant {
    /// Nothing.
    pub const fn none() -> Self {
        Self { bits: 0, backend: None, egress: false, expires_at: None }
    }

    /// These capabilities, without an end.
    pub fn of(capabilities: impl IntoIterator<Item = Capability>) -> Self {
        let bits = capabilities.into_iter().fold(0, |bits, capability| bits | capability.bit());
        Self { bits, ..Self::none() }
    }

    /// The default grant of this kind.
    pub fn default_of(kind: Kind) -> Self {
        match kind {
            Kind::Human => Self::of(Capability::ALL.iter().copied()),
            Kind::Agent => Self::of([Capability::ReadChat, Capability::ReadRoster, Capability::ReceiveDirected]),
        }
    }

    /// All that can be perceived, and nothing that can be done.
    pub fn onlooker() -> Self {
        Self::of(Capability::ALL.iter().copied().filter(|c| c.perceives()))
    }

    /// Whether it includes this at that time (seconds since 1970).
    pub fn allows(&self, capability: Capability, now: i64) -> bool {
        self.bits & capability.bit() != 0 && !self.is_over(now)
    }

    /// Whether its time is over.
    pub fn is_over(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }

    /// The grant in force at that time; an expired one is empty.
    #[must_use]
    pub fn at(&self, now: i64) -> Self {
        if self.is_over(now) { Self { bits: 0, ..self.clone() } } else { self.clone() }
    }

    /// The capabilities named, whether their time is over or not.
    pub fn named(&self) -> impl Iterator<Item = Capability> {
        let bits = self.bits;
        Capability::ALL.iter().copied().filter(move |c| bits & c.bit() != 0)
    }

    /// The same with another end.
    #[must_use]
    pub const fn until(mut self, expires_at: Option<i64>) -> Self {
        self.expires_at = expires_at;
        self
    }

    /// The intersection of the requested and the allowed grant, with the requester's disclosure and the earlier end.
    #[must_use]
    pub fn intersect(&self, allowed: &Self) -> Self {
        let expires_at = match (self.expires_at, allowed.expires_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { bits: self.bits & allowed.bits, backend: self.backend.clone(), egress: self.egress, expires_at }
    }

    /// The same without these.
    #[must_use]
    pub fn without(mut self, capabilities: &[Capability]) -> Self {
        self.bits &= !Self::of(capabilities.iter().copied()).bits;
        self
    }

    /// With what a participant discloses about itself. Naming a model means that what is perceived leaves the room.
    #[must_use]
    pub fn disclosing(mut self, backend: Option<&str>, egress: bool) -> Self {
        self.backend = backend.map(|text| text.chars().filter(|c| !c.is_control()).take(MAX_BACKEND).collect());
        self.egress = egress || self.backend.is_some();
        self
    }
}

/// How a host holds an agent back, until it is resumed. What it was granted stays, and is in force again then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// It perceives nothing but who is there, and does nothing. On the mesh its connections stay, so that it is back at once.
    Paused,
    /// It perceives, and says and does nothing.
    Silenced,
}

impl Hold {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Silenced => "silenced",
        }
    }

    /// The one of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Paused, Self::Silenced].into_iter().find(|hold| hold.name() == text)
    }

    /// What is left of a grant.
    #[must_use]
    pub fn of(self, grant: Grant) -> Grant {
        match self {
            Self::Paused => {
                let all_but = |capability: &&Capability| **capability != Capability::ReadRoster;
                grant.without(&Capability::ALL.iter().filter(all_but).copied().collect::<Vec<_>>())
            }
            Self::Silenced => grant.without(&[Capability::SendChat, Capability::Speak, Capability::Act]),
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    perceive: Vec<&'static str>,
    act: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    egress: bool,
    #[serde(rename = "expiresAt", skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (perceive, act): (Vec<_>, Vec<_>) = self.named().partition(|c| c.perceives());
        Written {
            perceive: perceive.into_iter().map(Capability::name).collect(),
            act: act.into_iter().map(Capability::name).collect(),
            backend: self.backend.as_deref(),
            egress: self.egress,
            expires_at: self.expires_at,
        }
        .serialize(serializer)
    }
}

/// Lenient, as the contract's programs are: what is unknown is dropped, `null` is absent. What does not read as a time
/// ends the grant at once: a mistake must not make it last for ever.
impl<'de> Deserialize<'de> for Grant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Read {
            #[serde(default)]
            perceive: Option<Vec<Value>>,
            #[serde(default)]
            act: Option<Vec<Value>>,
            #[serde(default)]
            backend: Option<Value>,
            #[serde(default)]
            egress: Option<Value>,
            #[serde(default, rename = "expiresAt")]
            expires_at: Option<Value>,
        }
        let read = Read::deserialize(deserializer)?;
        let side = |list: Option<Vec<Value>>, perceives: bool| {
            let known = list.unwrap_or_default().into_iter();
            let known = known.filter_map(|v| v.as_str().and_then(Capability::parse)).collect::<Vec<_>>();
            known.into_iter().filter(move |c| c.perceives() == perceives)
        };
        let bits = Self::of(side(read.perceive, true).chain(side(read.act, false))).bits;
        let expires_at = read.expires_at.map(|at| {
            let whole = at.as_i64();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a time with a fraction is cut, and bounded by the cast"
            )]
            whole.or_else(|| at.as_f64().map(|at| at as i64)).unwrap_or(0)
        });
        let backend = read.backend.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty());
        let egress = read.egress.as_ref().and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { bits, backend: None, egress: false, expires_at }.disclosing(backend, egress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_by_kind() {
        let human = Grant::default_of(Kind::Human);
        assert!(Capability::ALL.iter().all(|c| human.allows(*c, 0)));
        let agent = serde_json::to_string(&Grant::default_of(Kind::Agent)).expect("JSON");
        assert_eq!(agent, r#"{"perceive":["read-chat","read-roster","receive-directed"],"act":[]}"#);
        assert!(!Grant::onlooker().allows(Capability::SendChat, 0));
        assert!(Grant::onlooker().allows(Capability::SeeScreen, 0));
    }

    #[test]
    fn what_is_unknown_is_dropped_and_what_is_on_the_wrong_side_too() {
        let text =
            r#"{"perceive":["read-chat","x-ray",7,"read-chat","act"],"act":["speak","see-screen"],"egress":null}"#;
        let grant: Grant = serde_json::from_str(text).expect("reads");
        assert_eq!(grant, Grant::of([Capability::ReadChat, Capability::Speak]));
        assert_eq!(serde_json::from_str::<Grant>("{}").expect("reads"), Grant::none());
        let named: Grant = serde_json::from_str(r#"{"backend":"Claude"}"#).expect("reads");
        assert!(named.egress, "a named model means that what is seen leaves the room");
    }

    #[test]
    fn an_expired_grant_is_empty() {
        let grant = Grant::default_of(Kind::Human).until(Some(100));
        assert!(grant.allows(Capability::Act, 99));
        assert!(!grant.allows(Capability::Act, 100));
        assert_eq!(grant.at(100).named().count(), 0);
        let odd: Grant = serde_json::from_str(r#"{"act":["act"],"expiresAt":"tomorrow"}"#).expect("reads");
        assert!(!odd.allows(Capability::Act, 1), "what is no time is over");
    }

    #[test]
    fn an_intersection_gives_no_more_than_either() {
        let asked = Grant::of([Capability::ReadChat, Capability::Act]).until(Some(50)).disclosing(Some("m"), false);
        let allowed = Grant::of([Capability::ReadChat, Capability::Speak]).until(Some(40));
        let both = asked.intersect(&allowed);
        assert_eq!(both.named().collect::<Vec<_>>(), [Capability::ReadChat]);
        assert_eq!((both.expires_at, both.backend.as_deref()), (Some(40), Some("m")));
    }
}
