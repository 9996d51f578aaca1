//! Keeping the connection: lines in, messages out, a program per message.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use convoke_client::{Client, Config, Event, Handle, SendError};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::{Semaphore, mpsc};

use super::{Which, address, drift, outcome};
use crate::commands::Verb;
use crate::exit::{Exit, usage};
use crate::output::Output;
use crate::parse;
use crate::show::clean_lines;
use convoke_cli::signals::Signals;

/// Programs that may run at once; beyond it messages wait.
const MAX_PROGRAMS: usize = 8;
/// Messages that may wait for their programs; beyond it the connection is not read.
const MAX_WAITING: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    which: Which,
    /// Run a program for each message of a rule, with the content on its standard input; repeatable
    #[arg(long, value_name = "RULE=COMMAND", value_parser = parse::processor)]
    on: Vec<(String, String)>,
    /// Seconds between heartbeats
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    heartbeat_s: u64,
}

pub(super) async fn run(verb: Verb<'_>, args: RunArgs) -> Result<Exit> {
    let mut signals = Signals::listen()?;
    let state = args.which.open(verb)?;
    let hub = address(verb, Some(&state))?;
    let heartbeat = std::time::Duration::from_secs(args.heartbeat_s);
    let mut client = Client::new(Config { heartbeat, ..Config::new(&hub, state) });
    let (jobs, work) = mpsc::channel(MAX_WAITING);
    for (rule, command) in args.on {
        let jobs = jobs.clone();
        let name = rule.clone();
        let register = client.on(&rule, move |message| {
            let job = Job { rule: name.clone(), command: command.clone(), content: message.content.to_owned() };
            // Blocking here would stop the connection; a message that does not fit is logged.
            if jobs.try_send(job).is_err() {
                let _ = writeln!(io::stderr(), "dropped a message of rule `{name}`: its program is too slow");
            }
        });
        register.map_err(|why| usage(format!("--on {rule}: {why}")))?;
    }
    drop(jobs);
    tokio::spawn(programs(work));
    let mut running = client.start()?;
    tokio::spawn(lines(running.handle.clone()));
    loop {
        tokio::select! {
            event = running.events.recv() => match event {
                Some(event) => show(verb.output, event)?,
                None => break,
            },
            () = signals.next() => {
                running.handle.stop().await;
                break;
            }
        }
    }
    // What is still to be read must not keep the task from ending.
    running.events.close();
    outcome(running.task.await.context("the client ended unexpectedly")?)
}

/// Messages go to standard output, what happens to standard error.
fn show(output: &Output, event: Event) -> Result<()> {
    match event {
        Event::Message { rule, content } if output.json => output.json(&json!({ "rule": rule, "content": content })),
        // A terminal must not be moved about by what others send; a program gets it as it came.
        Event::Message { rule, content } if io::stdout().is_terminal() => {
            output.text(&clean_lines(&format!("{rule}::{content}")))
        }
        Event::Message { rule, content } => output.text(&format!("{rule}::{content}")),
        other => {
            if let Some(words) = words(&other) {
                output.note(words);
            }
            Ok(())
        }
    }
}

fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::Authenticated { clock_ahead_s } => match clock_ahead_s.filter(|s| s.abs() > 2) {
            Some(ahead) => format!("connected; {}", drift(ahead)),
            None => "connected".into(),
        },
        Event::AuthFailed { explanation, .. } => format!("the hub refused this client: {explanation}"),
        Event::RePairRequired(reason) => format!("the hub reset its trust ({})", reason.name()),
        Event::Status { identifier, status, reason } => {
            let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("{identifier} is {status}{why}")
        }
        Event::Notice(reason) => format!("the hub is about to close: {reason}"),
        Event::ServerError { code, message } => format!("the hub said {code}: {}", message.as_deref().unwrap_or("-")),
        Event::Malformed(why) => format!("cannot read a message of the hub: {why}"),
        Event::Lost { why, again_in } => match again_in {
            Some(pause) => format!("disconnected: {why}; trying again in {:.1} s", pause.as_secs_f64()),
            None => format!("disconnected: {why}"),
        },
        // The hub's error says why, and what follows it when it is tried again.
        Event::Rejected => return None,
        Event::PairFailed(_) | Event::CodeWanted { .. } | Event::Paired | Event::State(_) => return None,
        Event::Message { .. } => return None,
    })
}

/// Sends the lines of standard input. Its end is not the client's: a service has none.
async fn lines(handle: Handle) {
    let (sender, mut receiver) = mpsc::channel::<String>(64);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    while let Some(line) = receiver.recv().await {
        if line.is_empty() {
            continue;
        }
        let Some((rule, content)) = line.split_once("::") else {
            let _ = writeln!(io::stderr(), "not sent; write rule::content");
            continue;
        };
        // One after the other: the next is sent when the hub has taken this one.
        loop {
            match handle.send(rule, content).await {
                Ok(()) => break,
                Err(SendError::NotConnected | SendError::Lost) => {
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                    if handle.has_ended() {
                        return;
                    }
                }
                Err(why) => {
                    let _ = writeln!(io::stderr(), "not sent: {why}");
                    break;
                }
            }
        }
    }
}

struct Job {
    rule: String,
    command: String,
    content: String,
}

/// Runs programs, a few at once.
async fn programs(mut work: mpsc::Receiver<Job>) {
    let places = Arc::new(Semaphore::new(MAX_PROGRAMS));
    while let Some(job) = work.recv().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        tokio::spawn(async move {
            let outcome = program(&job).await;
            if let Err(why) = outcome {
                let _ = writeln!(io::stderr(), "the program of rule `{}` failed: {why}", job.rule);
            }
            drop(place);
        });
    }
}

async fn program(job: &Job) -> io::Result<()> {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    // The content is data on standard input and never part of the command.
    let mut child = Command::new(shell)
        .args([flag, &job.command])
        .env("CONVOKE_RULE", &job.rule)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input is within its rights.
        let _ = stdin.write_all(job.content.as_bytes()).await;
    }
    let status = child.wait().await?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}
