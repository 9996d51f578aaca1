//! Public keys as they travel: base64 of the 32 raw bytes is what we send; base64url and SPKI (PEM, or base64 of the
//! DER), which Node's and WebCrypto's exporters give, are taken too. Kept in one form.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use ed25519_dalek::VerifyingKey;

/// The header of an Ed25519 SubjectPublicKeyInfo (RFC 8410); the 32 raw bytes follow.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Longest text that is looked at: a PEM with its lines is about 120 bytes.
const MAX_TEXT: usize = 256;

/// With or without padding: exporters differ.
const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD_ANY: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const URL_SAFE_ANY: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// Why a text is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// Not base64, nor PEM.
    #[error("is not base64")]
    NotBase64,
    /// Neither 32 bytes nor an Ed25519 SPKI.
    #[error("is not an Ed25519 public key (32 bytes, or SPKI)")]
    NotEd25519,
    /// 32 bytes that are no point, or one of small order, under which anything verifies.
    #[error("is not a usable Ed25519 public key")]
    Weak,
}

/// Reads a key in any of its forms.
pub fn parse(text: &str) -> Result<VerifyingKey, BadKey> {
    let text = text.trim();
    if text.len() > MAX_TEXT {
        return Err(BadKey::NotBase64);
    }
    let bytes = decode(text)?;
    let raw = match bytes.len() {
        32 => &bytes[..],
        44 if bytes.starts_with(&SPKI) => &bytes[SPKI.len()..],
        _ => return Err(BadKey::NotEd25519),
    };
    let raw: &[u8; 32] = raw.try_into().map_err(|_| BadKey::NotEd25519)?;
    from_bytes(raw)
}

/// A key from its 32 bytes.
pub fn from_bytes(raw: &[u8; 32]) -> Result<VerifyingKey, BadKey> {
    let key = VerifyingKey::from_bytes(raw).map_err(|_| BadKey::Weak)?;
    if key.is_weak() { Err(BadKey::Weak) } else { Ok(key) }
}

/// The form that is sent.
pub fn encode(key: &VerifyingKey) -> String {
    STANDARD.encode(key.as_bytes())
}

fn decode(text: &str) -> Result<Vec<u8>, BadKey> {
    let pem: String;
    let text = match text.strip_prefix("-----BEGIN PUBLIC KEY-----") {
        Some(rest) => {
            let body = rest.strip_suffix("-----END PUBLIC KEY-----").ok_or(BadKey::NotBase64)?;
            pem = body.split_whitespace().collect();
            pem.as_str()
        }
        None => text,
    };
    STANDARD_ANY.decode(text).or_else(|_| URL_SAFE_ANY.decode(text)).map_err(|_| BadKey::NotBase64)
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::*;

    #[test]
    fn every_form_is_the_same_key() {
        // A key whose base64 has both letters in which the alphabets differ.
        let key = (0u8..=255)
            .map(|n| SigningKey::from_bytes(&[n; 32]).verifying_key())
            .find(|key| encode(key).contains('+') && encode(key).contains('/'))
            .expect("one of them has");
        let raw = encode(&key);
        let der = STANDARD.encode([&SPKI[..], key.as_bytes()].concat());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
        for text in [&raw, raw.trim_end_matches('='), &raw.replace('+', "-").replace('/', "_"), &der, &pem] {
            assert_eq!(parse(text), Ok(key), "{text}");
        }
    }

    #[test]
    fn what_is_no_key_is_told() {
        assert_eq!(parse(""), Err(BadKey::NotEd25519));
        assert_eq!(parse("not a key"), Err(BadKey::NotBase64));
        assert_eq!(parse(&STANDARD.encode([1; 31])), Err(BadKey::NotEd25519));
        assert_eq!(parse(&STANDARD.encode([0; 32])), Err(BadKey::Weak), "a point of small order");
        assert_eq!(parse(&"A".repeat(300)), Err(BadKey::NotBase64));
    }
}
