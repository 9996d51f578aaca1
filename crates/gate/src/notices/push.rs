//! Web push: a message sealed for one browser (RFC 8291, in the coding of RFC 8188), and the signature by which its push
//! service knows the hub (RFC 8292).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use convoke_core::time::Timestamp;
use hmac::Mac as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use crate::clock;
use crate::hub::hmac_sha256;

/// A message is one record of at most this size.
const RECORD: u32 = 4096;
/// How long a signature is good, in seconds.
const SIGNED_FOR_S: i64 = 12 * 3600;

/// What a browser gives to whoever may write to it (`PushSubscription.toJSON()`).
#[derive(Clone, Serialize, Deserialize)]
pub struct Subscription {
    /// The address at its push service.
    pub endpoint: String,
    /// The keys.
    pub keys: Keys,
}

/// A browser's keys, base64url.
#[derive(Clone, Serialize, Deserialize)]
pub struct Keys {
    /// Its public key.
    pub p256dh: String,
    /// What it shares with whoever may write to it.
    pub auth: String,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subscription(…)")
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(…)")
    }
}

/// A subscription with keys that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a browser's push subscription")]
pub struct BadSubscription;

/// Seals a message for a browser.
pub fn seal(subscription: &Subscription, message: &[u8]) -> Result<Vec<u8>, BadSubscription> {
    let own = PrivateKey::generate(&ECDH_P256).map_err(|_| BadSubscription)?;
    seal_with(subscription, message, &own, clock::random())
}

fn seal_with(
    Subscription { keys, .. }: &Subscription,
    message: &[u8],
    own: &PrivateKey,
    salt: [u8; 16],
) -> Result<Vec<u8>, BadSubscription> {
    let decode = |text: &str| BASE64.decode(text.trim_end_matches('=')).map_err(|_| BadSubscription);
    let (theirs, auth) = (decode(&keys.p256dh)?, decode(&keys.auth)?);
    if theirs.len() != 65 || auth.len() != 16 || message.len() > RECORD as usize - 128 {
        return Err(BadSubscription);
    }
    let own_public = own.compute_public_key().map_err(|_| BadSubscription)?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, &theirs);
    let shared = agreement::agree(own, peer, BadSubscription, |shared| Ok(hmac(&auth, &[shared])))?;
    let secret = hmac(&shared, &[b"WebPush: info\0", &theirs, own_public.as_ref(), &[1]]);
    let secret = hmac(&salt, &[&secret]);
    let key = hmac(&secret, &[b"Content-Encoding: aes128gcm\0", &[1]]);
    let nonce = hmac(&secret, &[b"Content-Encoding: nonce\0", &[1]]);
    let key = UnboundKey::new(&AES_128_GCM, &key[..16]).map_err(|_| BadSubscription)?;
    let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).map_err(|_| BadSubscription)?;
    let mut sealed = message.to_vec();
    // The last record, without padding.
    sealed.push(2);
    LessSafeKey::new(key).seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).map_err(|_| BadSubscription)?;
    let mut body = salt.to_vec();
    body.extend(RECORD.to_be_bytes());
    body.push(65);
    body.extend(own_public.as_ref());
    body.extend(sealed);
    Ok(body)
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = hmac_sha256(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// The key that push services know the hub by.
#[derive(Debug)]
pub struct Vapid(EcdsaKeyPair);

impl Vapid {
    /// A new one, and how it is kept.
    pub fn make() -> Option<(Self, Vec<u8>)> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
        Some((Self::read(document.as_ref())?, document.as_ref().to_vec()))
    }

    /// One that was kept.
    pub fn read(document: &[u8]) -> Option<Self> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document).ok().map(Self)
    }

    /// Its public half, base64url: what a page subscribes with.
    pub fn public_key(&self) -> String {
        BASE64.encode(self.0.public_key().as_ref())
    }

    /// The header by which a push service knows who writes: whom it is for, until when, and whom to ask.
    pub fn authorization(&self, endpoint: &Url, contact: Option<&str>, now: Timestamp) -> Option<String> {
        let audience = endpoint.origin().ascii_serialization();
        let contact = contact.filter(|url| url.starts_with("https://")).unwrap_or("mailto:hub@convoke.invalid");
        let claims = json!({ "aud": audience, "exp": now.millis() / 1000 + SIGNED_FOR_S, "sub": contact });
        let header = json!({ "typ": "JWT", "alg": "ES256" });
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("vapid t={signed}.{}, k={}", BASE64.encode(signature.as_ref()), self.public_key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sealed_as_the_standard_has_it() {
        // RFC 8291, appendix A.
        let subscription = Subscription {
            endpoint: String::new(),
            keys: Keys {
                p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
                    .into(),
                auth: "BTBZMqHH6r4Tts7J_aSIgg".into(),
            },
        };
        let own = BASE64.decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw").expect("base64");
        let own = PrivateKey::from_private_key(&ECDH_P256, &own).expect("a key");
        let salt = BASE64.decode("DGv6ra1nlYgDCS1FRnbzlw").expect("base64").try_into().expect("16 bytes");
        let sealed =
            seal_with(&subscription, b"When I grow up, I want to be a watermelon", &own, salt).expect("seals");
        assert_eq!(
            BASE64.encode(sealed),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        let keys = |p256dh: &str, auth: &str| Subscription {
            endpoint: String::new(),
            keys: Keys { p256dh: p256dh.into(), auth: auth.into() },
        };
        assert_eq!(seal(&keys("", ""), b"x"), Err(BadSubscription));
        assert_eq!(seal(&keys(&BASE64.encode([4; 65]), &BASE64.encode([0; 16])), b"x"), Err(BadSubscription));
    }
}
