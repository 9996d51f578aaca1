//! This machine as an endpoint of a hub: `convoke agent …`, and `convoke-agent …`.

mod control;
mod packs;
mod run;
mod service;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use convoke_core::secret::SecretText;
use convoke_endpoint::config::{Config, Given};
use convoke_endpoint::enrol::{EnrolError, enrol};
use convoke_endpoint::state::{Lock, StateDir, StateError};
use convoke_endpoint::{apart, sonde, update};
use serde_json::json;

use crate::exit::{Exit, usage};
use crate::output::Output;
use crate::parse;

/// Where the agent that `up` starts keeps its state, in the hub's data directory.
pub const HUBS_AGENT: &str = "agent";

/// What a verb works with.
#[derive(Clone, Copy, Debug)]
pub struct Verb<'a> {
    /// Where results go.
    pub output: &'a Output,
    /// How a person starts these verbs: `convoke agent`, or `convoke-agent`.
    pub program: &'static str,
    /// The hub's address, where the command line names it.
    pub hub: Option<&'a str>,
    /// The token for it, where the command line has one.
    pub token: Option<&'a str>,
    /// Where a hub on this machine keeps its data, and beside it the state of the agent that it starts.
    pub hub_data: Option<&'a HubData>,
}

/// The data directory of a hub on this machine.
#[derive(Clone, Debug)]
pub struct HubData {
    /// The directory.
    pub dir: PathBuf,
    /// Who named it.
    pub from: Named,
}

/// Who named a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The command line.
    Flag,
    /// The environment.
    Variable,
    /// Nobody: it is the platform's.
    Nobody,
}

/// What the endpoint does; without a verb it runs.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Enrol this machine at a hub with a one-time token
    Enroll(EnrollArgs),
    /// Connect to the hub and answer its calls
    Run(run::RunArgs),
    /// Show the state of this machine's agent
    Status(StateArgs),
    /// Switch remote control off: refuse calls that change this machine, until `resume`
    Pause(StateArgs),
    /// Switch remote control on again
    Resume(StateArgs),
    /// Install the agent as a service that starts with the machine
    Install(service::InstallArgs),
    /// The original installers' way: enrol as a file says, and install
    #[command(hide = true)]
    Setup(service::SetupArgs),
    /// Remove the service
    Uninstall(service::UninstallArgs),
    /// Show the agent's local log
    Logs(control::LogsArgs),
    /// List every setting with its value and source
    Settings(StateArgs),
    /// Check packs of your own for a Sonde hub's probes
    #[command(subcommand)]
    Packs(packs::PacksCommand),
    /// The original agent's name for `run --service`
    #[command(hide = true)]
    RunService(run::RunArgs),
    /// Collect one snapshot; a running agent starts this
    #[command(hide = true)]
    Collect,
    /// Report that this program is an agent; an update is asked this before it is installed
    #[command(hide = true)]
    SelfCheck,
    /// Restore the previous version if the new one failed; the service runs this before each start
    #[command(hide = true)]
    RecoverUpdate(StateArgs),
}

/// Where the agent keeps its state.
#[derive(Clone, Debug, Default, Args)]
pub struct StateArgs {
    /// The agent's state directory [env: CONVOKE_AGENT_STATE; default: the platform's]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl StateArgs {
    /// The same words for the next command, with a space before them.
    fn again(&self) -> String {
        self.state.as_ref().map(|dir| format!(" --state {}", dir.display())).unwrap_or_default()
    }
}

/// Who the agent is.
#[derive(Clone, Debug, Default, Args)]
pub struct IdentityArgs {
    /// The agent's id [env: CONVOKE_AGENT_ID, KENNY_AGENT_ID]
    #[arg(long, value_name = "ID", alias = "agent-id")]
    id: Option<String>,
    /// The hub's public key [env: CONVOKE_AGENT_HUB_KEY, KENNY_SERVER_PUBKEY]
    #[arg(long, value_name = "KEY", alias = "server-pubkey")]
    hub_key: Option<String>,
    /// The only certificates (PEM) to trust, instead of the platform's [env: CONVOKE_AGENT_CA]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The original agent's name for --hub
    #[arg(long, value_name = "URL", hide = true)]
    server: Option<String>,
    /// The original agent's name for --token
    #[arg(long, value_name = "TOKEN", hide = true, allow_hyphen_values = true)]
    enroll_token: Option<String>,
    /// The original agent's name for `--set telemetry_s=SECONDS`
    #[arg(long, value_name = "SECONDS", hide = true)]
    telemetry_interval_secs: Option<String>,
    /// Set one setting of the agent; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Here --hub is the address of the agent's hub, and --token the one-time token that `convoke enroll-token ID` \
prints there, with the whole command line:\n\n  convoke agent enroll --hub URL --id ID --token TOKEN --hub-key KEY"
)]
struct EnrollArgs {
    /// Enrol at this Sonde hub, instead of or in addition to a kenny hub
    #[arg(long, value_name = "URL")]
    sonde: Option<String>,
    /// The agent's name at the Sonde hub [default: this machine's name]
    #[arg(long, value_name = "NAME", requires = "sonde")]
    name: Option<String>,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    state: StateArgs,
}

fn setting(text: &str) -> Result<(String, String), String> {
    parse::setting(text, "the verb `settings`")
}

/// Does what the command line says.
pub fn run(verb: Verb<'_>, args: AgentArgs) -> Result<Exit> {
    match args.command {
        None => run::run(verb, args.run),
        Some(AgentCommand::Run(args)) => run::run(verb, args),
        Some(AgentCommand::RunService(args)) => run::run(verb, args.for_service()),
        Some(AgentCommand::Enroll(args)) => enroll(verb, &args),
        Some(AgentCommand::Status(args)) => control::status(verb, &args),
        Some(AgentCommand::Pause(args)) => control::switch(verb, &args, convoke_endpoint::RemoteControl::Disabled),
        Some(AgentCommand::Resume(args)) => control::switch(verb, &args, convoke_endpoint::RemoteControl::Enabled),
        Some(AgentCommand::Install(args)) => service::install(verb, args),
        Some(AgentCommand::Setup(args)) => service::setup(verb, args),
        Some(AgentCommand::Uninstall(args)) => service::uninstall(verb, args),
        Some(AgentCommand::Logs(args)) => control::logs(verb, &args),
        Some(AgentCommand::Settings(args)) => control::settings(verb, &args),
        Some(AgentCommand::Packs(command)) => packs::run(verb, command),
        Some(AgentCommand::Collect) => {
            apart::serve()?;
            Ok(Exit::Done)
        }
        Some(AgentCommand::SelfCheck) => {
            verb.output.text(&format!("{} {}", update::CHECK_ANSWER, env!("CARGO_PKG_VERSION")))?;
            Ok(Exit::Done)
        }
        Some(AgentCommand::RecoverUpdate(args)) => {
            update::recover(&state_dir(&args)?);
            Ok(Exit::Done)
        }
    }
}

fn enroll(verb: Verb<'_>, args: &EnrollArgs) -> Result<Exit> {
    let state = state_dir(&args.state)?;
    if let Some(hub) = &args.sonde {
        return enroll_sonde(verb, args, hub, &state);
    }
    let config = enrolled(verb, &args.identity, &state)?;
    let identity = &config.identity;
    if verb.output.json {
        let hub = identity.hub.to_string();
        verb.output.json(&json!({ "ok": true, "agent_id": identity.id, "hub": hub, "state": state.path() }))?;
    } else {
        let (program, at) = (verb.program, args.state.again());
        verb.output.text(&format!("{} is enrolled at {}", identity.id, identity.hub))?;
        verb.output.note(format_args!(
            "\n  {program} run{at}        runs it in the foreground\n  {program} install{at}    installs it as a service"
        ));
    }
    Ok(Exit::Done)
}

/// Enrols at a kenny hub, and says as whom.
fn enrolled(verb: Verb<'_>, args: &IdentityArgs, state: &StateDir) -> Result<Config> {
    let config = Config::load(state, &given(verb, args), &environment()).map_err(wrong)?;
    let Some(token) = &config.token else {
        return Err(usage(
            "enrolment token missing; create one with `convoke enroll-token ID` on the hub, and give it with --token",
        ));
    };
    let _held = held(state)?;
    wait(enrol(state, &config.identity, token))?.map_err(|why| explain(why, state))?;
    Ok(config)
}

/// Waits for what is asked of a hub.
fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("cannot start the runtime")?.block_on(work))
}

/// The state, for as long as it is enrolled: two at once would each make a key, and lose the one that the hub takes.
fn held(state: &StateDir) -> Result<Lock> {
    state.create()?;
    state.lock().map_err(|why| match why {
        StateError::Locked(dir) => anyhow::anyhow!(
            "the agent in {} is running or being enrolled; stop it before you enrol it again",
            dir.display()
        ),
        other => other.into(),
    })
}

fn enroll_sonde(verb: Verb<'_>, args: &EnrollArgs, hub: &str, state: &StateDir) -> Result<Exit> {
    let given = given(verb, &args.identity);
    let Some(token) = given.token else {
        return Err(usage(
            "enrolment token missing; create one with `POST /api/v1/enrollment-tokens` on the hub, and give it with --token",
        ));
    };
    let _held = held(state)?;
    let enrolment = sonde::Enrolment { hub: hub.to_owned(), token, name: args.name.clone(), ca: given.ca };
    let saved = wait(sonde::enrol(state, &enrolment))??;
    if verb.output.json {
        let shown = json!({
            "ok": true, "agent_id": saved.agent_id, "name": saved.name, "hub": saved.hub, "state": state.path(),
            "certificate": saved.cert_pem.is_some(),
        });
        verb.output.json(&shown)?;
    } else {
        verb.output.text(&format!("{} is enrolled at {} as {}", saved.name, saved.hub, saved.agent_id))?;
        verb.output.note(format_args!(
            "\n  {} run{}        runs it in the foreground",
            verb.program,
            args.state.again()
        ));
    }
    Ok(Exit::Done)
}

/// What the command line says of the agent's identity.
fn given(verb: Verb<'_>, args: &IdentityArgs) -> Given {
    Given {
        hub: verb.hub.map(str::to_owned).or_else(|| args.server.clone()),
        id: args.id.clone(),
        hub_key: args.hub_key.clone(),
        // Kept in a file that is read from elsewhere later.
        ca: args.ca.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        token: verb.token.or(args.enroll_token.as_deref()).map(SecretText::new),
        set: args
            .telemetry_interval_secs
            .iter()
            .map(|seconds| ("telemetry_s".to_owned(), seconds.clone()))
            .chain(args.set.iter().cloned())
            .collect(),
    }
}

fn environment() -> BTreeMap<String, String> {
    // A variable that is not UTF-8 is none of ours.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The state directory: as named, else as the environment says, else this user's, else the machine's if it has one.
fn state_dir(args: &StateArgs) -> Result<StateDir> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = args.state.clone().or_else(|| variable("CONVOKE_AGENT_STATE"));
    let dir = match named {
        Some(dir) => dir,
        None => {
            let own = StateDir::default_path();
            let system = StateDir::system_path().filter(|dir| dir.exists());
            let is_used = |dir: &PathBuf| StateDir::new(dir).config_file().exists();
            own.clone()
                .filter(is_used)
                .or(system)
                .or(own)
                .ok_or_else(|| usage("this account has no default data directory; name one with --state"))?
        }
    };
    let mut state = StateDir::new(dir);
    if let Some(path) = variable("KENNY_AGENT_KEY_FILE") {
        state = state.with_key_file(path);
    }
    if let Some(path) = variable("KENNY_CONTROL_FILE") {
        state = state.with_switch_file(path);
    }
    Ok(state)
}

/// The state of the agent that a person on this machine means: the one that is named, else the one that is installed or
/// enrolled, else the one that `up` has started.
fn found(verb: Verb<'_>, args: &StateArgs) -> Result<StateDir> {
    let own = state_dir(args)?;
    let is_named = args.state.is_some() || std::env::var_os("CONVOKE_AGENT_STATE").is_some_and(|dir| !dir.is_empty());
    let Some(data) = verb.hub_data.filter(|_| !is_named) else { return Ok(own) };
    let beside = StateDir::new(data.dir.join(HUBS_AGENT));
    if data.from == Named::Flag {
        return Ok(beside);
    }
    match (control::has_agent(&own)?, control::has_agent(&beside)?) {
        // Who believes that a machine is paused must not be wrong about which of its agents is.
        (true, true) if data.from == Named::Nobody => Err(usage(format!(
            "two agents have their state on this machine, in {} and {}; name one with --state",
            own.path().display(),
            beside.path().display()
        ))),
        (_, true) => Ok(beside),
        (_, false) => Ok(own),
    }
}

/// A mistake of whoever started it, told as such.
fn wrong(why: convoke_endpoint::config::ConfigError) -> anyhow::Error {
    use convoke_endpoint::config::ConfigError;
    match why {
        ConfigError::State(why) => denied(why),
        other => usage(other.to_string()),
    }
}

fn explain(why: EnrolError, state: &StateDir) -> anyhow::Error {
    match why {
        EnrolError::State(why) => denied(why),
        EnrolError::Unreachable(inner) => anyhow::Error::new(inner).context("cannot reach the hub"),
        other => {
            anyhow::Error::new(other).context(format!("not enrolled (state directory {})", state.path().display()))
        }
    }
}

/// With what to do about it, where that is plain.
fn denied(why: StateError) -> anyhow::Error {
    let hint = matches!(&why, StateError::Io { why, .. } if why.kind() == std::io::ErrorKind::PermissionDenied);
    let error = anyhow::Error::new(why);
    if hint { anyhow::anyhow!("{error}\nthis needs rights on the agent's state; try it as root") } else { error }
}
