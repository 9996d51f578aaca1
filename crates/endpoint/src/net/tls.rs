//! Whom a TLS connection is made to: somebody the platform trusts, or somebody whom one given authority vouches for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_dial::trust::{self, Trust};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

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
    #[error("cannot use the platform's certificates: {0}")]
    Platform(rustls::Error),
    /// A name that no certificate can have.
    #[error("`{0}` is not a name that a certificate can have")]
    Name(String),
}

/// The settings of a connection. The hub with `hub_key` may show a certificate of its own. With `authority`, only certificates that it vouches for count, and that very one; the
/// platform's store does not.
pub(crate) fn config(authority: Option<&Path>, hub_key: Option<[u8; 32]>) -> Result<Arc<ClientConfig>, TlsError> {
    let trust = match authority {
        Some(path) => named(path)?,
        None => Trust::platform().map_err(TlsError::Platform)?,
    };
    let trust = hub_key.map_or_else(|| trust.clone(), |key| trust.or_hub(key));
    let mut config = trust.config().map_err(TlsError::Platform)?;
    // One connection for weeks: nothing to resume, and no memory to keep for it.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

fn named(path: &Path) -> Result<Trust, TlsError> {
    let failed = |why: String| TlsError::Authority { path: path.to_owned(), why };
    let certificates = trust::certificates(path).map_err(|why| failed(why.to_string()))?;
    if certificates.is_empty() {
        return Err(failed("it contains no certificate (PEM)".into()));
    }
    Trust::only(certificates).map_err(|why| failed(why.to_string()))
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
        assert!(config(Some(&path), None).expect_err("missing").to_string().contains("ca.pem"));
        std::fs::write(&path, "nothing here").expect("writes");
        assert!(config(Some(&path), None).expect_err("empty").to_string().contains("no certificate"));
        let key = rcgen::generate_simple_self_signed(vec!["hub.example".into()]).expect("a certificate");
        std::fs::write(&path, key.cert.pem()).expect("writes");
        assert!(config(Some(&path), None).is_ok());
    }
}
