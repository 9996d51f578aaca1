//! The bytes that both sides sign (contract, "Transcript").
//!
//! Both nonces and the agent's id are in both signatures, so a signature is worth nothing in another session (replay),
//! for another agent, or sent back to its maker (reflection: each side verifies under the *other* side's key only).
//!
//! **Why strict verification, although the field's agents verify loosely.** Loose Ed25519 verification accepts keys and
//! nonce points of small order, for which one signature fits many messages; strict verification refuses exactly those.
//! A key or signature made by any ordinary library is never of that kind, so nobody honest is lost.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::wire_bytes::{NONCE_LEN, SIGNATURE_LEN};

/// Domain separation: a signature made here cannot be passed off as one made for any other purpose.
pub const LABEL: &[u8; 20] = b"kenny-mutual-auth-v1";

/// The bytes that both sides sign in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript(Vec<u8>);

impl Transcript {
    /// `label 00 agent_id 00 client_nonce 00 server_nonce`. The caller vouches that `agent_id` is a checked id: one with
    /// a NUL in it would let two different sessions have the same bytes.
    pub fn new(agent_id: &str, client_nonce: &[u8; NONCE_LEN], server_nonce: &[u8; NONCE_LEN]) -> Self {
        let mut bytes = Vec::with_capacity(LABEL.len() + agent_id.len() + 2 * NONCE_LEN + 3);
        bytes.extend_from_slice(LABEL);
        for part in [agent_id.as_bytes(), client_nonce, server_nonce] {
            bytes.push(0);
            bytes.extend_from_slice(part);
        }
        Self(bytes)
    }

    /// The bytes themselves.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Signs, as either side.
    pub fn sign(&self, key: &impl Key) -> [u8; SIGNATURE_LEN] {
        key.sign(&self.0)
    }

    /// Whether `signature` is the key holder's over these bytes.
    pub fn verify(&self, key: &VerifyingKey, signature: &[u8; SIGNATURE_LEN]) -> bool {
        key.verify_strict(&self.0, &Signature::from_bytes(signature)).is_ok()
    }
}

/// A side's key, in whatever library that side signs with. Ed25519 signatures are the same in all of them.
pub trait Key {
    /// Signs these bytes.
    fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_LEN];
    /// The public key.
    fn public(&self) -> VerifyingKey;
}

impl Key for SigningKey {
    fn sign(&self, bytes: &[u8]) -> [u8; SIGNATURE_LEN] {
        Signer::sign(self, bytes).to_bytes()
    }

    fn public(&self) -> VerifyingKey {
        self.verifying_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> SigningKey {
        SigningKey::from_bytes(&std::array::from_fn(|i| first + i as u8))
    }

    #[test]
    fn has_the_contracts_shape() {
        let t = Transcript::new("pc", &[1; 32], &[2; 32]);
        assert_eq!(t.as_bytes().len(), 20 + 1 + 2 + 1 + 32 + 1 + 32);
        assert!(t.as_bytes().starts_with(b"kenny-mutual-auth-v1\0pc\0\x01\x01"));
        assert!(t.as_bytes().ends_with(&[&[1u8, 0][..], &[2; 32]].concat()));
    }

    #[test]
    fn a_signature_fits_one_session_and_one_key() {
        let (a, b) = (key(0), key(32));
        let t = Transcript::new("pc", &[1; 32], &[2; 32]);
        let sig = t.sign(&a);
        assert!(t.verify(&a.verifying_key(), &sig));
        assert!(!t.verify(&b.verifying_key(), &sig));
        for other in [
            Transcript::new("pc2", &[1; 32], &[2; 32]),
            Transcript::new("pc", &[3; 32], &[2; 32]),
            Transcript::new("pc", &[1; 32], &[3; 32]),
            Transcript::new("pc", &[2; 32], &[1; 32]),
        ] {
            assert!(!other.verify(&a.verifying_key(), &sig));
        }
    }

    #[test]
    fn the_small_order_key_that_signs_everything_is_refused() {
        // The identity point as key with R = identity and S = 0 passes loose verification for every message.
        let mut identity = [0u8; 32];
        identity[0] = 1;
        let weak = VerifyingKey::from_bytes(&identity).expect("a point");
        let mut forged = [0u8; 64];
        forged[0] = 1;
        assert!(!Transcript::new("pc", &[1; 32], &[2; 32]).verify(&weak, &forged));
    }
}
