//! The hub's clock and randomness: the one place where the pure crates get theirs from.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use uuid::Uuid;

/// Now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Random bytes from the system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system's random source failed; keys and nonces would not be safe");
    bytes
}

/// A new random id.
pub fn uuid() -> Uuid {
    uuid::Builder::from_random_bytes(random()).into_uuid()
}

/// A new token of 256 random bits. The prefix tells people and secret scanners what it is.
pub fn token(prefix: &str) -> SecretText {
    SecretText::new(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random::<32>())))
}
