//! The account's server, where codes and refresh tokens become tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use convoke_core::secret::SecretText;
use serde_json::{Value, json};
use url::Url;

use super::tokens::{account_id, expiry};
use super::{OAuthConfig, OAuthError, Tokens};
use crate::Http;
use crate::draft::text;

/// How long an exchange may take.
const EXCHANGE: Duration = Duration::from_secs(30);
/// The largest answer that is read. Tokens are a few KiB.
const ANSWER_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub(super) struct TokenEndpoint {
    http: Http,
    base: Url,
    client_id: String,
}

impl TokenEndpoint {
    pub(super) fn new(http: Http, config: &OAuthConfig) -> Result<Self, OAuthError> {
        let given = config.base_url.trim().trim_end_matches('/');
        let bad = |why: String| OAuthError::BadAddress(given.to_owned(), why);
        let base = Url::parse(given).map_err(|why| bad(why.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(bad("it must begin with http:// or https:// and name a host".into()));
        }
        Ok(Self { http, base, client_id: config.client_id.clone() })
    }

    pub(super) fn address(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let joined = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        url
    }

    /// Tokens for a code.
    pub(super) async fn exchange(
        &self,
        code: &SecretText,
        verifier: &SecretText,
        redirect_uri: &str,
    ) -> Result<Tokens, OAuthError> {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code.reveal())
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("client_id", &self.client_id)
            .append_pair("code_verifier", verifier.reveal())
            .finish();
        let answer = self.post("application/x-www-form-urlencoded", form).await?;
        read_tokens(&answer, None)
    }

    /// New tokens for old ones.
    pub(super) async fn renew(&self, old: &Tokens) -> Result<Tokens, OAuthError> {
        let Some(refresh) = &old.refresh_token else {
            return Err(OAuthError::Expired("there is no refresh token".into()));
        };
        let body = json!({
            "client_id": self.client_id,
            "grant_type": "refresh_token",
            "refresh_token": refresh.reveal(),
            "scope": "openid profile email",
        });
        match self.post("application/json", body.to_string()).await {
            Ok(answer) => read_tokens(&answer, Some(old)),
            Err(OAuthError::Refused(why)) => Err(OAuthError::Expired(why)),
            Err(why) => Err(why),
        }
    }

    async fn post(&self, kind: &'static str, body: String) -> Result<Value, OAuthError> {
        let url = self.address("/oauth/token");
        let unreachable = |why: reqwest::Error| OAuthError::Network(why.without_url().to_string());
        let exchange = async {
            let http = self.http.to(&url).map_err(unreachable)?;
            let request = http.post(url.clone()).header("content-type", kind).header("accept", "application/json");
            let mut response = request.body(body).send().await.map_err(unreachable)?;
            let status = response.status();
            let mut answer = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
                if answer.len() + chunk.len() > ANSWER_BYTES {
                    return Err(OAuthError::Malformed(format!("it is longer than {ANSWER_BYTES} bytes")));
                }
                answer.extend_from_slice(&chunk);
            }
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            match status.as_u16() {
                200..=299 => Ok(answer),
                500.. | 429 => Err(OAuthError::Network(format!("HTTP {status}"))),
                _ => Err(OAuthError::Refused(reason(&answer, status.as_u16()))),
            }
        };
        let timed_out = |_| OAuthError::Network(format!("no answer within {} seconds", EXCHANGE.as_secs()));
        tokio::time::timeout(EXCHANGE, exchange).await.map_err(timed_out)?
    }
}

/// Why the server said no. Its words are short and hold no token; they are cut all the same.
fn reason(answer: &Value, status: u16) -> String {
    let told = text(answer, "error_description")
        .or_else(|| text(&answer["error"], "message"))
        .or_else(|| text(answer, "error"))
        .or_else(|| text(answer, "message"));
    let told = told.map_or_else(|| format!("HTTP {status}"), str::to_owned);
    told.chars().take(300).collect()
}

fn read_tokens(answer: &Value, old: Option<&Tokens>) -> Result<Tokens, OAuthError> {
    let secret = |key: &str| text(answer, key).filter(|token| !token.is_empty()).map(SecretText::new);
    let Some(access_token) = secret("access_token") else {
        return Err(OAuthError::Malformed("there is no access token in it".into()));
    };
    let id_token = secret("id_token").or_else(|| old?.id_token.clone());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let lifetime = answer["expires_in"].as_i64();
    let expires_at = lifetime.map(|lifetime| now.cast_signed().saturating_add(lifetime));
    let account = id_token.as_ref().and_then(account_id).or_else(|| account_id(&access_token));
    Ok(Tokens {
        refresh_token: secret("refresh_token").or_else(|| old?.refresh_token.clone()),
        account_id: account.or_else(|| old?.account_id.clone()),
        expires_at: expires_at.or_else(|| expiry(&access_token)),
        id_token,
        access_token,
    })
}
