//! Who the simulated agents are. Ids and keys follow from a seed, so that the process that enrols them and the process
//! that connects them need to share nothing else.

use convoke_core::id::PeerId;
use ed25519_dalek::{SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

/// Domain separation: a seed used elsewhere does not give these keys.
const LABEL: &[u8] = b"convoke-sim-agent-v1";

/// Agents without end, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    seed: String,
}

impl Roster {
    /// The roster of `seed`. These keys are for simulations: whoever knows the seed has them.
    pub fn new(seed: impl Into<String>) -> Self {
        Self { seed: seed.into() }
    }

    /// The id of agent `index`: `sim-00001` for the first.
    pub fn id(&self, index: usize) -> PeerId {
        PeerId::kenny(&format!("sim-{:05}", index + 1)).expect("letters, digits and a dash make an id")
    }

    /// The private key of agent `index`.
    pub fn key(&self, index: usize) -> SigningKey {
        let mut hash = Sha256::new();
        for part in [LABEL, self.seed.as_bytes(), &(index as u64).to_be_bytes()] {
            // Each part with its length: no two seeds and indexes share their bytes.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        SigningKey::from_bytes(&hash.finalize().into())
    }

    /// The key to enrol for agent `index`.
    pub fn public_key(&self, index: usize) -> VerifyingKey {
        self.key(index).verifying_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_keys_and_nothing_else_does() {
        let (a, again, b) = (Roster::new("a"), Roster::new("a"), Roster::new("b"));
        assert_eq!(a.public_key(7), again.public_key(7));
        assert_ne!(a.public_key(7), a.public_key(8));
        assert_ne!(a.public_key(7), b.public_key(7));
        assert_eq!(a.id(0).as_str(), "sim-00001");
        assert_eq!(a.id(123_456).as_str(), "sim-123457");
    }
}
