//! The hub's own tools: agents, their health, the journal.

use crate::Sessions;
use convoke_api::agents::AgentQuery;
use convoke_api::record::{JournalPage, JournalQuery};
use convoke_core::id::CallId;
use rmcp::model::JsonObject;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::hidden;
use super::page::{self, Keep};
use super::render;
use super::server::McpCaller;
use super::toolset::{Shown, args, budget, listed, more, value};
use convoke_doors::agents::{in_reach, page as agents_page};
use convoke_doors::journal::journal_page;
use convoke_doors::telemetry::{latest_health, latest_snapshot};
use convoke_doors::{ApiError, extract};
use convoke_gate::fleet;
use convoke_gate::hub::Hub;
use convoke_gate::resolve::{By, resolve};

/// Which records of a page of the journal stay.
pub(super) const RECORDS: Keep = Keep::First { next: "seq" };
/// Records that `journal_search` shows when nobody says.
pub const JOURNAL_LIMIT: u32 = 50;
/// And at most.
pub const MAX_JOURNAL_LIMIT: u32 = 200;
/// Records looked at in one step backwards.
const WINDOW: u32 = 1000;
/// Steps backwards; what is older is found with `after`.
const MAX_WINDOWS: u32 = 50;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    query: Option<String>,
    tag: Option<String>,
    online: Option<bool>,
    after: Option<String>,
    limit: Option<u32>,
}

/// `list_agents`.
pub(super) fn list(hub: &Hub, asker: &McpCaller, given: JsonObject) -> Shown {
    let ListArgs { query, tag, online, after, limit } = args(given)?;
    let query = AgentQuery { query, protocol: None, tag, online, after, limit };
    let mut shown = value(&agents_page(hub, &asker.caller, &query)?)?;
    if let Some(selected) = Sessions::of(hub).selected(asker.session.as_deref(), asker.caller.token.id) {
        shown["selected"] = selected.as_str().into();
    }
    page::fit(&mut shown, "agents", budget(hub), Keep::First { next: "id" });
    let agents = listed(&shown, "agents");
    let online = agents.iter().filter(|agent| agent["online"] == true).count();
    let line = format!("{}, {online} of them online.{}", machines(agents.len()), more(&shown));
    Ok(render::listing(&line, shown, budget(hub)))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentArgs {
    #[serde(alias = "id")]
    agent: String,
}

/// The same for what is recorded: whatever has records under this id has it, though it may be gone. An agent may take its
/// name itself, and must not be able to hide them.
async fn recorded_id_of(hub: &Hub, asker: &McpCaller, given: String) -> String {
    let meant = resolve(&hub.agents, &asker.caller, &given, By::Name, |_| true);
    let named = meant.map_or_else(|_| given.clone(), |agent| agent.id.as_str().to_owned());
    // What is out of reach is not looked for: that would be a refusal, and recorded.
    if named == given || !asker.caller.token.grant.scopes.reaches::<String>(&given, &[]) {
        return named;
    }
    let query = JournalQuery { limit: Some(1), agent: Some(given.clone()), ..JournalQuery::default() };
    let found = journal_page(hub, &asker.caller, query, None).await;
    if found.is_ok_and(|page| !page.records.is_empty()) { given } else { named }
}

/// `select_agent`.
pub(super) async fn select(hub: &Hub, asker: &McpCaller, given: JsonObject) -> Shown {
    let AgentArgs { agent } = args(given)?;
    let agent = in_reach(hub, &asker.caller, &agent).await?;
    let (id, online) = (agent.id.as_str(), agent.state().is_online());
    Sessions::of(hub).select(asker.session.as_deref(), asker.caller.token.id, agent.id.clone());
    let (holds_for, what) = match asker.session {
        Some(_) => ("session", "Calls of this session without `agent` go there"),
        None => ("token", "There is no session: tools that look go there without `agent`, all others need `agent`"),
    };
    let line = format!("{id} is selected and {}. {what}.", if online { "online" } else { "offline" });
    Ok(render::own_words(&line, json!({ "selected": id, "online": online, "holds_for": holds_for })))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PageArgs {
    after: Option<String>,
    limit: Option<u32>,
}

/// `fleet_overview`.
pub(super) fn overview(hub: &Hub, asker: &McpCaller, given: JsonObject) -> Shown {
    let PageArgs { after, limit } = args(given)?;
    let limit = extract::limit(limit.or(Some(1000)))? as usize;
    let shown = overview_page(hub, asker, after.as_deref(), limit)?;
    let overall = shown["overall"].as_str().unwrap_or("unknown");
    let count = listed(&shown, "agents").len();
    let line = match shown.get("next") {
        None if after.is_none() => format!("The fleet's health is {overall}: {} shown.", machines(count)),
        _ => format!("The health of the {} shown here is {overall}.{}", machines(count), more(&shown)),
    };
    Ok(render::listing(&line, shown, budget(hub)))
}

/// So many machines, in words.
pub fn machines(count: usize) -> String {
    if count == 1 { "1 machine".into() } else { format!("{count} machines") }
}

/// So many machines after that one, as far as they fit.
pub(super) fn overview_page(
    hub: &Hub,
    asker: &McpCaller,
    after: Option<&str>,
    limit: usize,
) -> Result<Value, ApiError> {
    let scopes = asker.caller.token.grant.scopes.clone();
    let overview = fleet::Overview::new(&hub.agents, scopes, after, Some(limit));
    let text: String = overview.within(budget(hub), hidden::length).collect();
    serde_json::from_str(&text).map_err(|_| ApiError::internal())
}

/// `agent_health`.
pub(super) async fn health(hub: &Hub, asker: &McpCaller, given: JsonObject) -> Shown {
    let AgentArgs { agent } = args(given)?;
    let shown = latest_health(hub, &asker.caller, &agent).await?;
    let text = |name: &str| shown[name].as_str().unwrap_or("unknown");
    let line = format!("{} is {}, according to its telemetry.", text("agent_id"), text("overall"));
    Ok(render::listing(&line, shown, budget(hub)))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotArgs {
    #[serde(alias = "id")]
    agent: String,
    section: Option<String>,
}

/// `agent_snapshot`.
pub(super) async fn snapshot(hub: &Hub, asker: &McpCaller, given: JsonObject) -> Shown {
    let SnapshotArgs { agent, section } = args(given)?;
    let snapshot = latest_snapshot(hub, &asker.caller, &agent, section.as_deref()).await?;
    let line = format!("{} is {}, according to its latest telemetry.", snapshot.agent_id, snapshot.overall);
    Ok(render::listing(&line, value(&snapshot)?, budget(hub)))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalArgs {
    agent: Option<String>,
    tool: Option<String>,
    kind: Option<String>,
    call_id: Option<String>,
    after: Option<u64>,
    newest: Option<bool>,
    limit: Option<u32>,
}

/// `journal_search`.
pub(super) async fn journal(hub: &Hub, asker: &McpCaller, given: JsonObject) -> Shown {
    let JournalArgs { agent, tool, kind, call_id, after, newest, limit } = args(given)?;
    let agent = match agent {
        Some(agent) => Some(recorded_id_of(hub, asker, agent).await),
        None => None,
    };
    let call_id = call_id.map(|id| id.parse::<CallId>()).transpose();
    let call_id = call_id.map_err(|_| ApiError::bad_request("`call_id` must be a call's id"))?;
    let limit = limit.unwrap_or(JOURNAL_LIMIT).clamp(1, MAX_JOURNAL_LIMIT);
    let query = JournalQuery { after, limit: Some(limit), agent, tool, kind, ..JournalQuery::default() };
    let keep = if newest == Some(true) { Keep::Last } else { RECORDS };
    let found = match (newest, after) {
        (Some(true), Some(_)) => return Err(ApiError::bad_request("give either `newest` or `after`")),
        (Some(true), None) => newest_records(hub, asker, query, call_id, limit as usize).await?,
        _ => journal_page(hub, &asker.caller, query, call_id).await?,
    };
    let mut shown = value(&found)?;
    page::fit(&mut shown, "records", budget(hub), keep);
    let line = format!("{} records.{}", listed(&shown, "records").len(), more(&shown));
    Ok(render::listing(&line, shown, budget(hub)))
}

/// The newest records that fit, oldest of them first: the journal is read backwards, window by window.
pub async fn newest_records(
    hub: &Hub,
    asker: &McpCaller,
    query: JournalQuery,
    call_id: Option<CallId>,
    wanted: usize,
) -> Result<JournalPage, ApiError> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    let mut found = Vec::new();
    let mut end = hub.store.stats().journal_seq;
    for _ in 0..MAX_WINDOWS {
        let begin = end.saturating_sub(WINDOW.into());
        let window = JournalQuery { after: Some(begin), limit: Some(WINDOW), ..query.clone() };
        let page = journal_page(hub, &asker.caller, window, call_id).await?;
        let before_end = |json: &RawValue| serde_json::from_str::<Numbered>(json.get()).is_ok_and(|p| p.seq <= end);
        let mut part: Vec<_> = page.records.into_iter().filter(|record| before_end(record)).collect();
        part.append(&mut found);
        found = part;
        if found.len() >= wanted || begin == 0 {
            break;
        }
        end = begin;
    }
    let records = found.split_off(found.len().saturating_sub(wanted));
    Ok(JournalPage { records, next: None })
}
