//! The data key in a backup, under a passphrase: Argon2id makes a key of the passphrase, and that seals the data key.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::secret::SecretText;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::Result;
use crate::error::StoreError;
use crate::seal::{DataKey, random};

/// What a new backup uses: 64 MiB, 3 passes. A guesser pays this for each guess.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
/// Nothing larger is believed: a forged manifest must not be able to use up the machine.
const MAX_MEMORY_KIB: u32 = 1 << 20;
const MAX_PASSES: u32 = 16;

/// A data key under a passphrase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WrappedKey {
    kdf: String,
    memory_kib: u32,
    passes: u32,
    salt: String,
    sealed: String,
}

impl WrappedKey {
    pub(super) fn seal(key: &DataKey, passphrase: &SecretText, key_id: &str) -> Result<Self> {
        let salt: [u8; 16] = random()?;
        let wrapping = derive(passphrase, &salt, MEMORY_KIB, PASSES)?;
        Ok(Self {
            kdf: "argon2id".into(),
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: STANDARD.encode(salt),
            sealed: STANDARD.encode(wrapping.seal(&purpose(key_id), key.bytes())?),
        })
    }

    /// The key, if the passphrase is right and the key is the one the backup was sealed with.
    pub(super) fn open(&self, passphrase: &SecretText, key_id: &str) -> Result<DataKey> {
        if self.kdf != "argon2id" || self.memory_kib > MAX_MEMORY_KIB || self.passes > MAX_PASSES {
            return Err(StoreError::BadPassphrase);
        }
        let salt = STANDARD.decode(&self.salt).map_err(|_| StoreError::BadPassphrase)?;
        let sealed = STANDARD.decode(&self.sealed).map_err(|_| StoreError::BadPassphrase)?;
        let wrapping = derive(passphrase, &salt, self.memory_kib, self.passes)?;
        let bytes = wrapping.open(&purpose(key_id), &sealed).map_err(|_| StoreError::BadPassphrase)?;
        let key = DataKey::from_bytes(bytes.reveal(), "the backup")?;
        if key.id() == key_id { Ok(key) } else { Err(StoreError::BadPassphrase) }
    }
}

fn purpose(key_id: &str) -> String {
    format!("backup-key:{key_id}")
}

fn derive(passphrase: &SecretText, salt: &[u8], memory_kib: u32, passes: u32) -> Result<DataKey> {
    let params = Params::new(memory_kib, passes, 1, Some(32)).map_err(|_| StoreError::BadPassphrase)?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.reveal().as_bytes(), salt, &mut *key)
        .map_err(|_| StoreError::BadPassphrase)?;
    Ok(DataKey::new(key))
}
