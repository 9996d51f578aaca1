//! What is kept for Sonde: agents by name, and one-time enrolment tokens.

use convoke_core::id::PeerId;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;

/// A Sonde agent as it is kept, beside its row among all agents.
#[derive(Clone, Debug)]
pub struct SondeAgentRow {
    /// Its id.
    pub id: PeerId,
    /// Its name: no two agents have the same.
    pub name: String,
    /// The hash of its API key.
    pub key_hash: TokenHash,
    /// Its certificate.
    pub cert_pem: Option<String>,
    /// SHA-256 of the certificate.
    pub cert_fingerprint: Option<[u8; 32]>,
    /// Whether it made its key itself.
    pub own_key: bool,
    /// What it says about itself and what was made of it: JSON text.
    pub facts: String,
}

/// An enrolment token: only its hash.
#[derive(Clone, Debug)]
pub struct SondeTokenRow {
    /// Its hash.
    pub hash: TokenHash,
    /// The only name it is good for, if it is for one.
    pub name: Option<String>,
    /// When it was minted.
    pub created_at: Timestamp,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// When it was used.
    pub used_at: Option<Timestamp>,
    /// By whom.
    pub used_by: Option<PeerId>,
}

/// What came of an enrolment by token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SondeEnrolled {
    /// The agent is kept and trusted, the token used.
    Done,
    /// No such token.
    Unknown,
    /// Used before.
    Used,
    /// Lapsed.
    Expired,
    /// It is for another name.
    OtherName,
    /// Another agent took the name in the meantime.
    NameTaken,
}
