//! `convoke audit show`: the records of one call, told as a story.

use std::str::FromStr;

use anyhow::{Result, anyhow};
use convoke_api::Client;
use convoke_api::record::JournalQuery;
use convoke_core::id::CallId;
use convoke_core::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::list::Record;
use crate::commands::pages::{Pages, joined};
use crate::commands::{Verb, typed};
use crate::exit::Exit;
use crate::table::{Field, Grid};
use crate::when;

/// A record, or a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Seq(u64),
    Call(CallId),
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seq = text.parse().ok().filter(|seq| *seq > 0).map(Self::Seq);
        let found = seq.or_else(|| text.parse().ok().map(Self::Call));
        found.ok_or_else(|| "write the number of a record, or the id of a call".into())
    }
}

pub(super) async fn run(verb: Verb<'_>, what: What) -> Result<Exit> {
    #[derive(Deserialize)]
    struct About {
        seq: u64,
        call_id: Option<CallId>,
    }
    let client = verb.client()?;
    let (call, alone) = match what {
        What::Call(call) => (Some(call), Vec::new()),
        What::Seq(seq) => {
            let query = JournalQuery { after: Some(seq - 1), ..JournalQuery::default() };
            let found = Pages::new(&client, "/api/journal", "records", &query, Some(1))?.all().await?;
            let about = found.first().map(|record| typed::<About>(record)).transpose()?;
            match about.filter(|about| about.seq == seq) {
                Some(about) => (about.call_id, found),
                None => return Err(anyhow!("there is no record {seq}, or this token may not see it")),
            }
        }
    };
    let records = match call {
        Some(call) => of_call(&client, call).await?,
        None => alone,
    };
    if records.is_empty() {
        return Err(anyhow!("the journal has no records of this call, or this token may not see them"));
    }
    if verb.output.json {
        verb.output.json(&joined("records", &records))?;
        return Ok(Exit::Done);
    }
    let records = records.iter().map(|record| typed(record)).collect::<Result<Vec<Record>>>()?;
    verb.output.table(&story(call, &records, when::now()), "")?;
    Ok(Exit::Done)
}

async fn of_call(client: &Client, call: CallId) -> Result<Vec<Box<RawValue>>> {
    let query = JournalQuery { call: Some(call), ..JournalQuery::default() };
    Pages::new(client, "/api/journal", "records", &query, None)?.all().await
}

/// The records as facts, in the order in which things happened.
fn story(call: Option<CallId>, records: &[Record], now: Timestamp) -> Grid {
    let mut grid = Grid::facts();
    grid.fact_if("call", call.map(|call| call.to_string()));
    let Some(first) = records.first() else { return grid };
    if call.is_none() {
        return one(grid, first, now);
    }
    let has = |value: fn(&Record) -> Option<&String>| records.iter().find_map(value).cloned();
    grid.fact_if("machine", has(|record| record.target.as_ref()));
    grid.fact_if("tool", has(|record| record.tool.as_ref()));
    let args = records.iter().find_map(|record| record.args.as_ref());
    grid.fact_if("arguments", args.map(ToString::to_string));
    grid.fact("asked", by(first, first.at, now));
    if let Some(rule) = has(|record| record.rule.as_ref()) {
        grid.fact("rule", rule);
    }
    for record in records {
        let (what, text) = match (record.kind.as_str(), record.decision.as_deref(), record.phase.as_deref()) {
            ("approval", Some("pending"), _) => {
                ("waited", format!("for a person, from {}", when::absolute(record.at)))
            }
            ("approval", Some("confirmed"), _) if record.outcome.is_none() => ("agreed", decided(record, now)),
            ("approval", Some("rejected"), _) => ("refused", decided(record, now)),
            ("approval", Some("expired"), _) => ("expired", when::shown(record.at, now)),
            ("approval", Some("denied"), _) => ("not theirs to decide", by(record, record.at, now)),
            ("approval", ..) => continue,
            ("call", _, Some("intent")) => ("sent", when::shown(record.at, now)),
            ("call", _, Some("late")) => ("late answer", ended(record, now)),
            ("call", ..) => ("ended", ended(record, now)),
            (kind, ..) => (if kind == "refusal" { "refused" } else { "then" }, by(record, record.at, now)),
        };
        let field = record.outcome.as_deref().filter(|_| what == "ended");
        grid.fact(what, field.map_or_else(|| Field::from(&text), |state| Field::new(&text, tone(state))));
        let why = record.detail_text("reason").or_else(|| record.detail_text("what"));
        grid.fact_if("", why);
    }
    let seqs: Vec<_> = records.iter().map(|record| record.seq.to_string()).collect();
    grid.fact("records", seqs.join(", "));
    grid
}

fn tone(outcome: &str) -> crate::table::Tone {
    if outcome == "ok" { crate::table::Tone::Good } else { crate::table::Tone::Bad }
}

fn decided(record: &Record, now: Timestamp) -> String {
    let how = record.detail_text("how").map(|how| format!(" ({how})")).unwrap_or_default();
    by(record, record.at, now) + &how
}

fn by(record: &Record, at: Timestamp, now: Timestamp) -> String {
    let who = record.who.as_deref().unwrap_or("the hub");
    let door = record.door.as_deref().map(|door| format!(" ({door})")).unwrap_or_default();
    format!("by {who}{door}, {}", when::shown(at, now))
}

fn ended(record: &Record, now: Timestamp) -> String {
    let outcome = record.outcome.as_deref().unwrap_or("-");
    let took = record.duration_ms.map(|ms| format!(" after {ms} ms")).unwrap_or_default();
    format!("{outcome}{took}, {}", when::shown(record.at, now))
}

/// A record that belongs to no call.
fn one(mut grid: Grid, record: &Record, now: Timestamp) -> Grid {
    grid.fact("record", record.seq.to_string());
    grid.fact("kind", &record.kind);
    grid.fact("done", by(record, record.at, now));
    grid.fact_if("about", record.target.as_ref());
    grid.fact_if("tool", record.tool.as_ref());
    grid.fact_if("decision", record.decision.as_ref());
    grid.fact_if("rule", record.rule.as_ref());
    grid.fact_if("outcome", record.outcome.as_ref());
    for (name, value) in record.detail.iter().filter_map(|detail| detail.as_object()).flatten() {
        grid.fact(name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approved_call_is_told_from_its_asker_to_its_end() {
        let call = "0190f3a0-0000-7000-8000-000000000002";
        let text = r#"[
            {"seq":5,"at":"2026-06-04T18:00:00Z","kind":"approval","who":"bot","door":"mcp","target":"pc-1",
             "tool":"shell_exec","args":{"command":"uptime"},"decision":"pending","rule":"assistants"},
            {"seq":6,"at":"2026-06-04T18:01:00Z","kind":"approval","who":"anna","door":"page","target":"pc-1",
             "tool":"shell_exec","decision":"confirmed","detail":{"reason":"looks fine"}},
            {"seq":7,"at":"2026-06-04T18:01:00Z","kind":"approval","target":"pc-1","outcome":"used"},
            {"seq":8,"at":"2026-06-04T18:01:00Z","kind":"call","phase":"intent","who":"bot","door":"mcp",
             "target":"pc-1","tool":"shell_exec","args":{"command":"uptime"},"decision":"confirmed"},
            {"seq":9,"at":"2026-06-04T18:01:01Z","kind":"call","phase":"outcome","who":"bot","door":"mcp",
             "target":"pc-1","tool":"shell_exec","decision":"confirmed","outcome":"ok","duration_ms":12}]"#;
        let records: Vec<Record> = serde_json::from_str(text).expect("records");
        let now = Timestamp::parse("2026-06-04T18:05:00Z").expect("a time");
        insta::assert_snapshot!(story(call.parse().ok(), &records, now).render_plain(), @r#"
        call       0190f3a0-0000-7000-8000-000000000002
        machine    pc-1
        tool       shell_exec
        arguments  {"command":"uptime"}
        asked      by bot (mcp), 2026-06-04 18:00:00Z (5 min ago)
        rule       assistants
        waited     for a person, from 2026-06-04 18:00:00Z
        agreed     by anna (page), 2026-06-04 18:01:00Z (4 min ago)
                   looks fine
        sent       2026-06-04 18:01:00Z (4 min ago)
        ended      ok after 12 ms, 2026-06-04 18:01:01Z (3 min ago)
        records    5, 6, 7, 8, 9
        "#);
    }

    #[test]
    fn a_record_and_a_call_are_told_apart() {
        assert!(matches!("12".parse(), Ok(What::Seq(12))));
        assert!(matches!("0190f3a0-0000-7000-8000-000000000002".parse(), Ok(What::Call(_))));
        assert!("0".parse::<What>().is_err() && "pc-1".parse::<What>().is_err());
    }
}
