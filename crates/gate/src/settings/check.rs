//! Settings that do not go together, and entries of lists that are not what the list is for.

use super::typed::AgentToken;
use super::{Settings, Source};

/// What is wrong with settings of which each is well-formed. `source` says where a setting's value came from,
/// `agent_tokens` is `kenny.agent_tokens` as written. No secret is in the answer.
pub(super) fn conflicts<'a>(
    settings: &Settings,
    source: impl Fn(&str) -> &'a Source,
    agent_tokens: &[String],
) -> Vec<String> {
    let mut found = Vec::new();
    let (cert, key) = (("tls.cert", &settings.tls.cert), ("tls.key", &settings.tls.key));
    for ((set, value), (missing, other)) in [(cert, key), (key, cert)] {
        if value.is_some() && other.is_none() {
            let from = source(set);
            found.push(format!("{from}: `{set}` and `{missing}` go together: set both or neither"));
        }
    }
    let (calls, yonexus) = (&settings.calls, &settings.yonexus);
    for ((smaller, few), (larger, many)) in [
        (("calls.default_timeout_s", calls.default_timeout_s), ("calls.max_timeout_s", calls.max_timeout_s)),
        (
            ("yonexus.unstable_after_s", yonexus.unstable_after_s),
            ("yonexus.offline_after_s", yonexus.offline_after_s),
        ),
    ] {
        if few > many {
            let (from, other, few, many) = (source(smaller), source(larger), few.as_secs(), many.as_secs());
            found
                .push(format!("{from}: `{smaller}` ({few}) must not be more than `{larger}` ({many}, from {other})"));
        }
    }
    let rooms = &settings.rooms;
    if rooms.turn_url.is_empty() != rooms.turn_secret.is_none() {
        let from = source(if rooms.turn_url.is_empty() { "rooms.turn_secret" } else { "rooms.turn_url" });
        found.push(format!("{from}: `rooms.turn_url` and `rooms.turn_secret` go together: set both or neither"));
    }
    let from = source("rooms.turn_url");
    for url in &rooms.turn_url {
        if !url.starts_with("turn:") && !url.starts_with("turns:") {
            found.push(format!("{from}: `rooms.turn_url`: `{url}` does not begin with `turn:` or `turns:`"));
        }
    }
    if settings.bus.url.is_some() && settings.store.url.is_none() {
        let from = source("bus.url");
        found.push(format!("{from}: `bus.url` connects hubs that share a database: set `store.url`, too"));
    }
    let from = source("hub.allowed_origins");
    for origin in &settings.hub.allowed_origins {
        if let Err(why) = check_origin(origin) {
            found.push(format!("{from}: `hub.allowed_origins`: `{origin}` {why}"));
        }
    }
    let from = source("kenny.agent_tokens");
    for (n, entry) in agent_tokens.iter().enumerate() {
        if AgentToken::parse(entry).is_none() {
            let entry = n + 1;
            found.push(format!("{from}: `kenny.agent_tokens`: entry {entry} is not `id=token` with an agent's id"));
        }
    }
    found
}

/// Whether a browser could ever name this origin; if not, why.
fn check_origin(origin: &str) -> Result<(), String> {
    let none = || "is not an origin; write it as https://name, or with :port".to_owned();
    let (scheme, host) = origin.split_once("://").ok_or_else(none)?;
    if scheme.is_empty() || host.is_empty() || host.contains(['/', '@', '?', '#', ' ']) {
        return Err(none());
    }
    let url = reqwest::Url::parse(origin).map_err(|_| none())?;
    // Programs with schemes of their own write what they like; of the web's there is one way.
    let written = url.origin().ascii_serialization();
    if matches!(url.scheme(), "http" | "https") && !written.eq_ignore_ascii_case(origin) {
        return Err(format!("never matches; browsers write it as {written}"));
    }
    Ok(())
}
