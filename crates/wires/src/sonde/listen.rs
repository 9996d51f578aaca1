//! The mutual-TLS listener (`sonde.tls_listen`): only `/ws/agent`, only for agents. A client certificate is optional,
//! since an agent that enrols has none yet; but one that is presented must be of the hub's own CA, and of an agent that
//! is still trusted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Method;
use convoke_core::grant::Right;
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::ca::Ca;
use crate::{Wires, upgrades};
use convoke_doors::Doors;
use convoke_gate::Hub;

/// The certificate that a client presented, by its fingerprint. On every request of the listener.
#[derive(Clone, Copy, Debug)]
pub struct Client(pub Option<[u8; 32]>);

/// Binds the listener, if there is to be one.
pub async fn bind(hub: &Wires) -> io::Result<Option<(TcpListener, TlsAcceptor, SocketAddr)>> {
    let Some(address) = hub.settings.sonde.tls_listen else { return Ok(None) };
    let ca = hub.sonde.ca(&*hub.store).await.map_err(io::Error::other)?;
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let acceptor = acceptor(&ca, &names(hub, address)).map_err(io::Error::other)?;
    Ok(Some((listener, acceptor, address)))
}

/// The doors of the listener.
pub fn doors(hub: &Wires) -> Doors<Wires> {
    Doors::new(Hub::clone(hub)).with_state(hub.clone()).open(
        Method::GET,
        "/ws/agent",
        Right::OwnCredential,
        upgrades::sonde,
    )
}

/// What agents may call the hub: the names that were set, the public address, and the address itself.
fn names(hub: &Wires, address: SocketAddr) -> Vec<String> {
    let mut names = hub.settings.sonde.tls_names.clone();
    if let Some(url) = hub.settings.hub.public_url.as_deref() {
        let host = url.split("://").nth(1).unwrap_or(url).split('/').next().unwrap_or_default();
        // Without the port; an IPv6 address has colons of its own, but then it is in brackets.
        let host = match host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => host,
        };
        names.push(host.trim_matches(['[', ']']).to_owned());
    }
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    names.extend(["localhost".into(), "127.0.0.1".into(), "::1".into()]);
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

fn acceptor(ca: &Arc<Ca>, names: &[String]) -> Result<TlsAcceptor, Box<dyn std::error::Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.cert_der())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()?;
    let (cert, key) = ca.server(names)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![cert, ca.cert_der()], PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
