//! Calls of the hub: each checked in the contract's order (the endpoint's policy, arguments, handler), run beside the
//! others within a bound, and answered once.
//!
//! A call outlives the tunnel it came through: one that resets the network adapter must not be killed half-way because
//! the tunnel it was asked through is gone. Its answer is then dropped and noted in the log; its deadline holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_core::guard::{AppliesTo, Hit, Surface};
use convoke_kenny::frame::{self, ErrorCode};
use convoke_kenny::tools;
use convoke_machine::{Call, Machine, ToolError};
use convoke_probes::Probes;
use convoke_socket::queue::{Item, Queue, Rank};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::files::{self, Files};
use crate::fit::{TooLarge, fit};
use crate::policy::{self, Policy};
use crate::probe::{self, ProbeRequest};
use crate::telemetry::Own;
use crate::update::Updater;

/// No call runs longer, whatever it asks for.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Waiting that a call is not charged for; the hub adds as much and more to its deadline.
const GRACE: Duration = Duration::from_secs(3);
/// The argument that says how long the hub waits.
const PATIENCE: &str = "timeout_s";
/// Longest name of a tool that is repeated.
const MAX_TOOL: usize = 128;

/// Something for the tunnel to send.
#[derive(Debug)]
pub(crate) enum Out {
    /// A frame.
    Frame(String),
    /// The last frame before a restart.
    Farewell(String),
    /// See whether the hub is still there: the machine may have slept.
    Probe,
    /// Log lines wait.
    Logs,
    /// Close the tunnel: the agent stops.
    Stop,
}

impl Item for Out {
    const MAX_MESSAGES: usize = 16;
    /// Above the largest frame that a hub takes.
    const MAX_BYTES: usize = 512 * 1024 * 1024;

    fn rank(&self) -> Rank {
        match self {
            Self::Frame(_) | Self::Farewell(_) | Self::Probe => Rank::Message,
            Self::Logs => Rank::Hint,
            Self::Stop => Rank::First,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Frame(frame) | Self::Farewell(frame) => frame.len(),
            Self::Probe | Self::Logs | Self::Stop => 0,
        }
    }
}

/// The way back through one tunnel.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) queue: Arc<Queue<Out>>,
    /// The largest frame that the hub takes.
    pub(crate) limit: usize,
    /// It is a hub of ours, and no kenny server.
    pub(crate) is_ours: bool,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Uuid,
    pub(crate) tool: String,
    pub(crate) args: Box<RawValue>,
    /// The only folders below which files may be read for it.
    pub(crate) below: Option<Vec<String>>,
}

/// What answers calls.
#[derive(Debug)]
pub(crate) struct Calls {
    machine: Machine,
    /// None where they could not be loaded.
    probes: Option<Arc<Probes>>,
    own: Own,
    policy: Policy,
    updater: Updater,
    files: Files,
    places: Semaphore,
    most: usize,
    /// Calls that wait or run.
    present: AtomicUsize,
    most_present: usize,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Why a call was not answered with a result.
struct Refusal {
    code: ErrorCode,
    message: String,
}

impl From<ToolError> for Refusal {
    fn from(error: ToolError) -> Self {
        Self { code: error.code, message: error.message }
    }
}

fn refuse<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { code, message: message.into() })
}

impl From<policy::Refusal> for Refusal {
    fn from(refusal: policy::Refusal) -> Self {
        let code = match refusal {
            policy::Refusal::SwitchedOff => ErrorCode::Disabled,
            policy::Refusal::Blocked(_) | policy::Refusal::OverLimit(_) => ErrorCode::Blocked,
            policy::Refusal::Failed => ErrorCode::Internal,
        };
        Self { code, message: refusal.to_string() }
    }
}

/// A call, as the endpoint's policy reads it.
struct ToolCall {
    tool: String,
    args: Value,
    updater: Updater,
}

impl policy::Request for ToolCall {
    fn changes_machine(&self) -> bool {
        tools::is_mutating(&self.tool)
    }

    fn surfaces(&self) -> Vec<Surface<'_>> {
        tools::guard_surfaces(&self.tool, &self.args)
    }

    fn shell_command(&self) -> Option<(AppliesTo, &str)> {
        shell_command(&self.tool, &self.args)
    }

    /// An update comes from known hosts only.
    fn over_limit(&self) -> Option<policy::Refusal> {
        let reason = (self.tool == "agent_update").then(|| self.updater.check_source(&self.args).err())??;
        Some(policy::Refusal::Blocked(Hit { rule: "update_host".into(), reason, builtin: true }))
    }
}

/// A command that is not there, or is no text, is empty: no list of a shell policy has it.
pub(crate) fn shell_command<'a>(tool: &str, args: &'a Value) -> Option<(AppliesTo, &'a str)> {
    let (group, argument) = match tool {
        "powershell_exec" => (AppliesTo::Powershell, "script"),
        "shell_exec" => (AppliesTo::Posix, "command"),
        _ => return None,
    };
    Some((group, args.get(argument).and_then(Value::as_str).unwrap_or_default()))
}

/// What a request asks for, once the endpoint's policy has let it pass.
enum Work {
    Tool(String, Map<String, Value>),
    Probe(ProbeRequest),
    ProbeList(Arc<Probes>),
}

impl Work {
    fn changes_machine(&self) -> bool {
        match self {
            Self::Tool(tool, _) => tools::is_mutating(tool),
            Self::Probe(request) => policy::Request::changes_machine(request),
            Self::ProbeList(_) => false,
        }
    }
}

/// What a handler came to.
enum Done {
    Result(Value),
    /// An update is in place: answer, then restart.
    Staged(Value),
}

impl Calls {
    pub(crate) fn new(
        (machine, probes): (Machine, Option<Arc<Probes>>),
        own: Own,
        policy: Policy,
        (updater, files): (Updater, Files),
        (most, most_waiting): (usize, usize),
        stop: CancellationToken,
    ) -> Self {
        Self {
            machine,
            probes,
            own,
            policy,
            updater,
            files,
            places: Semaphore::new(most),
            most,
            present: AtomicUsize::new(0),
            most_present: most.saturating_add(most_waiting),
            stop,
            tasks: TaskTracker::new(),
        }
    }

    /// Whether the agent answers probes.
    pub(crate) fn has_probes(&self) -> bool {
        self.probes.is_some()
    }

    /// Starts a call. Returns at once; the answer goes to `reply`.
    pub(crate) fn start(self: &Arc<Self>, request: Request, reply: Reply) {
        let calls = Arc::clone(self);
        self.tasks.spawn(async move {
            let (id, tool) = (request.id, clip(&request.tool));
            // In a task of its own, so that a panic costs its call an answer of `internal` and nothing else.
            let work = tokio::spawn(Arc::clone(&calls).answer(request, reply.limit, reply.is_ours));
            let out = work.await.unwrap_or_else(|_| {
                let message = "the agent failed in this call; its log has more";
                Out::Frame(frame::response_error(id, &ErrorCode::Internal, message))
            });
            let staged = matches!(out, Out::Farewell(_));
            if reply.queue.send(out).await.is_err() {
                tracing::info!(tool, %id, "dropped the answer of a call that ended after its tunnel");
                if staged {
                    calls.updater.restart();
                }
            }
        });
    }

    /// Waits for what is under way to end. Stop it first.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.tasks.close();
        let _ = tokio::time::timeout(patience, self.tasks.wait()).await;
    }

    async fn answer(self: Arc<Self>, request: Request, limit: usize, is_ours: bool) -> Out {
        let Request { id, tool, args, below } = request;
        let tool_name = clip(&tool);
        let (out, code) =
            match self.outcome(tool, &args, below, is_ours).await.and_then(|done| encode(id, done, limit)) {
                Ok(out) => (out, None),
                Err(Refusal { code, message }) => {
                    let message: String = message.chars().take(frame::MAX_ERROR_MESSAGE).collect();
                    (Out::Frame(frame::response_error(id, &code, &message)), Some(code))
                }
            };
        match code {
            None => tracing::debug!(tool = tool_name, %id, "answered a call"),
            Some(code @ (ErrorCode::Blocked | ErrorCode::Disabled)) => {
                tracing::warn!(tool = tool_name, %id, %code, "refused a call");
            }
            Some(code) => tracing::debug!(tool = tool_name, %id, %code, "a call failed"),
        }
        out
    }

    async fn outcome(
        self: &Arc<Self>,
        tool: String,
        args: &RawValue,
        below: Option<Vec<String>>,
        is_ours: bool,
    ) -> Result<Done, Refusal> {
        let Ok(Value::Object(args)) = serde_json::from_str(args.get()) else {
            return refuse(ErrorCode::BadArgs, "args must be an object");
        };
        let _present = self.arrive()?;
        let patience = asked(&args).unwrap_or_else(|| self.machine.usual_timeout(&tool)).min(LONGEST);
        let arrived = tokio::time::Instant::now();
        // Before it waits for a place: what is refused need not wait, and holds nobody up.
        let work = self.check(tool, args).await?;
        let Ok(place) = tokio::time::timeout(patience, self.places.acquire()).await else {
            let seconds = patience.as_secs();
            let message = format!("tool exceeded {seconds}s while waiting for {} other calls", self.most);
            return refuse(ErrorCode::Timeout, message);
        };
        // The semaphore is never closed.
        let _place = place;
        // Somebody may have switched it off while the call waited. A file of a few bytes, so read right here.
        if self.policy.switch_refuses(work.changes_machine()) {
            return Err(policy::Refusal::SwitchedOff.into());
        }
        // Its own time is its own: only a longer wait for a place is taken off, since the hub's patience runs meanwhile.
        let waited = arrived.elapsed().saturating_sub(GRACE);
        let left = patience.saturating_sub(waited).max(Duration::from_millis(1));
        let rules = self.policy.real_paths(below);
        let cancel = self.stop.child_token();
        if let Work::Tool(tool, args) = &work
            && files::is_one(tool)
        {
            return tokio::select! {
                copied = self.files.run(tool, args, rules, left) => Ok(Done::Result(copied?)),
                () = cancel.cancelled() => refuse(ErrorCode::ExecFailed, "cancelled"),
            };
        }
        let call = Call { timeout: Some(left), cancel, rules: Some(rules) };
        match work {
            Work::Tool(tool, args) if tool == "agent_update" => Ok(Done::Staged(self.updater.stage(&args).await?)),
            Work::Tool(tool, args) => Ok(Done::Result(self.tool(&tool, &args, &call, is_ours).await?)),
            Work::Probe(request) => Ok(Done::Result(request.run(&call).await)),
            Work::ProbeList(probes) => Ok(Done::Result(probe::listed(&probes))),
        }
    }

    async fn tool(
        &self,
        tool: &str,
        args: &Map<String, Value>,
        call: &Call,
        is_ours: bool,
    ) -> Result<Value, ToolError> {
        match (tool, self.machine.run(tool, args, call).await) {
            // A kenny server of 0.8 knows no other tool for a command, and its own agent runs it with `sh`. The guard has
            // read it as either.
            ("powershell_exec", Err(why)) if why.code == ErrorCode::Unsupported && !is_ours && cfg!(not(windows)) => {
                let mut args = args.clone();
                let script = args.remove("script").unwrap_or_default();
                args.insert("command".to_owned(), script);
                self.machine.run("shell_exec", &args, call).await
            }
            ("telemetry_collect", result) => {
                let named = args.get("sections").and_then(Value::as_array);
                if named.is_some_and(|names| !names.is_empty() && !names.iter().any(|name| name == Own::NAME)) {
                    return result;
                }
                // Asked for this one alone, the machine knows no section.
                let mut sections = match result {
                    Ok(Value::Object(sections)) => sections,
                    Err(why) if why.code == ErrorCode::NotFound => Map::new(),
                    other => return other,
                };
                sections.insert(Own::NAME.to_owned(), self.own.section());
                Ok(Value::Object(sections))
            }
            (_, result) => result,
        }
    }

    /// The endpoint's policy, then the arguments.
    async fn check(&self, tool: String, args: Map<String, Value>) -> Result<Work, Refusal> {
        match (&self.probes, tool.as_str()) {
            (Some(probes), tools::PROBE_LIST) => return Ok(Work::ProbeList(Arc::clone(probes))),
            (Some(probes), tools::PROBE_RUN) => {
                let request = ProbeRequest::read(probes, &args)
                    .map_err(|why| Refusal { code: ErrorCode::BadArgs, message: why.into() })?;
                return Ok(Work::Probe(self.policy.check(request).await?));
            }
            _ => {}
        }
        let call = ToolCall { tool, args: Value::Object(args), updater: self.updater.clone() };
        let ToolCall { tool, args, .. } = self.policy.check(call).await?;
        let args = without_patience(&tool, args);
        // Of a tool that is not here the handler says so; what does not fit need not wait for a place either.
        if let Err(why) = tools::validate_args(&tool, &args) {
            return refuse(ErrorCode::BadArgs, why);
        }
        let Value::Object(args) = args else { return refuse(ErrorCode::Internal, "lost the arguments") };
        Ok(Work::Tool(tool, args))
    }

    fn arrive(self: &Arc<Self>) -> Result<Present, Refusal> {
        let present = self.present.fetch_add(1, Ordering::Relaxed);
        let guard = Present(Arc::clone(self));
        if present >= self.most_present {
            let message =
                format!("this agent is busy: {present} calls are running or waiting; try again when some have ended");
            return refuse(ErrorCode::Internal, message);
        }
        Ok(guard)
    }
}

/// Counts a call for as long as it is there.
struct Present(Arc<Calls>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long the hub waits for the answer, where it says so.
fn asked(args: &Map<String, Value>) -> Option<Duration> {
    let seconds = args.get(PATIENCE)?.as_f64().filter(|seconds| *seconds > 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Kenny servers take the patience of a call out of its arguments, whatever the tool, and leave it there. It has been
/// heeded; the tools that do not have it in the catalogue need not see it.
fn without_patience(tool: &str, mut args: Value) -> Value {
    if tools::find(tool).is_some_and(|known| known.arg(PATIENCE).is_none())
        && let Some(map) = args.as_object_mut()
    {
        map.remove(PATIENCE);
    }
    args
}

fn encode(id: Uuid, done: Done, limit: usize) -> Result<Out, Refusal> {
    let (result, staged) = match done {
        Done::Result(result) => (result, false),
        Done::Staged(result) => (result, true),
    };
    let text = fit(result, limit).map_err(|TooLarge { size, limit }| Refusal {
        code: ErrorCode::ExecFailed,
        message: format!("the result of {size} bytes is larger than this hub's limit of {limit} bytes per frame and cannot be shortened"),
    })?;
    let raw = RawValue::from_string(text)
        .map_err(|_| Refusal { code: ErrorCode::Internal, message: "cannot serialise the result".into() })?;
    let frame = frame::response_ok(id, &raw);
    Ok(if staged { Out::Farewell(frame) } else { Out::Frame(frame) })
}

fn clip(tool: &str) -> String {
    tool.chars().filter(|c| !c.is_control()).take(MAX_TOOL).collect()
}
