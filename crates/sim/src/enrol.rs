//! Enrols simulated agents as an operator and a machine would: a token for each, then its key.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_kenny::enrol::BadKey;
use convoke_kenny::wire_bytes;
use ed25519_dalek::VerifyingKey;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::http::{self, Client, HttpError};
use crate::roster::Roster;

/// Longest part of an answer that an error shows, in bytes.
const SHOWN: usize = 300;

/// Why agents could not be enrolled.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The hub does not answer.
    #[error("the hub does not answer: {0}")]
    Http(#[from] HttpError),
    /// It answers, but not with 200.
    #[error("{what} of {agent} failed: HTTP {status}: {answer}")]
    Refused {
        /// Token or key.
        what: &'static str,
        /// Whose.
        agent: String,
        /// The status.
        status: StatusCode,
        /// The beginning of the answer.
        answer: String,
    },
    /// It answers something we cannot read.
    #[error("the answer to a token could not be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It names a key that is none.
    #[error("cannot read the hub's public key: {0}")]
    HubKey(#[from] BadKey),
}

/// The result.
#[derive(Clone, Copy, Debug)]
pub struct Enrolled {
    /// How many.
    pub count: usize,
    /// How long it took.
    pub took: Duration,
    /// The hub's key, where it named it.
    pub hub_key: Option<VerifyingKey>,
}

/// Enrols the agents `range` of `roster` at `target`, over `connections` connections at once. The first failure ends it.
pub async fn enrol(
    target: SocketAddr,
    operator_token: &str,
    roster: &Roster,
    range: Range<usize>,
    connections: usize,
) -> Result<Enrolled, EnrolError> {
    let began = Instant::now();
    let operator = http::bearer(operator_token)?;
    let next = Arc::new(AtomicUsize::new(range.start));
    let mut workers = JoinSet::new();
    for _ in 0..connections.clamp(1, range.len().max(1)) {
        let (operator, roster, next, end) = (operator.clone(), roster.clone(), Arc::clone(&next), range.end);
        workers.spawn(async move {
            let mut client = Client::new(target);
            let mut hub_key = None;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    return Ok::<_, EnrolError>(hub_key);
                }
                hub_key = one(&mut client, &operator, &roster, index).await?.or(hub_key);
            }
        });
    }
    let mut hub_key = None;
    while let Some(worker) = workers.join_next().await {
        // A worker neither panics nor is it cancelled while we hold the set.
        if let Ok(outcome) = worker {
            hub_key = outcome?.or(hub_key);
        }
    }
    Ok(Enrolled { count: range.len(), took: began.elapsed(), hub_key })
}

async fn one(
    client: &mut Client,
    operator: &HeaderValue,
    roster: &Roster,
    index: usize,
) -> Result<Option<VerifyingKey>, EnrolError> {
    #[derive(Deserialize)]
    struct Minted {
        token: String,
        #[serde(default)]
        hub_public_key: Option<String>,
    }
    let agent = roster.id(index);
    let path = format!("/api/agents/{agent}/token");
    let (status, answer) = client.send(Method::POST, &path, Some(operator), Bytes::new()).await?;
    expect_ok("the token", agent.as_str(), status, &answer)?;
    let minted: Minted = serde_json::from_slice(&answer)?;

    let path = format!("/api/agents/{agent}/enroll");
    let key = wire_bytes::encode(roster.public_key(index).as_bytes());
    let body = serde_json::json!({ "public_key": key }).to_string();
    let token = http::bearer(&minted.token)?;
    let (status, answer) = client.send(Method::POST, &path, Some(&token), body.into()).await?;
    expect_ok("the key", agent.as_str(), status, &answer)?;
    Ok(minted.hub_public_key.map(|text| convoke_kenny::enrol::parse_key(&text)).transpose()?)
}

fn expect_ok(what: &'static str, agent: &str, status: StatusCode, answer: &[u8]) -> Result<(), EnrolError> {
    if status == StatusCode::OK {
        return Ok(());
    }
    let answer = String::from_utf8_lossy(&answer[..answer.len().min(SHOWN)]).into_owned();
    Err(EnrolError::Refused { what, agent: agent.to_owned(), status, answer })
}
