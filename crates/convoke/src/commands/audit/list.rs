//! `convoke audit list`: records as a table, newest first.

use anyhow::Result;
use clap::Args;
use convoke_api::record::JournalQuery;
use convoke_core::journal::{Decision, Kind};
use convoke_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::commands::pages::{Pages, joined};
use crate::commands::{Verb, typed};
use crate::complete;
use crate::exit::Exit;
use crate::table::{Field, Grid};
use crate::{parse, when};

/// Records that a table shows when nobody says.
const USUAL: u64 = 50;
/// Longest summary of what a record is about, in characters.
const SUMMARY: usize = 72;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only records about this machine, client or room
    #[arg(long, visible_alias = "target", value_name = "TARGET", add = complete::machines())]
    agent: Option<String>,
    /// Only records of this tool or probe
    #[arg(long)]
    tool: Option<String>,
    /// Only records of this kind
    #[arg(long, value_parser = parse::kind())]
    kind: Option<Kind>,
    /// Only what this user or token did
    #[arg(long)]
    who: Option<String>,
    /// Only records with this decision
    #[arg(long, value_parser = parse::decision())]
    decision: Option<Decision>,
    /// Only records from then on: 2h, 7d, or 2026-06-04T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse::since)]
    since: Option<parse::Since>,
    /// Only records after this one
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Show at most N records [default: 50 as a table, all with --json]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Which come first [default: newest as a table, oldest with --json]
    #[arg(long, value_parser = ["newest", "oldest"])]
    order: Option<String>,
}

/// A record, as far as people are shown it.
#[derive(Deserialize)]
pub(super) struct Record {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    pub(super) kind: String,
    pub(super) phase: Option<String>,
    pub(super) who: Option<String>,
    pub(super) door: Option<String>,
    pub(super) target: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) args: Option<Value>,
    pub(super) decision: Option<String>,
    pub(super) rule: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) duration_ms: Option<u64>,
    pub(super) detail: Option<Value>,
}

pub(super) async fn run(verb: Verb<'_>, args: ListArgs) -> Result<Exit> {
    let ListArgs { agent, tool, kind, who, decision, since, after, limit, order } = args;
    let client = verb.client()?;
    let now = when::now();
    let newest = order.as_deref().map_or(!verb.output.json, |order| order == "newest");
    let query = JournalQuery {
        after,
        before: newest.then_some(u64::MAX),
        agent,
        tool,
        kind: kind.map(|kind| kind.name().into()),
        who,
        decision: decision.map(|decision| decision.name().into()),
        since: since.map(|since| since.before(now).to_string()),
        ..JournalQuery::default()
    };
    let most = limit.or_else(|| (!verb.output.json).then_some(USUAL));
    let mut pages = Pages::new(&client, "/api/journal", "records", &query, most)?;
    if verb.output.json {
        verb.output.json(&joined("records", &pages.all().await?))?;
        return Ok(Exit::Done);
    }
    // A table for each page: a journal of years does not fit into memory as one.
    let mut shown = 0;
    let mut last = 0;
    while let Some(page) = pages.next().await? {
        let records = page.iter().map(|record| typed(record)).collect::<Result<Vec<Record>>>()?;
        let Some(end) = records.last() else { continue };
        last = end.seq;
        shown += records.len() as u64;
        verb.output.table(&table(&records, now), "")?;
    }
    if shown == 0 {
        verb.output.note("no matching records");
    } else if limit.is_none() && shown == USUAL && (!newest || last > 1) {
        let which = if newest { "newest" } else { "oldest" };
        verb.output
            .note(format_args!("the {which} {USUAL}; more with --limit N, fewer with --since, --who, --target"));
    }
    Ok(Exit::Done)
}

fn table(records: &[Record], now: Timestamp) -> Grid {
    let head = &["SEQ", "WHEN", "KIND", "WHO", "DOOR", "TARGET", "WHAT", "DECISION", "OUTCOME", "MS"];
    let mut grid = Grid::new(head);
    for record in records {
        let text = |value: &Option<String>| Field::from(value.as_deref().unwrap_or("-"));
        let state = |value: &Option<String>| Field::state(value.as_deref().unwrap_or("-"));
        let kind =
            record.phase.as_ref().map_or_else(|| record.kind.clone(), |phase| format!("{} {phase}", record.kind));
        grid.row([
            record.seq.to_string().into(),
            when::shown(record.at, now).into(),
            kind.into(),
            text(&record.who),
            text(&record.door),
            text(&record.target),
            record.summary().into(),
            state(&record.decision),
            state(&record.outcome),
            record.duration_ms.map_or_else(|| "-".into(), |ms| ms.to_string()).into(),
        ]);
    }
    grid
}

impl Record {
    /// What it is about, on a line: a call's tool with its arguments, or what was done to which thing.
    fn summary(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.tool.clone());
        parts.extend(self.args.as_ref().map(short).filter(|text| !text.is_empty()));
        parts.extend(self.detail_text("what"));
        parts.extend(self.names());
        if let Some(rule) = &self.rule {
            parts.push(format!("(rule {rule})"));
        }
        if parts.is_empty() { "-".into() } else { cut(&parts.join(" "), SUMMARY) }
    }

    /// A text in what the record adds.
    pub(super) fn detail_text(&self, name: &str) -> Option<String> {
        self.detail.as_ref()?.get(name)?.as_str().map(str::to_owned)
    }

    /// What a change was about, by its name.
    fn names(&self) -> Option<String> {
        let detail = self.detail.as_ref()?;
        // A rule is there as a whole.
        let of_rule = detail.get("rule").and_then(|rule| rule.get("id").or_else(|| rule.get("rule")));
        let named = ["name", "user", "participant", "label", "tags", "reason"].map(|name| detail.get(name));
        let found = of_rule.into_iter().chain(named.into_iter().flatten()).find(|value| !value.is_null())?;
        let text = text_of(found);
        (!text.is_empty()).then_some(text)
    }
}

/// Arguments on a line: of a command the command itself, of a file its path, else names and values.
pub(super) fn short(args: &Value) -> String {
    let Some(map) = args.as_object() else { return String::new() };
    if let Some(main) = ["command", "script", "path", "root", "content"].iter().find_map(|name| map.get(*name)) {
        return text_of(main);
    }
    let pairs: Vec<_> = map.iter().map(|(name, value)| format!("{name}={}", text_of(value))).collect();
    pairs.join(" ")
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

/// At most so many characters of a text.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_shown_a_line_each() {
        let text = r#"[
            {"seq":4,"at":"2026-06-04T18:03:00.000Z","kind":"token","who":"anna","door":"cli",
             "detail":{"what":"minted","id":"x","name":"ci","role":"operator"}},
            {"seq":3,"at":"2026-06-04T18:02:00.000Z","kind":"policy","who":"anna","door":"page",
             "detail":{"what":"added","rule":{"id":"no-nmap","pattern":"nmap"}}},
            {"seq":2,"at":"2026-06-04T18:01:00.000Z","kind":"call","phase":"outcome","who":"operator",
             "door":"cli","target":"pc-1","tool":"shell_exec","args":{"command":"rm -rf /","timeout_s":5},
             "decision":"blocked","rule":"posix-wipe","outcome":"blocked","duration_ms":3},
            {"seq":1,"at":"2026-06-04T18:00:00.000Z","kind":"hub","detail":{"what":"started"}}]"#;
        let records: Vec<Record> = serde_json::from_str(text).expect("records");
        let now = Timestamp::parse("2026-06-04T18:05:00Z").expect("a time");
        insta::assert_snapshot!(table(&records, now).render_plain(), @r"
        SEQ  WHEN                              KIND          WHO       DOOR  TARGET  WHAT                                   DECISION  OUTCOME  MS
        4    2026-06-04 18:03:00Z (2 min ago)  token         anna      cli   -       minted ci                              -         -        -
        3    2026-06-04 18:02:00Z (3 min ago)  policy        anna      page  -       added no-nmap                          -         -        -
        2    2026-06-04 18:01:00Z (4 min ago)  call outcome  operator  cli   pc-1    shell_exec rm -rf / (rule posix-wipe)  blocked   blocked  3
        1    2026-06-04 18:00:00Z (5 min ago)  hub           -         -     -       started                                -         -        -
        ");
    }

    #[test]
    fn arguments_are_short() {
        for (args, expect) in [
            (r#"{"command":"uptime","timeout_s":5}"#, "uptime"),
            (r#"{"path":"/tmp"}"#, "/tmp"),
            (r#"{"sections":["disk","memory"],"deep":true}"#, "deep=true sections=disk, memory"),
            ("{}", ""),
        ] {
            assert_eq!(short(&serde_json::from_str(args).expect("JSON")), expect);
        }
        assert_eq!(cut("äöü", 2), "äö…");
    }
}
