//! How one gets in (contract, section 5): an agent by an assertion of its own key, a person by an invite that the room
//! signed. The manifest is the room's signed list of agent keys.
//!
//! An assertion is bound to the connection it is made for. On the mesh that is the certificate of the DTLS link. The
//! relay has none of its own, so it gives every connection a fresh challenge, and what is asserted is
//! [`relay_fingerprint`]: challenge and host together. The challenge makes an assertion good for one connection and
//! nothing else. The host is the one that the agent dialled: somebody in between, at another address, cannot hand on the
//! challenge of the real hub and use what the agent signs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::frame::Moderation;
use crate::grant::Grant;
use crate::key::{MAX_TOKEN, PublicKey, Signer, Token, Verifier, sign_token};

/// Longest assertion.
pub const MAX_ASSERTION: usize = 2_048;
/// Most agent keys of one room.
pub const MAX_KEYS: usize = 64;
/// Longest label of a key.
pub const MAX_LABEL: usize = 80;
/// What an assertion says it is.
const ASSERTION: &str = "kbz-agent-key.v1";
/// Separates what is hashed here from everything else that is.
const RELAY: &str = "kbz-relay.v1";
/// How far a clock may be ahead of ours, in seconds.
const AHEAD_S: i64 = 60;
/// How old an assertion may be, in seconds.
const MAX_AGE_S: i64 = 300;

/// The text of a challenge as it travels.
pub fn challenge_text(challenge: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(challenge)
}

/// What an assertion over the relay is bound to: the SHA-256 of purpose, host and challenge, written like the
/// fingerprint of a certificate. `host` is as it stands in the request, with its port.
pub fn relay_fingerprint(host: &str, challenge: &str) -> String {
    let digest = Sha256::digest(format!("{RELAY}|{}|{challenge}", host.trim().to_ascii_lowercase()));
    let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// An agent key that a room knows, with what its holder is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentKey {
    /// The key.
    pub key: PublicKey,
    /// What its holder may; absent: what every agent may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<Grant>,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Assertion {
    k: String,
    room: String,
    fp: String,
    iat: i64,
}

/// Why somebody was not let in, in words for the operator; the one who asks is told `unverified` and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not the form of a token, or too long.
    #[error("the credential is malformed")]
    Malformed,
    /// No key of the room signed it.
    #[error("no key that this room knows has signed it")]
    UnknownKey,
    /// Made for something else.
    #[error("it is for another purpose")]
    Purpose,
    /// Made for another room.
    #[error("it is for another room")]
    Room,
    /// Made for another connection.
    #[error("it is bound to another connection")]
    Connection,
    /// Too old.
    #[error("it is too old")]
    Stale,
    /// From the future.
    #[error("it comes from a clock that is ahead")]
    Ahead,
}

/// An assertion for one connection.
pub fn assert(signer: &dyn Signer, room: &str, fingerprint: &str, now: i64) -> Option<String> {
    let assertion = Assertion { k: ASSERTION.into(), room: room.into(), fp: fingerprint.into(), iat: now };
    sign_token(signer, &serde_json::to_string(&assertion).ok()?)
}

/// Which of the room's keys made this assertion for this connection, if one did. The first key whose signature fits
/// decides, whatever else is wrong.
pub fn check_assertion<'k>(
    text: &str,
    keys: &'k [AgentKey],
    room: &str,
    fingerprint: &str,
    now: i64,
    verifier: &dyn Verifier,
) -> Result<&'k AgentKey, Refused> {
    let token = Token::split(text, MAX_ASSERTION).ok_or(Refused::Malformed)?;
    let found = keys.iter().find_map(|key| token.verified(&key.key, verifier).map(|json| (key, json)));
    let (key, json) = found.ok_or(Refused::UnknownKey)?;
    let assertion: Assertion = serde_json::from_slice(&json).map_err(|_| Refused::Malformed)?;
    if assertion.k != ASSERTION {
        return Err(Refused::Purpose);
    }
    if assertion.room != room {
        return Err(Refused::Room);
    }
    if assertion.fp.trim().to_ascii_lowercase() != fingerprint {
        return Err(Refused::Connection);
    }
    in_time(assertion.iat, now, MAX_AGE_S)?;
    Ok(key)
}

/// What a host's signed command says it is.
const COMMAND: &str = "kbz-host-cmd.v1";
/// How old a command may be, in seconds.
const MAX_COMMAND_AGE_S: i64 = 120;

/// A host's command with a signature of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// What to do.
    pub op: Moderation,
    /// To whom.
    pub target: Option<String>,
    /// Its number: the same one is not followed twice.
    pub jti: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct WrittenCommand {
    k: String,
    room: String,
    fp: String,
    op: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    iat: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<String>,
}

impl HostCommand {
    /// A command for this room, over the connection with this certificate.
    pub fn sign(&self, signer: &dyn Signer, room: &str, fingerprint: &str, now: i64) -> Option<String> {
        let Self { op, target, jti } = self.clone();
        let (k, op) = (COMMAND.into(), op.name().into());
        let written = WrittenCommand { k, room: room.into(), fp: fingerprint.into(), op, target, iat: now, jti };
        sign_token(signer, &serde_json::to_string(&written).ok()?)
    }

    /// Reads one that a host of the room signed for this connection. Without a host's key none counts.
    pub fn check(
        text: &str,
        keys: &[PublicKey],
        room: &str,
        fingerprint: &str,
        now: i64,
        verifier: &dyn Verifier,
    ) -> Result<Self, Refused> {
        let token = Token::split(text, MAX_TOKEN).ok_or(Refused::Malformed)?;
        let json = keys.iter().find_map(|key| token.verified(key, verifier)).ok_or(Refused::UnknownKey)?;
        let written: WrittenCommand = serde_json::from_slice(&json).map_err(|_| Refused::Malformed)?;
        if written.k != COMMAND {
            return Err(Refused::Purpose);
        }
        if written.room != room {
            return Err(Refused::Room);
        }
        if written.fp.trim().to_ascii_lowercase() != fingerprint {
            return Err(Refused::Connection);
        }
        in_time(written.iat, now, MAX_COMMAND_AGE_S)?;
        // Grants are not among the commands of the field's hosts: they come over a connection that proved who it is.
        let op = Moderation::parse(&written.op).filter(|op| *op != Moderation::Grant).ok_or(Refused::Malformed)?;
        Ok(Self { op, target: written.target, jti: written.jti.filter(|jti| !jti.is_empty() && jti.len() <= 64) })
    }
}

/// Whether something was made neither too long ago nor in the future.
const fn in_time(iat: i64, now: i64, max_age_s: i64) -> Result<(), Refused> {
    if iat > now.saturating_add(AHEAD_S) {
        return Err(Refused::Ahead);
    }
    if now.saturating_sub(iat) > max_age_s { Err(Refused::Stale) } else { Ok(()) }
}

/// What an identity token's `nonce` must be: it binds the token to a room and to the certificate that is shown there.
pub fn binding_nonce(fingerprint: &str, room: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{}|{room}", fingerprint.trim().to_lowercase())))
}

/// The pictures of [`safety_code`], in their order.
const PICTURES: [&str; 32] = [
    "🦊", "🐢", "🐙", "🦉", "🦋", "🐝", "🐬", "🦄", "🌊", "🌙", "🌈", "🔥", "🌵", "🍄", "🍀", "🌻", "🍋", "🍉", "🍓",
    "🔑", "🎈", "🚀", "💎", "🎯", "🎸", "🧭", "🧩", "🪁", "🎺", "🐳", "🍒", "🐡",
];

/// Four pictures that two people see alike if nobody stands between them. Either end may come first.
pub fn safety_code(ours: &str, theirs: &str) -> [&'static str; 4] {
    let mut both = [ours.trim().to_lowercase(), theirs.trim().to_lowercase()];
    both.sort();
    let digest = Sha256::digest(both.join("|"));
    std::array::from_fn(|n| PICTURES[usize::from(digest[n] & 31)])
}

/// An invite: whoever has it gets in under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// What its holder is called.
    pub name: String,
    /// For which room.
    pub room: String,
    /// Seconds since 1970 from which on it is worth nothing.
    pub exp: i64,
    /// `host`: its holder may moderate. `agent`: its holder is an agent. Programs of the field do not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// A pass: its holder is this operator of the hub, and may what the hub says they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
}

impl Invite {
    /// Whether its holder may moderate.
    pub fn is_host(&self) -> bool {
        self.role.as_deref() == Some("host")
    }

    /// Whether its holder is an agent, whatever they say.
    pub fn is_agent(&self) -> bool {
        self.role.as_deref() == Some("agent")
    }

    /// As it is handed out.
    pub fn sign(&self, signer: &dyn Signer) -> Option<String> {
        sign_token(signer, &serde_json::to_string(self).ok()?)
    }

    /// Reads one that the room signed.
    pub fn check(
        text: &str,
        key: &PublicKey,
        room: &str,
        now: i64,
        verifier: &dyn Verifier,
    ) -> Result<Self, Refused> {
        // A manifest is signed by the same key and has no name, so it is no invite.
        let invite: Self = signed(text, MAX_TOKEN, key, verifier)?;
        in_force(&invite.room, invite.exp, room, now)?;
        Ok(invite)
    }
}

/// What this key signed.
fn signed<T: DeserializeOwned>(
    text: &str,
    limit: usize,
    key: &PublicKey,
    verifier: &dyn Verifier,
) -> Result<T, Refused> {
    let token = Token::split(text, limit).ok_or(Refused::Malformed)?;
    let json = token.verified(key, verifier).ok_or(Refused::UnknownKey)?;
    serde_json::from_slice(&json).map_err(|_| Refused::Malformed)
}

/// Whether something that was signed for a room until a time holds for this room now.
fn in_force(signed_for: &str, exp: i64, room: &str, now: i64) -> Result<(), Refused> {
    if signed_for != room {
        return Err(Refused::Room);
    }
    if now >= exp { Err(Refused::Stale) } else { Ok(()) }
}

/// The room's signed list of who may come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// People by address: none here, they come by invite.
    #[serde(default)]
    pub members: Vec<String>,
    /// How people come: `invite`.
    pub mode: String,
    /// For which room.
    pub room: String,
    /// Seconds since 1970 from which on it is worth nothing.
    pub exp: i64,
    /// The agents' keys.
    #[serde(default, rename = "agentKeys")]
    pub agent_keys: Vec<AgentKey>,
}

impl Manifest {
    /// As it is handed out.
    pub fn sign(&self, signer: &dyn Signer) -> Option<String> {
        sign_token(signer, &serde_json::to_string(self).ok()?)
    }

    /// Reads one that this key signed, for this room. Large ones are the room's own, so there is no limit but the one
    /// that [`MAX_KEYS`] makes.
    pub fn check(
        text: &str,
        key: &PublicKey,
        room: &str,
        now: i64,
        verifier: &dyn Verifier,
    ) -> Result<Self, Refused> {
        let manifest: Self = signed(text, MAX_FRAME, key, verifier)?;
        in_force(&manifest.room, manifest.exp, room, now)?;
        if manifest.members.is_empty() && manifest.agent_keys.is_empty() {
            return Err(Refused::Malformed);
        }
        Ok(manifest)
    }
}

/// Room for [`MAX_KEYS`] keys with everything they may carry.
const MAX_FRAME: usize = 128 * 1024;

/// Feeds arbitrary bytes to the decoders of what strangers show to get in, as if every signature were good: for fuzzing.
pub fn exercise(bytes: &[u8]) {
    struct Credulous;
    impl Verifier for Credulous {
        fn verify(&self, _: &PublicKey, _: &[u8], _: &[u8; 64]) -> bool {
            true
        }
    }
    const ROOM: &str = "room";
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(key) = PublicKey::from_jwk(text) {
        assert_eq!(PublicKey::from_sec1(&key.sec1()), Ok(key));
    }
    let Ok(key) = PublicKey::from_sec1(&[4; 65]) else { return };
    // What stands in a token is JSON in base64; a fuzzer finds the way into JSON sooner than through both.
    let token = format!("{}.{}", URL_SAFE_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode([0; 64]));
    for text in [text, &token] {
        let keys = [AgentKey { key, caps: None, label: None }];
        if let Ok(found) = check_assertion(text, &keys, ROOM, "", 0, &Credulous) {
            assert_eq!(found.key, key);
        }
        if let Ok(invite) = Invite::check(text, &key, ROOM, 0, &Credulous) {
            assert!(invite.room == ROOM && invite.exp > 0);
        }
        if let Ok(manifest) = Manifest::check(text, &key, ROOM, 0, &Credulous) {
            assert!(manifest.room == ROOM && manifest.exp > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_bound_as_the_field_binds_it() {
        let fingerprint = ["AB:CD:EF:01:23:45:67:89"; 4].join(":");
        assert_eq!(binding_nonce(&fingerprint, "room-salt"), "jr1LLr5BsB5Y2nbZiWzrzU2SCJjNQu4GuhlOyN361zo");
    }

    #[test]
    fn a_safety_code_is_the_same_at_both_ends() {
        assert_eq!(safety_code("aa:bb", "cc:dd"), ["🌻", "🐬", "🍋", "🧭"]);
        assert_eq!(safety_code("CC:DD", "aa:bb"), safety_code("aa:bb", "cc:dd"));
    }
}
