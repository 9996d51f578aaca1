//! `convoke approvals`: calls that wait for a person.

use std::collections::HashMap;

use anyhow::Result;
use clap::Subcommand;
use convoke_api::Client;
use convoke_api::approvals::{ApprovalQuery, ApprovalView, Decide, Decided};
use convoke_api::record::JournalQuery;
use convoke_core::id::ApprovalId;
use convoke_core::journal::{Decision, Kind};
use convoke_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::pages::Pages;
use super::{Verb, pages, typed};
use crate::exit::Exit;
use crate::table::{Field, Grid};
use crate::when;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List waiting calls, newest first; without the right to approve, only your own
    List {
        /// Include decided and expired ones
        #[arg(long)]
        all: bool,
    },
    /// Approve someone else's call; it runs at once
    Approve {
        id: ApprovalId,
        /// The reason, for the journal
        #[arg(long)]
        reason: Option<String>,
    },
    /// Deny a call
    Deny {
        id: ApprovalId,
        /// The reason, for the journal
        #[arg(long)]
        reason: Option<String>,
    },
}

pub(crate) async fn run(verb: Verb<'_>, command: ApprovalsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let (id, approve, reason) = match command {
        ApprovalsCommand::List { all } => {
            let query = ApprovalQuery { state: all.then(|| "all".into()), ..ApprovalQuery::default() };
            let items = Pages::new(&client, "/api/approvals", "approvals", &query, None)?.all().await?;
            if verb.output.json {
                verb.output.json(&pages::joined("approvals", &items))?;
                return Ok(Exit::Done);
            }
            let approvals = items.iter().map(|item| typed(item)).collect::<Result<Vec<ApprovalView>>>()?;
            let told = if all { Told::of(&client, &approvals).await? } else { HashMap::new() };
            verb.output.table(&list(&approvals, all.then_some(&told), when::now()), nothing(all))?;
            return Ok(Exit::Done);
        }
        ApprovalsCommand::Approve { id, reason } => (id, true, reason),
        ApprovalsCommand::Deny { id, reason } => (id, false, reason),
    };
    let json: Box<RawValue> = client.post(&format!("/api/approvals/{id}"), &Decide { approve, reason }).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let decided: Decided = typed(&json)?;
    verb.output.text(&format!("{}: {}", decided.state, decided.id))?;
    if approve {
        verb.output
            .note(format_args!("who asked gets the result with: convoke calls show {} --wait", decided.call_id));
    }
    Ok(Exit::Done)
}

/// Said of an empty list. Who cannot approve is shown only what they asked for, so others' calls may well wait.
const fn nothing(all: bool) -> &'static str {
    if all {
        "there are no calls that you asked for or may decide"
    } else {
        "no waiting calls that you asked for or may decide"
    }
}

/// What the journal tells of an approval that is over: the hub keeps no arguments of those.
#[derive(Debug, Default)]
struct Told {
    args: Option<String>,
    decided_by: Option<String>,
}

impl Told {
    /// Of these approvals, as far as back as the oldest of them.
    async fn of(client: &Client, approvals: &[ApprovalView]) -> Result<HashMap<ApprovalId, Self>> {
        #[derive(Deserialize)]
        struct Record {
            approval: Option<ApprovalId>,
            who: Option<String>,
            args: Option<Box<RawValue>>,
            decision: Option<Decision>,
        }
        let mut told = HashMap::<ApprovalId, Self>::new();
        let Some(since) = approvals.iter().map(|approval| approval.created_at).min() else { return Ok(told) };
        let kind = Some(Kind::Approval.name().into());
        let query =
            JournalQuery { kind, since: Some(since.to_string()), before: Some(u64::MAX), ..JournalQuery::default() };
        let records = Pages::new(client, "/api/journal", "records", &query, None)?.all().await?;
        for record in &records {
            let Record { approval: Some(approval), who, args, decision } = typed(record)? else { continue };
            let told = told.entry(approval).or_default();
            match decision {
                Some(Decision::Pending) => told.args = args.map(|args| args.get().to_owned()),
                Some(Decision::Confirmed | Decision::Rejected) => told.decided_by = who,
                _ => {}
            }
        }
        Ok(told)
    }
}

/// With what the journal tells, where decided ones are among them.
fn list(approvals: &[ApprovalView], told: Option<&HashMap<ApprovalId, Told>>, now: Timestamp) -> Grid {
    let mut grid = match told {
        None => Grid::new(&["APPROVAL", "STATE", "WHO ASKS", "DOOR", "MACHINE", "TOOL", "ARGUMENTS", "EXPIRES"]),
        Some(_) => {
            Grid::new(&["APPROVAL", "STATE", "WHO ASKS", "DOOR", "MACHINE", "TOOL", "ARGUMENTS", "DECIDED BY"])
        }
    };
    for approval in approvals {
        let found = told.and_then(|told| told.get(&approval.id));
        let args = approval.args.as_ref().map(|args| args.get()).or_else(|| found?.args.as_deref());
        let expires = || when::shown(approval.expires_at, now);
        let last = match (told, found.and_then(|told| told.decided_by.clone())) {
            (None, _) => expires(),
            (Some(_), Some(by)) => by,
            (Some(_), None) if approval.state == "pending" => format!("waits until {}", expires()),
            (Some(_), None) => "-".into(),
        };
        grid.row([
            approval.id.to_string().into(),
            Field::state(&approval.state),
            approval.caller.as_str().into(),
            approval.door.as_str().into(),
            approval.target.as_str().into(),
            approval.tool.as_str().into(),
            args.unwrap_or("-").into(),
            last.into(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_shown_with_what_it_would_do() {
        let text = r#"[{"id":"0190f3a0-0000-7000-8000-000000000001","call_id":"0190f3a0-0000-7000-8000-000000000002",
            "state":"pending","caller":"bot","door":"mcp","target":"pc-1","tool":"shell_exec",
            "args":{"command":"uptime"},"args_digest":"x","created_at":"2026-06-04T18:00:00Z",
            "expires_at":"2026-06-04T18:15:00Z"}]"#;
        let approvals: Vec<ApprovalView> = serde_json::from_str(text).expect("approvals");
        let now = Timestamp::parse("2026-06-04T18:05:00Z").expect("a time");
        insta::assert_snapshot!(list(&approvals, None, now).render_plain());
        let told = Told { args: Some(r#"{"a":1}"#.into()), decided_by: Some("anna".into()) };
        let told = HashMap::from([(approvals[0].id, told)]);
        let all = list(&approvals, Some(&told), now).render_plain();
        assert!(all.contains("anna") && all.contains("uptime"), "{all}");
    }
}
