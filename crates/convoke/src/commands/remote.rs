//! Runs one command on one machine, through the gate as any call, and waits for its end.

use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Result;
use convoke_api::Client;
use convoke_api::agents::{Agent, OneAgentQuery};
use convoke_api::calls::{CallFailure, CallPending, CallReply, CallRequest, CallStatus};
use convoke_core::id::CallId;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::calls::Wait;
use super::{Verb, prompt, typed};
use crate::parse::AgentName;
use crate::show::{self, clean};
use crate::when;

/// The machine that a person means. The beginning of its name is enough.
pub(super) async fn find(client: &Client, machine: &AgentName) -> Result<Agent> {
    Ok(client.get(&machine.path(), &OneAgentQuery { prefix: Some(true) }).await?)
}

/// A command that a person typed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line<'a> {
    /// For the machine's shell, as it is.
    Shell(&'a str),
    /// A program with its arguments, which no shell takes apart.
    Words(&'a [String]),
}

impl<'a> Line<'a> {
    /// One word is a line for the shell, several are a program and its arguments.
    pub(super) fn of(words: &'a [String]) -> Self {
        match words {
            [line] => Self::Shell(line),
            words => Self::Words(words),
        }
    }

    fn posix(self) -> Result<Cow<'a, str>> {
        match self {
            Self::Shell(line) => Ok(line.into()),
            Self::Words(words) => Ok(shlex::try_join(words.iter().map(String::as_str))?.into()),
        }
    }

    fn powershell(self) -> Cow<'a, str> {
        match self {
            Self::Shell(line) => line.into(),
            Self::Words(words) => {
                let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.replace('\'', "''"))).collect();
                format!("& {}; exit $LASTEXITCODE", quoted.join(" ")).into()
            }
        }
    }
}

/// What a machine says of itself when it connects, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Facts {
    os: String,
    features: Vec<String>,
}

/// The call that runs a line on this machine.
pub(super) fn request(agent: &Agent, line: Line<'_>, timeout: Duration) -> Result<CallRequest> {
    let facts = agent.meta.as_ref().and_then(|meta| serde_json::from_str(meta.get()).ok());
    let Facts { os, features } = facts.unwrap_or_default();
    let timeout_s = timeout.as_secs().max(1);
    let is_windows = os.eq_ignore_ascii_case("windows");
    // Agents for Linux from before they had `shell_exec` run scripts of the other tool with a shell.
    let (tool, args) = if is_windows {
        ("powershell_exec", json!({ "script": line.powershell(), "timeout_s": timeout_s }))
    } else if features.iter().any(|feature| feature == "shell_exec") {
        ("shell_exec", json!({ "command": line.posix()?, "timeout_s": timeout_s }))
    } else {
        ("powershell_exec", json!({ "script": line.posix()?, "timeout_s": timeout_s }))
    };
    let args = Some(to_raw_value(&args)?);
    Ok(CallRequest { tool: tool.into(), args, timeout_s: None, idempotency_key: None })
}

/// What a command came to.
#[derive(Debug, Deserialize)]
pub(super) struct Ran {
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
    #[serde(default)]
    pub(super) exit_code: Option<i64>,
    #[serde(default)]
    pub(super) truncated: bool,
    #[serde(default)]
    stdout_bytes: u64,
    #[serde(default)]
    stderr_bytes: u64,
}

impl Ran {
    /// Says that the output was cut, and how to get all of it.
    pub(super) fn cut(&self, machine: &str) -> Option<String> {
        let (got, all) = (self.stdout.len() + self.stderr.len(), self.stdout_bytes + self.stderr_bytes);
        self.truncated.then(|| {
            format!(
                "the output was cut: {} of {}; to get all of it, write it to a file there and copy that: \
                 convoke exec {machine} -- 'COMMAND > /tmp/out' && convoke cp {machine}:/tmp/out .",
                show::bytes(got as u64),
                show::bytes(all),
            )
        })
    }
}

/// How it ended.
#[derive(Debug)]
pub(super) enum End {
    /// It ran.
    Ran(Ran),
    /// It did not, or nobody knows.
    Failed(CallFailure),
    /// The person at this end stopped waiting.
    LeftAlone,
}

/// An end, with the hub's own JSON.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) json: Option<Box<RawValue>>,
    pub(super) duration_ms: Option<u64>,
}

/// How a call ended, in the hub's own JSON and read. Nothing if the person stopped waiting.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) json: Box<RawValue>,
    pub(super) result: Option<Box<RawValue>>,
    pub(super) error: Option<CallFailure>,
    pub(super) duration_ms: Option<u64>,
}

/// Runs it. With `watched`, a terminal is told that it takes long, and Ctrl-C stops waiting.
pub(super) async fn run(
    verb: Verb<'_>,
    client: &Client,
    agent: &Agent,
    request: &CallRequest,
    watched: bool,
) -> Result<Ended> {
    let name = clean(&agent.id);
    let running = |seconds| format!("running on {name}: {seconds} s");
    match place(verb, client, agent, request, watched.then_some(&running)).await? {
        None => Ok(Ended { end: End::LeftAlone, json: None, duration_ms: None }),
        Some(Answered { json, result, error, duration_ms }) => {
            Ok(Ended { end: end(result.as_deref(), error)?, json: Some(json), duration_ms })
        }
    }
}

/// What a terminal is told after so many seconds.
pub(super) type Progress<'a> = &'a dyn Fn(u64) -> String;

/// Places a call and waits for its end. With `progress`, a terminal is told how far it is, and Ctrl-C stops waiting.
pub(super) async fn place(
    verb: Verb<'_>,
    client: &Client,
    agent: &Agent,
    request: &CallRequest,
    progress: Option<Progress<'_>>,
) -> Result<Option<Answered>> {
    let path = format!("/api/agents/{}/call", agent.id);
    let name = clean(&agent.id);
    let asked = client.post::<_, Box<RawValue>>(&path, request);
    let Some(json) = patiently(progress, asked).await else {
        left_alone(verb, &name);
        return Ok(None);
    };
    let json = json?;
    let Ok(pending) = serde_json::from_str::<CallPending>(json.get()) else {
        let CallReply { result, error, duration_ms, .. } = typed(&json)?;
        return Ok(Some(Answered { json, result, error, duration_ms }));
    };
    let expires = when::relative(pending.approval.expires_at, when::now());
    verb.output.remark(format_args!(
        "{name}: call {} waits for a person: convoke approvals approve {} (expires {expires})",
        pending.call_id, pending.approval.id
    ));
    if let Some(note) = &pending.approval.note {
        verb.output.remark(format_args!("note: {}", clean(note)));
    }
    let waiting = Wait::taken(pending.call_id).answer(verb, client.clone());
    let asks = |seconds| format!("waiting for a person to approve {name}: {seconds} s");
    let Some(answer) = patiently(progress.map(|_| &asks as Progress<'_>), waiting).await else {
        take_back(verb, client, pending.call_id).await?;
        return Ok(None);
    };
    let (json, CallStatus { result, error, duration_ms, .. }) = answer.map_err(|lost| lost.why)?;
    Ok(Some(Answered { json, result, error, duration_ms }))
}

fn end(result: Option<&RawValue>, error: Option<CallFailure>) -> Result<End> {
    if let Some(failure) = error {
        return Ok(End::Failed(failure));
    }
    let text = convoke_core::json::tame(result.map_or("{}", RawValue::get));
    Ok(End::Ran(serde_json::from_str(&text)?))
}

/// Waits, and tells a terminal how far it is. Nothing if the person pressed Ctrl-C.
pub(super) async fn patiently<T>(progress: Option<Progress<'_>>, work: impl Future<Output = T>) -> Option<T> {
    let Some(progress) = progress else { return Some(work.await) };
    let shows = std::io::stderr().is_terminal();
    let started = Instant::now();
    let mut work = pin!(work);
    let mut shown = false;
    let done = loop {
        tokio::select! {
            done = &mut work => break Some(done),
            _ = tokio::signal::ctrl_c() => break None,
            () = tokio::time::sleep(Duration::from_secs(1)), if shows => {
                shown = true;
                eprint!("\r\u{1b}[2K{}", progress(started.elapsed().as_secs()));
            }
        }
    };
    if shown {
        eprint!("\r\u{1b}[2K");
    }
    done
}

/// Says that a call goes on without whoever waited for it.
pub(super) fn left_alone(verb: Verb<'_>, machine: &str) {
    verb.output.remark(format_args!(
        "stopped waiting; what was asked for goes on at {machine} until it ends or its time is up: convoke calls list"
    ));
}

/// Says what stays behind, and takes it back if the person wants that.
pub(super) async fn take_back(verb: Verb<'_>, client: &Client, id: CallId) -> Result<()> {
    let output = verb.output;
    let question = format!("call {id} still waits for a person. Cancel it?");
    if std::io::stdin().is_terminal() && prompt::confirm(&question, "")? {
        let _: Box<RawValue> = client.delete(&format!("/api/calls/{id}")).await?;
        output.remark(format_args!("cancelled: {id}"));
    } else {
        output.remark(format_args!(
            "call {id} still waits for a person and runs once somebody approves it; cancel it with \
             `convoke calls cancel {id}`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(meta: &str) -> Agent {
        let text = format!(
            r#"{{"id":"pc-1","protocol":"kenny","online":true,"trust":"trusted","liveness":"online","health":"ok",
                "tags":[],"meta":{meta}}}"#
        );
        serde_json::from_str(&text).expect("an agent")
    }

    #[track_caller]
    fn check(meta: &str, words: &[&str], expect: &str) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let request = request(&agent(meta), Line::of(&words), Duration::from_secs(5)).expect("a request");
        assert_eq!(format!("{} {}", request.tool, request.args.expect("arguments")), expect);
    }

    #[test]
    fn a_line_goes_to_the_machines_own_shell() {
        let new = r#"{"os":"linux","features":["posix_guard","shell_exec"]}"#;
        check(new, &["ls | wc"], r#"shell_exec {"command":"ls | wc","timeout_s":5}"#);
        check(new, &["echo", "a b", "$HOME"], r#"shell_exec {"command":"echo 'a b' '$HOME'","timeout_s":5}"#);
        check(r#"{"os":"linux"}"#, &["uptime"], r#"powershell_exec {"script":"uptime","timeout_s":5}"#);
        check(r#"{"os":"windows"}"#, &["Get-Date"], r#"powershell_exec {"script":"Get-Date","timeout_s":5}"#);
        check(
            r#"{"os":"windows"}"#,
            &["cmd", "it's"],
            r#"powershell_exec {"script":"& 'cmd' 'it''s'; exit $LASTEXITCODE","timeout_s":5}"#,
        );
    }

    #[test]
    fn what_was_cut_is_told() {
        let ran: Ran = serde_json::from_str(r#"{"stdout":"abc","exit_code":0,"truncated":true,"stdout_bytes":2048}"#)
            .expect("a result");
        let said = ran.cut("pc-1").expect("it was cut");
        assert!(said.contains("3 B of 2.0 KiB") && said.contains("convoke cp pc-1:"), "{said}");
        let ran: Ran = serde_json::from_str(r#"{"stdout":"abc","exit_code":0}"#).expect("a result");
        assert_eq!(ran.cut("pc-1"), None);
    }
}
