//! To which addresses the hub sends notices. Whoever adds a channel chooses its address, and must not make the hub reach what
//! only the hub can reach: https alone, no private address whatever name it hides behind, and no redirects. An operator may
//! list hosts that are exempt (`notices.allow_hosts`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use url::{Host, Url};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// Why nothing is sent to an address.
#[derive(Debug, thiserror::Error)]
pub enum Forbidden {
    /// It is none.
    #[error("this is not an address of the form https://host/…")]
    Malformed,
    /// It is not https.
    #[error("notices go to https addresses only; an operator can list the host in notices.allow_hosts")]
    NotHttps,
    /// It is private, or leads there.
    #[error("{0} is, or stands for, a private address; an operator can list it in notices.allow_hosts")]
    Private(String),
    /// The name has no address.
    #[error("{0} has no address")]
    Unknown(String),
    /// There is no client for it.
    #[error("cannot set up a connection: {0}")]
    Client(String),
}

/// Whether this may be an address of notices, as far as its text says.
pub fn check(text: &str, allowed: &[String]) -> Result<Url, Forbidden> {
    let url = Url::parse(text).map_err(|_| Forbidden::Malformed)?;
    let host = url.host().ok_or(Forbidden::Malformed)?;
    let plain = !url.username().is_empty() || url.password().is_some();
    if plain || !matches!(url.scheme(), "https" | "http") {
        return Err(Forbidden::Malformed);
    }
    if is_allowed(&url, allowed) {
        return Ok(url);
    }
    if url.scheme() != "https" {
        return Err(Forbidden::NotHttps);
    }
    let is_private = match &host {
        Host::Ipv4(ip) => !is_public((*ip).into()),
        Host::Ipv6(ip) => !is_public((*ip).into()),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            !name.contains('.')
                || [".localhost", ".local", ".internal", ".home.arpa"].iter().any(|end| name.ends_with(end))
        }
    };
    if is_private { Err(Forbidden::Private(host.to_string())) } else { Ok(url) }
}

fn is_allowed(url: &Url, allowed: &[String]) -> bool {
    let host = url.host_str().unwrap_or_default();
    let with_port = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
    allowed.iter().any(|one| one.eq_ignore_ascii_case(host) || one.eq_ignore_ascii_case(&with_port))
}

/// A client that reaches this address and nothing else: its name was looked up here, and is not looked up again.
pub async fn client(text: &str, allowed: &[String]) -> Result<(reqwest::Client, Url), Forbidden> {
    let url = check(text, allowed)?;
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .no_proxy()
        .user_agent("convoke");
    if let Some(Host::Domain(name)) = url.host() {
        let port = url.port_or_known_default().unwrap_or(443);
        let found = tokio::net::lookup_host((name, port)).await;
        let found: Vec<SocketAddr> = found.map_err(|_| Forbidden::Unknown(name.to_owned()))?.collect();
        if found.is_empty() {
            return Err(Forbidden::Unknown(name.to_owned()));
        }
        // One private one among them is one too many: which is taken is not ours to say.
        if !is_allowed(&url, allowed) && !found.iter().all(|address| is_public(address.ip())) {
            return Err(Forbidden::Private(name.to_owned()));
        }
        builder = builder.resolve_to_addrs(name, &found);
    }
    let client = builder.build().map_err(|why| Forbidden::Client(why.to_string()))?;
    Ok((client, url))
}

/// Whether an address is one of the open network.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let special = a == 192 && b == 0 && c == 0;
    let benchmark = a == 198 && (b == 18 || b == 19);
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || shared
        || special
        || benchmark)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, .., y, z] = ip.segments();
    let v4 = Ipv4Addr::from((u32::from(y) << 16) | u32::from(z));
    if ip.to_ipv4_mapped().is_some() || (a == 0x64 && b == 0xff9b) {
        return is_public_v4(v4);
    }
    // Global unicast, without what only stands for something else: 6to4, Teredo and documentation.
    (0x2000..0x4000).contains(&a) && a != 0x2002 && !(a == 0x2001 && (b == 0 || b == 0xdb8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_https_addresses_are_taken() {
        let may = |text: &str| check(text, &[]).is_ok();
        assert!(may("https://ntfy.example.com/topic") && may("https://203.0.114.9/x") && may("https://[2a00::1]/"));
        for text in [
            "http://ntfy.example.com/topic",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[fd00::1]/",
            "https://[64:ff9b::a00:1]/",
            "https://localhost/",
            "https://router/",
            "https://printer.local/",
            "https://metadata.google.internal/",
            "https://user:pw@ntfy.example.com/",
            "file:///etc/passwd",
            "nonsense",
        ] {
            assert!(!may(text), "{text}");
        }
    }

    #[test]
    fn an_operator_may_list_hosts() {
        let allowed = ["127.0.0.1:8080".to_owned(), "ntfy.lan".to_owned()];
        assert!(check("http://127.0.0.1:8080/x", &allowed).is_ok());
        assert!(check("http://127.0.0.1:8081/x", &allowed).is_err());
        assert!(check("https://ntfy.lan/x", &allowed).is_ok());
    }

    #[tokio::test]
    async fn a_name_that_stands_for_a_private_address_is_not_reached() {
        let refused = client("https://localhost.localdomain/", &[]).await;
        assert!(matches!(refused, Err(Forbidden::Private(_) | Forbidden::Unknown(_))), "{refused:?}");
    }
}
