//! Where a hub is: one text, from which both its doors follow.

use std::fmt;

use url::{Host, Url};

/// The kenny door of a hub.
const DOOR: &str = "/agent/ws";

/// The address of a hub. Written as people have it at hand: `https://hub.example`, or as agents of the field are
/// configured: `wss://hub.example/agent/ws`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    /// Always `ws` or `wss`, with the door's path.
    door: Url,
}

/// Why a text is no address of a hub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// Not an address at all.
    #[error("`{0}` is not an address; write it like https://hub.example or wss://hub.example/agent/ws")]
    Malformed(String),
    /// Another scheme.
    #[error("a hub's address begins with https://, http://, wss:// or ws://, not with {0}://")]
    Scheme(String),
    /// A name or a password in it.
    #[error("a hub's address must not contain a user name or a password")]
    Credentials,
}

impl HubAddress {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let text = text.trim();
        let malformed = || BadAddress::Malformed(text.chars().take(200).collect());
        let mut url = Url::parse(text).map_err(|_| malformed())?;
        let scheme = match url.scheme() {
            "http" | "ws" => "ws",
            "https" | "wss" => "wss",
            // `localhost:7410` parses as a scheme, and is what people type.
            _ if !text.contains("://") => return Err(malformed()),
            other => return Err(BadAddress::Scheme(other.to_owned())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadAddress::Credentials);
        }
        url.set_scheme(scheme).map_err(|()| malformed())?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(malformed());
        }
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/');
        let path = if path.ends_with(DOOR) { path.to_owned() } else { format!("{path}{DOOR}") };
        url.set_path(&path);
        Ok(Self { door: url })
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.door.scheme() == "wss"
    }

    /// Whether it stays on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.door.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }

    /// The WebSocket door.
    pub fn door(&self) -> &Url {
        &self.door
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        bare_host(&self.door)
    }

    /// A path of the hub's HTTP API.
    pub fn http(&self, path: &str) -> Url {
        let mut url = self.door.clone();
        let scheme = if self.is_tls() { "https" } else { "http" };
        // Between these schemes the change is always allowed.
        let _ = url.set_scheme(scheme);
        let prefix = url.path().strip_suffix(DOOR).unwrap_or_default().to_owned();
        url.set_path(&format!("{prefix}{path}"));
        url
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.door.as_str())
    }
}

/// The host of an address, without the brackets of IPv6.
pub(crate) fn bare_host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, door: &str, enrol: &str) {
        let address = HubAddress::parse(text).expect(text);
        assert_eq!(address.to_string(), door);
        assert_eq!(address.http("/api/agents/a/enroll").as_str(), enrol);
    }

    #[test]
    fn both_doors_follow_from_however_it_is_written() {
        let (door, enrol) = ("wss://hub.example/agent/ws", "https://hub.example/api/agents/a/enroll");
        for text in
            ["https://hub.example", "https://hub.example/", "wss://hub.example/agent/ws", " wss://hub.example "]
        {
            check(text, door, enrol);
        }
        check("http://127.0.0.1:7410", "ws://127.0.0.1:7410/agent/ws", "http://127.0.0.1:7410/api/agents/a/enroll");
        check("ws://[::1]:8000/agent/ws", "ws://[::1]:8000/agent/ws", "http://[::1]:8000/api/agents/a/enroll");
        check("https://h.example/x/", "wss://h.example/x/agent/ws", "https://h.example/x/api/agents/a/enroll");
    }

    #[test]
    fn what_is_no_address_says_so() {
        for (text, expect) in [
            ("127.0.0.1:7410", "is not an address"),
            ("localhost:7410", "is not an address"),
            ("", "is not an address"),
            ("https://", "is not an address"),
            ("ftp://hub.example", "not with ftp://"),
            ("https://me:secret@hub.example", "must not contain"),
        ] {
            let why = HubAddress::parse(text).expect_err(text).to_string();
            assert!(why.contains(expect), "{text}: {why}");
            assert!(!why.contains("secret"));
        }
    }

    #[test]
    fn loopback_is_known() {
        for (text, expect) in [("http://127.0.0.1:1", true), ("ws://[::1]", true), ("http://localhost", true)] {
            assert_eq!(HubAddress::parse(text).expect(text).is_loopback(), expect);
        }
        assert!(!HubAddress::parse("https://hub.example").expect("an address").is_loopback());
    }
}
