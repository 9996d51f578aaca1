//! Yonexus: clients, pairings, rules, messages.

use convoke_core::peer::{Liveness, Trust};
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::words;

/// One client.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientView {
    /// Its identifier.
    pub identifier: String,
    /// Its id among all peers: `yonexus:<identifier>`.
    pub id: String,
    /// `unpaired`, `pending`, `trusted`, `revoked`.
    #[schema(value_type = words::Trust)]
    pub trust: Trust,
    /// The same in the protocol's words: `unpaired`, `pending`, `paired`, `revoked`.
    pub state: String,
    /// `online`, `unstable`, `offline`.
    #[schema(value_type = words::Liveness)]
    pub liveness: Liveness,
    /// Whether it may pair: an operator or the settings put it on the allow-list.
    pub allowed: bool,
    /// Whether the settings did (`yonexus.allow`), so that it cannot be removed here.
    pub from_settings: bool,
    /// SHA-256 of its public key, for comparing by eye.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
    /// The address it is connected from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Since when it has been online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub connected_at: Option<Timestamp>,
    /// When it was paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub paired_at: Option<Timestamp>,
    /// When it last authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub last_auth: Option<Timestamp>,
    /// When it was last heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub last_seen: Option<Timestamp>,
    /// Why its trust was reset, until it pairs again: `nonce_collision` or `rate_limited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// Until when it may bind another key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub rotation_until: Option<Timestamp>,
    /// The fingerprint of the only key that it may bind, if the operator named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_fingerprint: Option<String>,
    /// Messages that wait for it.
    pub waiting: u64,
}

/// Which key a client may bind.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// Its new public key: base64, or PEM. Without one, whoever has the client's secret may bind any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

/// A page of clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClientList {
    /// The clients, by identifier.
    pub clients: Vec<ClientView>,
    /// Pass as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A query for clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ClientQuery {
    /// Only online clients (true), or only offline ones (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<bool>,
    /// Only clients after this identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A client for the allow-list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowClient {
    /// Its identifier: 1 to 128 letters, digits, '.', '_' or '-'.
    pub identifier: String,
}

/// An open pairing.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct PairingView {
    /// The client's identifier.
    pub identifier: String,
    /// SHA-256 of the key that is being paired.
    pub key_fingerprint: String,
    /// Where the client connected from.
    pub address: String,
    /// When it started.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// How long ago that is.
    pub age_s: u64,
    /// When the code expires.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
    /// `pending`, `sent` or `failed`.
    pub notification: String,
    /// How the administrator was notified, or why not.
    pub notified: String,
    /// Wrong codes so far; after five the code is void.
    pub wrong_codes: u8,
    /// An operator approved it, and the client has not connected again yet.
    pub approved: bool,
    /// Whether the client is connected and waits.
    pub connected: bool,
    /// The code; only for a caller who may approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing_code: Option<String>,
}

impl std::fmt::Debug for PairingView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairingView").field("identifier", &self.identifier).finish_non_exhaustive()
    }
}

/// All open pairings.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PairingList {
    /// The oldest first.
    pub pairings: Vec<PairingView>,
}

/// A decision about a pairing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecidePairing {
    /// Whether to complete the pairing without a code, or end it.
    pub approve: bool,
}

/// A rule: which messages, and their target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The rule identifier, matched exactly.
    pub rule: String,
    /// The target of its messages.
    pub target: Target,
}

/// The target of a rule's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// The inbox, for operators and assistants.
    Inbox {},
    /// To other clients.
    Clients(ToClients),
    /// To an address.
    Webhook(ToWebhook),
    /// Into a room.
    Room {
        /// Its name.
        room: String,
    },
}

/// To other clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToClients {
    /// The receiving clients; absent for all but the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// Put the sender and `::` before the content.
    #[serde(default)]
    pub with_sender: bool,
    /// Put the message's id and `::` before that, to recognise a message that is delivered twice.
    #[serde(default)]
    pub with_id: bool,
    /// Seconds to keep messages for clients that are away. Absent: the sender is told that they are away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_s: Option<u64>,
}

/// To an address.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToWebhook {
    /// The address to post messages to.
    pub url: String,
    /// The secret that signs the requests. Never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// How long it is tried, in seconds; a day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_s: Option<u64>,
}

impl std::fmt::Debug for ToWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToWebhook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// All rules, in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleList {
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A message to try a rule with.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRule {
    /// The content.
    pub content: String,
    /// As if this client had sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What would become of a message. Nothing was sent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RuleTest {
    /// Whether a rule matches.
    pub matched: bool,
    /// What the rule's processor would see.
    pub message: String,
    /// Its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// What each client would get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<String>,
    /// Who would get it now.
    pub online: Vec<String>,
    /// Who would not, or later.
    pub offline: Vec<String>,
}

/// A message in the inbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MessageView {
    /// Its id.
    pub id: i64,
    /// When the hub received it.
    #[schema(value_type = words::Time)]
    pub at: Timestamp,
    /// The rule identifier.
    pub rule: String,
    /// The client that sent it.
    pub sender: String,
    /// The content.
    pub content: String,
}

/// A page of messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MessagePage {
    /// In order of arrival.
    pub messages: Vec<MessageView>,
    /// Pass as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// Which messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct MessageQuery {
    /// Only of this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Only entries after this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A message to clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// The rule identifier.
    pub rule: String,
    /// The content.
    pub content: String,
    /// To whom.
    pub to: Vec<String>,
    /// Keep it for those who are away, for so many seconds; then everyone gets it through the outbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_s: Option<u64>,
}

/// What became of a message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// Its id, when it was kept: it survives a restart of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// Handed to their connections.
    pub sent: Vec<String>,
    /// Kept until they come back, or confirm that they have read it.
    pub kept: Vec<String>,
    /// Away, and not kept.
    pub offline: Vec<String>,
}
