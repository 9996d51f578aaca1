//! `convoke calls`: where a call stands, its end, and taking back one that waits.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Subcommand;
use convoke_api::Client;
use convoke_api::calls::{CallStatus, WaitQuery};
use convoke_core::id::CallId;
use serde_json::value::RawValue;

use super::result::{self, Ended};
use super::{Verb, typed};
use crate::exit::Exit;
use crate::parse;
use crate::table::{Field, Grid};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum CallsCommand {
    /// Where a call stands: exit code 0 when it went well, 1 when it failed, 3 when it is not done
    Show {
        id: CallId,
        /// Wait for its end, at most so many seconds if given
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, value_parser = parse::seconds)]
        wait: Option<Option<f64>>,
    },
    /// Take back a call of your own that waits for a person
    Cancel { id: CallId },
}

pub(crate) async fn run(verb: Verb<'_>, command: CallsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let (id, wait) = match command {
        CallsCommand::Show { id, wait } => (id, wait),
        CallsCommand::Cancel { id } => {
            let json: Box<RawValue> = client.delete(&format!("/api/calls/{id}")).await?;
            if verb.output.json {
                verb.output.raw_json(&json)?;
            } else {
                verb.output.text(&format!("cancelled: {id}"))?;
            }
            return Ok(Exit::Done);
        }
    };
    let (json, status) = match wait {
        None => ask(&client, id, None).await?,
        Some(limit) => self::wait(&client, id, limit.map(Duration::from_secs_f64)).await?,
    };
    ended(verb, &json, &status)
}

/// As long as one request may wait: below what proxies between here and the hub usually allow.
const ONE_WAIT: Duration = Duration::from_secs(50);

/// Waits until the call is done, or `limit` is over.
pub(super) async fn wait(
    client: &Client,
    id: CallId,
    limit: Option<Duration>,
) -> Result<(Box<RawValue>, CallStatus)> {
    let started = Instant::now();
    loop {
        let left = limit.map_or(ONE_WAIT, |limit| limit.saturating_sub(started.elapsed()).min(ONE_WAIT));
        let (json, status) = ask(client, id, Some(left.as_secs_f64())).await?;
        if status.state == "done" || limit.is_some_and(|limit| started.elapsed() >= limit) {
            return Ok((json, status));
        }
    }
}

async fn ask(client: &Client, id: CallId, wait_s: Option<f64>) -> Result<(Box<RawValue>, CallStatus)> {
    let json: Box<RawValue> = client.get(&format!("/api/calls/{id}"), &WaitQuery { wait_s }).await?;
    let status = typed(&json)?;
    Ok((json, status))
}

/// Shows where a call stands; its result as if it had just been called.
pub(super) fn ended(verb: Verb<'_>, json: &RawValue, status: &CallStatus) -> Result<Exit> {
    if verb.output.json {
        verb.output.raw_json(json)?;
        return Ok(exit(status));
    }
    if status.state != "done" {
        verb.output.table(&sheet(status), "")?;
        return Ok(Exit::Pending);
    }
    if status.outcome.as_deref() == Some("ok") && status.result.is_none() {
        verb.output.note(format_args!("the call {} went well; the hub no longer has its result", status.call_id));
        return Ok(Exit::Done);
    }
    let ended = Ended {
        tool: status.tool.as_deref().unwrap_or_default(),
        result: status.result.as_deref(),
        error: status.error.as_ref(),
        duration_ms: status.duration_ms,
    };
    result::show(verb.output, &ended)
}

fn exit(status: &CallStatus) -> Exit {
    match (status.state.as_str(), status.outcome.as_deref()) {
        ("done", Some("ok")) => Exit::Done,
        ("done", _) => Exit::Failed,
        _ => Exit::Pending,
    }
}

fn sheet(status: &CallStatus) -> Grid {
    let mut grid = Grid::facts();
    grid.fact("call", status.call_id.to_string());
    grid.fact("state", Field::state(&status.state));
    grid.fact_if("agent", status.target.as_deref());
    grid.fact_if("tool", status.tool.as_deref());
    if let Some(approval) = &status.approval {
        grid.fact("approval", approval.id.to_string());
        grid.fact("expires", when::shown(approval.expires_at, when::now()));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_how_it_stands() {
        for (state, outcome, expect) in [
            ("done", r#","outcome":"ok""#, Exit::Done),
            ("done", r#","outcome":"timeout""#, Exit::Failed),
            ("running", "", Exit::Pending),
            ("waiting", "", Exit::Pending),
        ] {
            let text = format!(r#"{{"call_id":"0190f3a0-0000-7000-8000-000000000001","state":"{state}"{outcome}}}"#);
            assert_eq!(exit(&serde_json::from_str(&text).expect("a status")), expect, "{text}");
        }
    }
}
