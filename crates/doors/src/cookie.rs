//! The cookie of a session. A browser sends it with everything that it asks of the hub, whichever page made it ask; so what
//! changes something must also show that it comes from the hub's own page: see [`crate::origin::is_own_page`].

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use convoke_core::secret::SecretText;
use convoke_gate::hub::Hub;
use convoke_gate::people::{SESSION, SESSION_IN_THE_CLEAR};

/// Its name where the connection is encrypted. The prefix makes browsers refuse one that somebody else set for the host.
const SECURE: &str = "__Host-convoke";
/// Its name where it is not: browsers do not take the other one there.
const PLAIN: &str = "convoke";
/// Most of one name that are looked at.
const MAX_LOOKED_AT: usize = 4;

/// How cookies go to and fro on the connection that a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Encrypted, by the hub or by what stands before it.
    Secure,
    /// In the clear.
    Plain,
}

impl Way {
    /// That of a request with these headers: encrypted where the hub serves TLS, or where the request is for the public
    /// address and that is https.
    pub fn of(hub: &Hub, headers: &HeaderMap) -> Self {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let public = hub.settings.hub.public_url.as_deref().and_then(|url| url.strip_prefix("https://"));
        let is_public = public
            .is_some_and(|rest| rest.split('/').next().is_some_and(|authority| authority.eq_ignore_ascii_case(host)));
        if hub.tls || is_public { Self::Secure } else { Self::Plain }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Secure => SECURE,
            Self::Plain => PLAIN,
        }
    }

    /// The scheme in the address of a page that comes by this way.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Secure => "https",
            Self::Plain => "http",
        }
    }

    /// How long a session lasts whose cookie goes this way.
    pub const fn lasts(self) -> Duration {
        match self {
            Self::Secure => SESSION,
            Self::Plain => SESSION_IN_THE_CLEAR,
        }
    }

    /// The values of the session's cookie in a request. There is one; of several, set for other paths, any may be it.
    pub fn values(self, headers: &HeaderMap) -> impl Iterator<Item = &str> {
        let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(move |(name, _)| *name == self.name()).map(|(_, value)| value).take(MAX_LOOKED_AT)
    }

    /// Sets the cookie.
    pub fn set(self, value: &SecretText, lasts: Duration) -> Option<HeaderValue> {
        self.header(value.reveal(), lasts.as_secs())
    }

    /// Takes the cookie away.
    pub fn clear(self) -> Option<HeaderValue> {
        self.header("", 0)
    }

    fn header(self, value: &str, seconds: u64) -> Option<HeaderValue> {
        let secure = if self == Self::Secure { "; Secure" } else { "" };
        let name = self.name();
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(way: Way, cookies: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(header::COOKIE, HeaderValue::from_str(cookie).expect("a header"));
        }
        way.values(&headers).map(str::to_owned).collect()
    }

    #[test]
    fn each_way_has_its_own_name() {
        let sent = ["a=b; convoke=plain; __Host-convoke=secure", "convoke=other"];
        assert_eq!(values(Way::Plain, &sent), ["plain", "other"]);
        assert_eq!(values(Way::Secure, &sent), ["secure"]);
        assert_eq!(values(Way::Secure, &["__host-convoke=x; convoke"]), [""; 0]);
    }

    #[test]
    fn a_cookie_is_for_the_hub_alone() {
        let text = |way: Way| {
            let set = way.set(&SecretText::new("v"), Duration::from_secs(5)).expect("a header");
            set.to_str().expect("text").to_owned()
        };
        assert_eq!(text(Way::Plain), "convoke=v; Path=/; Max-Age=5; HttpOnly; SameSite=Lax");
        assert_eq!(text(Way::Secure), "__Host-convoke=v; Path=/; Max-Age=5; HttpOnly; SameSite=Lax; Secure");
    }
}
