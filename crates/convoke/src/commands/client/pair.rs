//! Pairing: the code is typed, piped in, given, or an operator approves.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use convoke_client::{Client, Config, Event, Pairing, StateFile};
use convoke_core::secret::SecretText;
use convoke_yonexus::reason::{AdminNotification, PairFailure};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Which, address, drift};
use crate::commands::Verb;
use crate::exit::{Exit, usage};

#[derive(Debug, Args)]
pub(crate) struct PairArgs {
    #[command(flatten)]
    which: Which,
    /// The pairing code [default: ask]
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
}

pub(super) async fn pair(verb: Verb<'_>, args: PairArgs) -> Result<Exit> {
    let identifier = args.which.id.clone().ok_or_else(|| usage("name the client: --id client-a"))?;
    let path = args.which.path(verb, &identifier)?;
    let hub = address(verb, None)?;
    let state = StateFile::claim(&path, &identifier)?;
    // A client that pairs wants a new secret, whatever it had; what it had holds until then.
    let config = Config { pairing: Pairing::Anew, reconnect: false, ..Config::new(&hub, state) };
    let mut running = Client::new(config).start()?;
    let mut given = args.code.map(SecretText::new);
    let mut typed: Option<mpsc::Receiver<SecretText>> = None;
    let mut problem = None;
    // A code was asked for, so the identifier was allowed.
    let mut is_asked = false;
    loop {
        let event = tokio::select! {
            event = running.events.recv() => event,
            code = next(&mut typed), if typed.is_some() => {
                match code {
                    Some(code) => running.handle.confirm(code).await,
                    // Nobody can type any more; an operator may still approve.
                    None => typed = None,
                }
                continue;
            }
        };
        let Some(event) = event else { break };
        is_asked |= matches!(event, Event::CodeWanted { .. });
        match event {
            Event::CodeWanted { ttl_seconds, notification: AdminNotification::Sent } => {
                if let Some(code) = given.take() {
                    running.handle.confirm(code).await;
                    continue;
                }
                let text =
                    format!("the hub sent its administrator a code for `{identifier}`, valid for {ttl_seconds} s");
                verb.output.note(text);
                if typed.is_none() {
                    typed = Some(ask());
                }
            }
            Event::CodeWanted { notification: AdminNotification::Failed, .. } => {
                verb.output
                    .note("the hub could not reach its administrator and tries again; an operator can approve, too");
            }
            Event::PairFailed(PairFailure::InvalidCode) => {
                if typed.is_none() {
                    bail!("wrong code");
                }
                verb.output.note("wrong code; after five wrong ones the code is void");
                prompt();
            }
            Event::PairFailed(PairFailure::AdminNotificationFailed) => {
                verb.output.note("the code is not valid before the administrator was notified");
            }
            Event::PairFailed(reason) => {
                problem = Some(match reason {
                    PairFailure::Expired => "the code has expired or is void; pair again".to_owned(),
                    PairFailure::IdentifierNotAllowed if is_asked => {
                        "an operator of the hub denied this pairing, or the identifier is no longer allowed"
                            .to_owned()
                    }
                    PairFailure::IdentifierNotAllowed => {
                        "the hub does not allow this identifier to pair: it is not on its list, or has another key"
                            .to_owned()
                    }
                    other => format!("pairing failed at the hub: {other}"),
                });
                running.handle.stop().await;
            }
            Event::Paired => verb.output.note("paired; the secret was stored"),
            Event::Authenticated { clock_ahead_s } => {
                running.handle.stop().await;
                let _ = running.task.await;
                if verb.output.json {
                    verb.output.json(&json!({ "ok": true, "identifier": identifier, "hub": hub, "file": path }))?;
                } else {
                    verb.output.text(&format!("`{identifier}` is paired with {hub}"))?;
                    if let Some(ahead) = clock_ahead_s.filter(|s| s.abs() > 2) {
                        verb.output.note(drift(ahead));
                    }
                    verb.output.note("keep it connected with `convoke client run`");
                }
                return Ok(Exit::Done);
            }
            Event::ServerError { code, message } => {
                problem = Some(message.map_or_else(|| code.clone(), |words| format!("{words} ({code})")));
            }
            Event::AuthFailed { explanation, .. } => problem = Some(explanation),
            Event::Lost { why, .. } => problem = problem.or(Some(why)),
            _ => {}
        }
    }
    let ended = running.task.await.context("the client ended unexpectedly")?;
    bail!("{}", problem.unwrap_or_else(|| ended.to_string()))
}

async fn next(typed: &mut Option<mpsc::Receiver<SecretText>>) -> Option<SecretText> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

fn prompt() {
    if io::stdin().is_terminal() {
        let _ = write!(io::stderr(), "code: ");
        let _ = io::stderr().flush();
    }
}

/// Codes that are typed or piped in, read by a thread that ends with the process.
fn ask() -> mpsc::Receiver<SecretText> {
    prompt();
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if line.trim().is_empty() {
                continue;
            }
            if sender.blocking_send(SecretText::new(line.trim())).is_err() {
                break;
            }
        }
    });
    receiver
}
