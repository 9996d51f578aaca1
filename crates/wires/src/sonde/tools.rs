//! Sonde's tools: probes, runbooks, and what there is to ask. Whatever they ask of an agent passes the gate probe by
//! probe, and is recorded so.

mod list;

use convoke_api::record::JournalQuery;
use convoke_core::effect::Effect;
use convoke_core::grant::{Grant, Missing};
use convoke_core::id::PeerId;
use convoke_core::journal::Kind;
use convoke_sonde::builtin;
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ask::{self, AskError, ProbeAsk};
use super::diagnose::{self, Whom};
use super::overview;
use crate::Wires;
use crate::joined::prober;
use crate::kenny::tools::offered::Offered;
use convoke_doors::ApiError;
use convoke_gate::calls::Ask;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_mcp::Sessions;
use convoke_mcp::call::{self, Wanted};
use convoke_mcp::fleet::{JOURNAL_LIMIT, MAX_JOURNAL_LIMIT, newest_records};
use convoke_mcp::page::{self, Keep};
use convoke_mcp::render::{self, Outcome};
use convoke_mcp::toolset::{Answering, Cx, Listing, Shown, Toolset, args, budget, listed};
use convoke_mcp::{Entry, McpCaller, progress};

/// The tool for one probe.
const PROBE: &str = "probe";

/// Probes, runbooks, and what there is to ask.
#[derive(Debug)]
pub struct SondeTools;

impl Toolset for SondeTools {
    fn tools(&self) -> Vec<Entry> {
        list::tools()
    }

    fn listing<'a>(&'a self, hub: &'a Hub, caller: &'a Caller) -> Listing<'a> {
        let has_probes = Offered::to(hub, caller).probes;
        Box::new(move |entry| has_probes.then(|| entry.tool.clone()))
    }

    fn call<'a>(&'a self, cx: Cx<'a>, request: CallToolRequestParams) -> Answering<'a> {
        let Cx { hub, asker, context } = cx;
        Box::pin(async move {
            let hub = &Wires::of(hub);
            if request.name == PROBE {
                return Ok(probe(hub, asker, request, context).await);
            }
            let given = request.arguments.unwrap_or_default();
            let shown = match &*request.name {
                "diagnose" => diagnose(hub, asker, given, context).await,
                "list_capabilities" => capabilities(hub, asker, given).await,
                "agent_overview" => agent(hub, asker, given).await,
                "health_check" => health_check(hub, asker, given, context).await,
                "query_logs" => query_logs(hub, asker, given, context).await,
                _ => Err(ApiError::internal()),
            };
            shown.map(Into::into)
        })
    }

    fn instructions(&self) -> &'static str {
        " Sonde agents are asked with `probe` and `diagnose`; `list_capabilities` shows for what, and `health_check` asks \
         them all."
    }
}

/// Whether a caller may ever ask for a probe: one that is built in, or one of a pack that an agent brings.
fn check(grant: &Grant) -> Result<(), Missing> {
    let built_in = builtin::packs().iter().flat_map(|m| m.probes.iter().map(|p| format!("{}.{}", m.name, p.name)));
    // Every probe has a dot in its name; no other tool has.
    let foreign = grant.scopes.tools.iter().flatten().filter(|glob| glob.contains('.')).cloned();
    let mut missing = None;
    for name in built_in.chain(foreign) {
        for effect in Effect::ALL {
            match grant.check_tool(effect, &name) {
                Ok(()) => return Ok(()),
                Err(why) => missing = missing.or(Some(why)),
            }
        }
    }
    Err(missing.unwrap_or(Missing::Scope("tools")))
}

/// The machine that is selected, if it answers probes. One that does not says nothing about which is meant.
fn chosen(hub: &Wires, asker: &McpCaller) -> Option<PeerId> {
    let selected = Sessions::of(hub).selected(asker.session.as_deref(), asker.caller.token.id);
    selected.filter(|id| prober(hub, id).is_some())
}

/// Why nobody can be asked for a probe.
enum NobodyMeant {
    /// It was not said whom, and this must be said.
    Unsaid,
    Refused(AskError),
}

impl From<AskError> for NobodyMeant {
    fn from(error: AskError) -> Self {
        Self::Refused(error)
    }
}

/// The agent that a probe is asked of: the one that is named, else the selected one, else, for a probe that only looks,
/// the only one that has it. A selection without a session is the token's, and other chats may share it: it, too, serves
/// only to look.
async fn meant(hub: &Wires, asker: &McpCaller, agent: Option<String>, probe: &str) -> Result<String, NobodyMeant> {
    if let Some(agent) = agent {
        return Ok(agent);
    }
    let (sonde, in_session) = match chosen(hub, asker) {
        Some(id) => {
            let sonde = ask::find(hub, &asker.caller, id.as_str()).await?.0;
            if !sonde.offers(probe) {
                let probe = &probe[..probe.floor_char_boundary(128)];
                let message = format!("the selected {id} does not have `{probe}`; name another as `agent`");
                return Err(AskError::Bad(message).into());
            }
            (sonde, asker.session.is_some())
        }
        None => {
            let pack = probe.split('.').next().unwrap_or_default();
            (ask::only_one(hub, &asker.caller, &[pack])?, false)
        }
    };
    if !in_session && sonde.effect_of(probe) > Effect::Observe {
        return Err(NobodyMeant::Unsaid);
    }
    Ok(sonde.wire_id.clone())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeArgs {
    probe: String,
    agent: Option<String>,
    params: Option<Map<String, Value>>,
    timeout_s: Option<Value>,
}

/// `probe`.
async fn probe(
    hub: &Wires,
    asker: &McpCaller,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> CallToolResponse {
    let CallToolRequestParams { arguments, request_state, input_responses, .. } = request;
    match wanted(hub, asker, arguments.unwrap_or_default()).await {
        Ok(Ok(wanted)) => call::carry_out(hub, asker, wanted, request_state, input_responses, context).await,
        Ok(Err(refused)) => (*refused).into(),
        Err(error) => render::api_error(&error).into(),
    }
}

/// A probe as it is asked for, not yet placed.
async fn wanted(
    hub: &Wires,
    asker: &McpCaller,
    given: JsonObject,
) -> Result<Result<Wanted, Box<CallToolResult>>, ApiError> {
    let ProbeArgs { probe, agent, params, timeout_s } = args(given)?;
    let timeout = call::seconds(timeout_s).map_err(ApiError::bad_request)?;
    let params = Some(raw(params.unwrap_or_default())?);
    let agent = match meant(hub, asker, agent, &probe).await {
        Ok(agent) => agent,
        Err(NobodyMeant::Unsaid) => return Ok(Err(Box::new(call::say_which()))),
        Err(NobodyMeant::Refused(error)) => return Err(error.into()),
    };
    let ask = ProbeAsk { agent: Some(&agent), probe: &probe, params, timeout, requested_by: "api" };
    let (sonde, ask) = ask::prepare(hub, &asker.caller, ask).await?;
    let Ask { agent, args, timeout, .. } = ask;
    let effect = sonde.effect_of(&probe);
    Ok(Ok(Wanted { agent, tool: probe.into(), effect, args, timeout }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiagnoseArgs {
    category: String,
    agent: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
    params: Option<Map<String, Value>>,
}

async fn diagnose(hub: &Wires, asker: &McpCaller, given: JsonObject, context: &RequestContext<RoleServer>) -> Shown {
    let DiagnoseArgs { category, agent, params, .. } = args(given)?;
    let params = params.map(|p| Value::Object(p).to_string());
    // It only looks, so that a token's selection will do.
    let chosen = chosen(hub, asker);
    let whom = match (&agent, &chosen) {
        (Some(name), _) => Whom::Named(name),
        (None, Some(id)) => Whom::Chosen(id.as_str()),
        (None, None) => Whom::Anyone,
    };
    let run = diagnose::diagnose(hub, &asker.caller, whom, &category, params.as_deref());
    match progress::wait(hub, context, || "the runbook".into(), run).await {
        None => Ok(gave_up()),
        Some(Ok(diagnosis)) => {
            let (run, good, _) = diagnosis.counts;
            let skipped = skipped(diagnosis.skipped.len());
            let line = format!("{good} of {run} probes succeeded; {} findings.{skipped}", diagnosis.findings.len());
            Ok(render::listing(&line, diagnosis.shown, budget(hub)))
        }
        Some(Err(error)) => refused(hub, error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TagArgs {
    #[serde(default)]
    tags: Vec<String>,
}

async fn capabilities(hub: &Wires, asker: &McpCaller, given: JsonObject) -> Shown {
    let TagArgs { tags } = args(given)?;
    let shown = overview::capabilities(hub, &asker.caller, &tags).await;
    let count = |name: &str| shown[name].as_array().map_or(0, Vec::len);
    let line = format!("{} Sonde agents, {} runbooks.", count("agents"), count("runbookCategories"));
    Ok(render::listing(&line, shown, budget(hub)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentArgs {
    agent: String,
}

async fn agent(hub: &Wires, asker: &McpCaller, given: JsonObject) -> Shown {
    let AgentArgs { agent } = args(given)?;
    let sonde = match ask::find(hub, &asker.caller, &agent).await {
        Ok((sonde, _)) => sonde,
        Err(AskError::Bad(_)) => return Err(ApiError::no_agent(&agent)),
        Err(error) => return refused(hub, error),
    };
    let shown = overview::agent(hub, &sonde);
    let line = format!("The agent is {}.", shown["status"].as_str().unwrap_or_default());
    Ok(render::listing(&line, shown, budget(hub)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HealthArgs {
    agent: Option<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
}

async fn health_check(
    hub: &Wires,
    asker: &McpCaller,
    given: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Shown {
    let HealthArgs { agent, categories, tags } = args(given)?;
    let check = overview::health_check(hub, &asker.caller, agent.as_deref(), &categories, &tags);
    match progress::wait(hub, context, || "the health check".into(), check).await {
        None => Ok(gave_up()),
        Some(Ok(shown)) => {
            let count = |name: &str| shown["summary"][name].as_u64().unwrap_or_default();
            let agents = |name: &str| shown["meta"][name].as_array().map_or(0, Vec::len);
            let line = format!(
                "{} agents checked, {} offline: {} critical, {} warning, {} info.{}",
                agents("agents"),
                agents("offlineAgents"),
                count("critical"),
                count("warning"),
                count("info"),
                skipped(usize::try_from(count("probesSkipped")).unwrap_or(usize::MAX))
            );
            Ok(render::listing(&line, shown, budget(hub)))
        }
        Some(Err(error)) => refused(hub, error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogArgs {
    source: String,
    agent: Option<String>,
    params: Option<Map<String, Value>>,
}

async fn query_logs(
    hub: &Wires,
    asker: &McpCaller,
    given: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Shown {
    let LogArgs { source, agent, params } = args(given)?;
    if source == "audit" {
        return audit(hub, asker, agent, params.unwrap_or_default()).await;
    }
    let (probe, params) = overview::log_probe(&source, params.unwrap_or_default()).map_err(ApiError::bad_request)?;
    let params = Some(raw(params)?);
    let agent = match meant(hub, asker, agent, probe).await {
        Ok(agent) => agent,
        Err(NobodyMeant::Unsaid) => return Ok(call::say_which()),
        Err(NobodyMeant::Refused(error)) => return refused(hub, error),
    };
    let ask = ProbeAsk { agent: Some(&agent), probe, params, timeout: None, requested_by: "api" };
    let (sonde, call) = match ask::start(hub, &asker.caller, ask).await {
        Ok(started) => started,
        Err(error) => return refused(hub, error),
    };
    let followed = call::follow(hub, &call, context).await;
    let reply = ask::ended(sonde, probe.to_owned(), call).await;
    if reply.outcome.is_err() {
        // In the machine's words or the hub's, and marked as either.
        return Ok(followed);
    }
    Ok(render::listing("The newest log lines.", overview::log_lines(&source, &reply), budget(hub)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditArgs {
    limit: Option<u32>,
    probe: Option<String>,
}

/// The hub's own record of calls, as far as this caller may see it.
async fn audit(hub: &Wires, asker: &McpCaller, agent: Option<String>, params: Map<String, Value>) -> Shown {
    let AuditArgs { limit, probe } = args(params)?;
    let agent = match agent {
        None => None,
        Some(name) => match ask::find(hub, &asker.caller, &name).await {
            Ok((sonde, _)) => Some(sonde.id.as_str().to_owned()),
            Err(error) => return refused(hub, error),
        },
    };
    let limit = limit.unwrap_or(JOURNAL_LIMIT).clamp(1, MAX_JOURNAL_LIMIT);
    let kind = Some(Kind::Call.name().to_owned());
    let query = JournalQuery { limit: Some(limit), agent, tool: probe, kind, ..JournalQuery::default() };
    let page = newest_records(hub, asker, query, None, limit as usize).await?;
    let mut shown = json!({ "source": "audit", "entries": page.records });
    page::fit(&mut shown, "entries", budget(hub), Keep::Last);
    let count = listed(&shown, "entries").len();
    shown["count"] = count.into();
    let line = format!("{count} records of the hub.");
    Ok(render::listing(&line, shown, budget(hub)))
}

fn raw(params: Map<String, Value>) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(Value::Object(params).to_string()).map_err(|_| ApiError::internal())
}

/// Said of probes that a run has left out.
fn skipped(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => format!(" Probes left out, with the reason beside each: {count}. `probe` asks for them, one by one."),
    }
}

fn gave_up() -> CallToolResult {
    render::error("cancelled", "the client stopped waiting; probes that were asked for may still finish")
}

/// Why nothing was asked. A call that waits for a person is told as such.
fn refused(hub: &Wires, error: AskError) -> Shown {
    if let AskError::Pending { call_id, approval, expires_at } = &error
        && let Some(call) = hub.calls.find(*call_id)
    {
        return Ok(Outcome::pending(&call, *approval, *expires_at, &hub.base_url()).into_result());
    }
    Err(error.into())
}
