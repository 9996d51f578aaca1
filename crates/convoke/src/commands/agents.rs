//! `convoke agents`: list agents, and change their tags and trust.

use anyhow::{Result, bail};
use clap::Subcommand;
use convoke_api::Client;
use convoke_api::agents::{Agent, AgentJoin, AgentPatch, AgentQuery, OneAgentQuery, UpdateReply};
use convoke_api::calls::CallPending;
use convoke_core::id::Protocol;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::pages::{Pages, joined};
use super::{Verb, call, enrol, prompt, typed};
use crate::complete;
use crate::exit::Exit;
use crate::parse::{self, AgentName};
use crate::show;
use crate::table::{Field, Grid, Tone};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List agents
    List {
        /// Only agents that fit, as in 'tag:lab AND NOT os:windows'
        #[arg(long)]
        query: Option<String>,
        /// Only agents that are online
        #[arg(long, conflicts_with = "offline")]
        online: bool,
        /// Only agents that are offline
        #[arg(long)]
        offline: bool,
        /// Only agents with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Only agents of this protocol
        #[arg(long, value_parser = parse::protocol())]
        protocol: Option<Protocol>,
    },
    /// Show one agent
    Show {
        /// The agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
    },
    /// Replace an agent's tags
    Tag {
        /// The agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
        #[arg(required_unless_present = "clear", conflicts_with = "clear")]
        tags: Vec<String>,
        /// Remove all tags
        #[arg(long)]
        clear: bool,
    },
    /// Revoke an agent: close its link and refuse it from now on
    Revoke {
        /// The agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
    },
    /// Delete an agent with its key, telemetry and logs; the journal stays
    Remove {
        /// The agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Create a one-time token that lets an agent bind a new key; the old key is valid until then
    RotateKey {
        /// The agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
    },
    /// Make a Sonde agent the second tunnel of a machine: from then on they are one agent
    Join {
        /// The machine, a kenny agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
        /// The Sonde agent, by id (sonde:…) or name
        #[arg(value_name = "TUNNEL", value_parser = parse::agent_name, add = complete::machines())]
        tunnel: AgentName,
    },
    /// Part a machine from its second tunnel: from then on they are two agents
    Split {
        /// The machine, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
    },
    /// Offer an agent the newest binary for its machine
    Update {
        /// The agent, by id or name
        #[arg(value_name = "AGENT", value_parser = parse::agent_name, add = complete::machines())]
        agent: AgentName,
    },
}

pub(crate) async fn run(verb: Verb<'_>, command: AgentsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    match command {
        AgentsCommand::List { query, online, offline, tag, protocol } => {
            let online = (online || offline).then_some(online);
            let protocol = protocol.map(|p| p.name().to_owned());
            let empty = if query.is_some() || online.is_some() || tag.is_some() || protocol.is_some() {
                "no agent matches; `convoke agents list` shows all"
            } else {
                "no agents; invite one with `convoke enroll-token ID`"
            };
            let query = AgentQuery { query, protocol, tag, online, ..AgentQuery::default() };
            let items = Pages::new(&client, "/api/agents", "agents", &query, None)?.all().await?;
            if output.json {
                output.json(&joined("agents", &items))?;
                return Ok(Exit::Done);
            }
            let agents = items.iter().map(|item| typed(item)).collect::<Result<Vec<Agent>>>()?;
            output.table(&list(&agents, when::now()), empty)?;
        }
        AgentsCommand::Show { agent } => {
            let json = looked_up(&client, &agent, true).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&sheet(&typed(&json)?, when::now()), "")?;
            }
        }
        AgentsCommand::Tag { agent, tags, clear: _ } => {
            let json: Box<RawValue> = client.patch(&agent.path(), &AgentPatch { tags }).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let agent: Agent = typed(&json)?;
                output.text(&format!("{} has the tags: {}", agent.id, show::clean(&show::list(&agent.tags))))?;
            }
        }
        AgentsCommand::Revoke { agent } => {
            let json: Box<RawValue> = client.post(&format!("{}/revoke", agent.path()), &Map::new()).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let id = typed::<Agent>(&json)?.id;
                output.text(&format!("{id} is revoked: its link is closed and its key is refused"))?;
            }
        }
        AgentsCommand::Remove { agent, yes } => {
            let id = typed::<Agent>(&looked_up(&client, &agent, false).await?)?.id;
            let question = format!("Remove {id} with its key, telemetry and logs?");
            if !yes && !prompt::confirm(&question, "give --yes to remove it without being asked")? {
                bail!("{id} was not removed");
            }
            let json: Box<RawValue> = client.delete(&format!("/api/agents/{id}")).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text(&format!("{id} is removed"))?;
            }
        }
        AgentsCommand::RotateKey { agent } => {
            let json: Box<RawValue> = client.post(&format!("{}/rotate-key", agent.path()), &Map::new()).await?;
            enrol::show(verb, &client, &json, enrol::What::NewKey).await?;
        }
        AgentsCommand::Join { agent, tunnel } => {
            let body = AgentJoin { tunnel: tunnel.to_string() };
            let json: Box<RawValue> = client.post(&format!("{}/join", agent.path()), &body).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let machine: Agent = typed(&json)?;
                let tunnel = machine.tunnels.first().map_or("-", |tunnel| tunnel.id.as_str());
                output.text(&format!("{} and {tunnel} are one machine: {}", machine.id, machine.id))?;
            }
        }
        AgentsCommand::Split { agent } => {
            let json: Box<RawValue> = client.post(&format!("{}/split", agent.path()), &Map::new()).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let id = typed::<Agent>(&json)?.id;
                output.text(&format!("{id} and its second tunnel are two agents again"))?;
            }
        }
        AgentsCommand::Update { agent } => {
            let json: Box<RawValue> = client.post(&format!("{}/update", agent.path()), &Map::new()).await?;
            return updated(verb, &agent, &json);
        }
    }
    Ok(Exit::Done)
}

/// The agent that a person means: where it is enough, by the unique beginning of an id or a name.
pub(crate) async fn looked_up(client: &Client, agent: &AgentName, prefix: bool) -> Result<Box<RawValue>> {
    let query = OneAgentQuery { prefix: prefix.then_some(true) };
    Ok(client.get(&agent.path(), &query).await?)
}

fn updated(verb: Verb<'_>, id: &AgentName, json: &RawValue) -> Result<Exit> {
    let output = verb.output;
    if let Ok(pending) = serde_json::from_str::<CallPending>(json.get()) {
        return call::pending(verb, json, &pending);
    }
    let update: UpdateReply = typed(json)?;
    let exit = if update.ok { Exit::Done } else { Exit::Failed };
    if output.json {
        output.raw_json(json)?;
    } else if update.ok {
        output.text(&format!("{id} takes version {} (sha256 {})", show::clean(&update.version), update.sha256))?;
    } else {
        let text = |name: &str| {
            let error = update.call.get("error").and_then(|e| e.get(name)).and_then(Value::as_str);
            show::clean(error.unwrap_or_default())
        };
        output.note(format_args!(
            "error: {id} did not take version {}: {} ({})",
            update.version,
            text("message"),
            text("code")
        ));
    }
    Ok(exit)
}

/// What an agent says of itself that people look for.
#[derive(Default, serde::Deserialize)]
struct Meta {
    /// What a Sonde agent is called; its id is a number.
    #[serde(default)]
    name: Option<Value>,
    #[serde(default)]
    hostname: Option<Value>,
    #[serde(default)]
    os: Option<Value>,
    #[serde(default)]
    version: Option<Value>,
}

fn meta(agent: &Agent) -> Meta {
    agent.meta.as_ref().and_then(|meta| serde_json::from_str(meta.get()).ok()).unwrap_or_default()
}

fn said(value: &Option<Value>) -> &str {
    value.as_ref().and_then(Value::as_str).unwrap_or("-")
}

fn list(agents: &[Agent], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["ID", "STATE", "TRUST", "HEALTH", "HOST", "OS", "VERSION", "TAGS", "LAST SEEN"]);
    for agent in agents {
        let meta = meta(agent);
        let seen = agent.last_seen.map_or_else(|| "never".into(), |at| when::shown(at, now));
        grid.row([
            agent.id.as_str().into(),
            state(agent),
            Field::state(agent.trust.name()),
            Field::state(&agent.health),
            host(agent, &meta).into(),
            said(&meta.os).into(),
            said(&meta.version).into(),
            show::list(&agent.tags).into(),
            seen.into(),
        ]);
    }
    grid
}

/// Where it runs, and of a Sonde agent its name, by which it is probed.
fn host(agent: &Agent, meta: &Meta) -> String {
    let hostname = said(&meta.hostname);
    match meta.name.as_ref().and_then(Value::as_str) {
        Some(name) if agent.id.starts_with("sonde:") && name != hostname => format!("{name} ({hostname})"),
        _ => hostname.to_owned(),
    }
}

/// Its liveness; that remote control is switched off at the machine matters as much.
fn state(agent: &Agent) -> Field {
    match agent.remote_control {
        Some(false) => Field::new(format!("{}, switched off", agent.liveness), Tone::Warn),
        _ => Field::state(agent.liveness.name()),
    }
}

fn sheet(agent: &Agent, now: Timestamp) -> Grid {
    let time = |at: Option<Timestamp>| at.map(|at| when::shown(at, now));
    let mut grid = Grid::facts();
    grid.fact("id", agent.id.as_str());
    grid.fact("state", state(agent));
    grid.fact("trust", Field::state(agent.trust.name()));
    grid.fact("health", Field::state(&agent.health));
    grid.fact("tags", show::list(&agent.tags));
    grid.fact("last seen", time(agent.last_seen).unwrap_or_else(|| "never".into()));
    grid.fact_if("connected", time(agent.connected_at));
    grid.fact_if("offline since", time(agent.offline_since));
    grid.fact_if("signed in with", agent.auth.as_deref());
    grid.fact_if("enrolled", time(agent.enrolled_at));
    grid.fact_if("key (sha256)", agent.key_fingerprint.as_deref());
    let version = agent.protocol_version.as_deref();
    grid.fact("protocol", format!("{} {}", agent.protocol, version.unwrap_or_default()).trim_end());
    for tunnel in &agent.tunnels {
        let name = tunnel.name.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
        let state = if tunnel.online { "online" } else { "offline" };
        grid.fact("second tunnel", format!("{} ({name}{state}, {})", tunnel.id, tunnel.how));
    }
    let meta = agent.meta.as_ref().and_then(|meta| serde_json::from_str::<Map<String, Value>>(meta.get()).ok());
    for (name, value) in meta.into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        grid.fact(&format!("meta {name}"), text);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents() -> Vec<Agent> {
        let text = r#"[
            {"id":"pc-1","protocol":"kenny","online":true,"trust":"trusted","liveness":"online","health":"warn",
             "meta":{"hostname":"PC\u001b[31m","os":"linux","version":"1.2"},"protocol_version":"0.17",
             "remote_control":false,"auth":"signature","tags":["lab","x"],"last_seen":"2026-06-04T18:00:00.000Z",
             "key_fingerprint":"ab12"},
            {"id":"pc-2","protocol":"kenny","online":false,"trust":"pending","liveness":"offline","health":"unknown",
             "tags":[]}]"#;
        serde_json::from_str(text).expect("agents")
    }

    fn now() -> Timestamp {
        Timestamp::parse("2026-06-04T18:03:00Z").expect("a time")
    }

    #[test]
    fn the_list_shows_who_is_there() {
        insta::assert_snapshot!(list(&agents(), now()).render_plain());
    }

    #[test]
    fn one_agent_is_shown_with_all_that_is_known() {
        insta::assert_snapshot!(sheet(&agents()[0], now()).render_plain());
    }
}
