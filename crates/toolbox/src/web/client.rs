//! Connections to the web, and the rule about where they may go.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::address::is_public;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(10);

/// Where connections may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To the public internet: a model chose the address.
    Public,
    /// Anywhere: the operator chose the address, or said so.
    Anywhere,
}

/// A pool of connections, made when it is first needed.
#[derive(Debug)]
pub(crate) struct Web {
    reach: Reach,
    pool: OnceLock<reqwest::Client>,
}

impl Web {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, pool: OnceLock::new() }
    }

    pub(super) fn pool(&self) -> Result<&reqwest::Client, String> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // Each step is looked at before it is taken.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("Mozilla/5.0 (compatible; convoke/", env!("CARGO_PKG_VERSION"), ")"));
        // Through a proxy it is the proxy that resolves names, and its own address is often a private one.
        if self.reach == Reach::Public && !has_proxy() {
            builder = builder.no_proxy().dns_resolver(std::sync::Arc::new(PublicOnly));
        }
        let pool = builder.build().map_err(|why| format!("no connection can be made: {why}"))?;
        Ok(self.pool.get_or_init(|| pool))
    }

    /// Whether an address may be asked at all; what its name means is checked when it is resolved.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("only http and https addresses can be fetched, not {}", url.scheme()));
        }
        let refused =
            || format!("{} is an address of this machine or a private network", url.host_str().unwrap_or(""));
        let is_allowed = match url.host() {
            None => return Err("the address names no host".into()),
            Some(Host::Ipv4(address)) => is_public(address.into()),
            Some(Host::Ipv6(address)) => is_public(address.into()),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                name != "localhost" && !name.ends_with(".localhost")
            }
        };
        if is_allowed || self.reach == Reach::Anywhere { Ok(()) } else { Err(refused()) }
    }
}

/// Whether the environment sends requests through a proxy.
fn has_proxy() -> bool {
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Resolves names to public addresses only. The connection goes to what was checked, so a name that means something
/// else a moment later gains nothing.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let all = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = all.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                let why = format!("{} means this machine or a private network", name.as_str());
                return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why).into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// What went wrong with a request, with its causes.
pub(super) fn causes(why: reqwest::Error) -> String {
    let why = why.without_url();
    let mut words = why.to_string();
    let mut cause = std::error::Error::source(&why);
    while let Some(inner) = cause {
        let told = inner.to_string();
        if !words.contains(&told) {
            words = format!("{words}: {told}");
        }
        cause = inner.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_looked_at_before_they_are_asked() {
        let check = |reach: Reach, url: &str| Web::new(reach).check(&Url::parse(url).unwrap());
        for url in [
            "http://127.0.0.1/",
            "http://localhost:8080/",
            "http://LOCALHOST./",
            "http://x.localhost/",
            "http://[::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://192.168.0.1/",
        ] {
            assert!(check(Reach::Public, url).unwrap_err().contains("private network"), "{url}");
            assert_eq!(check(Reach::Anywhere, url), Ok(()), "{url}");
        }
        for url in ["file:///etc/passwd", "ftp://example.com/", "data:text/plain,x"] {
            assert!(check(Reach::Anywhere, url).unwrap_err().contains("only http and https"), "{url}");
        }
        assert_eq!(check(Reach::Public, "https://example.com/"), Ok(()));
    }
}
