//! Whose certificates count. Every program that dials a hub asks here: the command line, clients, participants, agents.
//!
//! Besides those whom an authority vouches for, that is somebody who shows the very certificate that was named as
//! trusted. A certificate that is made in one line with OpenSSL is an authority's (CA:TRUE), which no chain may end with;
//! but whoever named it has said all there is to say. Only what was named counts so, and nothing of the system's store.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::pin;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};

/// Names certificates of one's own, in place of the system's store.
const CERT_FILE: &str = "SSL_CERT_FILE";
/// Certificates that somebody would name by hand. A file with more of them is a store.
const MAX_NAMED: usize = 16;

/// The hub that this program talks to, where its key is known.
static HUB_KEY: OnceLock<[u8; 32]> = OnceLock::new();

/// From now on the hub with this key is known by a certificate of its own ([`pin`]): the first that is said holds.
pub fn know_hub(key: [u8; 32]) {
    let _ = HUB_KEY.set(key);
}

/// Whose certificates count for a connection.
#[derive(Clone, Debug)]
pub struct Trust {
    verifier: Arc<Verifier>,
    provider: Arc<CryptoProvider>,
}

impl Trust {
    /// Whom the platform trusts, and what `SSL_CERT_FILE` names.
    pub fn platform() -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let vouched = Arc::new(rustls_platform_verifier::Verifier::new(Arc::clone(&provider))?);
        let named = std::env::var_os(CERT_FILE).filter(|file| !file.is_empty());
        // One that cannot be read is missed by the platform's verifier, too.
        let named = named.and_then(|file| certificates(Path::new(&file)).ok()).unwrap_or_default();
        let named = if named.len() > MAX_NAMED { Vec::new() } else { named };
        let trust = Self::new(named, Some(vouched), false, provider);
        Ok(HUB_KEY.get().map_or_else(|| trust.clone(), |key| trust.or_hub(*key)))
    }

    /// Whom these vouch for, and nobody else: a private hub is not made more trustworthy by every authority that a laptop
    /// happens to know.
    pub fn only(named: Vec<CertificateDer<'static>>) -> Result<Self, TlsError> {
        Self::of(named, false)
    }

    /// The same, and the very certificates under any name and at any time: field hubs serve with their authority's, which
    /// has no name of a machine.
    pub fn only_under_any_name(named: Vec<CertificateDer<'static>>) -> Result<Self, TlsError> {
        Self::of(named, true)
    }

    fn of(named: Vec<CertificateDer<'static>>, any_name: bool) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in &named {
            // What says of itself that it is no authority's vouches for nobody.
            if is_no_authority(certificate) {
                ParsedCertificate::try_from(certificate)?;
            } else {
                roots.add(certificate.clone())?;
            }
        }
        let vouched = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let vouched = match vouched {
            Ok(vouched) => Some(vouched as Arc<dyn ServerCertVerifier>),
            Err(VerifierBuilderError::NoRootAnchors) => None,
            Err(why) => return Err(TlsError::General(why.to_string())),
        };
        Ok(Self::new(named, vouched, any_name, provider))
    }

    fn new(
        named: Vec<CertificateDer<'static>>,
        vouched: Option<Arc<dyn ServerCertVerifier>>,
        any_name: bool,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        let verifier = Verifier { named, vouched, any_name, hub_key: None, provider: Arc::clone(&provider) };
        Self { verifier: Arc::new(verifier), provider }
    }

    /// And the hub with this key, by a certificate of its own.
    #[must_use]
    pub fn or_hub(&self, key: [u8; 32]) -> Self {
        let Verifier { named, vouched, any_name, provider, .. } = &*self.verifier;
        let verifier = Verifier {
            named: named.clone(),
            vouched: vouched.clone(),
            any_name: *any_name,
            hub_key: Some(key),
            provider: Arc::clone(provider),
        };
        Self { verifier: Arc::new(verifier), provider: Arc::clone(&self.provider) }
    }

    /// The settings of a connection, but for a certificate of one's own.
    pub fn builder(self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
        let builder = ClientConfig::builder_with_provider(self.provider).with_safe_default_protocol_versions()?;
        Ok(builder.dangerous().with_custom_certificate_verifier(self.verifier))
    }

    /// The settings of a connection, without a certificate of one's own.
    pub fn config(self) -> Result<ClientConfig, TlsError> {
        Ok(self.builder()?.with_no_client_auth())
    }
}

/// The certificates in a PEM file.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_file_iter(file)?.collect()
}

/// The words of a failed handshake, and what to do about the most common ones; `option` is how certificates are named.
pub fn in_words(why: &str, option: &str) -> String {
    if why.contains("UnknownIssuer") {
        format!("{why}; if a private authority signed it, name that one's certificate with {option}")
    } else if why.contains("CaUsedAsEndEntity") {
        format!("{why}; it is an authority's own (CA:TRUE), so name this certificate itself with {option}")
    } else {
        why.to_owned()
    }
}

#[derive(Debug)]
struct Verifier {
    named: Vec<CertificateDer<'static>>,
    /// Who has authorities' word; nobody where no authority was named.
    vouched: Option<Arc<dyn ServerCertVerifier>>,
    any_name: bool,
    /// The hub that may show a certificate of its own.
    hub_key: Option<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if self.hub_key.is_some_and(|key| pin::is_of_hub(end_entity, &key)) {
            return Ok(ServerCertVerified::assertion());
        }
        let vouched = match &self.vouched {
            Some(vouched) => vouched.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        // Byte for byte; and whoever shows it must still prove, by the handshake's signature, that it has its key.
        if vouched.is_ok() || !self.named.iter().any(|named| named == end_entity) {
            return vouched;
        }
        if !self.any_name {
            check_time(end_entity, now)?;
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a certificate says that it is not an authority's (CA:FALSE).
fn is_no_authority(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    certificate.basic_constraints().ok().flatten().is_some_and(|constraints| !constraints.value.ca)
}

/// Whether a certificate's dates fit.
fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let (_, certificate) =
        x509_parser::parse_x509_certificate(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let (validity, now) = (certificate.validity(), i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet);
    }
    if now > validity.not_after.timestamp() { Err(CertificateError::Expired) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    const NOW: i32 = 2030;

    /// As OpenSSL makes one in one line: an authority's.
    fn made(names: &[&str], years: (i32, i32)) -> CertifiedIssuer<'static, KeyPair> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
    }

    fn verify(trust: &Trust, shown: &CertificateDer<'_>, name: &str) -> Result<(), String> {
        let at = u64::try_from(rcgen::date_time_ymd(NOW, 6, 1).unix_timestamp()).expect("after 1970");
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let verified = trust.verifier.verify_server_cert(shown, &[], &name, &[], now);
        verified.map(drop).map_err(|why| why.to_string())
    }

    #[test]
    fn the_very_certificate_that_was_named_is_trusted_for_its_names_and_in_its_time() {
        let named = made(&["localhost", "127.0.0.1"], (NOW - 1, NOW + 1));
        let der = named.der().clone();
        let trust = Trust::only(vec![der.clone()]).expect("a certificate");
        assert_eq!(verify(&trust, &der, "localhost"), Ok(()));
        assert_eq!(verify(&trust, &der, "127.0.0.1"), Ok(()));
        let other_name = verify(&trust, &der, "hub.example").expect_err("another's name");
        assert!(other_name.contains("hub.example"), "{other_name}");
        // One that looks the same is not the same.
        let twin = made(&["localhost"], (NOW - 1, NOW + 1));
        let refused = verify(&trust, twin.der(), "localhost").expect_err("not named");
        assert!(refused.contains("CaUsedAsEndEntity"), "{refused}");
        // Whom it vouches for is trusted as ever, and not as another.
        let leaf = CertificateParams::new(["hub.example".to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&KeyPair::generate().expect("a key"), &named).expect("signed");
        assert_eq!(verify(&trust, leaf.der(), "hub.example"), Ok(()));
        assert!(verify(&trust, leaf.der(), "localhost").is_err());
    }

    #[test]
    fn what_is_no_authority_vouches_for_nobody_but_itself() {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.is_ca = IsCa::ExplicitNoCa;
        params.not_before = rcgen::date_time_ymd(NOW - 1, 1, 1);
        params.not_after = rcgen::date_time_ymd(NOW + 1, 1, 1);
        let named = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed");
        let trust = Trust::only(vec![named.der().clone()]).expect("a certificate");
        assert_eq!(verify(&trust, named.der(), "localhost"), Ok(()));
        let leaf = CertificateParams::new(["hub.example".to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&KeyPair::generate().expect("a key"), &named).expect("signed");
        assert!(verify(&trust, leaf.der(), "hub.example").is_err_and(|why| why.contains("UnknownIssuer")));
    }

    #[test]
    fn out_of_its_time_it_is_not_trusted_unless_nothing_but_its_bytes_counts() {
        for years in [(NOW - 3, NOW - 1), (NOW + 1, NOW + 3)] {
            let named = made(&["localhost"], years);
            let trust = Trust::only(vec![named.der().clone()]).expect("a certificate");
            assert!(verify(&trust, named.der(), "localhost").is_err(), "{years:?}");
            let trust = Trust::only_under_any_name(vec![named.der().clone()]).expect("a certificate");
            assert_eq!(verify(&trust, named.der(), "field.example"), Ok(()));
            let twin = made(&["localhost"], years);
            assert!(verify(&trust, twin.der(), "localhost").is_err());
        }
    }
}
