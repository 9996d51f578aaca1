//! Resources: the fleet, each agent, its health and snapshot, and the journal page by page.

use convoke_api::record::JournalQuery;
use convoke_core::id::PeerId;
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, MetaObject, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde::Serialize;

use super::fleet::{RECORDS, overview_page};
use super::server::{McpCaller, protocol_error};
use super::toolset::{budget, value};
use super::{page, render};
use convoke_doors::ApiError;
use convoke_doors::agents::{in_reach, view};
use convoke_doors::journal::journal_page;
use convoke_doors::telemetry::{latest_health, latest_snapshot};
use convoke_gate::hub::Hub;
use convoke_gate::resolve::is_shown;

/// Agents on one page of the list; each has three resources.
const PAGE: usize = 100;
/// Records on one page of the journal.
const JOURNAL_PAGE: u32 = 100;
/// Agents of the fleet's resource; a larger fleet is read with the tool `fleet_overview`.
const FLEET_LIMIT: usize = 1000;

/// Longest URI: the longest id has 128 characters and a prefix.
const MAX_URI: usize = 256;

/// What a URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Fleet,
    Journal { after: Option<u64> },
    Agent(PeerId),
    Health(PeerId),
    Snapshot(PeerId),
}

impl Name {
    /// Reads a URI. Each resource has one, and none is longer than it must be: subscriptions are kept as they came.
    pub(super) fn read(uri: &str) -> Option<Self> {
        if uri.len() > MAX_URI {
            return None;
        }
        let path = uri.strip_prefix("convoke://")?;
        let mut parts = path.split('/');
        let name = match (parts.next()?, parts.next(), parts.next()) {
            ("fleet", None, _) => Self::Fleet,
            ("journal", None, _) => Self::Journal { after: None },
            ("journal", Some(after), None) => Self::Journal { after: Some(seq(after)?) },
            ("agents", Some(id), None) => Self::Agent(PeerId::parse(id).ok()?),
            ("agents", Some(id), Some("health")) => Self::Health(PeerId::parse(id).ok()?),
            ("agents", Some(id), Some("snapshot")) => Self::Snapshot(PeerId::parse(id).ok()?),
            _ => return None,
        };
        parts.next().is_none().then_some(name)
    }

    /// The agent it is about.
    pub(super) fn agent(&self) -> Option<&PeerId> {
        match self {
            Self::Agent(id) | Self::Health(id) | Self::Snapshot(id) => Some(id),
            Self::Fleet | Self::Journal { .. } => None,
        }
    }
}

/// The number of a record, as decimal digits without a sign or leading zeros, that the store can hold.
fn seq(text: &str) -> Option<u64> {
    text.parse().ok().filter(|seq: &u64| i64::try_from(*seq).is_ok() && seq.to_string() == text)
}

fn resource(uri: String, name: String, about: &str) -> Resource {
    Resource::new(uri, name).with_description(about).with_mime_type("application/json")
}

/// What there is, agents page by page.
pub(super) fn list(hub: &Hub, asker: &McpCaller, cursor: Option<String>) -> Result<ListResourcesResult, ErrorData> {
    let cursor = cursor.as_deref().map(|cursor| after(hub, cursor)).transpose()?;
    let mut resources = Vec::new();
    if cursor.is_none() {
        resources.push(resource("convoke://fleet".into(), "fleet".into(), "Every machine's health at a glance."));
        resources.push(resource("convoke://journal".into(), "journal".into(), "The first page of the journal."));
    }
    let scopes = &asker.caller.token.grant.scopes;
    let mut next = None;
    let mut agents = 0;
    let mut last = None;
    for agent in hub.agents.list(cursor).iter() {
        if !is_shown(scopes, agent) {
            continue;
        }
        if agents == PAGE {
            next = last;
            break;
        }
        agents += 1;
        let id = agent.id.as_str();
        last = Some(id.to_owned());
        let about = [
            ("", "", "What the hub knows of the machine."),
            ("/health", " health", "Status and summary of each section of its telemetry."),
            ("/snapshot", " snapshot", "Its latest telemetry."),
        ];
        resources.extend(
            about.map(|(path, name, doc)| {
                resource(format!("convoke://agents/{id}{path}"), format!("{id}{name}"), doc)
            }),
        );
    }
    let next_cursor = next.map(|last| cursor_after(hub, &last));
    Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(resources) })
}

/// Where a list goes on after this agent, which may be gone by then: so the hub knows its own cursors by a seal.
fn cursor_after(hub: &Hub, agent: &str) -> String {
    let digest = hub.digest(format!("mcp resources after\0{agent}").as_bytes());
    let seal: String = digest.rsplit(':').next().unwrap_or_default().chars().take(32).collect();
    format!("{agent}.{seal}")
}

/// The agent after which a list goes on.
fn after<'a>(hub: &Hub, cursor: &'a str) -> Result<&'a str, ErrorData> {
    let agent = cursor.rsplit_once('.').map(|(agent, _)| agent);
    agent
        .filter(|agent| PeerId::parse(agent).is_ok() && cursor_after(hub, agent) == cursor)
        .ok_or_else(|| ErrorData::invalid_params(page::UNKNOWN_CURSOR, None))
}

/// The templates.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str, about: &str| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type("application/json")
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template("convoke://agents/{id}", "agent", "What the hub knows of a machine."),
        template("convoke://agents/{id}/health", "agent health", "Status and summary of each section."),
        template("convoke://agents/{id}/snapshot", "agent snapshot", "The latest telemetry."),
        template("convoke://journal/{after}", "journal page", "Records after a sequence number, 100 at most."),
    ])
}

/// Reads a resource.
pub(super) async fn read(hub: &Hub, asker: &McpCaller, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(name) = Name::read(uri) else {
        let shown = &uri[..uri.floor_char_boundary(200)];
        let data = serde_json::json!({ "uri": shown });
        let message = render::on_one_line(&format!("resource `{shown}` does not exist"));
        return Err(ErrorData::resource_not_found(message, Some(data)));
    };
    let text = content(hub, asker, &name).await.map_err(|error| protocol_error(&error))?;
    let text = render::resource(text, hub.settings.mcp.max_result_bytes);
    let mut meta = MetaObject::new();
    meta.0.insert("convoke/untrusted".into(), true.into());
    let contents = ResourceContents::text(text, uri).with_mime_type("application/json").with_meta(meta);
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn content(hub: &Hub, asker: &McpCaller, name: &Name) -> Result<String, ApiError> {
    let caller = &asker.caller;
    match name {
        Name::Fleet => json(&overview_page(hub, asker, None, FLEET_LIMIT)?),
        Name::Journal { after } => {
            let query = JournalQuery { after: *after, limit: Some(JOURNAL_PAGE), ..JournalQuery::default() };
            let mut page = value(&journal_page(hub, caller, query, None).await?)?;
            page::fit(&mut page, "records", budget(hub), RECORDS);
            json(&page)
        }
        Name::Agent(id) => json(&view(&*in_reach(hub, caller, id.as_str()).await?)),
        Name::Health(id) => json(&latest_health(hub, caller, id.as_str()).await?),
        Name::Snapshot(id) => json(&latest_snapshot(hub, caller, id.as_str(), None).await?),
    }
}

fn json(value: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(value).map_err(|_| ApiError::internal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_what_there_is_and_nothing_else() {
        let pc = || PeerId::kenny("pc").expect("an id");
        for (uri, expect) in [
            ("convoke://fleet", Some(Name::Fleet)),
            ("convoke://journal", Some(Name::Journal { after: None })),
            ("convoke://journal/17", Some(Name::Journal { after: Some(17) })),
            ("convoke://agents/pc", Some(Name::Agent(pc()))),
            ("convoke://agents/pc/health", Some(Name::Health(pc()))),
            ("convoke://agents/pc/snapshot", Some(Name::Snapshot(pc()))),
            ("convoke://agents/pc/keys", None),
            ("convoke://agents/pc/health/x", None),
            ("convoke://agents/../journal", None),
            ("convoke://journal/0", Some(Name::Journal { after: Some(0) })),
            ("convoke://journal/-1", None),
            ("convoke://journal/+5", None),
            ("convoke://journal/007", None),
            ("convoke://journal/9223372036854775808", None),
            (&format!("convoke://journal/{}7", "0".repeat(900_000)), None),
            (&format!("convoke://agents/{}", "a".repeat(300)), None),
            ("convoke://agents", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(Name::read(uri), expect, "{uri}");
        }
    }
}
