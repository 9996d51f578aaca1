//! The operator's page: the files that `web/` is built into, embedded in the program and precompressed.
//!
//! It knows nothing of what the page shows. A path that is no file and belongs to no door is a view of the page, which
//! finds its own way from the address. A debug build reads the files from disk.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_core::grant::Right;
use convoke_doors::keeper::REST;
use convoke_doors::{ApiError, Doors};
use convoke_gate::Hub;
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Dist;

/// Where only programs ask: an address there that no door has is an error, and no view of the page.
const FOR_PROGRAMS: &[&str] = &["api/", "mcp/", "oauth/", ".well-known/", "assets/"];

/// Opens the doors of the page: everything that is not another door's.
pub fn open(doors: Doors) -> Doors {
    doors.open(Method::GET, "/", Right::Public, page).open(Method::GET, REST, Right::Public, page)
}

/// A file of the page, or the page itself.
async fn page(State(hub): State<Hub>, request: Request) -> Response<Body> {
    let path = request.uri().path().trim_start_matches('/');
    let is_variant = VARIANTS.iter().any(|(_, extension)| path.ends_with(extension));
    if !path.is_empty() && !is_variant && Dist::get(path).is_some() {
        return file(path, request.headers());
    }
    if path == PLAIN_STYLE {
        return dressed(StatusCode::OK, "text/css; charset=utf-8", Body::from(include_str!("plain.css")));
    }
    if FOR_PROGRAMS.iter().any(|prefix| path.starts_with(prefix)) {
        return ApiError::not_found("no such path").into_response();
    }
    if Dist::get(INDEX).is_some() { file(INDEX, request.headers()) } else { not_built(&hub) }
}

const INDEX: &str = "index.html";

/// The compressed variants that lie beside a file, best first.
const VARIANTS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

fn file(path: &str, asked: &HeaderMap) -> Response<Body> {
    let found = VARIANTS
        .iter()
        .filter(|(encoding, _)| accepts(asked, encoding))
        .find_map(|(encoding, extension)| Some((Some(*encoding), Dist::get(&format!("{path}{extension}"))?)))
        .or_else(|| Some((None, Dist::get(path)?)));
    let Some((encoding, found)) = found else {
        return ApiError::not_found("no such path").into_response();
    };
    let tag = tag_of(&found);
    let body = if is_known(asked, &tag) { None } else { Some(Body::from(found.data.into_owned())) };
    let status = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_MODIFIED };
    let mut response = dressed(status, kind_of(path), body.unwrap_or_default());
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    // What lies in `assets` has a hash of its content in its name.
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

fn accepts(asked: &HeaderMap, encoding: &str) -> bool {
    let given = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let is_refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case(encoding) && !is_refused
    })
}

fn tag_of(file: &EmbeddedFile) -> String {
    format!("\"{}\"", hex::encode(&file.metadata.sha256_hash()[..16]))
}

fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    let given = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|one| one.trim().trim_start_matches("W/") == tag)
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// What a page of this hub may do in a browser: nothing but what is its own.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
         manifest-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        // Rooms of this hub may use the first three; the rest nobody here needs.
        "camera=(self), microphone=(self), display-capture=(self), geolocation=(), payment=(), usb=(), serial=(), \
         midi=()",
    ),
];

fn dressed(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The style of the plain page.
const PLAIN_STYLE: &str = "plain.css";

/// What is here instead where the program was built without the page.
fn not_built(hub: &Hub) -> Response<Body> {
    let page = include_str!("not_built.html")
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{base}}", &escape(&hub.base_url()))
        .replace("{{key}}", &escape(&hub.public_key()));
    dressed(StatusCode::OK, "text/html; charset=utf-8", Body::from(page))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_compressed_variant_is_for_who_accepts_it() {
        for (value, accepted) in [
            ("gzip, deflate, br, zstd", true),
            ("BR;q=0.5", true),
            ("gzip", false),
            ("br;q=0", false),
            ("br; q=0.000, gzip", false),
            ("", false),
        ] {
            assert_eq!(accepts(&asked(header::ACCEPT_ENCODING, value), "br"), accepted, "{value}");
        }
    }

    #[test]
    fn who_has_a_file_already_is_not_sent_it_again() {
        for (value, known) in [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("\"b\"", false)] {
            assert_eq!(is_known(&asked(header::IF_NONE_MATCH, value), "\"a\""), known, "{value}");
        }
    }
}
