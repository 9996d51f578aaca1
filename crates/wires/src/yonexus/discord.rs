//! A direct message on Discord: open the channel to the user, then post into it.

use std::time::Duration;

use convoke_core::secret::SecretText;
use serde::Deserialize;
use serde_json::json;

use super::notify::{Notice, NotifyError, reason, retry_after};

/// Where and as whom.
#[derive(Debug)]
pub(super) struct Discord {
    base: String,
    token: SecretText,
    user: String,
}

/// What Discord says when it says no.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    retry_after: Option<f64>,
}

impl Discord {
    pub(super) fn new(base: &str, token: SecretText, user: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), token, user: user.to_owned() }
    }

    pub(super) async fn tell(&self, http: &reqwest::Client, notice: &Notice) -> Result<(), NotifyError> {
        #[derive(Deserialize)]
        struct Channel {
            id: String,
        }
        let opened = self.post(http, "/users/@me/channels", &json!({ "recipient_id": self.user })).await?;
        let channel: Channel =
            serde_json::from_slice(&opened).map_err(|_| NotifyError::new("its answer names no channel"))?;
        // It becomes part of an address.
        if channel.id.is_empty() || !channel.id.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotifyError::new("its answer names no channel"));
        }
        let text = format!(
            "Yonexus pairing request\nidentifier: {}\npairingCode: {}\nexpiresAt: {}\nkey: {}\nfrom: {}",
            notice.identifier,
            notice.code.reveal(),
            notice.expires_at,
            notice.fingerprint,
            notice.address,
        );
        // Nothing that a client chose may ping anybody.
        let message = json!({ "content": text, "allowed_mentions": { "parse": [] } });
        self.post(http, &format!("/channels/{}/messages", channel.id), &message).await.map(drop)
    }

    async fn post(
        &self,
        http: &reqwest::Client,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<Vec<u8>, NotifyError> {
        let request = http.post(format!("{}{path}", self.base));
        let request = request.header("authorization", format!("Bot {}", self.token.reveal()));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let reply = request.send().await.map_err(|why| NotifyError::new(reason(&why)))?;
        let (status, header) = (reply.status().as_u16(), retry_after(&reply));
        let bytes = reply.bytes().await.map_err(|why| NotifyError::new(reason(&why)))?;
        if (200..300).contains(&status) {
            return Ok(bytes.to_vec());
        }
        let refusal: Refusal = serde_json::from_slice(&bytes).unwrap_or_default();
        Err(refused(status, &refusal, header))
    }
}

/// Discord's no in words for the operator.
fn refused(status: u16, refusal: &Refusal, header: Option<Duration>) -> NotifyError {
    let words = match (status, refusal.code) {
        (401, _) => "it rejects the bot's token; check yonexus.discord_bot_token".into(),
        (_, 50007) => {
            "the bot may not write to this user; they must share a server with it and allow direct messages".into()
        }
        (_, 10013) | (400, 50033 | 50035) => {
            "the user does not exist; check yonexus.discord_admin_user (a number)".to_owned()
        }
        (403, code) => format!("it forbids this (code {code})"),
        (404, code) => format!("it has no such resource (code {code}); check yonexus.discord_base_url"),
        (429, _) => "it limits the rate of messages".into(),
        (500.., _) => format!("it failed ({status})"),
        (_, code) => format!("it answered {status} (code {code})"),
    };
    // The body's figure is the finer one.
    let body = refusal.retry_after.filter(|s| s.is_finite() && *s >= 0.0);
    let after = body.map(|s| Duration::from_secs_f64(s.min(3600.0))).or(header);
    NotifyError { why: words, after: if status == 429 { after } else { None } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_is_told_in_words_and_a_429_says_when() {
        let no = |status, code, retry_after| refused(status, &Refusal { code, retry_after }, None);
        assert!(no(401, 0, None).why.contains("discord_bot_token"));
        assert!(no(403, 50007, None).why.contains("direct messages"));
        assert!(no(400, 50033, None).why.contains("discord_admin_user"));
        assert!(no(502, 0, None).why.contains("502"));
        assert_eq!(no(429, 0, Some(0.5)).after, Some(Duration::from_millis(500)));
        assert_eq!(no(429, 0, Some(f64::INFINITY)).after, None);
        assert_eq!(no(403, 50007, Some(9.0)).after, None);
    }
}
