//! Values that must never be printed. They have no `Display`, their `Debug` is a fixed word, they compare in
//! constant time and are wiped when dropped.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A secret text: a bearer token, an enrolment token, a passphrase.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretText(String);

impl SecretText {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that must send or show it. Named so that a reviewer sees it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The hash that is stored instead of the secret. Tokens have 256 random bits, so a plain hash is enough.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

/// Secret bytes: a private key's seed, a data key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Takes the bytes in.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretBytes {}

/// SHA-256 of a token. Safe to store; still not printed, since a log line of it helps nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Of a token that lies somewhere already and need not be taken in for this.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares without telling through time how much agreed.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print() {
        let text = SecretText::new("hunter2-hunter2");
        let bytes = SecretBytes::new(*b"hunter2-hunter2");
        let shown = format!("{text:?} {bytes:?} {:?}", text.hash());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
