//! Checkpoints: the hub signs the chain's end. Whoever keeps one elsewhere can later show that the chain up to it is
//! whole and unchanged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Hash;
use crate::id::HubId;
use crate::time::Timestamp;

/// Keeps a checkpoint's signature from being taken for one of the hub's other signatures, and the reverse: the same
/// key signs tunnel handshakes.
const LABEL: &[u8] = b"convoke-journal-checkpoint-v1\0";

/// A signed end of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The hub of the chain.
    pub hub_id: HubId,
    /// The last record that it covers.
    pub seq: u64,
    /// That record's hash.
    #[serde(serialize_with = "as_hex", deserialize_with = "from_hex")]
    pub hash: Hash,
    /// When it was signed.
    pub at: Timestamp,
    /// The Ed25519 key it is signed with.
    #[serde(serialize_with = "as_base64", deserialize_with = "from_base64")]
    pub public_key: [u8; 32],
    /// The signature.
    #[serde(serialize_with = "as_base64", deserialize_with = "from_base64")]
    pub signature: [u8; 64],
}

/// A checkpoint's signature is not its key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not fit")]
pub struct BadSignature;

impl Checkpoint {
    /// Signs the record `seq` with the hash `hash`.
    pub fn sign(key: &SigningKey, hub_id: HubId, seq: u64, hash: Hash, at: Timestamp) -> Self {
        let signature = key.sign(&message(hub_id, seq, &hash, at)).to_bytes();
        Self { hub_id, seq, hash, at, public_key: key.verifying_key().to_bytes(), signature }
    }

    /// Whether it is signed by the key it names. Whose key that is, the caller must know.
    pub fn check(&self) -> Result<(), BadSignature> {
        let key = VerifyingKey::from_bytes(&self.public_key).map_err(|_| BadSignature)?;
        let message = message(self.hub_id, self.seq, &self.hash, self.at);
        // Strict: a signature has one form, so that a checkpoint cannot be altered into another valid one.
        key.verify_strict(&message, &Signature::from_bytes(&self.signature)).map_err(|_| BadSignature)
    }
}

/// The bytes that are signed: label, hub id as text, a zero byte, `seq`, hash, time in milliseconds.
fn message(hub_id: HubId, seq: u64, hash: &Hash, at: Timestamp) -> Vec<u8> {
    let mut message = Vec::with_capacity(128);
    message.extend_from_slice(LABEL);
    message.extend_from_slice(hub_id.to_string().as_bytes());
    message.push(0);
    message.extend_from_slice(&seq.to_be_bytes());
    message.extend_from_slice(hash);
    message.extend_from_slice(&at.millis().to_be_bytes());
    message
}

fn as_hex<S: Serializer>(bytes: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex::encode(bytes))
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(text.as_bytes(), &mut bytes).map_err(|_| de::Error::custom("not 64 hex digits"))?;
    Ok(bytes)
}

pub(super) fn as_base64<S: Serializer, const N: usize>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

pub(super) fn from_base64<'de, D: Deserializer<'de>, const N: usize>(deserializer: D) -> Result<[u8; N], D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
    STANDARD
        .decode(text.as_bytes())
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| de::Error::custom(format!("not {N} bytes in base64")))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_part_is_signed() {
        let key = SigningKey::from_bytes(&[9; 32]);
        let good = Checkpoint::sign(&key, HubId::new(Uuid::from_u128(1)), 5, [3; 32], Timestamp::from_millis(1_000));
        assert_eq!(good.check(), Ok(()));
        let other_key = SigningKey::from_bytes(&[8; 32]).verifying_key().to_bytes();
        for bad in [
            Checkpoint { hub_id: HubId::new(Uuid::from_u128(2)), ..good.clone() },
            Checkpoint { seq: 6, ..good.clone() },
            Checkpoint { hash: [4; 32], ..good.clone() },
            Checkpoint { at: Timestamp::from_millis(1_001), ..good.clone() },
            Checkpoint { public_key: other_key, ..good.clone() },
            Checkpoint { signature: [0; 64], ..good.clone() },
        ] {
            assert_eq!(bad.check(), Err(BadSignature));
        }
    }
}
