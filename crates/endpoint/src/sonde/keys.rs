//! The agent's own RSA key, the hub's, and TLS between them.

use std::sync::Arc;

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use convoke_dial::trust::Trust;
use convoke_kenny::wire_bytes;
use convoke_sonde::sign::{Signer, Verifier};
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize, SigningKey as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{Saved, SondeError};

/// A key made here.
#[derive(Debug)]
pub(super) struct OwnKey {
    key: KeyPair,
    request: String,
}

fn bad(why: impl std::fmt::Display) -> SondeError {
    SondeError::Keys(why.to_string())
}

impl OwnKey {
    /// Takes a moment: prime numbers are looked for.
    pub(super) fn make() -> Result<Self, SondeError> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(bad)?;
        let request = CertificateParams::default().serialize_request(&key).and_then(|r| r.pem()).map_err(bad)?;
        Ok(Self { key, request })
    }

    pub(super) fn from_pem(pem: &str) -> Result<Self, SondeError> {
        // The field's keys come in either wrapping; the algorithm is always the same.
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(bad)?;
        let key = KeyPair::from_der_and_sign_algo(&der, &PKCS_RSA_SHA256).map_err(bad)?;
        Ok(Self { key, request: String::new() })
    }

    pub(super) fn request(&self) -> &str {
        &self.request
    }

    pub(super) fn pem(&self) -> String {
        self.key.serialize_pem()
    }
}

impl Signer for OwnKey {
    fn sign(&self, bytes: &[u8]) -> String {
        self.key.sign(bytes).map(|signature| wire_bytes::encode(&signature)).unwrap_or_default()
    }
}

/// The key of the hub's CA.
#[derive(Debug)]
pub(super) struct HubKey(Vec<u8>);

impl HubKey {
    pub(super) fn from_pem(pem: &str) -> Result<Self, SondeError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).map_err(bad)?).map_err(bad)?;
        let inside = roots.roots.first().map(|anchor| anchor.subject_public_key_info.to_vec());
        let inside = inside.ok_or_else(|| bad("the hub's CA has no key"))?;
        // An anchor holds the key's SEQUENCE without its header.
        let mut spki = vec![0x30];
        match inside.len() {
            n @ 0..=127 => spki.push(n as u8),
            n @ 128..=255 => spki.extend([0x81, n as u8]),
            n => spki.extend([0x82, (n >> 8) as u8, n as u8]),
        }
        spki.extend(inside);
        Ok(Self(spki))
    }
}

impl Verifier for HubKey {
    fn verify(&self, bytes: &[u8], signature: &str) -> bool {
        let Some(signature) = decode(signature) else { return false };
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.0).verify(bytes, &signature).is_ok()
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// TLS with this agent's certificate, to a hub that its CA vouches for, or that shows the very certificate we hold: the
/// field's hub serves with its CA certificate, which no name check could accept.
pub(super) fn tls(saved: &Saved) -> Result<Option<Arc<ClientConfig>>, SondeError> {
    let trusted = match (&saved.ca_file, &saved.ca_pem) {
        (Some(file), _) => std::fs::read_to_string(file).map_err(|why| bad(format!("{}: {why}", file.display())))?,
        (None, Some(pem)) => pem.clone(),
        (None, None) => return Ok(None),
    };
    let named = CertificateDer::pem_slice_iter(trusted.as_bytes()).collect::<Result<_, _>>().map_err(bad)?;
    let builder = Trust::only_under_any_name(named).and_then(Trust::builder).map_err(bad)?;
    let mut config = match (&saved.cert_pem, &saved.key_pem) {
        (Some(cert), Some(key)) => {
            let cert = CertificateDer::from_pem_slice(cert.as_bytes()).map_err(bad)?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(bad)?;
            builder.with_client_auth_cert(vec![cert], key).map_err(bad)?
        }
        _ => builder.with_no_client_auth(),
    };
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Some(Arc::new(config)))
}
