//! `convoke agent install` and `uninstall`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use convoke_endpoint::service::{NAME, Service, ServiceError, plist, unit};
use serde_json::json;

use super::Verb;
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
