//! Whom a TLS connection is made to: somebody the platform trusts, or somebody whom one given authority vouches for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Why TLS cannot even begin.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file with the authority.
    #[error("cannot read certificates from {}: {why}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The platform's own store.
    #[error("the platform's certificates cannot be used: {0}")]
    Platform(rustls::Error),
    /// A name that no certificate can have.
    #[error("`{0}` is no name that a certificate can be for")]
    Name(String),
}

/// The settings of a connection. With `authority`, only certificates that it vouches for count, and the platform's store
/// does not: a private hub is not made more trustworthy by every authority that a laptop happens to know.
pub(crate) fn config(authority: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Platform)?;
    let mut config = match authority {
        Some(path) => builder.with_root_certificates(roots(path)?).with_no_client_auth(),
        None => builder.with_platform_verifier().map_err(TlsError::Platform)?.with_no_client_auth(),
    };
    // One connection for weeks: nothing to resume, and no memory to keep for it.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let failed = |why: String| TlsError::Authority { path: path.to_owned(), why };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|why| failed(why.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|why| failed(why.to_string()))?;
        store.add(certificate).map_err(|why| failed(why.to_string()))?;
    }
    if store.is_empty() {
        return Err(failed("there is no certificate (PEM) in it".into()));
    }
    Ok(store)
}

pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ca.pem");
        assert!(config(Some(&path)).expect_err("missing").to_string().contains("ca.pem"));
        std::fs::write(&path, "nothing here").expect("writes");
        assert!(config(Some(&path)).expect_err("empty").to_string().contains("no certificate"));
        let key = rcgen::generate_simple_self_signed(vec!["hub.example".into()]).expect("a certificate");
        std::fs::write(&path, key.cert.pem()).expect("writes");
        assert!(config(Some(&path)).is_ok());
    }
}
