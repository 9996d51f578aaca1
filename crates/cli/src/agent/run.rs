//! `convoke agent run`.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use clap::Args;
use convoke_endpoint::config::Config;
use convoke_endpoint::policy::Policy;
use convoke_endpoint::run::{Agent, End, RunError};
use convoke_endpoint::state::StateDir;
use convoke_endpoint::update::Supervision;
use convoke_endpoint::{apart, logs, sonde};
use tokio_util::sync::CancellationToken;

use super::{IdentityArgs, StateArgs, Verb, denied, environment, explain, given, state_dir, wrong};
use crate::exit::{Exit, usage};
#[cfg(unix)]
use crate::open_files;
use crate::signals::Signals;

#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Run under a service manager that restarts the agent, so that updates are possible
    #[arg(long)]
    service: bool,
    /// The level of the log on standard error: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", hide = true)]
    console: String,
    /// Exit when standard input is closed
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
    /// Limit the number of open files, also of processes that it starts
    #[cfg(unix)]
    #[arg(long, value_name = "NUMBER", hide = true)]
    open_files: Option<u64>,
    /// Run a Sonde hub's probes even as root
    #[arg(long)]
    allow_root: bool,
}

impl RunArgs {
    pub(super) fn for_service(self) -> Self {
        Self { service: true, ..self }
    }
}

pub(super) fn run(verb: Verb<'_>, args: RunArgs) -> Result<Exit> {
    #[cfg(unix)]
    if let Some(most) = args.open_files {
        open_files::lower(most);
    }
    #[cfg(windows)]
    if args.service {
        let (program, hub, token) = (verb.program, verb.hub.map(str::to_owned), verb.token.map(str::to_owned));
        return convoke_endpoint::service::windows::dispatch(Box::new(move |stop| {
            let output = crate::output::Output::new(false);
            let verb =
                Verb { output: &output, program, hub: hub.as_deref(), token: token.as_deref(), hub_data: None };
            run_until(verb, args.clone(), stop).is_ok_and(|exit| exit == Exit::Done)
        }))
        .map(|()| Exit::Done)
        .map_err(Into::into);
    }
    run_until(verb, args, CancellationToken::new())
}

fn run_until(verb: Verb<'_>, args: RunArgs, stop: CancellationToken) -> Result<Exit> {
    let state = state_dir(&args.state)?;
    let has_sonde = sonde::is_enrolled(&state);
    if has_sonde && !state.config_file().exists() {
        return run_sonde_alone(verb, &state, &args, stop);
    }
    let config = Config::load(&state, &given(verb, &args.identity), &environment()).map_err(wrong)?;
    if !config.enrolled && config.token.is_none() && !state.has_key() {
        return Err(usage(format!(
            "this agent has no key in {}; enrol it with `{} enroll`, or give a token with --token",
            state.path().display(),
            verb.program
        )));
    }
    state.create().map_err(denied)?;
    let (logs, _last_lines) = logs::start(&config.settings, &state, &args.console);
    let supervision = if args.service {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        Supervision::Service { program }
    } else {
        Supervision::None
    };
    let runtime = convoke_endpoint::runtime(&config.settings).context("cannot start the runtime")?;
    if args.until_stdin_closes {
        end_with_stdin(stop.clone());
    }
    let policy = Policy::new(&state);
    let collect_with = apart::this_program(&["agent", "collect"]);
    let id = config.identity.id.clone();
    let agent = Agent { config, state: state.clone(), policy: policy.clone(), logs, supervision, collect_with };
    let ended: Result<_> = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        if has_sonde {
            let running = sonde::Running {
                allow_root: args.allow_root,
                alone: false,
                service: args.service,
                machine: Some(id),
            };
            let (state, policy, stop) = (state.clone(), policy.clone(), stop.clone());
            tokio::spawn(async move {
                if let Err(why) = sonde::run(&state, &policy, running, stop).await {
                    tracing::error!(%why, "cannot open the Sonde tunnel");
                }
            });
        }
        let running = agent.run(stop.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return Ok(ended),
            () = signals.next() => stop.cancel(),
        }
        tokio::select! {
            ended = running => Ok(ended),
            // Once more stops at once.
            () = signals.next() => Ok(Ok(End::Stopped)),
        }
    });
    // What still blocks a thread has had its time.
    runtime.shutdown_background();
    match ended? {
        Ok(End::Stopped) => Ok(Exit::Done),
        // A service manager starts it again whatever the code; one says why in its log.
        Ok(End::Restart) => Ok(Exit::Failed),
        Err(RunError::State(why)) => Err(denied(why)),
        Err(RunError::Config(why)) => Err(wrong(why)),
        Err(RunError::Enrol(why)) => Err(explain(why, &state)),
    }
}

/// The Sonde tunnel without a kenny one.
fn run_sonde_alone(verb: Verb<'_>, state: &StateDir, args: &RunArgs, stop: CancellationToken) -> Result<Exit> {
    let settings = Config::settings(state, &given(verb, &args.identity), &environment()).map_err(wrong)?;
    let (_, _last_lines) = logs::start(&settings, state, &args.console);
    let runtime = convoke_endpoint::runtime(&settings).context("cannot start the runtime")?;
    if args.until_stdin_closes {
        end_with_stdin(stop.clone());
    }
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let _lock = state.lock().map_err(denied)?;
        let how = sonde::Running { allow_root: args.allow_root, alone: true, service: args.service, machine: None };
        let policy = Policy::new(state);
        let running = sonde::run(state, &policy, how, stop.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return Ok(ended),
            () = signals.next() => stop.cancel(),
        }
        Ok::<_, anyhow::Error>(running.await)
    });
    runtime.shutdown_background();
    ended??;
    Ok(Exit::Done)
}

/// A thread of its own: reading standard input cannot be cancelled.
fn end_with_stdin(stop: CancellationToken) {
    std::thread::spawn(move || {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
        stop.cancel();
    });
}
