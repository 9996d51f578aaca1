//! Whose page a request comes from. A browser on an operator's machine can reach a hub on loopback, so a page from
//! elsewhere must not be able to use it: neither by a cross-origin request (`Origin`) nor by a name that its own DNS
//! points at loopback (`Host`).

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

use crate::ApiError;
use crate::cookie::Way;
use convoke_gate::hub::Hub;

/// What a browser says about whose page makes a request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request for another host, or from a foreign page.
pub fn check(hub: &Hub, request: &Request<Body>) -> Result<(), ApiError> {
    let headers = request.headers();
    let Some(host) = host(request) else {
        return Err(ApiError::bad_request("the request must have exactly one `Host`"));
    };
    if !host_allowed(hub, name_of(host)) {
        return Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            format!("this hub does not answer to the name `{}`", crate::error::clip(host)),
        )
        .hint("add the name to hub.allowed_hosts, or set hub.public_url"));
    }
    // A browser sends one; of several each must be allowed, whichever somebody else would take.
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("null");
        let same = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        if !same && !is_listed(hub, origin) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "wrong_origin",
                format!("pages from `{}` may not use this hub", crate::error::clip(origin)),
            )
            .hint("add the origin to hub.allowed_origins"));
        }
    }
    Ok(())
}

/// Whether a request comes from the hub's own page, as the browser says; nothing where it says nothing. A page of the same
/// host at another port is another page, though it is sent the same cookies.
pub fn is_own_page(hub: &Hub, request: &Request<Body>) -> Option<bool> {
    let headers = request.headers();
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    if let Some(site) = sites.next() {
        return Some(site == "same-origin" && sites.next().is_none());
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next()?;
    let own = format!("{}://{}", Way::of(hub, headers).scheme(), host(request).unwrap_or_default());
    Some(origins.next().is_none() && origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(&own)))
}

/// Refuses a change that may come from a foreign page and has the cookie of somebody who is signed in.
pub fn check_own_page(hub: &Hub, request: &Request<Body>) -> Result<(), ApiError> {
    if is_own_page(hub, request) == Some(true) {
        return Ok(());
    }
    let message = "with a session's cookie, changes must come from the hub's own page";
    let hint = "a program sends `Origin` with the address of the hub, or a token instead of the cookie";
    Err(ApiError::new(StatusCode::FORBIDDEN, "wrong_origin", message).hint(hint))
}

fn is_listed(hub: &Hub, origin: &str) -> bool {
    let public = hub.settings.hub.public_url.as_deref().is_some_and(|url| url.eq_ignore_ascii_case(origin));
    public || hub.settings.hub.allowed_origins.iter().any(|o| o.eq_ignore_ascii_case(origin))
}

/// The origin of the page that makes a request, if it is one that may.
pub fn page(hub: &Hub, request: &Request<Body>) -> Option<HeaderValue> {
    let origin = request.headers().get(header::ORIGIN)?;
    let listed = origin.to_str().is_ok_and(|origin| is_listed(hub, origin));
    (listed && check(hub, request).is_ok()).then(|| origin.clone())
}

/// What a browser asks before a page's request that is more than a form could send: whether the page may. Pages that may
/// not, and all else, get the answer of any method that is not taken.
pub fn preflight(request: &Request<Body>, methods: &str) -> Option<Response<Body>> {
    if request.method() != Method::OPTIONS || !request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_str(methods).ok()?);
    // Whichever they are: tokens and sessions come in headers that the page has to have.
    if let Some(wanted) = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    Some(response)
}

/// What a page may read of an answer beside its body.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, x-request-id";

/// Lets a browser hand an answer to the page. Without credentials: a page has a token of its own.
pub fn share(response: &mut Response<Body>, page: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

/// The one host that a request names, with its port.
pub fn host(request: &Request<Body>) -> Option<&str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next(), request.uri().authority()) {
        // A target that names a host is what counts (RFC 9112, 3.2.2); one that names another than the header is odd.
        (Some(host), None, Some(target)) => {
            host.to_str().ok().filter(|host| target.as_str().eq_ignore_ascii_case(host))
        }
        (Some(host), None, None) => host.to_str().ok(),
        (None, _, target) => target.map(|a| a.as_str()),
        (Some(_), Some(_), _) => None,
    }
}

fn host_allowed(hub: &Hub, name: &str) -> bool {
    // An address literal cannot be pointed elsewhere by DNS.
    if name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let public = hub.settings.hub.public_url.as_deref().and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
    let public = public.map(|rest| name_of(rest.split('/').next().unwrap_or_default()));
    public.is_some_and(|p| p.eq_ignore_ascii_case(name))
        || hub.settings.hub.allowed_hosts.iter().any(|h| h == "*" || h.eq_ignore_ascii_case(name))
}

/// A host without its port and brackets.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn hosts_lose_their_port() {
        for (host, name) in [
            ("a.example:80", "a.example"),
            ("a.example", "a.example"),
            ("[::1]:80", "::1"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(name_of(host), name);
        }
    }
}
