//! The hub's signing key.

use aws_lc_rs::signature::Ed25519KeyPair;
use convoke_kenny::transcript::Key;
use convoke_kenny::wire_bytes::SIGNATURE_LEN;
use ed25519_dalek::{SigningKey, VerifyingKey};

/// Signs what agents verify. The same key and the same signatures as the store's [`SigningKey`], in half the time: when
/// a hub comes back, all its agents come at once, and each wants a signature.
#[derive(Debug)]
pub struct HubKey {
    pair: Ed25519KeyPair,
    public: VerifyingKey,
}

impl HubKey {
    /// The same key.
    pub fn new(key: &SigningKey) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(key.as_bytes()).expect("any 32 bytes are a seed");
        Self { pair, public: key.verifying_key() }
    }

    /// The public half.
    pub const fn verifying_key(&self) -> VerifyingKey {
        self.public
    }
}

impl Key for HubKey {
    fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.pair.sign(bytes).as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
    }

    fn public(&self) -> VerifyingKey {
        self.public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_sign_alike() {
        for seed in 0..=20 {
            let key = SigningKey::from_bytes(&[seed; 32]);
            let bytes = vec![seed; usize::from(seed) * 7];
            assert_eq!(HubKey::new(&key).sign(&bytes), Key::sign(&key, &bytes));
        }
    }

    #[test]
    fn the_seed_is_not_printed() {
        let key = SigningKey::from_bytes(&[0xab; 32]);
        let shown = format!("{:?}", HubKey::new(&key));
        assert!(!shown.contains("171, 171") && !shown.to_lowercase().contains("abababab"), "{shown}");
    }
}
