//! The connections to providers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(15);

/// A pool of connections, shared by all clients of a process. It is made when the first request needs it: a backend
/// at rest pays for no TLS roots.
#[derive(Clone, Debug, Default)]
pub struct Http(Arc<Pools>);

#[derive(Debug, Default)]
struct Pools {
    /// For the world; follows the environment's proxy settings.
    outside: OnceLock<reqwest::Client>,
    /// For this machine; never through a proxy.
    loopback: OnceLock<reqwest::Client>,
}

impl Http {
    /// A pool that is still empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// The connections to use for an address.
    pub(crate) fn to(&self, url: &url::Url) -> Result<&reqwest::Client, reqwest::Error> {
        let (pool, direct) = match is_loopback(url) {
            true => (&self.0.loopback, true),
            false => (&self.0.outside, false),
        };
        if let Some(client) = pool.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // A redirect would carry the credentials elsewhere; no provider's API answers with one.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("convoke/", env!("CARGO_PKG_VERSION")));
        let client = if direct { builder.no_proxy() } else { builder }.build()?;
        Ok(pool.get_or_init(|| client))
    }
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}
