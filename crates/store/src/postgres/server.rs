//! Where a server is, and how it is connected to.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ::postgres::config::{Host, SslMode};
use ::postgres::{Config, NoTls};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Session;
use crate::Result;
use crate::error::StoreError;
use crate::sql::Connection;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this a connection on which nothing is acknowledged is given up.
const DEAD_AFTER: Duration = Duration::from_secs(10);
/// What every session is told. A statement that takes longer ends, and a transaction that nobody goes on with, so that a hub
/// that hangs holds nothing that others wait for.
const SESSION: &str = "SET statement_timeout = '30s'; SET idle_in_transaction_session_timeout = '15s';
    SET client_min_messages = warning; SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'";

/// A database on a server: `postgres://user:password@host:port/database`. It does not print the password.
#[derive(Clone)]
pub struct Server {
    config: Config,
    /// Whose certificates are believed, when it is not the platform that knows.
    roots: Option<PathBuf>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        for (n, host) in self.config.get_hosts().iter().enumerate() {
            let port = self.config.get_ports().get(n).or(self.config.get_ports().first()).unwrap_or(&5432);
            let comma = if n > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

/// An address that is no database's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("store.url must look like postgres://user:password@host/database{0}")]
pub struct BadUrl(String);

impl FromStr for Server {
    type Err = BadUrl;

    fn from_str(text: &str) -> std::result::Result<Self, BadUrl> {
        // The parser's own words may have the password in them.
        let bad = |why: &str| BadUrl(if why.is_empty() { String::new() } else { format!(": {why}") });
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(bad(""));
        }
        // What the parser does not know, or knows as something weaker.
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut kept, mut roots, mut mode) = (Vec::new(), None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(decoded(path))),
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                _ => kept.push(pair),
            }
        }
        let query = kept.join("&");
        let url = if query.is_empty() { base.to_owned() } else { format!("{base}?{query}") };
        let mut config = Config::from_str(&url).map_err(|_| bad("it cannot be read"))?;
        if config.get_hosts().is_empty() || config.get_dbname().is_none_or(str::is_empty) {
            return Err(bad("name a host and a database"));
        }
        let is_near = config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
            #[cfg(unix)]
            Host::Unix(_) => true,
        });
        config.ssl_mode(match mode.as_deref() {
            None if is_near && roots.is_none() => SslMode::Disable,
            None | Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some("disable") if is_near => SslMode::Disable,
            Some("disable") => return Err(bad("without TLS only on this machine")),
            Some(_) => return Err(bad("sslmode is disable, require or verify-full")),
        });
        if config.get_application_name().is_none() {
            config.application_name("convoke");
        }
        config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(DEAD_AFTER).keepalives_idle(DEAD_AFTER);
        Ok(Self { config, roots })
    }
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl Server {
    /// Connects. Blocks; never on a thread of a runtime.
    pub(crate) fn connect(&self) -> Result<Connection> {
        let mut client = match self.config.get_ssl_mode() {
            SslMode::Disable => self.config.connect(NoTls),
            _ => self.config.connect(MakeRustlsConnect::new(self.tls()?)),
        }
        .map_err(|why| StoreError::NoServer { server: self.to_string(), why: Arc::new(why) })?;
        client.batch_execute(SESSION)?;
        Ok(Connection::Postgres(Box::new(Session::new(client))))
    }

    /// A certificate is always checked, and must be for the host's name.
    fn tls(&self) -> Result<ClientConfig> {
        let odd = |why: rustls::Error| StoreError::Internal(Arc::new(why));
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(odd)?;
        let Some(file) = &self.roots else {
            return Ok(builder.with_platform_verifier().map_err(odd)?.with_no_client_auth());
        };
        let unreadable = |why| StoreError::Io {
            what: format!("read the certificates (sslrootcert) in {}", file.display()),
            source: Arc::new(why),
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
            roots.add(certificate.map_err(unreadable)?).map_err(odd)?;
        }
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_the_database_is_and_keeps_the_password_to_itself() {
        let server: Server = "postgres://hub:hunter2@db.example.org:6432/convoke".parse().expect("good");
        assert_eq!(server.to_string(), "postgres://db.example.org:6432/convoke");
        assert!(!format!("{server:?}").contains("hunter2"));
        let server: Server = "postgresql:///convoke?host=/run/postgresql&user=hub".parse().expect("good");
        assert_eq!(server.to_string(), "postgres:///run/postgresql:5432/convoke");
    }

    #[test]
    fn without_tls_only_on_this_machine() {
        let mode = |url: &str| url.parse::<Server>().map(|server| server.config.get_ssl_mode());
        assert_eq!(mode("postgres://u@localhost/d"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://u@127.0.0.1/d?sslmode=require"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://u@10.0.0.1/d"), Ok(SslMode::Require));
        assert_eq!(mode("postgres://u@10.0.0.1/d?sslmode=verify-full&sslrootcert=/a"), Ok(SslMode::Require));
        for bad in [
            "mysql://u@h/d",
            "postgres://u@h",
            "postgres:///d",
            "postgres://u@10.0.0.1/d?sslmode=disable",
            "postgres://u@h/d?sslmode=prefer",
            "postgres://u:hunter2@h/d?what=1",
        ] {
            let error = mode(bad).expect_err(bad).to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
