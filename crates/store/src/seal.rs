//! Sealing: what must be recovered but never read off the disk is encrypted under the data key.
//!
//! A sealed value is `1`, a random nonce of 24 bytes, and the XChaCha20-Poly1305 ciphertext. What the value is for is
//! authenticated with it, so that nobody with write access to the database can move one secret into another's place.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use convoke_core::secret::SecretBytes;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use zeroize::Zeroizing;

use crate::error::StoreError;

const VERSION: u8 = 1;
const NONCE: usize = 24;

/// The key that seals.
pub(crate) struct DataKey {
    bytes: Zeroizing<[u8; 32]>,
    cipher: XChaCha20Poly1305,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({})", self.id())
    }
}

impl DataKey {
    pub(crate) fn generate() -> Result<Self, StoreError> {
        Ok(Self::new(Zeroizing::new(random()?)))
    }

    pub(crate) fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        let cipher = XChaCha20Poly1305::new((&*bytes).into());
        Self { bytes, cipher }
    }

    /// From raw bytes; `from` is for the message.
    pub(crate) fn from_bytes(bytes: &[u8], from: &str) -> Result<Self, StoreError> {
        let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| StoreError::MalformedKey { from: from.into() })?;
        Ok(Self::new(Zeroizing::new(bytes)))
    }

    /// From base64 text; `from` is for the message.
    pub(crate) fn from_text(text: &str, from: &str) -> Result<Self, StoreError> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| StoreError::MalformedKey { from: from.into() })?;
        Self::from_bytes(&Zeroizing::new(bytes), from)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(*self.bytes))
    }

    /// Tells keys apart without telling the key.
    pub(crate) fn id(&self) -> String {
        let hash = Sha256::new().chain_update(b"convoke-data-key-id-v1\0").chain_update(*self.bytes).finalize();
        hex::encode(&hash[..8])
    }

    pub(crate) fn seal(&self, purpose: &str, plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        let nonce: [u8; NONCE] = random()?;
        let payload = Payload { msg: plain, aad: purpose.as_bytes() };
        let ciphertext = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| StoreError::Conflict("a secret is too large to be sealed".into()))?;
        let mut sealed = Vec::with_capacity(1 + NONCE + ciphertext.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&ciphertext);
        Ok(sealed)
    }

    pub(crate) fn open(&self, purpose: &str, sealed: &[u8]) -> Result<SecretBytes, StoreError> {
        let damaged = || StoreError::Corrupt(format!("the sealed value {purpose:?} does not open"));
        let (version, rest) = sealed.split_first().ok_or_else(damaged)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>().ok_or_else(damaged)?;
        if *version != VERSION {
            return Err(damaged());
        }
        let payload = Payload { msg: ciphertext, aad: purpose.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).map(SecretBytes::new).map_err(|_| damaged())
    }
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| StoreError::Io { what: "get random bytes from the system".into(), source: Arc::new(e) })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_for_its_purpose_with_its_key_and_unchanged() {
        let key = DataKey::generate().expect("randomness");
        let sealed = key.seal("secret:a", b"hunter2").expect("seals");
        assert_eq!(key.open("secret:a", &sealed).expect("opens").reveal(), b"hunter2");
        assert!(!sealed.windows(7).any(|w| w == b"hunter2"));
        assert!(key.open("secret:b", &sealed).is_err());
        assert!(DataKey::generate().expect("randomness").open("secret:a", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(key.open("secret:a", &changed).is_err(), "byte {at}");
        }
        assert!(key.open("secret:a", &[]).is_err());
        assert!(key.open("secret:a", &sealed[..20]).is_err());
    }

    #[test]
    fn a_key_reads_back_from_its_text_and_does_not_print() {
        let key = DataKey::generate().expect("randomness");
        let again = DataKey::from_text(&key.to_text(), "test").expect("well formed");
        assert_eq!(again.id(), key.id());
        assert!(!format!("{key:?}").contains(key.to_text().trim_end_matches('=')));
        assert!(DataKey::from_text("c2hvcnQ=", "test").is_err());
    }
}
