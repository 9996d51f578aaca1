//! The proof of a reconnecting client (contract, 5.3.1): an Ed25519 signature over the compact JSON
//! `{"secret":…,"nonce":…,"timestamp":…}`. The secret itself never travels after pairing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::secret::SecretText;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::Serialize;

/// Characters in a nonce (contract, 7.1).
pub const NONCE_LEN: usize = 24;
/// Bytes in a signature.
pub const SIGNATURE_LEN: usize = 64;

const NONCE_ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// A nonce from random bytes: 24 characters of five bits each.
pub fn nonce(random: &[u8; NONCE_LEN]) -> String {
    random.iter().map(|byte| char::from(NONCE_ALPHABET[usize::from(byte & 31)])).collect()
}

/// The bytes that are signed: keys in this order, no spaces.
fn transcript(secret: &SecretText, nonce: &str, timestamp: i64) -> SecretText {
    #[derive(Serialize)]
    struct Proof<'a> {
        secret: &'a str,
        nonce: &'a str,
        timestamp: i64,
    }
    let proof = Proof { secret: secret.reveal(), nonce, timestamp };
    SecretText::new(serde_json::to_string(&proof).expect("texts and a number serialise"))
}

/// Signs, as a client does.
pub fn sign(key: &SigningKey, secret: &SecretText, nonce: &str, timestamp: i64) -> [u8; SIGNATURE_LEN] {
    key.sign(transcript(secret, nonce, timestamp).reveal().as_bytes()).to_bytes()
}

/// Whether `key` signed this. Strict: a signature that other libraries would read differently does not hold.
pub fn verify(
    key: &VerifyingKey,
    secret: &SecretText,
    nonce: &str,
    timestamp: i64,
    signature: &[u8; SIGNATURE_LEN],
) -> bool {
    let transcript = transcript(secret, nonce, timestamp);
    key.verify_strict(transcript.reveal().as_bytes(), &Signature::from_bytes(signature)).is_ok()
}

/// A signature as it travels.
pub fn encode(signature: &[u8; SIGNATURE_LEN]) -> String {
    STANDARD.encode(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_bytes_are_compact_json_in_this_order() {
        let secret = SecretText::new("s\"x");
        let text = transcript(&secret, "RANDOM24CHARACTERSTRINGX", 1_711_886_500);
        assert_eq!(text.reveal(), r#"{"secret":"s\"x","nonce":"RANDOM24CHARACTERSTRINGX","timestamp":1711886500}"#);
    }

    #[test]
    fn a_proof_holds_for_its_own_values_only() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let secret = SecretText::new("secret");
        let nonce = nonce(&[9; NONCE_LEN]);
        assert_eq!(nonce.len(), NONCE_LEN);
        let signature = sign(&key, &secret, &nonce, 5);
        let public = key.verifying_key();
        assert!(verify(&public, &secret, &nonce, 5, &signature));
        assert!(!verify(&public, &secret, &nonce, 6, &signature));
        assert!(!verify(&public, &SecretText::new("other"), &nonce, 5, &signature));
        assert!(!verify(&SigningKey::from_bytes(&[8; 32]).verifying_key(), &secret, &nonce, 5, &signature));
    }
}
