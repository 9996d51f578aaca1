//! `fetch_content`.

use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode};
use url::Url;

use super::client::{Web, causes};
use super::page;
use crate::Outcome;
use crate::arguments::Arguments;
use crate::limits::{FETCH_BODY_BYTES, FETCH_OUTPUT_BYTES, FETCH_OUTPUT_MOST, FETCH_REDIRECTS, FETCH_TIME};

/// A page as text.
pub(crate) async fn fetch_content(web: &Web, arguments: &Arguments) -> Result<Outcome, String> {
    let given = arguments.text("url")?.trim();
    let url = Url::parse(given).map_err(|why| format!("url is not an address: {why}"))?;
    let most = arguments
        .optional_number("max_bytes")?
        .map_or(FETCH_OUTPUT_BYTES, |most| usize::try_from(most).unwrap_or(1).clamp(1, FETCH_OUTPUT_MOST));
    let extract = match arguments.optional_text("extract")?.unwrap_or("auto") {
        "auto" | "text" => Extract::Text,
        "raw" => Extract::Raw,
        other => return Err(format!("extract must be auto, text or raw, not {other}")),
    };
    let timed_out = |_| format!("{given} took more than {} seconds", FETCH_TIME.as_secs());
    let page = tokio::time::timeout(FETCH_TIME, get(web, url)).await.map_err(timed_out)??;
    // A page of two megabytes takes a while to be made text of.
    let shown = tokio::task::spawn_blocking(move || page.shown(extract, most)).await;
    shown.map(Outcome::text).map_err(|why| format!("the page cannot be shown: {why}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extract {
    Text,
    Raw,
}

struct Page {
    url: Url,
    status: StatusCode,
    kind: String,
    body: Vec<u8>,
    is_cut: bool,
}

async fn get(web: &Web, mut url: Url) -> Result<Page, String> {
    for _ in 0..=FETCH_REDIRECTS {
        web.check(&url)?;
        let accept = "text/html, text/plain, text/markdown, application/json, application/xml;q=0.9, */*;q=0.1";
        let request = web.pool()?.get(url.clone()).header("accept", accept);
        let response = request.send().await.map_err(|why| format!("{url} cannot be fetched: {}", causes(why)))?;
        let Some(next) = redirect(&response, &url)? else { return read(response, url).await };
        url = next;
    }
    Err(format!("more than {FETCH_REDIRECTS} redirects"))
}

fn redirect(response: &Response, from: &Url) -> Result<Option<Url>, String> {
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    match location {
        Some(location) if response.status().is_redirection() => {
            let next = from.join(location).map_err(|why| format!("{from} redirects to no address: {why}"))?;
            Ok(Some(next))
        }
        _ => Ok(None),
    }
}

async fn read(mut response: Response, url: Url) -> Result<Page, String> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = kind.is_empty()
        || kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind.as_str(),
            "application/json" | "application/xml" | "application/javascript" | "application/x-ndjson"
        );
    if !is_text {
        return Err(format!("{url} is {kind}, not text"));
    }
    let (mut body, mut is_cut) = (Vec::new(), false);
    while let Some(chunk) = response.chunk().await.map_err(|why| format!("{url} broke off: {}", causes(why)))? {
        let room = FETCH_BODY_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    if body.contains(&0) {
        return Err(format!("{url} is not text"));
    }
    Ok(Page { url, status, kind, body, is_cut })
}

impl Page {
    fn shown(&self, extract: Extract, most: usize) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let start = text.trim_start().get(..64).unwrap_or(text.trim_start()).to_ascii_lowercase();
        let is_html = self.kind.contains("html")
            || (self.kind.is_empty() && (start.starts_with("<!doctype html") || start.starts_with("<html")));
        let text = match is_html && extract == Extract::Text {
            true => page::text(&text, &self.url),
            false => text.into_owned(),
        };
        let text = text.trim();
        let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let mut shown = format!("URL: {}\nStatus: {}\n\n{}", self.url, self.status.as_u16(), &text[..end]);
        if end < text.len() {
            shown.push_str(&format!("\n\n[{} more bytes. Use max_bytes for more.]", text.len() - end));
        }
        if self.is_cut {
            shown.push_str(&format!("\n\n[Only the first {FETCH_BODY_BYTES} bytes of the page were read.]"));
        }
        shown
    }
}
