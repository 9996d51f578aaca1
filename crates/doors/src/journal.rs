//! The journal as every door shows it: the records within the caller's reach.

use std::sync::Arc;

use convoke_api::record::{JournalPage, JournalQuery};
use convoke_core::id::CallId;
use convoke_core::journal::Kind;
use convoke_core::time::Timestamp;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_store::{JournalFilter, PAGE_BYTES};

use crate::ApiError;
use crate::agents::with_id;
use crate::extract::limit;

/// Whether a caller whose reach is narrowed may see what is about this peer. What is about no peer at all (tokens,
/// policy, the hub) is not theirs to see.
pub fn visible(hub: &Hub, caller: &Caller, target: Option<&str>) -> bool {
    let scopes = &caller.token.grant.scopes;
    if scopes.agents.is_none() && scopes.tags.is_none() {
        return true;
    }
    let Some(target) = target else { return false };
    let tags = hub.agents.find(target).map(|a| Arc::clone(&a.state().tags)).unwrap_or_default();
    scopes.reaches(target, &tags)
}

/// Refuses to look for a peer out of the caller's reach: whether there is a next page would tell that it exists.
pub async fn asked_about(hub: &Hub, caller: &Caller, agent: Option<&str>) -> Result<(), ApiError> {
    match agent {
        Some(agent) if !visible(hub, caller, Some(agent)) => with_id(hub, caller, agent).await.map(drop),
        _ => Ok(()),
    }
}

/// What of a record decides on who sees it and whether it is wanted.
#[derive(serde::Deserialize)]
struct About {
    target: Option<String>,
    who: Option<String>,
    decision: Option<String>,
}

/// What a record must have beyond what the store looks for.
struct Search {
    who: Option<String>,
    decision: Option<String>,
    text: Option<String>,
}

impl Search {
    const fn is_empty(&self) -> bool {
        self.who.is_none() && self.decision.is_none() && self.text.is_none()
    }

    fn fits(&self, about: &About, json: &str) -> bool {
        let same = |wanted: &Option<String>, is: &Option<String>| wanted.is_none() || wanted == is;
        same(&self.who, &about.who)
            && same(&self.decision, &about.decision)
            && self.text.as_ref().is_none_or(|text| json.to_lowercase().contains(text))
    }
}

/// Most records that one page of a search looks at.
const LOOKED_AT: usize = 20_000;
/// How many of them at a time.
const AT_A_TIME: u32 = 1_000;

/// The records within a caller's reach that a query asks for, or those of one call.
pub async fn journal_page(
    hub: &Hub,
    caller: &Caller,
    query: JournalQuery,
    call_id: Option<CallId>,
) -> Result<JournalPage, ApiError> {
    let limit = limit(query.limit)?;
    if let Some(kind) = &query.kind
        && Kind::parse(kind).is_none()
    {
        let names: Vec<_> = Kind::ALL.iter().map(|k| k.name()).collect();
        return Err(ApiError::bad_request(format!("`kind` must be one of {}", names.join(", "))));
    }
    asked_about(hub, caller, query.agent.as_deref()).await?;
    let (mut after, mut before, mut end) = (query.after, query.before, u64::MAX);
    if let Some(since) = time(query.since.as_deref(), "since")? {
        after = after.max(Some(first_from(hub, since).await?.saturating_sub(1)));
    }
    if let Some(until) = time(query.until.as_deref(), "until")? {
        end = first_from(hub, Timestamp::from_millis(until.millis().saturating_add(1))).await?;
        before = before.map(|before| before.min(end));
    }
    let text = query.text.map(|text| text.to_lowercase()).filter(|text| !text.is_empty());
    let search = Search { who: query.who, decision: query.decision, text };
    let mut filter = JournalFilter {
        after,
        before,
        limit: if search.is_empty() { limit } else { AT_A_TIME },
        agent: query.agent,
        tool: query.tool,
        kind: query.kind,
        call_id: call_id.or(query.call),
    };
    let (mut records, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let rows = hub.store.journal(filter.clone()).await?;
        let read: usize = rows.iter().map(|row| row.json.get().len()).sum();
        let is_full = rows.len() == filter.limit as usize || read >= PAGE_BYTES;
        let mut last = rows.last().map(|row| row.seq);
        looked_at += rows.len();
        for row in rows {
            if row.seq >= end {
                last = None;
                break;
            }
            let about = serde_json::from_str::<About>(row.json.get());
            let about = about.unwrap_or(About { target: None, who: None, decision: None });
            if !search.fits(&about, row.json.get()) || !visible(hub, caller, about.target.as_deref()) {
                continue;
            }
            bytes += row.json.get().len();
            records.push(row.json);
            if !search.is_empty() && (records.len() == limit as usize || bytes >= PAGE_BYTES) {
                last = Some(row.seq);
                break;
            }
        }
        let is_done = records.len() == limit as usize || bytes >= PAGE_BYTES;
        let goes_on = is_full || (!search.is_empty() && is_done);
        let next = last.filter(|_| goes_on);
        if search.is_empty() || next.is_none() || is_done || looked_at >= LOOKED_AT {
            return Ok(JournalPage { records, next });
        }
        if filter.before.is_some() {
            filter.before = next;
        } else {
            filter.after = next;
        }
    }
}

fn time(text: Option<&str>, name: &str) -> Result<Option<Timestamp>, ApiError> {
    let read = |text| {
        Timestamp::parse(text).ok_or_else(|| {
            ApiError::bad_request(format!("`{name}` must be an RFC 3339 time, as 2026-11-19T12:00:00Z"))
        })
    };
    text.map(read).transpose()
}

/// The first record from a time on, or the place after the last one. Records are in the order of their times, but for a clock
/// that was set back.
pub async fn first_from(hub: &Hub, from: Timestamp) -> Result<u64, ApiError> {
    #[derive(serde::Deserialize)]
    struct At {
        at: Timestamp,
    }
    let (mut low, mut high) = (1, hub.store.stats().journal_seq + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let filter = JournalFilter { after: Some(middle - 1), limit: 1, ..JournalFilter::default() };
        let row = hub.store.journal(filter).await?.pop();
        let at = row.and_then(|row| serde_json::from_str::<At>(row.json.get()).ok());
        if at.is_some_and(|at| at.at < from) { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
