//! Enrolment: the public half of the agent's key goes to the hub, once, with a one-time token (contract, "Enrollment").

use std::time::Duration;

use convoke_core::secret::SecretText;
use convoke_kenny::wire_bytes;
use ed25519_dalek::SigningKey;
use serde::Deserialize;
use serde_json::json;

use crate::config::Identity;
use crate::net::Dialler;
use crate::net::http::HttpError;
use crate::state::{StateDir, StateError};

/// How long the exchange may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long each step of connecting may take.
const DIAL: Duration = Duration::from_secs(15);
/// Longest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024;

/// Why an agent is not enrolled.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The hub was not reached.
    #[error("cannot reach the hub: {0}")]
    Unreachable(#[source] HttpError),
    /// The token is not valid, or no longer.
    #[error(
        "the hub refuses the token ({0}); a token is for one agent, one key and a limited time. `convoke enroll-token ID` creates a new one"
    )]
    BadToken(String),
    /// Another key is bound.
    #[error(
        "the hub has another key for this agent ({0}); `convoke agents rotate-key ID` on the hub creates a token that lets this key replace it"
    )]
    OtherKey(String),
    /// This key was revoked or replaced.
    #[error("the hub no longer accepts this key ({0})")]
    OldKey(String),
    /// The hub, or what stands before it, has no time or is not well.
    #[error("the hub cannot enrol agents now ({0})")]
    Busy(String),
    /// Something else.
    #[error("the hub refuses the enrolment: {0}")]
    Refused(String),
}

impl EnrolError {
    /// Whether another attempt may go better without anybody doing anything.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Busy(_))
    }
}

/// Enrols: makes a key if there is none, or if the hub takes the one that is there no more; presents it, and keeps who we
/// are now. Safe to repeat with the same token: a hub answers the same key again, so a lost answer strands nobody.
pub async fn enrol(state: &StateDir, identity: &Identity, token: &SecretText) -> Result<(), EnrolError> {
    state.create()?;
    let refused = match present(identity, token, &state.key_or_new()?).await {
        Err(why @ EnrolError::OldKey(_)) => why,
        // The answer to the next key may have been lost.
        Err(why @ EnrolError::BadToken(_)) if state.next().has_key() => why,
        Ok(()) => {
            keep(state, identity)?;
            state.drop_next();
            return Ok(());
        }
        other => return other,
    };
    tracing::info!(why = %refused, "presenting a new key");
    let presented = match present_next(state, identity, token).await {
        Err(EnrolError::OldKey(_)) => {
            // It was bound, then, and after the one that is there: so that one is good for nothing, and this one may hold
            // until the hub has taken another.
            state.take_next()?;
            present_next(state, identity, token).await
        }
        other => other,
    };
    match presented {
        Err(EnrolError::BadToken(_)) => Err(refused),
        other => other,
    }
}

/// Presents the key beside the one that is there, which holds until the hub has taken the other.
async fn present_next(state: &StateDir, identity: &Identity, token: &SecretText) -> Result<(), EnrolError> {
    present(identity, token, &state.next().key_or_new()?).await?;
    // The key first: without it, whoever reads that this agent is enrolled would go on with one that the hub has retired.
    state.take_next()?;
    Ok(keep(state, identity)?)
}

/// Keeps who we are now.
fn keep(state: &StateDir, identity: &Identity) -> Result<(), StateError> {
    // What another hub has said is that hub's business.
    for file in [state.shell_file(), state.rules_file()] {
        let _ = std::fs::remove_file(file);
    }
    identity.save(state)
}

async fn present(identity: &Identity, token: &SecretText, key: &SigningKey) -> Result<(), EnrolError> {
    let dialler = Dialler::new(identity.ca.clone(), DIAL).knowing(&identity.hub_key);
    let url = identity.hub.http(&format!("/api/agents/{}/enroll", identity.id));
    let body = json!({ "public_key": wire_bytes::encode(key.verifying_key().as_bytes()) }).to_string();
    let answer =
        dialler.post_json(&url, token.reveal(), body, MAX_ANSWER, PATIENCE).await.map_err(EnrolError::Unreachable)?;
    let (code, words) = words(answer.status, &answer.body);
    match answer.status {
        200 => Ok(()),
        // 403 of our hub, 409 of older ones of ours.
        403 | 409 if code.as_deref() == Some("old_key") => Err(EnrolError::OldKey(words)),
        401 | 403 => Err(EnrolError::BadToken(words)),
        408 | 429 | 500..=599 => Err(EnrolError::Busy(words)),
        409 => Err(EnrolError::OtherKey(words)),
        _ => Err(EnrolError::Refused(words)),
    }
}

/// What a hub said: ours in an object with a code, those of the field in a text.
fn words(status: u16, body: &[u8]) -> (Option<String>, String) {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Error {
        Ours { code: String, message: String },
        Plain(String),
    }
    #[derive(Deserialize)]
    struct Body {
        error: Error,
    }
    let (code, text) = match serde_json::from_slice(body) {
        Ok(Body { error: Error::Ours { code, message } }) => (Some(code), message),
        Ok(Body { error: Error::Plain(text) }) => (None, text),
        Err(_) => return (None, format!("HTTP {status}")),
    };
    let text: String = text.chars().filter(|c| !c.is_control()).take(300).collect();
    (code, format!("HTTP {status}: {text}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const OLD: (u16, &str) = (403, r#"{"error":{"code":"old_key","message":"old"}}"#);
    /// As hubs of before said it.
    const OLD_409: (u16, &str) = (409, OLD.1);
    pub(crate) const NO: (u16, &str) = (401, r#"{"error":{"code":"unauthorized","message":"no"}}"#);
    const YES: (u16, &str) = (200, "{}");
    /// The connection breaks off before the answer.
    pub(crate) const LOST: (u16, &str) = (0, "");

    fn told(status: u16, body: &[u8]) -> String {
        words(status, body).1
    }

    #[test]
    fn both_kinds_of_hubs_are_quoted() {
        assert_eq!(told(401, br#"{"error":{"code":"x","message":"no"}}"#), "HTTP 401: no");
        assert_eq!(told(409, br#"{"error":"already \u001b[31menrolled"}"#), "HTTP 409: already [31menrolled");
        assert_eq!(told(502, b"<html>"), "HTTP 502");
    }

    /// A hub that answers so, one request after the other.
    pub(crate) async fn hub<const N: usize>(answers: [(u16, &'static str); N]) -> Identity {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.expect("comes");
                let mut read = Vec::new();
                while !read.ends_with(b"}") {
                    assert!(stream.read_buf(&mut read).await.expect("reads") > 0, "the whole request");
                }
                if (status, body) == LOST {
                    continue;
                }
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close", body.len());
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.expect("writes");
            }
        });
        Identity {
            id: convoke_core::id::PeerId::kenny("pc").expect("an id"),
            hub: crate::address::HubAddress::parse(&format!("http://{address}")).expect("an address"),
            hub_key: SigningKey::from_bytes(&[7; 32]).verifying_key(),
            ca: None,
        }
    }

    fn state() -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("state"));
        state.create().expect("is made");
        (dir, state)
    }

    fn token() -> SecretText {
        SecretText::new("cve_x")
    }

    #[tokio::test]
    async fn a_key_holds_until_the_hub_has_taken_another() {
        let (_dir, state) = state();
        let first = state.key_or_new().expect("a key");
        let refused = enrol(&state, &hub([OLD, NO]).await, &token()).await;
        assert!(matches!(refused, Err(EnrolError::OldKey(_))), "{refused:?}");
        assert_eq!(state.key().expect("a key"), first, "nothing took its place");
        let second = state.next().key().expect("is kept");
        // The answer to the second one was lost: the token is used, and bound that one.
        enrol(&state, &hub([NO, YES]).await, &token()).await.expect("enrols");
        assert_eq!(state.key().expect("a key"), second);
        assert!(!state.next().has_key());
    }

    #[tokio::test]
    async fn a_key_that_the_hub_has_taken_is_in_its_place_before_anything_else() {
        let (_dir, state) = state();
        let first = state.key_or_new().expect("a key");
        let second = state.next().new_key().expect("a key");
        // What comes after it fails.
        std::fs::create_dir(state.config_file()).expect("in the way");
        let failed = enrol(&state, &hub([OLD, YES]).await, &token()).await;
        assert!(matches!(failed, Err(EnrolError::State(_))), "{failed:?}");
        assert_ne!(first, second);
        assert_eq!(state.key().expect("a key"), second);
    }

    #[tokio::test]
    async fn a_key_beside_that_was_replaced_as_well_is_in_nobodys_way() {
        let (_dir, state) = state();
        state.key_or_new().expect("a key");
        let second = state.next().new_key().expect("a key");
        // The hub may still let the second one in, until it has taken a third.
        let refused = enrol(&state, &hub([OLD, OLD, NO]).await, &token()).await;
        assert!(matches!(refused, Err(EnrolError::OldKey(_))), "{refused:?}");
        assert_eq!(state.key().expect("a key"), second);
        let third = state.next().key().expect("is kept");
        enrol(&state, &hub([OLD_409, YES]).await, &token()).await.expect("enrols");
        assert_eq!(state.key().expect("a key"), third);
    }
}
