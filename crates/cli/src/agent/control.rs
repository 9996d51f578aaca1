//! What can be asked of an agent on its own machine: how it stands, its kill switch, its log.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use convoke_core::time::Timestamp;
use convoke_endpoint::RemoteControl;
use convoke_endpoint::config::{Config, Given};
use convoke_endpoint::logs::RotatingFile;
use convoke_endpoint::settings::Origin;
use convoke_endpoint::sonde;
use convoke_endpoint::state::{StateDir, StateError};
use convoke_endpoint::status::{Phase, Status};
use convoke_endpoint::switch::Switch;
use serde_json::json;

use super::{StateArgs, Verb, denied, environment, found, wrong};
use crate::exit::{Exit, usage};
use crate::table::{Field, Grid, Tone};
use crate::when;

/// How often a followed log is looked at.
const FOLLOW: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Show the newest N lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: usize,
    /// Print new lines as they are written
    #[arg(long, short)]
    follow: bool,
}

/// There must be an agent here to ask after.
fn enrolled(verb: Verb<'_>, args: &StateArgs) -> Result<StateDir> {
    let state = found(verb, args)?;
    match std::fs::metadata(state.path()) {
        Ok(_) => Ok(state),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Err(usage(format!(
            "no agent state in {}; name another directory with --state, or enrol with `{} enroll`",
            state.path().display(),
            verb.program
        ))),
        Err(why) => Err(why).with_context(|| format!("cannot read {}", state.path().display())),
    }
}

/// Whether an agent is enrolled here, or has run with what the environment says. A key alone is what a failed enrolment leaves.
pub(super) fn has_agent(state: &StateDir) -> Result<bool> {
    // A user who may not read the directory must not learn that the agent is not there.
    let there = |path: std::path::PathBuf| {
        path.try_exists().map_err(|why| denied(StateError::Io { doing: "look at", path: path.clone(), why }))
    };
    Ok(there(state.config_file())? || there(state.status_file())? || sonde::is_enrolled(state))
}

pub(super) fn status(verb: Verb<'_>, args: &StateArgs) -> Result<Exit> {
    let state = enrolled(verb, args)?;
    // Asked first: the lock says more than a file that a killed agent left behind.
    let running = match state.lock() {
        Ok(_) => false,
        Err(convoke_endpoint::state::StateError::Locked(_)) => true,
        Err(why) => return Err(denied(why)),
    };
    let told = Status::read(&state).map_err(denied)?;
    let switch = Switch::new(state.switch_file()).read();
    let connected = running && told.as_ref().is_some_and(|status| status.state == Phase::Connected);
    let exit = if connected { Exit::Done } else { Exit::Failed };
    if verb.output.json {
        verb.output.json(&json!({
            "running": running, "connected": connected, "remote_control": switch.is_enabled(),
            "state_dir": state.path(), "status": told,
        }))?;
        return Ok(exit);
    }
    let mut grid = Grid::facts();
    grid.fact(
        "agent",
        match (running, &told) {
            (true, Some(status)) => {
                let since =
                    Timestamp::parse(&status.since).map(|at| when::shown(at, when::now())).unwrap_or_default();
                let tone = if connected { Tone::Good } else { Tone::Warn };
                Field::new(format!("{} since {since}", status.state.name()), tone)
            }
            (true, None) => Field::new("starts", Tone::Warn),
            (false, _) => Field::new("not running", Tone::Bad),
        },
    );
    let off = Field::new("off: calls that change this machine are refused", Tone::Warn);
    grid.fact("remote control", if switch.is_enabled() { "on".into() } else { off });
    if let Some(status) = &told {
        grid.fact("id", status.id.as_str());
        grid.fact("hub", status.hub.as_str());
        grid.fact("version", status.version.as_str());
        if running {
            grid.fact("process", format!("{}{}", status.pid, if status.service { " (service)" } else { "" }));
            grid.fact_if("problem", status.problem.as_deref());
        }
    }
    grid.fact("state directory", state.path().display().to_string());
    verb.output.table(&grid, "")?;
    Ok(exit)
}

pub(super) fn switch(verb: Verb<'_>, args: &StateArgs, to: RemoteControl) -> Result<Exit> {
    let state = enrolled(verb, args)?;
    if !has_agent(&state)? {
        // Who believes that a machine is paused must not be wrong about which.
        return Err(usage(format!(
            "no agent is enrolled in {}; name its directory with --state",
            state.path().display()
        )));
    }
    Switch::new(state.switch_file()).set(to).map_err(denied)?;
    if verb.output.json {
        verb.output.json(&json!({ "remote_control": to.is_enabled() }))?;
    } else if to.is_enabled() {
        verb.output.text("remote control is on")?;
    } else {
        verb.output.text(&format!(
            "remote control is off: the hub may still look, but change nothing on this machine\n\
             `{} resume` switches it on again",
            verb.program
        ))?;
    }
    Ok(Exit::Done)
}

pub(super) fn settings(verb: Verb<'_>, args: &StateArgs) -> Result<Exit> {
    let state = found(verb, args)?;
    let settings = Config::settings(&state, &Given::default(), &environment()).map_err(wrong)?;
    let origin = |origin: &Origin| match origin {
        Origin::Default => "default".to_owned(),
        Origin::File => "agent.toml".to_owned(),
        Origin::Variable(name) => name.clone(),
        Origin::Flag => "--set".to_owned(),
    };
    if verb.output.json {
        let listed: Vec<_> = settings
            .listing()
            .map(|(setting, value, from)| {
                json!({ "name": setting.name, "value": value, "source": origin(from), "default": setting.default,
                        "allowed": setting.kind.allowed(), "about": setting.doc })
            })
            .collect();
        verb.output.json(&json!({ "state_dir": state.path(), "settings": listed }))?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(&["SETTING", "VALUE", "FROM", "WHAT IT DOES"]);
    for (setting, value, from) in settings.listing() {
        grid.row([setting.name.into(), value.into(), origin(from).into(), setting.doc.into()]);
    }
    verb.output.table(&grid, "")?;
    Ok(Exit::Done)
}

pub(super) fn logs(verb: Verb<'_>, args: &LogsArgs) -> Result<Exit> {
    let state = enrolled(verb, &args.state)?;
    let settings = Config::settings(&state, &Given::default(), &environment()).map_err(wrong)?;
    let path = state.log_file();
    let mut newest = std::collections::VecDeque::new();
    for file in RotatingFile::files(&path, settings.number("log_files")) {
        let open = File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for line in BufReader::new(open).split(b'\n').map_while(Result::ok) {
            if newest.len() >= args.lines {
                newest.pop_front();
            }
            newest.push_back(line);
        }
    }
    let shown: Vec<String> = newest.iter().map(|line| crate::show::clean(&String::from_utf8_lossy(line))).collect();
    if shown.is_empty() {
        verb.output.note(format_args!("no log in {} yet", state.path().display()));
    } else if args.lines > 0 {
        verb.output.text(&shown.join("\n"))?;
    }
    if args.follow { follow(verb, &path) } else { Ok(Exit::Done) }
}

fn follow(verb: Verb<'_>, path: &Path) -> Result<Exit> {
    let mut at = std::fs::metadata(path).map_or(0, |file| file.len());
    loop {
        std::thread::sleep(FOLLOW);
        let Ok(mut file) = File::open(path) else { continue };
        let size = file.metadata().map_or(0, |file| file.len());
        if size < at {
            // Put aside, and begun anew.
            at = 0;
        }
        if size > at {
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            file.take(size - at).read_to_end(&mut bytes)?;
            at += bytes.len() as u64;
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<String> = text.trim_end_matches('\n').split('\n').map(crate::show::clean).collect();
            verb.output.text(&lines.join("\n"))?;
        }
    }
}
