//! ECDSA P-256, as rooms and agents use it.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use convoke_core::secret::SecretBytes;
use convoke_kibitz::key::{PublicKey, Signer, Verifier};

/// A room's own key: it signs invites and the manifest.
pub(super) struct RoomKey {
    pair: EcdsaKeyPair,
    public: PublicKey,
}

impl std::fmt::Debug for RoomKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl RoomKey {
    /// A new one, and how it is kept.
    pub(super) fn generate() -> Option<(Self, SecretBytes)> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
        let kept = SecretBytes::new(document.as_ref());
        Some((Self::open(&kept)?, kept))
    }

    /// One that was kept.
    pub(super) fn open(kept: &SecretBytes) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, kept.reveal()).ok()?;
        let public = PublicKey::from_sec1(pair.public_key().as_ref()).ok()?;
        Some(Self { pair, public })
    }
}

impl Signer for RoomKey {
    fn public_key(&self) -> PublicKey {
        self.public
    }

    fn sign(&self, bytes: &[u8]) -> Option<[u8; 64]> {
        self.pair.sign(&SystemRandom::new(), bytes).ok()?.as_ref().try_into().ok()
    }
}

/// Whose signatures count: whatever the library says.
#[derive(Debug)]
pub(super) struct Ecdsa;

impl Verifier for Ecdsa {
    fn verify(&self, key: &PublicKey, bytes: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.sec1()).verify(bytes, signature).is_ok()
    }
}

/// Whether the numbers of a key are a point on the curve: one that is not would never let anybody in.
pub(super) fn is_point(key: &PublicKey) -> bool {
    aws_lc_rs::signature::ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.sec1()).is_ok()
}
