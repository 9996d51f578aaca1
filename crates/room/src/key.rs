//! An agent's own key (contract, section 5): EC P-256, in a file that only its owner reads. The file is a private JWK, as
//! WebCrypto exports it, so an agent in a browser or in Node can use the same one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::{AsBigEndian as _, EcPrivateKeyBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_kibitz::key::{PublicKey, Signer};
use zeroize::Zeroizing;

/// Largest file that is taken for a key.
const MAX_FILE: u64 = 4_096;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read or written.
    #[error("cannot {what} {}: {why}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// It is no key.
    #[error("{} is not an agent key; it must be a private JWK of an EC P-256 key", .0.display())]
    NotAKey(PathBuf),
    /// Others can read it.
    #[error("others can read {}, so the key may be known; make a new one, or run `chmod 600` on it", .0.display())]
    Exposed(PathBuf),
    /// The system has no randomness.
    #[error("cannot create a key")]
    Crypto,
}

/// An agent's own key.
pub struct AgentKeyFile {
    pair: EcdsaKeyPair,
    public: PublicKey,
}

impl std::fmt::Debug for AgentKeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentKeyFile").field("public", &self.public.thumbprint()).finish_non_exhaustive()
    }
}

impl AgentKeyFile {
    /// Makes a key in a file that is not there yet.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| KeyError::Crypto)?;
        let public = PublicKey::from_sec1(pair.public_key().as_ref()).map_err(|_| KeyError::Crypto)?;
        let private: EcPrivateKeyBin<'_> = pair.private_key().as_be_bytes().map_err(|_| KeyError::Crypto)?;
        let d = Zeroizing::new(URL_SAFE_NO_PAD.encode(private.as_ref()));
        let jwk = serde_json::to_string(&public).map_err(|_| KeyError::Crypto)?;
        let text = Zeroizing::new(format!("{},\"d\":\"{}\"}}\n", jwk.trim_end_matches('}'), *d));
        let wrong = |why| KeyError::Io { what: "make", path: path.into(), why };
        convoke_files::create(path, text.as_bytes()).map_err(wrong)?;
        Ok(Self { pair, public })
    }

    /// Reads a key. A file that others can read is refused.
    pub fn open(path: &Path) -> Result<Self, KeyError> {
        let wrong = |why| KeyError::Io { what: "read", path: path.into(), why };
        let about = fs::metadata(path).map_err(wrong)?;
        check_private(path, &about)?;
        let not_a_key = || KeyError::NotAKey(path.into());
        if about.len() > MAX_FILE {
            return Err(not_a_key());
        }
        let text = Zeroizing::new(fs::read_to_string(path).map_err(wrong)?);
        Self::read(&text).ok_or_else(not_a_key)
    }

    fn read(text: &str) -> Option<Self> {
        let mut jwk: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        let serde_json::Value::String(d) = jwk.remove("d")? else { return None };
        let d = Zeroizing::new(d);
        let private = Zeroizing::new(URL_SAFE_NO_PAD.decode(d.trim_end_matches('=')).ok()?);
        let public = PublicKey::from_jwk(&serde_json::to_string(&jwk).ok()?).ok()?;
        let pair =
            EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_FIXED_SIGNING, &private, &public.sec1());
        Some(Self { pair: pair.ok()?, public })
    }
}

impl Signer for AgentKeyFile {
    fn public_key(&self) -> PublicKey {
        self.public
    }

    fn sign(&self, bytes: &[u8]) -> Option<[u8; 64]> {
        self.pair.sign(&SystemRandom::new(), bytes).ok()?.as_ref().try_into().ok()
    }
}

#[cfg(unix)]
fn check_private(path: &Path, about: &fs::Metadata) -> Result<(), KeyError> {
    use std::os::unix::fs::PermissionsExt as _;
    if about.permissions().mode() & 0o077 == 0 { Ok(()) } else { Err(KeyError::Exposed(path.into())) }
}

#[cfg(not(unix))]
fn check_private(_: &Path, _: &fs::Metadata) -> Result<(), KeyError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_when_it_is_read_again_and_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("agent.jwk");
        let made = AgentKeyFile::create(&path).expect("makes");
        let read = AgentKeyFile::open(&path).expect("reads");
        assert_eq!(made.public_key(), read.public_key());
        assert!(read.sign(b"x").is_some());
        assert!(matches!(AgentKeyFile::create(&path), Err(KeyError::Io { what: "make", .. })), "never over another");
        assert!(!format!("{made:?}").contains("\"d\""));
    }

    #[test]
    fn what_is_no_key_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x");
        assert!(matches!(AgentKeyFile::open(&path), Err(KeyError::Io { what: "read", .. })));
        for text in ["", "{}", r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"AA"}"#] {
            convoke_files::replace(&path, text.as_bytes()).expect("writes");
            assert!(matches!(AgentKeyFile::open(&path), Err(KeyError::NotAKey(_))), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("agent.jwk");
        AgentKeyFile::create(&path).expect("makes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("sets");
        assert!(matches!(AgentKeyFile::open(&path), Err(KeyError::Exposed(_))));
    }
}
