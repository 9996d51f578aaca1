//! Which proxy a connection goes through: by the variables that everybody uses.

use percent_encoding::percent_decode_str;
use url::Url;
use zeroize::Zeroizing;

use crate::address::bare_host;

/// The variables as they stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    https: Option<String>,
    http: Option<String>,
    all: Option<String>,
    no: Option<String>,
}

/// Why a proxy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Not an address.
    #[error("{0} is not an address of a proxy; write it like http://proxy.example:3128")]
    Malformed(&'static str),
    /// A kind of proxy that is not spoken here.
    #[error("{0} names a proxy of the kind {1}://; only http:// proxies (CONNECT) are supported")]
    Kind(&'static str, String),
}

impl Proxies {
    /// The variables of this process. Upper case wins, as in most programs; `http_proxy` in upper case is fine here,
    /// since this is no CGI program.
    pub(crate) fn from_env() -> Self {
        let read =
            |names: [&str; 2]| names.iter().find_map(|n| std::env::var(n).ok().filter(|v| !v.trim().is_empty()));
        Self {
            https: read(["HTTPS_PROXY", "https_proxy"]),
            http: read(["HTTP_PROXY", "http_proxy"]),
            all: read(["ALL_PROXY", "all_proxy"]),
            no: read(["NO_PROXY", "no_proxy"]),
        }
    }

    /// The proxy for a connection to `url`, if there is one.
    pub(crate) fn choose(&self, url: &Url) -> Result<Option<Url>, ProxyError> {
        let secure = matches!(url.scheme(), "https" | "wss");
        let (name, specific) = if secure { ("HTTPS_PROXY", &self.https) } else { ("HTTP_PROXY", &self.http) };
        let (name, text) = match (specific, &self.all) {
            (Some(text), _) => (name, text),
            (None, Some(text)) => ("ALL_PROXY", text),
            (None, None) => return Ok(None),
        };
        if self.spares(bare_host(url), url.port_or_known_default()) {
            return Ok(None);
        }
        let text = text.trim();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let proxy = Url::parse(&text).map_err(|_| ProxyError::Malformed(name))?;
        if proxy.host_str().is_none_or(str::is_empty) {
            return Err(ProxyError::Malformed(name));
        }
        match proxy.scheme() {
            "http" => Ok(Some(proxy)),
            kind => Err(ProxyError::Kind(name, kind.to_owned())),
        }
    }

    /// Whether `NO_PROXY` has the host. This machine is never reached through a proxy.
    fn spares(&self, host: &str, port: Option<u16>) -> bool {
        let host = host.to_ascii_lowercase();
        let ip: Option<std::net::IpAddr> = host.parse().ok();
        if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        let entries = self.no.as_deref().unwrap_or_default();
        entries.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
            let entry = entry.to_ascii_lowercase();
            if entry == "*" {
                return true;
            }
            if let (Some(ip), Some((net, bits))) = (ip, entry.split_once('/')) {
                return in_network(ip, net, bits);
            }
            let (name, wanted_port) = match entry.rsplit_once(':') {
                Some((name, digits)) if !name.contains(':') && digits.parse::<u16>().is_ok() => {
                    (name.to_owned(), digits.parse::<u16>().ok())
                }
                _ => (entry, None),
            };
            if wanted_port.is_some() && wanted_port != port {
                return false;
            }
            let name = name.trim_start_matches("*.").trim_start_matches('.');
            host == name || (ip.is_none() && host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
        })
    }
}

/// The proxy's `user:password`, percent-decoded.
pub(super) fn credentials(proxy: &Url) -> Option<Zeroizing<Vec<u8>>> {
    if proxy.username().is_empty() && proxy.password().is_none() {
        return None;
    }
    let mut told = Zeroizing::new(percent_decode_str(proxy.username()).collect::<Vec<u8>>());
    told.push(b':');
    told.extend(percent_decode_str(proxy.password().unwrap_or_default()));
    Some(told)
}

fn in_network(ip: std::net::IpAddr, net: &str, bits: &str) -> bool {
    use std::net::IpAddr;
    let (Ok(net), Ok(bits)) = (net.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(ip) & mask == u32::from(net) & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(net)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(ip) & mask == u128::from(net) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(no: &str) -> Proxies {
        Proxies {
            https: Some("http://secure:3128".into()),
            http: Some("plain:3128".into()),
            all: Some("http://all:1".into()),
            no: Some(no.into()),
        }
    }

    #[track_caller]
    fn check(proxies: &Proxies, url: &str, expect: Option<&str>) {
        let url = Url::parse(url).expect("a URL");
        let chosen = proxies.choose(&url).expect("a proxy or none");
        assert_eq!(chosen.as_ref().and_then(Url::host_str), expect, "{url}");
    }

    #[test]
    fn credentials_are_told_as_meant() {
        let of = |text: &str| credentials(&Url::parse(text).expect("an address")).map(|told| told.to_vec());
        assert_eq!(of("http://proxy:3128"), None);
        assert_eq!(of("http://me:p%40ss%20w%3a@proxy").as_deref(), Some(&b"me:p@ss w:"[..]));
        assert_eq!(of("http://me@proxy").as_deref(), Some(&b"me:"[..]));
        assert_eq!(of("http://50%25:100%@proxy").as_deref(), Some(&b"50%:100%"[..]));
    }

    #[test]
    fn the_scheme_decides_and_no_proxy_spares() {
        let some = proxies("internal.example, .corp, 10.0.0.0/8, port.example:8443");
        check(&some, "wss://hub.example/", Some("secure"));
        check(&some, "ws://hub.example/", Some("plain"));
        check(&some, "wss://internal.example/", None);
        check(&some, "wss://a.internal.example/", None);
        check(&some, "wss://notinternal.example/", Some("secure"));
        check(&some, "wss://a.corp/", None);
        check(&some, "wss://10.2.3.4/", None);
        check(&some, "wss://11.2.3.4/", Some("secure"));
        check(&some, "wss://port.example:8443/", None);
        check(&some, "wss://port.example/", Some("secure"));
        check(&proxies("*"), "wss://hub.example/", None);
        let only_all = Proxies { all: Some("http://all:1".into()), ..Proxies::default() };
        check(&only_all, "wss://hub.example/", Some("all"));
        check(&Proxies::default(), "wss://hub.example/", None);
    }

    #[test]
    fn this_machine_is_reached_directly() {
        for url in ["ws://127.0.0.1:7410/", "ws://[::1]:7410/", "ws://localhost:7410/"] {
            check(&proxies(""), url, None);
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_told_by_its_variable() {
        let url = Url::parse("wss://hub.example/").expect("a URL");
        let of = |text: &str| Proxies { https: Some(text.into()), ..Proxies::default() }.choose(&url);
        assert_eq!(of("http://"), Err(ProxyError::Malformed("HTTPS_PROXY")));
        assert_eq!(of("socks5://s:1"), Err(ProxyError::Kind("HTTPS_PROXY", "socks5".into())));
    }
}
