//! A certificate of the hub's own, where nobody has brought one: agents know it by the hub's public key, which they have
//! from their enrolment; browsers ask once.

use std::net::IpAddr;
use std::path::Path;

use convoke_core::secret::SecretBytes;
use convoke_dial::pin;
use convoke_gate::clock;
use convoke_store::{Store, StoreError};
use ed25519_dalek::{Signer as _, SigningKey};
use rcgen::{CertificateParams, CustomExtension, DnType, IsCa, KeyPair, PublicKeyData as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::tls::accept_with;

const KEY: &str = "own_tls_key";
const CERT: &str = "own_tls_cert";
/// How long the certificate holds; another one is made in its last year.
const YEARS: i32 = 10;
const YEAR_S: i64 = 31_556_952;
/// The copy of the certificate in the data directory, for programs that want it in a file.
const FILE: &str = "tls-cert.pem";

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Making it.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// Serving with it.
    #[error("cannot use the certificate: {0}")]
    Use(#[from] std::io::Error),
}

/// The stored key and certificate, or new ones: for these names and addresses of this machine.
pub(crate) async fn acceptor(
    store: &dyn Store,
    hub_key: &SigningKey,
    names: &[String],
    data: &Path,
) -> Result<TlsAcceptor, OwnError> {
    let text = |bytes: SecretBytes| String::from_utf8(bytes.reveal().to_vec()).ok();
    let key = store.secret(KEY).await?.and_then(text).and_then(|pem| KeyPair::from_pem(&pem).ok());
    let key = match key {
        Some(key) => key,
        None => {
            let key = KeyPair::generate()?;
            store.put_secret(KEY, &SecretBytes::new(key.serialize_pem().into_bytes())).await?;
            key
        }
    };
    // The first line says what it is for.
    let about = format!("{:?} {}", hub_key.verifying_key().as_bytes(), names.join(","));
    let kept = store.secret(CERT).await?.and_then(text);
    let kept =
        kept.as_deref().and_then(|kept| kept.split_once('\n')).filter(|(of, pem)| *of == about && is_fresh(pem));
    let pem = match kept {
        Some((_, pem)) => pem.to_owned(),
        None => {
            let pem = make(&key, hub_key, names)?;
            store.put_secret(CERT, &SecretBytes::new(format!("{about}\n{pem}").into_bytes())).await?;
            pem
        }
    };
    if let Err(why) = convoke_files::replace(&data.join(FILE), pem.as_bytes()) {
        tracing::warn!(%why, file = FILE, "cannot write the hub's certificate into the data directory");
    }
    let cert = der(&pem).ok_or_else(|| std::io::Error::other("the stored certificate cannot be read"))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(accept_with(vec![cert], key).map_err(std::io::Error::other)?)
}

fn make(key: &KeyPair, hub_key: &SigningKey, names: &[String]) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "Convoke hub");
    params.is_ca = IsCa::ExplicitNoCa;
    let year = 1970 + i32::try_from(now_s() / YEAR_S).unwrap_or(0);
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    let signature = hub_key.sign(&pin::signed_text(&key.subject_public_key_info()));
    params.custom_extensions.push(CustomExtension::from_oid_content(&pin::OID, signature.to_bytes().to_vec()));
    Ok(params.self_signed(key)?.pem())
}

fn now_s() -> i64 {
    clock::now().millis() / 1000
}

fn der(pem: &str) -> Option<CertificateDer<'static>> {
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

fn is_fresh(pem: &str) -> bool {
    let Some(der) = der(pem) else { return false };
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(&der) else { return false };
    certificate.validity().not_after.timestamp() > now_s() + YEAR_S
}

/// By what names and addresses this machine may be reached: as far as it knows them itself.
pub(crate) fn names(listen: IpAddr, public_host: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let host = hostname();
    names.extend(host.iter().cloned());
    names.extend(host.iter().filter(|host| !host.contains('.')).map(|host| format!("{host}.local")));
    names.extend(public_host.map(str::to_owned));
    let own = if listen.is_unspecified() { lan_address() } else { Some(listen) };
    names.extend(own.map(|own| own.to_string()));
    names.sort_unstable();
    names.dedup();
    names
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/etc/hostname").ok().or_else(|| std::env::var("COMPUTERNAME").ok())?;
    let name = name.trim().to_ascii_lowercase();
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    fits.then_some(name)
}

/// The address by which this machine would send to others. Nothing is sent to find it out.
pub fn lan_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address for documentation: no machine has it.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
