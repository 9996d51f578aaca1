//! `convoke approvals`: calls that wait for a person.

use anyhow::Result;
use clap::Subcommand;
use convoke_api::approvals::{ApprovalQuery, ApprovalView, Decide, Decided};
use convoke_core::id::ApprovalId;
use convoke_core::time::Timestamp;
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
            verb.output.table(&list(&approvals, when::now()), nothing(all))?;
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

fn list(approvals: &[ApprovalView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["APPROVAL", "STATE", "WHO ASKS", "DOOR", "AGENT", "TOOL", "ARGUMENTS", "EXPIRES"]);
    for approval in approvals {
        grid.row([
            approval.id.to_string().into(),
            Field::state(&approval.state),
            approval.caller.as_str().into(),
            approval.door.as_str().into(),
            approval.target.as_str().into(),
            approval.tool.as_str().into(),
            approval.args.as_ref().map_or("-", |args| args.get()).into(),
            when::shown(approval.expires_at, now).into(),
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
        insta::assert_snapshot!(list(&approvals, now).render_plain());
    }
}
