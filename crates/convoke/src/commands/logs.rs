//! `convoke logs`: log lines of agents and of the hub about them.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use convoke_api::agents::Agent;
use convoke_api::record::{EventQuery, LogEntry, LogQuery};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::agents::looked_up;
use super::pages::{MOST, joined};
use super::reach::{PATIENCE, PAUSE, Reach};
use super::{Verb, typed};
use crate::complete;
use crate::exit::Exit;
use crate::output::Output;
use crate::parse::{self, AgentName};
use crate::show::clean;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Only lines of this agent, by id, name, or the unique beginning of either
    #[arg(long, value_parser = parse::agent_name, add = complete::machines())]
    agent: Option<AgentName>,
    /// Only lines of this level or above
    #[arg(long, value_parser = PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"]))]
    level: Option<String>,
    /// Print new lines as they arrive, also after a restart of the hub
    #[arg(long, short)]
    follow: bool,
    /// Show the newest N lines
    #[arg(long, default_value_t = 1000)]
    limit: usize,
}

/// How long a stream may be silent: the hub says every 15 seconds that it is there.
const SILENCE: Duration = Duration::from_secs(60);
/// The levels, the most serious first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub(crate) async fn run(verb: Verb<'_>, args: LogsArgs) -> Result<Exit> {
    let client = verb.client()?;
    let agent = match &args.agent {
        Some(agent) => Some(typed::<Agent>(&looked_up(&client, agent, true).await?)?.id),
        None => None,
    };
    let hub = Reach::new(verb, client, PATIENCE)?;
    let query = LogQuery { agent, level: args.level, ..LogQuery::default() };
    let mut cursor = Cursor { hub, query };
    let mut newest = VecDeque::new();
    while let Some(page) = cursor.advance().await? {
        newest.extend(page);
        newest.drain(..newest.len().saturating_sub(args.limit));
    }
    if !args.follow {
        let newest = Vec::from(newest);
        if verb.output.json {
            verb.output.json(&joined("entries", &newest))?;
        } else if newest.is_empty() {
            verb.output.note("no log lines");
        } else {
            print(verb.output, &newest)?;
        }
        return Ok(Exit::Done);
    }
    print(verb.output, newest.make_contiguous())?;
    let following = async {
        loop {
            match follow(&mut cursor, verb.output).await {
                // The hub stops, or this was too slow for the stream.
                Ok(()) => tokio::time::sleep(PAUSE).await,
                Err(why) => cursor.hub.outlast(why).await?,
            }
        }
    };
    tokio::select! {
        ended = following => ended,
        () = nobody_reads() => Ok(Exit::Done),
    }
}

/// Prints lines as they arrive, until the stream ends.
async fn follow(cursor: &mut Cursor<'_>, output: &Output) -> Result<()> {
    let query = EventQuery { after: None, kinds: Some("log".into()) };
    let mut stream = cursor.hub.client()?.events("/api/events", &query).await?;
    // Once it has begun, a line that is not among those that are kept by now arrives with it.
    let mut is_behind = true;
    while tokio::time::timeout(SILENCE, stream.arrives()).await.unwrap_or(Ok(false))? {
        while let Some(event) = stream.next_arrived() {
            match event.kind.as_str() {
                "reset" => is_behind = true,
                "log" if !is_behind => cursor.take(event.data, output)?,
                // It is read from the hub's log with the others.
                _ => {}
            }
        }
        while is_behind {
            match cursor.advance().await? {
                Some(page) => print(output, &page)?,
                None => is_behind = false,
            }
        }
        cursor.hub.answered();
    }
    Ok(())
}

/// Resolves when nobody reads standard output any more (`logs -f | head -1`): without a line to write, nothing else
/// would tell.
#[cfg(unix)]
async fn nobody_reads() {
    use std::os::fd::AsFd as _;
    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;
    // Unchecked: to make it a pipe that does not block would make it so for what is written here, too. What cannot be
    // watched is a file, which has no reader.
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    if let Ok(pipe) = stdout.and_then(|fd| Sender::from_file_unchecked(fd.into()))
        && pipe.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

#[cfg(not(unix))]
async fn nobody_reads() {
    std::future::pending().await
}

/// Where in the logs we are.
struct Cursor<'a> {
    hub: Reach<'a>,
    query: LogQuery,
}

#[derive(Deserialize)]
struct Page {
    entries: Vec<Box<RawValue>>,
    next: Option<i64>,
}

impl Cursor<'_> {
    /// The lines after those before; nothing when there are none for now.
    async fn advance(&mut self) -> Result<Option<Vec<Box<RawValue>>>> {
        let mut page = self.page(MOST).await?;
        if page.next.is_none() && !page.entries.is_empty() {
            // Only a full page says where it ends, so a part of one is asked for again at its exact length.
            page = self.page(u32::try_from(page.entries.len()).unwrap_or(MOST)).await?;
        }
        match page.next {
            Some(next) => {
                self.query.after = Some(next);
                Ok(Some(page.entries))
            }
            None => Ok(None),
        }
    }

    /// Prints a line that has just arrived, unless it was shown or is not asked for.
    fn take(&mut self, line: String, output: &Output) -> Result<()> {
        let line = RawValue::from_string(line)?;
        let entry: LogEntry = typed(&line)?;
        if self.query.after.is_some_and(|shown| entry.id <= shown) {
            return Ok(());
        }
        self.query.after = Some(entry.id);
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
        let is_asked_for = self.query.agent.as_ref().is_none_or(|agent| entry.agent.as_ref() == Some(agent))
            && self.query.level.as_deref().is_none_or(|level| rank(&entry.level) <= rank(level));
        if is_asked_for { print(output, &[line]) } else { Ok(()) }
    }

    async fn page(&mut self, limit: u32) -> Result<Page> {
        let query = LogQuery { limit: Some(limit), ..self.query.clone() };
        Ok(self.hub.client()?.get("/api/logs", &query).await?)
    }
}

/// A line each; for a program one JSON object each.
fn print(output: &Output, entries: &[Box<RawValue>]) -> Result<()> {
    for entry in entries {
        if output.json {
            output.raw_json(entry)?;
        } else {
            output.text(&line(&typed(entry)?))?;
        }
    }
    Ok(())
}

fn line(entry: &LogEntry) -> String {
    let mut line = format!(
        "{} {:5} {} {}: {}",
        clean(&entry.at),
        clean(&entry.level).to_uppercase(),
        clean(entry.agent.as_deref().unwrap_or(&entry.source)),
        clean(&entry.target),
        clean(&entry.message)
    );
    let fields = entry.fields.as_ref().and_then(|f| serde_json::from_str::<Map<String, Value>>(f.get()).ok());
    for (name, value) in fields.into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line.push_str(&format!(" {}={}", clean(&name), clean(&value)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_the_agent_writes() {
        let entry = r#"{"id":1,"at":"2026-06-04T18:00:00Z","agent":"pc-1","source":"agent","level":"warn","target":"disk",
            "message":"almost\nfull\u001b[0m","fields":{"percent":93,"mount":"/"}}"#;
        let entry: LogEntry = serde_json::from_str(entry).expect("an entry");
        let shown = line(&entry);
        assert!(shown.starts_with("2026-06-04T18:00:00Z WARN  pc-1 disk: almost full\\u{1b}[0m"), "{shown}");
        assert!(shown.contains(" percent=93") && shown.contains(" mount=/"), "{shown}");
        assert_eq!(shown.lines().count(), 1);
    }
}
