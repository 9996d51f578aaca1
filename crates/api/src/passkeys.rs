//! Passkeys.

use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::words;

/// Whether passkeys can be used at this address.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PasskeySupport {
    /// They can.
    pub available: bool,
    /// The name that this hub's passkeys are for; absent where it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relying_party: Option<String>,
    /// Why they cannot be used here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where they can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What a browser is to answer, within five minutes and once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PasskeyChallenge {
    /// Goes with the answer.
    pub challenge_id: String,
    /// `{"publicKey":{…}}` with base64url texts, as `PublicKeyCredential.parseCreationOptionsFromJSON` and
    /// `parseRequestOptionsFromJSON` take them.
    #[schema(value_type = Object)]
    pub options: Value,
}

/// A browser's answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasskeyAnswer {
    /// Of which challenge.
    pub challenge_id: String,
    /// The credential as JSON (`PublicKeyCredential.toJSON()`).
    #[schema(value_type = Object)]
    pub credential: Value,
}

/// A passkey that the browser made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPasskey {
    /// For which challenge.
    pub challenge_id: String,
    /// What to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The credential as JSON (`PublicKeyCredential.toJSON()`).
    #[schema(value_type = Object)]
    pub credential: Value,
}

/// One passkey.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PasskeyView {
    /// Its credential id.
    pub id: String,
    /// What its user calls it.
    pub name: String,
    /// The name that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relying_party: Option<String>,
    /// Whether it is good now: not after `hub.public_url` was changed.
    pub usable: bool,
    /// When it was added.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
}

/// A user's passkeys.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PasskeyList {
    /// They, in the order they were added.
    pub passkeys: Vec<PasskeyView>,
}
