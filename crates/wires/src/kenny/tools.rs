//! The catalogue's tools as MCP tools: each on one agent, and one on many.

mod many;
pub(crate) mod offered;
mod shape;

use convoke_core::effect::Effect;
use convoke_kenny::tools::{self as kenny, Tool as KennyTool};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, ToolAnnotations};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_mcp::Sessions;
use convoke_mcp::call::{self, Wanted, agent_required, seconds};
use convoke_mcp::toolset::{AGENT, Answering, Cx, Listing, NEEDS_A_PERSON, TIMEOUT, Toolset};
use convoke_mcp::{Entry, McpCaller, Need, render, schema};

pub use many::ManyTools;
use offered::Offered;

/// Where a screenshot has its picture.
const PICTURE: &str = "image_b64";

/// Every tool of the catalogue, under its own name with its own arguments.
#[derive(Debug)]
pub struct Catalogue;

impl Toolset for Catalogue {
    fn tools(&self) -> Vec<Entry> {
        kenny::TOOLS.iter().map(forwarded).collect()
    }

    fn listing<'a>(&'a self, hub: &'a Hub, caller: &'a Caller) -> Listing<'a> {
        let offered = Offered::to(hub, caller);
        Box::new(move |entry| offered.has(entry.name).then(|| entry.tool.clone()))
    }

    fn call<'a>(&'a self, cx: Cx<'a>, request: CallToolRequestParams) -> Answering<'a> {
        Box::pin(async move {
            let tool = kenny::find(&request.name).ok_or_else(ApiError::internal)?;
            Ok(one(cx, tool, request).await)
        })
    }
}

/// Calls a tool of one agent.
async fn one(cx: Cx<'_>, tool: &'static KennyTool, request: CallToolRequestParams) -> CallToolResponse {
    let CallToolRequestParams { arguments, request_state, input_responses, .. } = request;
    match want(cx.hub, cx.asker, tool, arguments.unwrap_or_default()).await {
        Ok(wanted) => call::carry_out(cx.hub, cx.asker, wanted, request_state, input_responses, cx.context).await,
        Err(refused) => (*refused).into(),
    }
}

/// Reads the arguments: the hub's own are taken out, the tool's are checked, the machine is found.
async fn want(
    hub: &Hub,
    asker: &McpCaller,
    tool: &'static KennyTool,
    mut args: JsonObject,
) -> Result<Wanted, Box<CallToolResult>> {
    let bad = |message: String| Box::new(render::error("bad_args", &message));
    let agent = match args.remove(AGENT) {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(_) => return Err(bad("`agent` must be an agent's id".into())),
    };
    let timeout = if tool.arg(TIMEOUT).is_some() { None } else { seconds(args.remove(TIMEOUT)).map_err(bad)? };
    let read = Value::Object(args);
    kenny::validate_args(tool.name, &read).map_err(bad)?;
    let args = to_raw_value(&read).map_err(|why| bad(why.to_string()))?;
    let id = agent.map_or_else(|| selected(hub, asker, tool), Ok)?;
    let agent = in_reach(hub, &asker.caller, &id).await.map_err(|error| Box::new(render::api_error(&error)))?;
    Ok(Wanted { agent, tool: tool.name.into(), effect: tool.effect, args, timeout })
}

/// The machine that a call without `agent` goes to. Without a session the selection is the token's, which other chats
/// may share: it serves only to look.
fn selected(hub: &Hub, asker: &McpCaller, tool: &KennyTool) -> Result<String, Box<CallToolResult>> {
    let session = asker.session.as_deref();
    if session.is_none() && tool.effect > Effect::Observe {
        return Err(Box::new(agent_required(
            "name the machine with `agent`: without a session, a selection applies only to tools that look",
        )));
    }
    match Sessions::of(hub).selected(session, asker.caller.token.id) {
        Some(agent) => Ok(agent.as_str().to_owned()),
        None => Err(Box::new(agent_required(
            "name the machine with `agent`, or choose one with `select_agent`; `list_agents` shows them",
        ))),
    }
}

fn forwarded(tool: &'static KennyTool) -> Entry {
    let mut input = tool.input_schema();
    let agent = "Default: the one of `select_agent`.";
    input["properties"][AGENT] = json!({ "type": "string", "description": agent });
    if tool.arg(TIMEOUT).is_none() {
        input["properties"][TIMEOUT] = json!({ "type": "integer", "minimum": 1 });
    }
    let mut doc = tool.doc.to_owned();
    if tool.effect > Effect::Observe {
        doc.push_str(NEEDS_A_PERSON);
    }
    let hints = ToolAnnotations::from_raw(
        None,
        Some(tool.effect == Effect::Observe),
        Some(tool.destructive),
        Some(tool.idempotent),
        Some(true),
    );
    let output = schema::outcome(shape::result_of(tool));
    let mut entry = Entry::new(tool.name, Need::Call(tool.effect), doc, input, output, hints);
    entry.fits = shape::fits;
    entry.picture = (tool.name == shape::SCREEN).then_some(PICTURE);
    entry
}
