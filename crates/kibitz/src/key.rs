//! Public keys and signed tokens. A key is EC P-256 and travels as a JWK; a token is
//! `base64url(JSON) "." base64url(signature)`, where the signature (ECDSA with SHA-256, `r‖s`, 64 bytes) is over the
//! ASCII bytes of the first part. So what was verified is what is read, and no JSON needs a canonical form.
//!
//! Private keys live with the runtimes; here are only the two questions that are asked of them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::credential::Jwks;
use crate::room::Caller;

/// Longest token that is looked at (invites, manifests of small rooms).
pub const MAX_TOKEN: usize = 8_192;

/// Makes signatures.
pub trait Signer: Send + Sync {
    /// The key under which they verify.
    fn public_key(&self) -> PublicKey;
    /// The signature over these bytes. `None` when the machine has no randomness left to make one safely.
    fn sign(&self, bytes: &[u8]) -> Option<[u8; 64]>;
}

/// Checks signatures.
pub trait Verifier: Send + Sync {
    /// Whether this is the key holder's signature over these bytes.
    fn verify(&self, key: &PublicKey, bytes: &[u8], signature: &[u8; 64]) -> bool;

    /// Whether this is the signature (RSASSA-PKCS1-v1_5 with SHA-256) over these bytes. The numbers are big-endian.
    fn verify_rsa(&self, modulus: &[u8], exponent: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        let _ = (modulus, exponent, bytes, signature);
        false
    }

    /// The keys that an issuer published at this address. `None`: they are not known yet, or not any more; ask again.
    fn published(&self, address: &str) -> Option<Arc<Jwks>> {
        let _ = address;
        None
    }

    /// What the operator that a pass names may do in a room now. `None`: they are no operator any more.
    fn operator(&self, room: &str, operator: &str) -> Option<Caller> {
        let _ = (room, operator);
        None
    }
}

/// An EC P-256 public key. Whether its numbers are a point on the curve is the verifier's to see: under one that is not,
/// nothing verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey {
    x: [u8; 32],
    y: [u8; 32],
}

/// Why a JWK is no key for this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// Another kind of key.
    #[error("the key must be a JWK with `kty` \"EC\" and `crv` \"P-256\"")]
    NotP256,
    /// Coordinates that are no 32 bytes.
    #[error("`x` and `y` of the key must be 32 bytes each, in base64url")]
    Coordinates,
    /// A private key where a public one belongs.
    #[error("this is a private key (it has `d`); give the public one")]
    Private,
}

impl PublicKey {
    /// From the form that signature libraries use: 4, x, y.
    pub fn from_sec1(bytes: &[u8]) -> Result<Self, BadKey> {
        let (x, y) = match bytes {
            [4, rest @ ..] if rest.len() == 64 => rest.split_at(32),
            _ => return Err(BadKey::Coordinates),
        };
        let half = |part: &[u8]| part.try_into().map_err(|_| BadKey::Coordinates);
        Ok(Self { x: half(x)?, y: half(y)? })
    }

    /// The form that signature libraries use: 4, x, y.
    pub fn sec1(&self) -> [u8; 65] {
        let mut bytes = [4; 65];
        bytes[1..33].copy_from_slice(&self.x);
        bytes[33..].copy_from_slice(&self.y);
        bytes
    }

    /// The name of the key: RFC 7638, SHA-256 over its members in alphabetical order.
    pub fn thumbprint(&self) -> String {
        let (x, y) = (URL_SAFE_NO_PAD.encode(self.x), URL_SAFE_NO_PAD.encode(self.y));
        let text = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        URL_SAFE_NO_PAD.encode(Sha256::digest(text))
    }

    /// Reads a JWK; members that it may have besides (`alg`, `use`, `kid`) are ignored.
    pub fn from_jwk(text: &str) -> Result<Self, BadKey> {
        let jwk: Jwk = serde_json::from_str(text).map_err(|_| BadKey::NotP256)?;
        jwk.key()
    }
}

#[derive(Deserialize)]
struct Jwk {
    #[serde(default)]
    kty: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
    #[serde(default)]
    d: Option<de::IgnoredAny>,
}

impl Jwk {
    fn key(&self) -> Result<PublicKey, BadKey> {
        if (self.kty.as_deref(), self.crv.as_deref()) != (Some("EC"), Some("P-256")) {
            return Err(BadKey::NotP256);
        }
        if self.d.is_some() {
            return Err(BadKey::Private);
        }
        let half = |text: &Option<String>| {
            let bytes = text.as_deref().and_then(|t| URL_SAFE_NO_PAD.decode(t.trim_end_matches('=')).ok());
            bytes.and_then(|b| b.try_into().ok()).ok_or(BadKey::Coordinates)
        };
        Ok(PublicKey { x: half(&self.x)?, y: half(&self.y)? })
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written {
            kty: &'static str,
            crv: &'static str,
            x: String,
            y: String,
        }
        let (x, y) = (URL_SAFE_NO_PAD.encode(self.x), URL_SAFE_NO_PAD.encode(self.y));
        Written { kty: "EC", crv: "P-256", x, y }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Jwk::deserialize(deserializer)?.key().map_err(de::Error::custom)
    }
}

/// A signed token over this JSON.
pub fn sign_token(signer: &dyn Signer, json: &str) -> Option<String> {
    let body = URL_SAFE_NO_PAD.encode(json);
    let signature = signer.sign(body.as_bytes())?;
    Some(format!("{body}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// A token taken apart and not verified yet.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    body: &'a str,
    signature: [u8; 64],
}

impl<'a> Token<'a> {
    /// Takes a token apart, if it has the form of one and at most `limit` bytes.
    pub fn split(text: &'a str, limit: usize) -> Option<Self> {
        if text.len() > limit {
            return None;
        }
        let (body, signature) = text.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?.try_into().ok()?;
        Some(Self { body, signature })
    }

    /// Its JSON, if this key signed it.
    pub fn verified(&self, key: &PublicKey, verifier: &dyn Verifier) -> Option<Vec<u8>> {
        if !verifier.verify(key, self.body.as_bytes(), &self.signature) {
            return None;
        }
        URL_SAFE_NO_PAD.decode(self.body).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 7515, A.3.
    const RFC: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

    #[test]
    fn a_key_survives_all_its_forms_and_has_its_thumbprint() {
        let key = PublicKey::from_jwk(RFC).expect("a key");
        assert_eq!(serde_json::to_string(&key).expect("JSON"), RFC);
        assert_eq!(PublicKey::from_sec1(&key.sec1()), Ok(key));
        assert_eq!(key.thumbprint(), "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U");
    }

    #[test]
    fn what_is_no_key_is_told() {
        let private = RFC.replace("\"y\"", "\"d\":\"AAAA\",\"y\"");
        for (text, why) in [
            ("{}", BadKey::NotP256),
            ("[]", BadKey::NotP256),
            (&RFC.replace("P-256", "P-384"), BadKey::NotP256),
            (&RFC.replace("f83O", "f83"), BadKey::Coordinates),
            (&private, BadKey::Private),
        ] {
            assert_eq!(PublicKey::from_jwk(text), Err(why), "{text}");
        }
    }

    #[test]
    fn what_has_not_the_form_of_a_token_is_none() {
        for text in ["", ".", "a.b", "a", "a.AAAA", &format!("{}.{}", "a".repeat(9_000), "A".repeat(86))] {
            assert!(Token::split(text, MAX_TOKEN).is_none(), "{text}");
        }
        assert!(Token::split(&format!("a.{}", "A".repeat(86)), MAX_TOKEN).is_some());
    }
}
