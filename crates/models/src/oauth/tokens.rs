//! Tokens and what is written in them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::secret::SecretText;
use serde_json::Value;

/// What a sign-in yields. The texts are secret; who keeps them in a file uses `reveal`.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// What requests carry.
    pub access_token: SecretText,
    /// What renews it.
    pub refresh_token: Option<SecretText>,
    /// Who the user is.
    pub id_token: Option<SecretText>,
    /// Which account is meant, from the tokens' claims.
    pub account_id: Option<String>,
    /// When the access token ends, in seconds since 1970.
    pub expires_at: Option<i64>,
}

/// The account in a token's claims: `chatgpt_account_id` at the top, or under OpenAI's own claim, or else the first
/// organisation. The signature is not checked: the token came over TLS from who signed it, and is used for nothing but
/// a header back to them.
pub fn account_id(token: &SecretText) -> Option<String> {
    let claims = claims(token)?;
    let own = &claims["https://api.openai.com/auth"];
    let first = |value: &Value| value["organizations"][0]["id"].as_str().map(str::to_owned);
    let named = |value: &Value| value["chatgpt_account_id"].as_str().map(str::to_owned);
    named(&claims)
        .or_else(|| named(own))
        .or_else(|| first(&claims))
        .or_else(|| first(own))
        .filter(|account| !account.is_empty())
}

/// When a token says that it ends.
pub(super) fn expiry(token: &SecretText) -> Option<i64> {
    claims(token)?["exp"].as_i64()
}

fn claims(token: &SecretText) -> Option<Value> {
    let payload = token.reveal().split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn token(claims: Value) -> SecretText {
        SecretText::new(format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string())))
    }

    #[test]
    fn the_account_is_found_wherever_it_stands() {
        let check = |claims: Value, account: Option<&str>| {
            assert_eq!(account_id(&token(claims.clone())).as_deref(), account, "{claims}");
        };
        check(json!({ "chatgpt_account_id": "a" }), Some("a"));
        check(json!({ "https://api.openai.com/auth": { "chatgpt_account_id": "b" } }), Some("b"));
        check(json!({ "organizations": [{ "id": "c" }, { "id": "d" }] }), Some("c"));
        check(json!({ "https://api.openai.com/auth": { "organizations": [{ "id": "e" }] } }), Some("e"));
        check(json!({ "sub": "x" }), None);
        check(json!([1, 2]), None);
        assert_eq!(account_id(&SecretText::new("no-jwt")), None);
        assert_eq!(account_id(&SecretText::new("a.!!!.c")), None);
    }

    #[test]
    fn the_end_is_read() {
        assert_eq!(expiry(&token(json!({ "exp": 1_800_000_000 }))), Some(1_800_000_000));
        assert_eq!(expiry(&token(json!({ "exp": "soon" }))), None);
    }
}
