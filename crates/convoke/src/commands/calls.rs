//! `convoke calls`: show a call, wait for its end, cancel a waiting one.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Subcommand;
use convoke_api::Client;
use convoke_api::calls::{CallQuery, CallStatus, CallSummary, WaitQuery};
use convoke_core::id::CallId;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::reach::{PATIENCE, PAUSE, Reach, is_absence};
use super::result::{self, Ended};
use super::{Verb, typed};
use crate::complete;
use crate::exit::Exit;
use crate::parse;
use crate::table::{Field, Grid};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum CallsCommand {
    /// List calls that wait or run, and the latest that ended, newest first
    List {
        /// Only calls in this state
        #[arg(long, value_parser = ["waiting", "running", "done"])]
        state: Option<String>,
        /// Only calls of this machine
        #[arg(long, add = complete::machines())]
        agent: Option<String>,
        /// Show at most N calls
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u64,
    },
    /// Show one call; exit code 0: succeeded, 1: failed, 3: not done
    Show {
        id: CallId,
        /// Wait until the call ends, at most SECONDS if given
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, value_parser = parse::seconds)]
        wait: Option<Option<f64>>,
    },
    /// Cancel your own call that waits for a person
    Cancel { id: CallId },
}

pub(crate) async fn run(verb: Verb<'_>, command: CallsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let (id, wait) = match command {
        CallsCommand::List { state, agent, limit } => {
            let query = CallQuery { state, agent, ..CallQuery::default() };
            let items = Pages::new(&client, "/api/calls", "calls", &query, Some(limit))?.all().await?;
            if verb.output.json {
                verb.output.json(&joined("calls", &items))?;
                return Ok(Exit::Done);
            }
            let calls = items.iter().map(|item| typed(item)).collect::<Result<Vec<CallSummary>>>()?;
            verb.output.table(&list(&calls, when::now()), "no calls; older ones are in `convoke audit list`")?;
            return Ok(Exit::Done);
        }
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
    let Some(limit) = wait else {
        let (json, status) = ask(&client, id, None).await?;
        return ended(verb, &json, &status);
    };
    let wait = Wait { id, limit: limit.map(Duration::from_secs_f64), known: false, patience: PATIENCE };
    wait.to_its_end(verb, client).await
}

/// As long as one request may wait: below what proxies between here and the hub usually allow.
const ONE_WAIT: Duration = Duration::from_secs(50);

/// Waiting for the end of a call. A hub that restarts meanwhile is waited for, too: the call is in its store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    id: CallId,
    /// How long at most; without one as long as it takes.
    limit: Option<Duration>,
    /// Whether a hub has said that there is such a call. If none did, its absence is told at once.
    known: bool,
    /// How long the hub may be away.
    patience: Duration,
}

impl Wait {
    /// For a call that the hub has just taken.
    pub(super) const fn taken(id: CallId) -> Self {
        Self { id, limit: None, known: true, patience: PATIENCE }
    }

    /// Waits until the call is done or the limit is over, and shows how it stands.
    pub(super) async fn to_its_end(self, verb: Verb<'_>, client: Client) -> Result<Exit> {
        match self.answer(verb, client).await {
            Ok((json, status)) => ended(verb, &json, &status),
            Err(Lost { why, known: false }) => Err(why),
            Err(Lost { why, known: true }) => {
                let Self { id, .. } = self;
                verb.output.error(&why.context(format!(
                    "call {id} was not done when the hub last answered; wait for it with \
                     `convoke calls show {id} --wait`"
                )));
                Ok(Exit::Pending)
            }
        }
    }

    /// Waits until the call is done or the limit is over.
    pub(super) async fn answer(self, verb: Verb<'_>, client: Client) -> Result<(Box<RawValue>, CallStatus), Lost> {
        let Self { id, limit, mut known, patience } = self;
        let started = Instant::now();
        let mut hub = Reach::new(verb, client, patience).map_err(|why| Lost { why, known })?;
        loop {
            let asked = Instant::now();
            let left = limit.map_or(ONE_WAIT, |limit| limit.saturating_sub(started.elapsed()).min(ONE_WAIT));
            // Whether there is such a call is asked first: a hub that goes away in the first wait is waited for, too.
            let left = if known { left } else { Duration::ZERO };
            let is_over = || limit.is_some_and(|limit| started.elapsed() >= limit);
            let asking = async { ask(hub.client()?, id, Some(left.as_secs_f64())).await };
            match asking.await {
                Ok((json, status)) => {
                    if status.state == "done" || is_over() {
                        return Ok((json, status));
                    }
                    known = true;
                    hub.answered();
                    // A hub that stops answers early.
                    if asked.elapsed() < left.min(PAUSE) {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                Err(why) if known && is_absence(&why) => {
                    if is_over() {
                        return Err(Lost { why, known });
                    }
                    hub.outlast(why).await.map_err(|why| Lost { why, known })?;
                }
                Err(why) => return Err(Lost { why, known: false }),
            }
        }
    }
}

/// A wait that came to no answer.
pub(super) struct Lost {
    pub(super) why: anyhow::Error,
    /// Whether the call is known, and was not over.
    known: bool,
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
        verb.output.note(format_args!("call {} succeeded; the hub no longer has its result", status.call_id));
        return Ok(Exit::Done);
    }
    let ended = Ended {
        machine: status.target.as_deref(),
        tool: status.tool.as_deref().unwrap_or_default(),
        result: status.result.as_deref(),
        error: status.error.as_ref(),
        duration_ms: status.duration_ms,
    };
    result::show(verb.output, &ended)
}

fn list(calls: &[CallSummary], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["CALL", "ASKED", "WHO", "MACHINE", "TOOL", "STATE", "OUTCOME", "MS"]);
    for call in calls {
        grid.row([
            call.call_id.to_string().into(),
            call.asked_at.map_or_else(|| "-".into(), |at| when::shown(at, now)).into(),
            call.caller.as_deref().unwrap_or("-").into(),
            call.target.as_str().into(),
            call.tool.as_str().into(),
            Field::state(&call.state),
            Field::state(call.outcome.as_deref().unwrap_or("-")),
            call.duration_ms.map_or_else(|| "-".into(), |ms| ms.to_string()).into(),
        ]);
    }
    grid
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
    use crate::args::Global;
    use crate::output::Output;

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

    const ID: &str = "0190f3a0-0000-7000-8000-000000000001";

    /// A hub that answers each connection with the next of these, an empty one with its end, and is gone then.
    fn hub(answers: &'static [&'static str]) -> Global {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).expect("a request");
                if !answer.is_empty() {
                    let body = format!(r#"{{"call_id":"{ID}",{answer}}}"#);
                    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", body.len());
                    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("writes");
                }
            }
        });
        let (hub, token) = (Some(format!("http://{address}")), Some("t".into()));
        Global { hub, token, data: None, json: false }
    }

    async fn waited(known: bool, patience: Duration, answers: &'static [&'static str]) -> Result<Exit> {
        let global = hub(answers);
        let output = Output::new(false);
        let verb = Verb { output: &output, global: &global };
        let id = ID.parse().expect("an id");
        let wait = Wait { id, limit: None, known, patience };
        wait.to_its_end(verb, verb.client()?).await
    }

    #[tokio::test]
    async fn a_hub_that_comes_back_is_asked_again() {
        let answers = &[r#""state":"waiting""#, "", "", r#""state":"done","outcome":"ok""#];
        assert_eq!(waited(false, PATIENCE, answers).await.expect("waits"), Exit::Done);
    }

    #[tokio::test]
    async fn a_call_whose_hub_stays_away_is_not_over() {
        assert_eq!(waited(false, PAUSE, &[r#""state":"waiting""#]).await.expect("gives up"), Exit::Pending);
        assert_eq!(waited(true, PAUSE, &[]).await.expect("gives up"), Exit::Pending);
    }

    #[tokio::test]
    async fn whoever_has_the_port_of_a_hub_that_is_gone_is_asked_nothing() {
        use crate::local::Whereabouts;
        use std::io::{Read as _, Write as _};
        let dir = tempfile::tempdir().expect("a directory");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let http = format!("http://{}", listener.local_addr().expect("an address"));
        let here =
            Whereabouts { http, pid: std::process::id(), public_key: None }.announce(dir.path()).expect("announced");
        let lock = std::fs::File::create(convoke_store::Paths::new(dir.path()).lock).expect("a file");
        lock.lock().expect("held");
        std::thread::spawn(move || {
            let mut hub = Some((here, lock));
            for state in [r#""state":"waiting""#, r#""state":"done","outcome":"ok""#] {
                let (mut stream, _) = listener.accept().expect("a connection");
                let _ = stream.read(&mut [0; 4096]).expect("a request");
                hub = None;
                let body = format!(r#"{{"call_id":"{ID}",{state}}}"#);
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", body.len());
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("writes");
            }
            drop(hub);
        });
        let global = Global { hub: None, token: Some("t".into()), data: Some(dir.path().to_owned()), json: false };
        let output = Output::new(false);
        let verb = Verb { output: &output, global: &global };
        let wait = Wait { id: ID.parse().expect("an id"), limit: None, known: false, patience: PAUSE };
        let client = verb.client().expect("a hub");
        assert_eq!(wait.to_its_end(verb, client).await.expect("gives up"), Exit::Pending, "not asked again");
    }

    #[tokio::test]
    async fn a_hub_that_never_answered_is_told_at_once() {
        let why = waited(false, PATIENCE, &[""]).await.expect_err("nobody is there");
        assert!(is_absence(&why), "{why:#}");
        assert_eq!(crate::exit::of(&why), Exit::Failed);
    }
}
