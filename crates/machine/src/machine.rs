//! The machine: its tools and its snapshot.

use std::sync::Arc;
use std::time::Duration;

use convoke_kenny::tools as catalogue;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::apart::Apart;
use crate::collect::{self, Busy};
use crate::facts::Facts;
use crate::open::Rules;
use crate::remembered::Remembered;
use crate::{Options, ToolError, platform, tools};

/// This machine. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Machine {
    options: Arc<Options>,
    busy: Arc<Busy>,
    remembered: Arc<Remembered>,
    /// The program that collects snapshots, where that is another process.
    apart: Option<Arc<Apart>>,
    /// One per thread that runs a tool, also one that hangs and for which nobody waits any more.
    threads: Arc<Semaphore>,
}

/// How one call may run.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// How long it may take, whatever the arguments ask for. Without it, `timeout_s` of the arguments holds, else
    /// [`Machine::usual_timeout`].
    pub timeout: Option<Duration>,
    /// Ends the call, and everything it started, when cancelled. Dropping the future does so, too.
    pub cancel: CancellationToken,
    /// What decides on the real paths of files and folders that the call names. A call from afar has some.
    pub rules: Option<Arc<dyn Rules>>,
}

impl Machine {
    /// This machine with these limits.
    pub fn new(options: Options) -> Self {
        let threads = Arc::new(Semaphore::new(options.tool_threads.max(1)));
        let apart = options.collect_with.clone().map(|command| Arc::new(Apart::new(command)));
        Self { options: Arc::new(options), busy: Arc::default(), remembered: Arc::default(), apart, threads }
    }

    /// Its limits.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How long a tool may take when nobody says.
    pub fn usual_timeout(&self, tool: &str) -> Duration {
        match tool {
            // All sections together may take longer than any other tool.
            "telemetry_collect" => self.options.tool_timeout.max(self.options.section_timeout * 2),
            _ => self.options.tool_timeout,
        }
    }

    /// Runs a tool of the catalogue (all but `agent_update`, which is not a matter of the machine) and returns its
    /// `result`, a JSON object.
    ///
    /// Arguments are checked against the catalogue first. Neither the guard nor the kill switch is asked: that is done
    /// before; what decides on real paths comes with the call. Must be called within a tokio runtime with timers and IO.
    pub async fn run(&self, tool: &str, args: &Map<String, Value>, call: &Call) -> Result<Value, ToolError> {
        let Some(known) = catalogue::find(tool) else {
            return Err(ToolError::unsupported(format!("unknown tool: {}", crate::text::one_line(tool, 128))));
        };
        catalogue::validate_args(tool, &Value::Object(args.clone())).map_err(ToolError::bad_args)?;
        let asked = || args.get("timeout_s").and_then(Value::as_u64).map(Duration::from_secs);
        let timeout = call.timeout.or_else(asked).unwrap_or_else(|| self.usual_timeout(known.name));

        let stop = call.cancel.child_token();
        let _stop_on_drop = stop.clone().drop_guard();
        let work = async {
            match known.name {
                "telemetry_collect" => tokio::select! {
                    snapshot = self.telemetry(args) => snapshot,
                    () = stop.cancelled() => Err(cancelled()),
                },
                name => {
                    let facts = Facts {
                        options: self.options.clone(),
                        handle: Handle::current(),
                        stop: stop.clone(),
                        patience: timeout,
                        remembered: self.remembered.clone(),
                        rules: call.rules.clone(),
                    };
                    let Some(handler) = handler(name) else { return Err(missing(name)) };
                    let args = args.clone();
                    let permit = tokio::select! {
                        // The semaphore is never closed.
                        permit = self.threads.clone().acquire_owned() => permit,
                        () = stop.cancelled() => return Err(cancelled()),
                    };
                    let work = tokio::task::spawn_blocking(move || {
                        let _permit = permit;
                        handler(&facts, &args)
                    });
                    work.await
                        .unwrap_or_else(|_| Err(ToolError::internal("the tool failed; the agent's log has more")))
                }
            }
        };
        tokio::pin!(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = call.cancel.cancelled() => {
                // What it runs is killed before it is told to have ended: the agent itself may be about to end.
                let _ = tokio::time::timeout(KILL_TIME, work).await;
                Err(cancelled())
            }
            // What runs commands ends them by itself at the deadline; the little more lets it say so first.
            () = tokio::time::sleep(timeout.saturating_add(KILL_TIME)) => Err(ToolError::timeout(timeout)),
        }
    }

    /// A telemetry snapshot: section name to section. `None` is all of them; names that are no section are left out.
    pub async fn collect(&self, sections: Option<&[String]>) -> Map<String, Value> {
        if let Some(apart) = &self.apart
            && let Some(snapshot) = apart.collect(&self.options, sections).await
        {
            return snapshot;
        }
        collect::collect(&self.options, &self.busy, &self.remembered, sections, collect::of_platform).await
    }

    /// The facts that are kept between two snapshots, for another process.
    pub(crate) fn remembered(&self) -> Value {
        self.remembered.told()
    }

    /// Takes the facts of another process, as it told them so long ago.
    pub(crate) fn remember(&self, facts: &Value, ago: Duration) {
        self.remembered.take(facts, ago);
    }

    /// The sections whose collectors have not come back.
    pub(crate) fn stuck(&self) -> Vec<String> {
        self.busy.names()
    }

    /// Leaves out these sections: another process hangs in them.
    pub(crate) fn set_stuck(&self, names: &[String]) {
        self.busy.mark(names);
    }

    async fn telemetry(&self, args: &Map<String, Value>) -> Result<Value, ToolError> {
        let sections: Option<Vec<String>> = args
            .get("sections")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect());
        let snapshot = self.collect(sections.as_deref()).await;
        match sections {
            // Newer hubs ask for sections that we do not have beside those we have; asking for none we have is a mistake.
            Some(names) if snapshot.is_empty() && !names.is_empty() => {
                let names = crate::text::one_line(&names.join(", "), 200);
                Err(ToolError::not_found(format!("no such telemetry section: {names}")))
            }
            _ => Ok(Value::Object(snapshot)),
        }
    }
}

/// How long a killed tree may take to be gone.
const KILL_TIME: Duration = Duration::from_secs(2);

fn cancelled() -> ToolError {
    ToolError::failed("cancelled")
}

/// What runs a tool: on a thread of its own, where it may block.
pub(crate) type Handler = fn(&Facts, &Map<String, Value>) -> Result<Value, ToolError>;

fn handler(name: &str) -> Option<Handler> {
    let own = platform::TOOLS.iter().chain(tools::TOOLS).find(|(tool, _)| *tool == name);
    own.map(|(_, handler)| *handler)
}

/// Why this platform does not have a tool of the catalogue. The first words are the field's.
fn missing(name: &str) -> ToolError {
    ToolError::unsupported(match name {
        "agent_update" => "agent_update needs an agent that is installed as a service".to_owned(),
        name if name.starts_with("winget_") || name.starts_with("remotehelp_") => {
            format!("{name} is only available on Windows")
        }
        "shell_exec" => "shell_exec is not available on Windows; use powershell_exec".to_owned(),
        name => format!("{name} is not available on this agent"),
    })
}
