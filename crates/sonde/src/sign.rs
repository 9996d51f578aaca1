//! Signing and verifying (contract, "Payload Signing"): RSA PKCS#1 v1.5 with SHA-256 over the canonical payload,
//! in base64. Keys live with the runtimes; here are only the two questions that a session asks.
//!
//! Only the payload is covered, not the id, the type, the time or the agent: a recorded message can be sent again.
//! Keeping that off the wire is TLS's business.

/// Makes signatures.
pub trait Signer: Send + Sync {
    /// The signature over these bytes, in base64.
    fn sign(&self, bytes: &[u8]) -> String;
}

/// Checks signatures.
pub trait Verifier: Send + Sync {
    /// Whether this base64 is the key holder's signature over these bytes.
    fn verify(&self, bytes: &[u8], signature: &str) -> bool;
}
