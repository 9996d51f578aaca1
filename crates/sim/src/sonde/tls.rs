//! Keys that agents make themselves, and TLS to a hub that makes its own authority.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{SondeError, link};

/// Keys that are made; agents share them. What making one costs is the agents' business, not the hub's.
const KEYS: usize = 4;

/// A key's certificate request.
#[derive(Debug)]
pub(super) struct OwnKey {
    pub(super) request: String,
}

fn bad(why: impl std::fmt::Display) -> SondeError {
    SondeError::Tls(why.to_string())
}

pub(super) fn own_keys() -> Result<Vec<OwnKey>, SondeError> {
    let make = |_| {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(bad)?;
        let request = CertificateParams::default().serialize_request(&key).and_then(|r| r.pem()).map_err(bad)?;
        Ok(OwnKey { request })
    };
    (0..KEYS).map(make).collect()
}

/// Connects over TLS, each time with a whole handshake.
pub(super) struct Dialler {
    pub(super) address: SocketAddr,
    connector: TlsConnector,
}

impl Dialler {
    pub(super) fn new(address: SocketAddr, ca: &Path) -> Result<Self, SondeError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).map_err(bad)?).map_err(bad)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { address, connector: TlsConnector::from(Arc::new(config)) })
    }

    pub(super) async fn dial(&self) -> Result<TlsStream<TcpStream>, SondeError> {
        let name = ServerName::try_from("localhost").map_err(bad)?;
        Ok(self.connector.connect(name, link::dial(self.address).await?).await?)
    }
}
