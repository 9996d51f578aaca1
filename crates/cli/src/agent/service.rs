//! `convoke agent install` and `uninstall`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use convoke_endpoint::service::{NAME, Service, ServiceError, plist, unit};
use convoke_endpoint::state::{StateDir, is_superuser};
use serde::Deserialize;
use serde_json::json;

use super::{IdentityArgs, Verb, enrolled};
use crate::exit::{Exit, usage};

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The service's state directory [default: the platform's for services]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The directory for its program [default: the platform's]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Only print the service's definition
    #[arg(long)]
    print: bool,
    /// With a token, the agent is enrolled first
    #[command(flatten)]
    identity: IdentityArgs,
}

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// The installer's file [default: kenny-agent.setup.json beside this program]
    #[arg(long, value_name = "FILE", alias = "config")]
    file: Option<PathBuf>,
    /// The service's state directory [default: the platform's for services]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The directory for its program [default: the platform's]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What the file of an original installer says.
#[derive(Deserialize)]
struct Setup {
    #[serde(alias = "server_url", alias = "hub")]
    server: String,
    #[serde(alias = "id")]
    agent_id: String,
    #[serde(alias = "token")]
    enroll_token: String,
    #[serde(default, alias = "server_public_key", alias = "hub_key")]
    server_pubkey: Option<String>,
}

#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// The service's state directory
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The directory of its program
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Also delete the state: key, configuration, kill switch and logs
    #[arg(long)]
    purge: bool,
}

fn service(state: Option<PathBuf>, program: Option<PathBuf>) -> Service {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let usual = Service::usual(state.map(absolute));
    Service { program: program.map_or(usual.program, absolute), state: usual.state }
}

pub(super) fn install(verb: Verb<'_>, args: InstallArgs) -> Result<Exit> {
    let service = service(args.state, args.program);
    if args.print {
        verb.output.raw(&if cfg!(target_os = "macos") { plist(&service) } else { unit(&service) })?;
        return Ok(Exit::Done);
    }
    if verb.token.is_some() || args.identity.enroll_token.is_some() {
        // Before the token is used up.
        if !is_superuser() {
            return Err(told(ServiceError::NotSuperuser));
        }
        enrolled(verb, &args.identity, &StateDir::new(&service.state))?;
    }
    service.install().map_err(told)?;
    if verb.output.json {
        let (program, state) = (&service.program, &service.state);
        verb.output.json(&json!({ "ok": true, "service": NAME, "program": program, "state": state }))?;
    } else {
        verb.output.text(&format!("installed and started {NAME} ({})", service.program.display()))?;
        verb.output.note(format_args!("`{} status` shows its state", verb.program));
    }
    Ok(Exit::Done)
}

pub(super) fn setup(verb: Verb<'_>, args: SetupArgs) -> Result<Exit> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("kenny-agent.setup.json"));
    let Some(path) = args.file.or_else(beside) else {
        return Err(usage("cannot find the path of this program; name the file with --file"));
    };
    let wrong = |why: &dyn std::fmt::Display| usage(format!("cannot read {}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|why| wrong(&why))?;
    let setup: Setup = serde_json::from_str(&text).map_err(|why| wrong(&why))?;
    let identity = IdentityArgs {
        id: Some(setup.agent_id),
        server: Some(setup.server),
        enroll_token: Some(setup.enroll_token),
        hub_key: setup.server_pubkey,
        ..IdentityArgs::default()
    };
    install(verb, InstallArgs { state: args.state, program: args.program, print: false, identity })
}

pub(super) fn uninstall(verb: Verb<'_>, args: UninstallArgs) -> Result<Exit> {
    let service = service(args.state, args.program);
    service.uninstall(args.purge).map_err(told)?;
    if verb.output.json {
        verb.output.json(&json!({ "ok": true, "service": NAME }))?;
    } else if args.purge {
        verb.output.text(&format!("removed {NAME} and its state"))?;
    } else {
        verb.output.text(&format!("removed {NAME}; its state stays in {}", service.state.display()))?;
    }
    Ok(Exit::Done)
}

fn told(why: ServiceError) -> anyhow::Error {
    match why {
        ServiceError::NotSuperuser | ServiceError::NoManager(_) | ServiceError::NotEnrolled(_) => {
            usage(why.to_string())
        }
        other => other.into(),
    }
}
