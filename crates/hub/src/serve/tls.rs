//! The certificate that TLS is served with, and what may be wrong with it, in words for who put it there.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Reads a certificate chain and its key.
pub(crate) fn tls(cert: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    let named = |path: &Path, why: &dyn std::fmt::Display| io::Error::other(format!("{}: {why}", path.display()));
    let read = |path: &Path| std::fs::read(path).map_err(|why| named(path, &why));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(cert)?)
        .collect::<Result<_, _>>()
        .map_err(|why| named(cert, &in_words(&why, "certificate")))?;
    let Some(own) = chain.first() else {
        return Err(named(cert, &"it contains no certificate"));
    };
    if let Some(why) = out_of_date(own, now_s()) {
        tracing::warn!(file = %cert.display(), "the certificate {why}: clients that check it will refuse this hub");
    }
    if is_an_authoritys(own) {
        tracing::warn!(
            file = %cert.display(),
            "the certificate is an authority's own (CA:TRUE): clients accept it only if this certificate itself is \
             trusted (--ca, SSL_CERT_FILE), and some not even then; `openssl req -x509 -addext \
             basicConstraints=critical,CA:FALSE` makes a server certificate"
        );
    }
    let key_text = read(key)?;
    if is_encrypted(&key_text) {
        return Err(named(
            key,
            &"the key in it is encrypted, and the hub does not ask for a passphrase; decrypt it into a file that only the \
              hub's user can read, with `openssl pkey -in KEY -out PLAIN`",
        ));
    }
    let key_der =
        PrivateKeyDer::from_pem_slice(&key_text).map_err(|why| named(key, &in_words(&why, "private key")))?;
    accept_with(chain, key_der).map_err(|why| match why {
        rustls::Error::InconsistentKeys(_) => {
            named(cert, &format!("it does not belong to the key in {}", key.display()))
        }
        other => named(cert, &other),
    })
}

/// Serves TLS with this certificate.
pub(super) fn accept_with(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Both ways in which a PEM file says it.
fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// What is wrong with a PEM file. Its lines are not repeated: one may be a key's.
fn in_words(why: &pem::Error, wanted: &str) -> String {
    match why {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!(
                "it is cut off: the line `-----END {}-----` is missing",
                String::from_utf8_lossy(end_marker).trim()
            )
        }
        pem::Error::IllegalSectionStart { .. } => "a -----BEGIN …----- line in it is broken".into(),
        pem::Error::Base64Decode(_) => "the text between its BEGIN and END lines is not base64".into(),
        pem::Error::NoItemsFound => format!("it contains no {wanted}"),
        other => other.to_string(),
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What is wrong with a certificate's dates. One that cannot be read is for rustls to refuse.
fn out_of_date(cert: &CertificateDer<'_>, now_s: i64) -> Option<String> {
    let (_, cert) = x509_parser::parse_x509_certificate(cert).ok()?;
    let validity = cert.validity();
    if validity.not_after.timestamp() < now_s {
        return Some(format!("has expired ({})", validity.not_after));
    }
    (validity.not_before.timestamp() > now_s).then(|| format!("is not valid yet ({})", validity.not_before))
}

/// Whether a certificate says of itself that it may sign others: many clients take none such from a server.
fn is_an_authoritys(cert: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(cert).is_ok_and(|(_, cert)| cert.is_ca())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authoritys_own_certificate_is_noticed() {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let key = rcgen::KeyPair::generate().expect("a key");
        assert!(!is_an_authoritys(params.self_signed(&key).expect("signed").der()));
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        assert!(is_an_authoritys(params.self_signed(&key).expect("signed").der()));
    }

    #[track_caller]
    fn refused(cert: &str, key: &str) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let (cert_file, key_file) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert_file, cert).expect("writes");
        std::fs::write(&key_file, key).expect("writes");
        tls(&cert_file, &key_file).map(drop).expect_err("it is refused").to_string()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_in_words() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let other = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        for (cert, key, file, why) in [
            (cert.split_once("-----END").expect("an end").0, key.as_str(), "cert.pem", "cut off"),
            (&cert, key.split_once("-----END").expect("an end").0, "key.pem", "`-----END PRIVATE KEY-----`"),
            ("", &key, "cert.pem", "no certificate"),
            (&cert, "", "key.pem", "no private key"),
            (&cert, &other, "cert.pem", "does not belong to the key"),
            (&cert, &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), "key.pem", "openssl pkey"),
            (&cert, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", "key.pem", "is encrypted"),
            (&cert, "-----BEGIN PRIVATE KEY-----\n!canary!\n-----END PRIVATE KEY-----\n", "key.pem", "not base64"),
        ] {
            let told = refused(cert, key);
            assert!(told.contains(file) && told.contains(why), "{why}: {told}");
            assert!(!told.contains("[45, 45") && !told.contains("canary"), "{told}");
        }
    }

    #[test]
    fn a_certificate_out_of_its_time_is_noticed() {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let cert = params.self_signed(&rcgen::KeyPair::generate().expect("a key")).expect("signed");
        let at = |year| rcgen::date_time_ymd(year, 6, 1).unix_timestamp();
        assert_eq!(out_of_date(cert.der(), at(2020)), None);
        assert!(out_of_date(cert.der(), at(2022)).is_some_and(|why| why.contains("expired")));
        assert!(out_of_date(cert.der(), at(2019)).is_some_and(|why| why.contains("not valid yet")));
    }
}
