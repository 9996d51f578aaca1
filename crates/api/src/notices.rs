//! Where people's notices go.

use convoke_core::id::ChannelId;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::people::Secret;
use crate::words;

/// A place where somebody wants to be told. What is needed depends on the kind.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelRequest {
    /// `push`, `ntfy` or `webhook`.
    pub kind: String,
    /// What to call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of `ntfy` the topic's address, of `webhook` where to post to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Secret>,
    /// Of `ntfy` an access token, where the topic needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// Of `webhook`, what signs the body (`X-Convoke-Signature: sha256=…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// Of `push`, the browser's subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<PushSubscription>,
    /// For another user: needs the right `users`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A browser's subscription (`PushSubscription.toJSON()`); what else it has is not looked at.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PushSubscription {
    /// The address at its push service.
    pub endpoint: Secret,
    /// Its keys.
    pub keys: PushKeys,
}

/// A browser's keys, base64url.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PushKeys {
    /// Its public key.
    pub p256dh: Secret,
    /// What it shares with whoever may write to it.
    pub auth: Secret,
}

/// One channel, without its secrets.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChannelView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ChannelId,
    /// Whose.
    pub user: String,
    /// `push`, `ntfy` or `webhook`.
    pub kind: String,
    /// What its user calls it.
    pub name: String,
    /// The host that it goes to.
    pub host: String,
    /// How often in a row it failed.
    pub failures: u32,
    /// Why it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it was added.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
}

/// Somebody's channels.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChannelList {
    /// Oldest first.
    pub channels: Vec<ChannelView>,
    /// What a page subscribes to push with (`applicationServerKey`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vapid_public_key: Option<String>,
}

/// Whose channels.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ChannelQuery {
    /// Another user's: needs the right `users`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}
