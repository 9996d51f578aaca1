//! Who is told a pairing code: a person, through a channel of their own, and never the socket of the client.
//!
//! The operator's inbox always has it (`GET /api/yonexus/pairings`, for those who may approve). Where Discord or a
//! webhook is configured, at least one of them must have taken it before the code can be used; it is tried again, with
//! growing pauses, for as long as the code lives.

use std::sync::Arc;
use std::time::Duration;

use convoke_core::secret::SecretText;
use convoke_yonexus::answer::expiry;
use convoke_yonexus::record::Notification;
use hmac::Mac as _;
use serde_json::json;

use super::clients::Client;
use super::discord::Discord;
use super::pairing;
use crate::Wires;
use convoke_gate::hub::hmac_sha256;
use convoke_gate::settings::Settings;

/// How long a call out of the hub may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause before another try, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A notification to a person.
pub(super) struct Notice {
    pub(super) identifier: String,
    pub(super) code: SecretText,
    pub(super) expires_at: i64,
    pub(super) fingerprint: String,
    pub(super) address: String,
}

/// Why a notification did not go out.
#[derive(Debug)]
pub(super) struct NotifyError {
    /// For the operator. It holds no token and no code.
    pub(super) why: String,
    /// When the other side wants to be asked again.
    pub(super) after: Option<Duration>,
}

impl NotifyError {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), after: None }
    }
}

/// The channels that are configured.
#[derive(Debug)]
pub struct Notifiers {
    discord: Option<Discord>,
    webhook: Option<(String, Option<SecretText>)>,
    /// Half a Discord configuration is a mistake that must not go unnoticed.
    incomplete: bool,
}

impl Notifiers {
    pub(super) fn new(settings: &Settings) -> Self {
        let token = settings.yonexus.discord_bot_token.clone();
        let user = settings.yonexus.discord_admin_user.as_deref();
        let base = &settings.yonexus.discord_base_url;
        let incomplete = token.is_some() != user.is_some();
        if incomplete {
            tracing::warn!(
                "yonexus.discord_bot_token and yonexus.discord_admin_user must both be set; one is missing"
            );
        }
        let discord = token.zip(user).map(|(token, user)| Discord::new(base, token, user));
        let secret = settings.yonexus.webhook_secret.clone();
        let webhook = settings.yonexus.webhook_url.clone().map(|url| (url, secret));
        Self { discord, webhook, incomplete }
    }

    /// Whether there is no channel besides the inbox.
    pub(super) const fn only_inbox(&self) -> bool {
        self.discord.is_none() && self.webhook.is_none() && !self.incomplete
    }

    /// Tells everyone who is configured. `Ok` with how, once one of them has it.
    async fn tell(&self, http: &reqwest::Client, notice: &Notice) -> Result<String, NotifyError> {
        let (mut told, mut failed, mut after) = (Vec::new(), Vec::new(), None);
        if self.incomplete {
            failed.push("Discord: set both yonexus.discord_bot_token and yonexus.discord_admin_user".to_owned());
        }
        if let Some(discord) = &self.discord {
            match discord.tell(http, notice).await {
                Ok(()) => told.push("Discord"),
                Err(not) => {
                    failed.push(format!("Discord: {}", not.why));
                    after = after.max(not.after);
                }
            }
        }
        if let Some((url, secret)) = &self.webhook {
            match call_webhook(http, url, secret.as_ref(), notice).await {
                Ok(()) => told.push("webhook"),
                Err(not) => {
                    failed.push(format!("webhook: {}", not.why));
                    after = after.max(not.after);
                }
            }
        }
        if told.is_empty() {
            return Err(NotifyError { why: failed.join("; "), after });
        }
        let mut words = told.join(", ");
        if !failed.is_empty() {
            words = format!("{words} ({})", failed.join("; "));
        }
        Ok(words)
    }
}

async fn call_webhook(
    http: &reqwest::Client,
    url: &str,
    secret: Option<&SecretText>,
    notice: &Notice,
) -> Result<(), NotifyError> {
    let body = json!({
        "event": "pairing_request",
        "identifier": notice.identifier,
        "pairingCode": notice.code.reveal(),
        "expiresAt": notice.expires_at,
        "keyFingerprint": notice.fingerprint,
        "address": notice.address,
    });
    post_signed(http, url, secret, &body.to_string()).await
}

/// Posts JSON, signed when there is a secret. A 2xx is a success.
pub(super) async fn post_signed(
    http: &reqwest::Client,
    url: &str,
    secret: Option<&SecretText>,
    body: &str,
) -> Result<(), NotifyError> {
    let mut request = http.post(url).header("content-type", "application/json").body(body.to_owned());
    if let Some(secret) = secret {
        let time = convoke_gate::clock::now().millis().div_euclid(1000);
        // The time is signed too, so that a call that was overheard cannot be made again for ever.
        let signed = hmac_sha256(secret.reveal().as_bytes()).chain_update(format!("{time}.{body}"));
        let signature = hex::encode(signed.finalize().into_bytes());
        request = request.header("x-convoke-signature", format!("t={time},v1={signature}"));
    }
    let reply = request.send().await.map_err(|why| NotifyError::new(reason(&why)))?;
    if reply.status().is_success() {
        return Ok(());
    }
    let after = retry_after(&reply);
    Err(NotifyError { why: format!("the address answered {}", reply.status()), after })
}

/// `Retry-After` in seconds, bounded.
pub(super) fn retry_after(reply: &reqwest::Response) -> Option<Duration> {
    let text = reply.headers().get("retry-after")?.to_str().ok()?;
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(3600.0)))
}

/// The innermost cause, without the address: it may hold a secret of the operator's.
pub(super) fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", PATIENCE.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if std::ptr::eq(cause, error) { "the call failed".into() } else { cause.to_string() }
}

/// Tells the code of a client's pairing, in a task of its own, until somebody has it or its time is over.
pub(super) fn begin(hub: &Wires, client: &Arc<Client>) {
    let (hub, client) = (hub.clone(), Arc::clone(client));
    let stopping = hub.stopping.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = notify_until_sent(&hub, &client) => {}
            () = stopping.cancelled() => {}
        }
    });
}

async fn notify_until_sent(hub: &Wires, client: &Arc<Client>) {
    let Some(notice) = notice(client) else { return };
    let mut pause = PAUSES.0;
    loop {
        match hub.yonexus.notifiers.tell(hub.yonexus.http(), &notice).await {
            Ok(words) => {
                pairing::notified(hub, client, notice.code.reveal(), Notification::Sent, words).await;
                return;
            }
            Err(not) => {
                tracing::warn!(client = %client.identifier, why = not.why, "cannot notify anybody of a pairing code");
                pairing::notified(hub, client, notice.code.reveal(), Notification::Failed, not.why).await;
                tokio::time::sleep(not.after.unwrap_or(pause)).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        let current = client.state().record.pairing.as_ref().map(|p| p.code.reveal() == notice.code.reveal());
        if current != Some(true) {
            return;
        }
    }
}

fn notice(client: &Arc<Client>) -> Option<Notice> {
    let state = client.state();
    let pairing = state.record.pairing.as_ref()?;
    Some(Notice {
        identifier: client.identifier.to_string(),
        code: SecretText::new(pairing.code.reveal()),
        expires_at: expiry(pairing),
        fingerprint: pairing::fingerprint(&pairing.key),
        address: state.pairing.address.map(|a| a.to_string()).unwrap_or_default(),
    })
}
