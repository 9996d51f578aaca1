//! `convoke call`: calls a tool of an agent and shows the answer.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use clap::Args;
use convoke_api::ClientError;
use convoke_api::calls::{CallPending, CallReply, CallRequest};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::calls::Wait;
use super::remote::{Progress, left_alone, patiently, take_back};
use super::result::{self, Ended};
use super::{Verb, typed};
use crate::complete;
use crate::exit::{Exit, usage};
use crate::parse::{self, AgentName};
use crate::show::clean;
use crate::when;

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The agent, by id or name
    #[arg(value_parser = parse::agent_name, add = complete::machines())]
    agent: AgentName,
    /// The tool, such as fs_list
    #[arg(add = complete::tools())]
    tool: String,
    /// The tool's arguments: path=/tmp, count=5, or name:=JSON for what is neither text nor number
    #[arg(value_name = "NAME=VALUE", conflicts_with = "args", value_parser = pair)]
    pairs: Vec<(String, Value)>,
    /// The tool's arguments: a JSON object, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    args: Option<String>,
    /// Give up after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    timeout: Option<f64>,
    /// Run at most once: the same key within a day returns the first call's outcome
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// If the call needs a person, wait for the decision
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(verb: Verb<'_>, args: CallArgs) -> Result<Exit> {
    let has_key = args.idempotency_key.is_some();
    let request = CallRequest {
        tool: args.tool.clone(),
        args: match args.args.as_deref() {
            Some(given) => Some(read_args("--args", given)?),
            None if args.pairs.is_empty() => None,
            None => Some(to_raw_value(&Map::from_iter(args.pairs))?),
        },
        timeout_s: args.timeout,
        idempotency_key: args.idempotency_key,
    };
    let client = verb.client()?;
    let path = format!("{}/call", args.agent.path());
    let name = clean(&args.agent.to_string());
    // Who reads JSON has no use for words between.
    let running = |seconds| format!("running on {name}: {seconds} s");
    let progress = |said| (!verb.output.json).then_some(said);
    let Some(asked) = patiently(progress(&running as Progress<'_>), client.post(&path, &request)).await else {
        left_alone(verb, &name);
        return Ok(Exit::Pending);
    };
    let json: Box<RawValue> = match asked {
        Err(why @ ClientError::Lost { .. }) => {
            verb.output.error(&anyhow::Error::new(why).context(lost(&args.agent, has_key)));
            return Ok(Exit::Pending);
        }
        asked => asked?,
    };
    if let Ok(pending) = serde_json::from_str::<CallPending>(json.get()) {
        if !args.wait {
            return self::pending(verb, &json, &pending);
        }
        if verb.output.json {
            verb.output.note(json.get());
        } else {
            let expires = when::relative(pending.approval.expires_at, when::now());
            verb.output.note(format_args!(
                "call {} waits for a person: convoke approvals approve {} (expires {expires})",
                pending.call_id, pending.approval.id
            ));
        }
        let waiting = Wait::taken(pending.call_id).to_its_end(verb, client.clone());
        let asks = |seconds| format!("waiting for a person to approve {name}: {seconds} s");
        return match patiently(progress(&asks as Progress<'_>), waiting).await {
            Some(ended) => ended,
            None => take_back(verb, &client, pending.call_id).await.map(|()| Exit::Pending),
        };
    }
    let reply: CallReply = typed(&json)?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(if reply.ok { Exit::Done } else { Exit::Failed });
    }
    let machine = args.agent.to_string();
    let ended = Ended {
        machine: Some(&machine),
        tool: &args.tool,
        result: reply.result.as_deref(),
        error: reply.error.as_ref(),
        duration_ms: reply.duration_ms,
    };
    result::show(verb.output, &ended)
}

/// Said of a call whose hub went away before it was done: who repeats it may run it twice.
fn lost(agent: &AgentName, has_key: bool) -> String {
    let next = if has_key {
        "repeat it with the same idempotency key; it does not run twice".to_owned()
    } else {
        format!("`convoke audit list --agent {agent}` shows its outcome")
    };
    format!("lost the hub before the call was done; the call may have run; {next}")
}

/// Says that a call waits for a person, and what to do about it.
pub(super) fn pending(verb: Verb<'_>, json: &RawValue, pending: &CallPending) -> Result<Exit> {
    if verb.output.json {
        verb.output.raw_json(json)?;
        return Ok(Exit::Pending);
    }
    let CallPending { approval, call_id } = pending;
    verb.output.note(format_args!(
        "call {call_id} waits for a person until {}\n\
         \x20 someone else approves it:  convoke approvals approve {}\n\
         \x20 wait for its result:       convoke calls show {call_id} --wait\n\
         \x20 cancel it:                 convoke calls cancel {call_id}",
        when::shown(approval.expires_at, when::now()),
        approval.id,
    ));
    if let Some(note) = &approval.note {
        verb.output.note(format_args!("note: {}", crate::show::clean(note)));
    }
    Ok(Exit::Pending)
}

/// `name=value`: whole numbers, true and false are what they look like, everything else is text. `name:=JSON` is exact.
fn pair(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, or --args with a JSON object")?;
    let (name, value) = match name.strip_suffix(':') {
        Some(name) => (name, serde_json::from_str(value).map_err(|why| format!("{name}: not JSON: {why}"))?),
        None => match value {
            "true" => (name, true.into()),
            "false" => (name, false.into()),
            value => (name, value.parse::<i64>().map_or_else(|_| value.into(), Value::from)),
        },
    };
    if name.is_empty() { Err("the name is missing before `=`".into()) } else { Ok((name.to_owned(), value)) }
}

/// Reads the arguments that `flag` gives and checks what can be checked here, so that a slip costs no call.
pub(super) fn read_args(flag: &str, given: &str) -> Result<Box<RawValue>> {
    let text = match given.strip_prefix('@') {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|why| usage(format!("{flag}: cannot read {file}: {why}")))?
        }
        None if given == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read the arguments from standard input")?;
            text
        }
        None => given.to_owned(),
    };
    let text = text.trim();
    match serde_json::from_str::<&RawValue>(text) {
        Ok(args) if args.get().starts_with('{') => Ok(args.to_owned()),
        Ok(_) => Err(usage(format!("{flag} must be a JSON object, such as {{\"path\": \"/tmp\"}}"))),
        Err(why) => Err(usage(format!("{flag} is not JSON: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_they_look() {
        let read = |text: &str| pair(text).map(|(name, value)| format!("{name}={value}"));
        assert_eq!(read("path=/tmp/a=b"), Ok(r#"path="/tmp/a=b""#.into()));
        assert_eq!(read("count=5"), Ok("count=5".into()));
        assert_eq!(read("deep=true"), Ok("deep=true".into()));
        assert_eq!(read("version=1.10"), Ok(r#"version="1.10""#.into()));
        assert_eq!(read(r#"sections:=["disk"]"#), Ok(r#"sections=["disk"]"#.into()));
        assert_eq!(read(r#"name:="5""#), Ok(r#"name="5""#.into()));
        for bad in ["path", "=x", "a:=x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arguments_come_from_the_line_or_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("args.json");
        std::fs::write(&file, "{\"path\": \"/tmp\"}\n").expect("written");
        let read = |text: &str| read_args("--params", text).map(|args| args.get().to_owned());
        assert_eq!(read("{\"a\":1}").expect("fits"), "{\"a\":1}");
        assert_eq!(read(&format!("@{}", file.display())).expect("fits"), "{\"path\": \"/tmp\"}");
        for (bad, expect) in
            [("[1]", "must be a JSON object"), ("{a:1}", "not JSON"), ("@/no/such/file", "cannot read")]
        {
            let why = read(bad).expect_err(bad);
            assert_eq!(crate::exit::of(&why), Exit::Usage, "{why:#}");
            let why = format!("{why:#}");
            assert!(why.contains(expect) && why.contains("--params"), "{why}");
        }
    }
}
