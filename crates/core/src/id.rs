//! Typed ids. An agent's id cannot be passed where a call's is wanted, and no id can hold what its kind forbids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// The wire protocol a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// kenny: the id stands bare.
    Kenny,
    /// Sonde: `sonde:<uuid>`.
    Sonde,
    /// Yonexus: `yonexus:<identifier>`.
    Yonexus,
    /// Kibitz: a room is `room:<name>`.
    Kibitz,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kenny, Self::Sonde, Self::Yonexus, Self::Kibitz];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kenny => "kenny",
            Self::Sonde => "sonde",
            Self::Yonexus => "yonexus",
            Self::Kibitz => "kibitz",
        }
    }

    /// The protocol of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == text)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Longest bare id.
pub const MAX_ID_LEN: usize = 128;

/// The id of a peer, unique across protocols: a kenny agent is its bare id, the others carry a prefix. The bare
/// alphabet has no colon, so the two can never be the same text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(Box<str>);

impl PeerId {
    /// A kenny agent: `[A-Za-z0-9._-]{1,128}`.
    pub fn kenny(id: &str) -> Result<Self, BadId> {
        check_bare(id)?;
        Ok(Self(id.into()))
    }

    /// Reads any peer id.
    pub fn parse(text: &str) -> Result<Self, BadId> {
        match text.split_once(':') {
            None => Self::kenny(text),
            Some(("sonde", rest)) => {
                Uuid::try_parse(rest).map_err(|_| BadId::Malformed)?;
                Ok(Self(text.into()))
            }
            Some(("yonexus" | "room", rest)) => {
                check_bare(rest)?;
                Ok(Self(text.into()))
            }
            Some(_) => Err(BadId::Malformed),
        }
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Which protocol the peer speaks: read off the id itself.
    pub fn protocol(&self) -> Protocol {
        // A bare id has no colon, so these can only be what they say.
        if self.0.starts_with("sonde:") {
            Protocol::Sonde
        } else if self.0.starts_with("yonexus:") {
            Protocol::Yonexus
        } else if self.0.starts_with("room:") {
            Protocol::Kibitz
        } else {
            Protocol::Kenny
        }
    }
}

fn check_bare(id: &str) -> Result<(), BadId> {
    if id.is_empty() || id.len() > MAX_ID_LEN {
        return Err(BadId::Length);
    }
    // `.` and `..` would be legal characters but vanish from a URL path, so such a peer could not be addressed.
    if id == "." || id == ".." || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err(BadId::Malformed);
    }
    Ok(())
}

/// Why a text is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// Empty or too long.
    #[error("an id has 1 to {MAX_ID_LEN} characters")]
    Length,
    /// A character or form that ids do not have.
    #[error("an id is letters, digits, '.', '_' and '-' only (and not '.' or '..')")]
    Malformed,
}

/// A text that is no id of a call, an approval and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id looks like 0190b3a2-7d4c-7e21-9b5f-3c6d8e0f1a2b; the lists show them")]
pub struct NoUuid;

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({})", self.0)
    }
}

impl std::borrow::Borrow<str> for PeerId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        Self::parse(text)
    }
}

impl Serialize for PeerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PeerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID that the caller made.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = NoUuid;

            fn from_str(text: &str) -> Result<Self, NoUuid> {
                Uuid::try_parse(text).map(Self).map_err(|_| NoUuid)
            }
        }
    };
}

uuid_id!(
    /// One call, from the door to its outcome. On a kenny tunnel it is also the `id` of the `request`.
    CallId
);
uuid_id!(
    /// A person's pending or given consent to one call.
    ApprovalId
);
uuid_id!(
    /// A principal: an operator token (not its secret), a user, or a guest of a room.
    TokenId
);
uuid_id!(
    /// A session of a user who is signed in (not its secret).
    SessionId
);
uuid_id!(
    /// A time-boxed grant.
    GrantId
);
uuid_id!(
    /// Where a person's notices go.
    ChannelId
);
uuid_id!(
    /// One run of a runbook on an agent.
    RunId
);
uuid_id!(
    /// A hub: the owner of one journal chain.
    HubId
);

/// One link of a peer: counts up for every connection that authenticates, never reused while a hub runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kenny_ids_are_bare_and_bounded() {
        for good in ["a", "EXAMPLE-PC", "pc.1_x-2", &"x".repeat(128)] {
            assert_eq!(PeerId::kenny(good).map(|p| p.protocol()), Ok(Protocol::Kenny), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "ü", "a:b", "a\0", "sonde:x", &"x".repeat(129)] {
            assert!(PeerId::kenny(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixed_ids_say_their_protocol() {
        let sonde = PeerId::parse("sonde:7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11").expect("well formed");
        assert_eq!(sonde.protocol(), Protocol::Sonde);
        assert_eq!(PeerId::parse("yonexus:client-a").expect("well formed").protocol(), Protocol::Yonexus);
        assert!(PeerId::parse("sonde:not-a-uuid").is_err());
        assert!(PeerId::parse("other:x").is_err());
    }
}
