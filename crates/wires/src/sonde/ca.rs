//! The hub's own CA: it certifies agents and the mutual-TLS listener, and its key signs what the hub sends.
//!
//! The CA is RSA because the contract signs payloads with RSA-SHA256 and agents check the hub's signatures with the
//! CA's certificate. Its key is made when it is first needed and sealed under the data key.

use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use convoke_sonde::sign::{Signer, Verifier};
use convoke_store::{Store, StoreError};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256,
    PublicKeyData as _, RsaKeySize, SanType, SigningKey as _,
};
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use convoke_gate::clock;

const CA_KEY: &str = "sonde_ca_key";
const CA_CERT: &str = "sonde_ca_cert";
/// How long the CA and a certificate hold.
const CA_YEARS: i32 = 10;
const LEAF_YEARS: i32 = 1;
/// Longest certificate request that is read.
const MAX_CSR: usize = 16 * 1024;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request of an agent.
    #[error("invalid certificate request: {0}")]
    Request(String),
    /// Making it.
    #[error("cannot create a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The CA.
#[derive(Debug)]
pub struct Ca {
    /// Its certificate.
    pub cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
    cert_der: CertificateDer<'static>,
}

/// A certificate for an agent.
#[derive(Debug)]
pub struct Issued {
    /// The certificate.
    pub cert_pem: String,
    /// SHA-256 of it.
    pub fingerprint: [u8; 32],
    /// Its public key (SPKI, DER).
    pub public_key: Vec<u8>,
    /// The private key, where the hub made it.
    pub key_pem: Option<SecretText>,
}

impl Ca {
    /// The stored CA, or a new one.
    pub async fn load_or_make(store: &dyn Store) -> Result<Self, CaError> {
        if let (Some(key), Some(cert)) = (store.secret(CA_KEY).await?, store.secret(CA_CERT).await?) {
            let (key, cert) = (String::from_utf8_lossy(key.reveal()), String::from_utf8_lossy(cert.reveal()));
            return Self::from_pem(KeyPair::from_pem(&key)?, &cert);
        }
        let made = tokio::task::spawn_blocking(Self::make).await;
        let (key, cert) = made.map_err(|_| CaError::Request("making the CA panicked".into()))??;
        store.put_secret(CA_KEY, &SecretBytes::new(key.serialize_pem().into_bytes())).await?;
        store.put_secret(CA_CERT, &SecretBytes::new(cert.clone().into_bytes())).await?;
        Self::from_pem(key, &cert)
    }

    fn make() -> Result<(KeyPair, String), CaError> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let mut params = params("sonde-hub-ca", CA_YEARS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let cert = params.self_signed(&key)?.pem();
        Ok((key, cert))
    }

    fn from_pem(key: KeyPair, cert_pem: &str) -> Result<Self, CaError> {
        use rustls::pki_types::pem::PemObject as _;
        let cert_der =
            CertificateDer::from_pem_slice(cert_pem.as_bytes()).map_err(|why| CaError::Request(why.to_string()))?;
        Ok(Self { cert_pem: cert_pem.to_owned(), issuer: Issuer::from_ca_cert_pem(cert_pem, key)?, cert_der })
    }

    /// Its certificate, DER.
    pub fn cert_der(&self) -> CertificateDer<'static> {
        self.cert_der.clone()
    }

    /// A certificate for the key in an agent's request. Nothing else of the request counts: the name is the one that
    /// the agent enrolled under, the use is a client's.
    pub fn certify(&self, name: &str, csr_pem: &str) -> Result<Issued, CaError> {
        if csr_pem.len() > MAX_CSR {
            return Err(CaError::Request(format!("it is larger than {MAX_CSR} bytes")));
        }
        // Reading it checks its own signature: the asker has the private key.
        let request =
            CertificateSigningRequestParams::from_pem(csr_pem).map_err(|why| CaError::Request(why.to_string()))?;
        if request.public_key.algorithm() != &PKCS_RSA_SHA256 {
            return Err(CaError::Request("its key must be RSA, as payloads are signed with RSA-SHA256".into()));
        }
        let public_key = request.public_key.subject_public_key_info();
        // SPKI of a 2048-bit key has 294 bytes, of a 4096-bit one 550.
        if !(290..=560).contains(&public_key.len()) {
            return Err(CaError::Request("its key must have 2048 to 4096 bits".into()));
        }
        let cert = client(name).signed_by(&request.public_key, &self.issuer)?;
        Ok(Issued { fingerprint: fingerprint(cert.der()), cert_pem: cert.pem(), public_key, key_pem: None })
    }

    /// A key and its certificate, made here: the only way that the field's agents know. Takes tens of milliseconds.
    pub fn issue(&self, name: &str) -> Result<Issued, CaError> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let cert = client(name).signed_by(&key, &self.issuer)?;
        Ok(Issued {
            fingerprint: fingerprint(cert.der()),
            cert_pem: cert.pem(),
            public_key: key.subject_public_key_info(),
            key_pem: Some(SecretText::new(key.serialize_pem())),
        })
    }

    /// The listener's own certificate with its key, for these names and addresses.
    pub fn server(&self, names: &[String]) -> Result<(CertificateDer<'static>, Vec<u8>), CaError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params("convoke hub", LEAF_YEARS);
        for name in names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok((cert.der().clone(), key.serialize_der()))
    }
}

impl Signer for Ca {
    fn sign(&self, bytes: &[u8]) -> String {
        match self.issuer.key().sign(bytes) {
            Ok(signature) => STANDARD.encode(signature),
            Err(why) => {
                // An unsigned message is refused by whoever expects a signature; it does no harm.
                tracing::error!(%why, "cannot sign a message");
                String::new()
            }
        }
    }
}

/// An agent's key, to check its signatures with.
#[derive(Debug)]
pub struct AgentKey(Vec<u8>);

impl AgentKey {
    /// From the SPKI of its certificate.
    pub fn new(public_key: Vec<u8>) -> Arc<Self> {
        Arc::new(Self(public_key))
    }
}

impl Verifier for AgentKey {
    fn verify(&self, bytes: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.0).verify(bytes, &signature).is_ok()
    }
}

/// SHA-256 of a certificate.
pub fn fingerprint(cert: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(cert).into()
}

fn client(name: &str) -> CertificateParams {
    let mut params = params(name, LEAF_YEARS);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params
}

fn params(name: &str, years: i32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // From yesterday, for clocks that are behind.
    let (year, month, day) = date(clock::now());
    let (from_year, from_month, from_day) = date(Timestamp::from_millis(clock::now().millis() - 86_400_000));
    params.not_before = rcgen::date_time_ymd(from_year, from_month, from_day);
    // The 29th of February exists in few years.
    params.not_after = rcgen::date_time_ymd(year + years, month, day.min(28));
    params
}

fn date(at: Timestamp) -> (i32, u8, u8) {
    let text = at.to_string();
    let mut parts = text[..10].split('-').map(|part| part.parse::<u16>().unwrap_or(1));
    let mut next = || parts.next().unwrap_or(1);
    (i32::from(next()), next() as u8, next() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ca() -> Ca {
        let (key, cert) = Ca::make().expect("a CA");
        Ca::from_pem(key, &cert).expect("reads back")
    }

    fn request(name: &str) -> (KeyPair, String) {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
        let pem = params(name, 1).serialize_request(&key).expect("a request").pem().expect("PEM");
        (key, pem)
    }

    #[test]
    fn what_the_key_of_a_certificate_signs_is_verified_and_nothing_else() {
        let ca = ca();
        let (key, csr) = request("anything");
        let issued = ca.certify("web-1", &csr).expect("certifies");
        assert!(issued.key_pem.is_none(), "the private key stays with the agent");
        let agent = AgentKey::new(issued.public_key);
        let signature = STANDARD.encode(key.sign(b"{}").expect("signs"));
        assert!(agent.verify(b"{}", &signature));
        assert!(!agent.verify(b"{} ", &signature));
        assert!(!agent.verify(b"{}", &ca.sign(b"{}")), "another key's");
        assert!(!agent.verify(b"{}", "") && !agent.verify(b"{}", "not base64!"));
    }

    #[test]
    fn a_request_that_is_none_or_not_rsa_is_refused() {
        let ca = ca();
        assert!(ca.certify("x", "nonsense").is_err());
        assert!(ca.certify("x", &"x".repeat(MAX_CSR + 1)).is_err());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let csr = params("x", 1).serialize_request(&key).expect("a request").pem().expect("PEM");
        assert!(ca.certify("x", &csr).is_err());
        let (_, good) = request("x");
        let broken = good.replacen("MII", "MIJ", 1);
        assert!(ca.certify("x", &broken).is_err());
    }

    #[test]
    fn an_issued_key_signs_for_its_certificate() {
        let issued = ca().issue("web-1").expect("issues");
        let key = KeyPair::from_pem(issued.key_pem.expect("a key").reveal()).expect("reads");
        let signature = STANDARD.encode(key.sign(b"x").expect("signs"));
        assert!(AgentKey::new(issued.public_key).verify(b"x", &signature));
    }
}
