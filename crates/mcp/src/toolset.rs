//! Tools and who brings them. MCP itself knows no protocol: each brings its tools as a [`Toolset`], and they are put
//! together, in order, where the hub is.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use convoke_core::effect::Effect;
use convoke_core::grant::{Grant, Missing};
use convoke_core::json;
use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::server::McpCaller;
use convoke_doors::{ApiError, extract};
use convoke_gate::calls::Call;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::part::Part;

/// The argument that names an agent.
pub const AGENT: &str = "agent";
/// The argument that bounds a call.
pub const TIMEOUT: &str = "timeout_s";

/// Said of every tool that does more than look.
pub const NEEDS_A_PERSON: &str = " Needs a person's approval, unless the hub's policy says otherwise.";

/// What a tool needs.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// To see the fleet: every token may, each within its reach.
    View,
    /// That the agent it names is within reach.
    Reach,
    /// The right to one of the calls that it makes, agent by agent.
    AnyOf(AnyOf),
    /// The right to the call of its own name, which has this effect, on the agent it names.
    Call(Effect),
    /// The right to what goes by the tool's own name and has this effect.
    Named(Effect),
}

/// Calls of which a caller must have the right to one.
#[derive(Clone, Copy, Debug)]
pub struct AnyOf {
    /// Whether a caller has. What is missing for the one that needs least, where not.
    pub check: fn(&Grant) -> Result<(), Missing>,
    /// The scope that a token narrowed to other tools would need.
    pub scope: &'static str,
}

/// One tool.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it needs.
    pub need: Need,
    /// As clients see it. Cheap to clone: the schemas are shared.
    pub tool: Tool,
    /// Whether what a machine answered has the shape that the output schema promises for `result`.
    pub fits: fn(&str, &Value) -> bool,
    /// The member of a machine's answer that is a picture in base64, where there is one.
    pub picture: Option<&'static str>,
    /// Whether the result of a call is the hub's own words, and not what a machine answered.
    pub own: fn(&Call) -> bool,
}

impl Entry {
    /// A tool whose answers may have any shape.
    pub fn new(
        name: &'static str,
        need: Need,
        doc: String,
        input: Value,
        output: Value,
        hints: ToolAnnotations,
    ) -> Self {
        // The list lives as long as the program, and a tool is cloned for every call that the SDK checks against it.
        let doc: &'static str = Box::leak(doc.into_boxed_str());
        let mut tool = Tool::new(name, doc, object(input)).with_raw_output_schema(object(output));
        tool.annotations = Some(hints);
        Self { name, need, tool, fits: |_, _| true, picture: None, own: |_| false }
    }

    /// Whether a caller may ever use it.
    pub fn check(&self, grant: &Grant) -> Result<(), Missing> {
        match self.need {
            Need::View | Need::Reach => Ok(()),
            Need::Call(effect) | Need::Named(effect) => grant.check_tool(effect, self.name),
            Need::AnyOf(any) => (any.check)(grant),
        }
    }

    /// The scope a caller would need, as `WWW-Authenticate` names it: with it, and nothing else, this would be allowed.
    pub fn scope(&self, missing: &Missing) -> String {
        let effect = match self.need {
            Need::Call(effect) | Need::Named(effect) => effect,
            // Others are there for calls of several kinds; to look is the least of them.
            Need::View | Need::Reach | Need::AnyOf(_) => Effect::Observe,
        };
        match (self.need, missing) {
            (_, Missing::Role { .. } | Missing::Scope("effects")) => effect.name().into(),
            // A token is narrowed to what such a tool asks machines for, and not to the tool.
            (Need::AnyOf(any), _) => any.scope.into(),
            _ => format!("tools:{}", self.name),
        }
    }
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::default(),
    }
}

/// One call of a tool: whose hub, who asks, and the SDK's request.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    pub hub: &'a Hub,
    pub asker: &'a McpCaller,
    pub context: &'a RequestContext<RoleServer>,
}

/// The answer of a tool. An error becomes the tool's result.
pub type Answering<'a> = BoxFuture<'a, Result<CallToolResponse, ApiError>>;

/// How one caller is shown each of some tools.
pub type Listing<'a> = Box<dyn Fn(&Entry) -> Option<Tool> + Send + 'a>;

/// Tools that somebody brings: the hub itself, or a protocol for its agents.
pub trait Toolset: Debug + Send + Sync {
    /// The tools, in the order in which they are listed.
    fn tools(&self) -> Vec<Entry>;

    /// Carries out a call of one of them, which the caller may use.
    fn call<'a>(&'a self, cx: Cx<'a>, request: CallToolRequestParams) -> Answering<'a>;

    /// A look at the machines within a caller's reach, and then: each tool as this caller is shown it, or nothing where none
    /// of the machines has it.
    fn listing<'a>(&'a self, hub: &'a Hub, caller: &'a Caller) -> Listing<'a> {
        let _ = (hub, caller);
        Box::new(|entry| Some(entry.tool.clone()))
    }

    /// Instructions on them for an assistant that connects: sentences, or nothing.
    fn instructions(&self) -> &'static str {
        ""
    }
}

/// All tools, of all who bring some.
#[derive(Debug)]
pub struct Tools {
    sets: Vec<Box<dyn Toolset>>,
    /// Each with the place of its set.
    entries: Vec<(usize, Entry)>,
    by_name: HashMap<&'static str, usize>,
}

/// Where a hub keeps its tools.
#[derive(Debug)]
pub struct AllTools(pub &'static Tools);

impl Part for AllTools {}

impl Tools {
    /// Those of this hub.
    pub fn of(hub: &Hub) -> &'static Self {
        hub.part::<AllTools>().0
    }

    /// Puts them together. Of two of one name, the first is called.
    pub fn new(sets: Vec<Box<dyn Toolset>>) -> Self {
        let mut entries = Vec::new();
        for (n, set) in sets.iter().enumerate() {
            entries.extend(set.tools().into_iter().map(|entry| (n, entry)));
        }
        let mut by_name = HashMap::new();
        for (n, (_, entry)) in entries.iter().enumerate() {
            by_name.entry(entry.name).or_insert(n);
        }
        Self { sets, entries, by_name }
    }

    /// Every tool, in order. Names and order are stable.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> + '_ {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|n| &self.entries[*n].1)
    }

    /// The tools a caller may ever use.
    pub fn visible<'a>(&'a self, grant: &'a Grant) -> impl Iterator<Item = &'a Entry> + 'a {
        self.iter().filter(|entry| entry.check(grant).is_ok())
    }

    /// The tools that a caller is shown: those it may use and that a machine in its reach has.
    pub(super) fn shown_to(&self, hub: &Hub, caller: &Caller) -> Vec<Tool> {
        let listings: Vec<_> = self.sets.iter().map(|set| set.listing(hub, caller)).collect();
        let usable = self.entries.iter().filter(|(_, entry)| entry.check(&caller.token.grant).is_ok());
        usable.filter_map(|(set, entry)| listings[*set](entry)).collect()
    }

    /// Runs a tool of the list.
    pub(super) fn call<'a>(&'a self, cx: Cx<'a>, request: CallToolRequestParams) -> Answering<'a> {
        match self.by_name.get(&*request.name) {
            Some(n) => self.sets[self.entries[*n].0].call(cx, request),
            None => Box::pin(std::future::ready(Err(ApiError::internal()))),
        }
    }

    /// The instructions for an assistant that connects: the sets' own between these two.
    pub(super) fn instructions(&self, begin: &str, end: &str) -> String {
        let sets: String = self.sets.iter().map(|set| set.instructions()).collect();
        [begin, &sets, end].concat()
    }
}

/// What a tool shows.
pub type Shown = Result<CallToolResult, ApiError>;

/// A tool's arguments as its own type.
pub fn args<T: DeserializeOwned>(args: JsonObject) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(Value::Object(args))
        .map_err(|why| ApiError::bad_request(format!("invalid arguments: {}", extract::misfit(&why))))
}

/// As a value, with what machines said in it tamed.
pub fn value(of: &impl Serialize) -> Result<Value, ApiError> {
    let read = serde_json::to_string(of).and_then(|text| serde_json::from_str(&json::tame(&text)));
    read.map_err(|why| {
        tracing::error!(%why, "cannot show a page");
        ApiError::internal()
    })
}

/// Most bytes of what machines said that one answer shows.
pub fn budget(hub: &Hub) -> usize {
    hub.settings.mcp.max_result_bytes
}

/// The entries of a page.
pub fn listed<'a>(page: &'a Value, key: &str) -> &'a [Value] {
    page[key].as_array().map_or(&[], Vec::as_slice)
}

/// Said of a page that another follows.
pub fn more(page: &Value) -> &'static str {
    match page.get("next") {
        Some(_) => " There may be more: ask again with the answer's `next` as `after`.",
        None => "",
    }
}
