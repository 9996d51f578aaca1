//! Shows the result of verifying a journal.

use std::fmt::Display;
use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::journal::{Anchor, Summary};
use convoke_store::audit::Verdict;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output::Output;
use crate::table::Grid;

/// Says whether the journal at `path` holds.
pub(super) fn show(output: &Output, path: &Path, verdict: &Verdict) -> Result<Exit> {
    let exit = if verdict.is_good() { Exit::Done } else { Exit::Failed };
    if output.json {
        output.json(&machine_readable(verdict))?;
        return Ok(exit);
    }
    match verdict {
        Verdict::Good(summary) => {
            output.text(&found(&path.display(), verdict))?;
            output.table(&facts(summary), "")?;
            if summary.signed_up_to < summary.last_seq {
                output.note(format_args!(
                    "note: the {} records after record {} are not signed yet",
                    summary.last_seq - summary.signed_up_to,
                    summary.signed_up_to
                ));
            }
            output.note(
                "Note the last place elsewhere and give it with --checkpoint next time: this finds a journal whose \
                 end was cut off.",
            );
        }
        bad => output.note(format_args!("error: {}", found(&path.display(), bad))),
    }
    Ok(exit)
}

/// What is wrong with the journal at `place`.
pub(super) fn found(place: &dyn Display, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Good(_) => format!("the journal at {place} holds"),
        Verdict::Bad(finding) => format!("the journal at {place} does not hold: {finding}"),
        Verdict::DamagedLog(damage) => format!(
            "the journal at {place} cannot be read to its end, which is in the write-ahead log hub.db-wal: {damage}"
        ),
        Verdict::Damaged { last_good, why } => {
            format!("the journal at {place} is damaged after record {last_good}: {why}")
        }
    }
}

/// The facts about a journal that holds.
pub(super) fn facts(summary: &Summary) -> Grid {
    let mut grid = Grid::facts();
    grid.fact_if("hub", summary.hub_id.map(|id| id.to_string()));
    grid.fact("records", summary.last_seq.to_string());
    grid.fact("checkpoints", format!("{}, up to record {}", summary.checkpoints, summary.signed_up_to));
    for key in &summary.keys {
        grid.fact("signed by", STANDARD.encode(key));
    }
    grid.fact("last place", place(summary));
    grid
}

fn place(summary: &Summary) -> String {
    Anchor { seq: summary.last_seq, hash: summary.last_hash }.to_string()
}

fn machine_readable(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Good(summary) => json!({
            "ok": true,
            "hub_id": summary.hub_id,
            "records": summary.last_seq,
            "checkpoints": summary.checkpoints,
            "signed_up_to": summary.signed_up_to,
            "keys": summary.keys.iter().map(|key| STANDARD.encode(key)).collect::<Vec<_>>(),
            "last": place(summary),
        }),
        Verdict::Bad(finding) => json!({ "ok": false, "seq": finding.seq(), "finding": finding.to_string() }),
        Verdict::DamagedLog(damage) => json!({
            "ok": false,
            "seq": null,
            "finding": format!("the write-ahead log cannot be read to its end: {damage}"),
        }),
        Verdict::Damaged { last_good, why } => json!({ "ok": false, "seq": last_good + 1, "finding": why }),
    }
}
