//! `convoke status`: the hub, its machines, what waits for a person, the journal and the disk, on one page.

use anyhow::Result;
use convoke_api::approvals::ApprovalQuery;
use convoke_api::fleet::Fleet;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::pages::Pages;
use super::{NO_QUERY, Verb, approvers, typed};
use crate::exit::Exit;
use crate::show;
use crate::table::{Field, Grid, Tone};

/// What the hub says of itself. An older one leaves some of it out.
#[derive(Deserialize)]
struct Hub {
    version: String,
    http: String,
    #[serde(default)]
    calls: Calls,
    journal_seq: Option<u64>,
    #[serde(default)]
    store_failing: bool,
    store_bytes: Option<u64>,
    disk_free_bytes: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Calls {
    running: u64,
    waiting: u64,
}

/// Below this a disk is soon full.
const LITTLE: u64 = 1 << 30;

pub(crate) async fn run(verb: Verb<'_>) -> Result<Exit> {
    let client = verb.client()?;
    let hub: Box<RawValue> = client.get("/api/hub", &NO_QUERY).await?;
    let fleet: Box<RawValue> = client.get("/api/fleet", &NO_QUERY).await?;
    let approvals =
        Pages::new(&client, "/api/approvals", "approvals", &ApprovalQuery::default(), None)?.all().await?;
    let pairings: Value = client.get("/api/yonexus/pairings", &NO_QUERY).await?;
    let pairings = pairings["pairings"].as_array().map_or(0, Vec::len);
    if verb.output.json {
        verb.output.json(&json!({
            "hub": hub, "fleet": fleet, "waiting": { "approvals": approvals.len(), "pairings": pairings },
        }))?;
        return Ok(Exit::Done);
    }
    let lone = approvers::persons(&client).await.as_ref().and_then(approvers::too_few);
    let facts = Facts { hub: typed(&hub)?, fleet: typed(&fleet)?, approvals: approvals.len(), pairings, lone };
    verb.output.table(&facts.sheet(), "")?;
    Ok(Exit::Done)
}

struct Facts {
    hub: Hub,
    fleet: Fleet,
    approvals: usize,
    pairings: usize,
    /// What is wrong with those who may approve.
    lone: Option<String>,
}

impl Facts {
    fn sheet(&self) -> Grid {
        let Self { hub, fleet, approvals, pairings, lone } = self;
        let mut grid = Grid::facts();
        grid.fact("hub", format!("{} (version {})", hub.http, hub.version));
        grid.fact("machines", self.machines());
        let unwell: Vec<_> = fleet
            .agents
            .iter()
            .filter(|agent| matches!(agent.overall.as_str(), "crit" | "warn"))
            .map(|agent| format!("{} {}", agent.agent_id, agent.overall))
            .collect();
        if !unwell.is_empty() {
            grid.fact("health", Field::new(shortened(&unwell), Tone::of(&fleet.overall)));
        }
        grid.fact("calls", format!("{} running, {} waiting for a person", hub.calls.running, hub.calls.waiting));
        let waits: Vec<String> =
            [(*approvals, "approval", "convoke approvals list"), (*pairings, "pairing", "convoke pairings list")]
                .into_iter()
                .filter(|(n, ..)| *n > 0)
                .map(|(n, what, verb)| format!("{n} {what}{} ({verb})", if n == 1 { "" } else { "s" }))
                .collect();
        let nothing = || Field::new("nothing", Tone::Dim);
        let waits = if waits.is_empty() { nothing() } else { Field::new(waits.join(", "), Tone::Warn) };
        grid.fact("waits for you", waits);
        grid.fact_if("approving", lone.as_ref().map(|why| Field::new(why, Tone::Warn)));
        grid.fact_if("journal", hub.journal_seq.map(|seq| format!("{seq} records")));
        let store = match (hub.store_failing, hub.store_bytes) {
            (true, _) => Some(Field::new("the last write failed; is the disk full?", Tone::Bad)),
            (false, bytes) => bytes.map(|bytes| Field::from(show::bytes(bytes))),
        };
        grid.fact_if("database", store);
        let tone = |free| if free < LITTLE { Tone::Bad } else { Tone::Plain };
        grid.fact_if("disk free", hub.disk_free_bytes.map(|free| Field::new(show::bytes(free), tone(free))));
        grid
    }

    fn machines(&self) -> Field {
        let agents = &self.fleet.agents;
        let online = agents.iter().filter(|agent| agent.online).count();
        match agents.len() {
            0 => Field::new("none; add one with `convoke enroll-token ID`", Tone::Dim),
            all => format!("{all}, {online} online").into(),
        }
    }
}

/// The first of some, and how many more there are.
fn shortened(all: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = all.len().saturating_sub(SHOWN);
    let shown = all[..all.len().min(SHOWN)].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_says_how_it_stands() {
        let hub = r#"{"version":"0.1.0","http":"http://127.0.0.1:7410","calls":{"running":1,"waiting":2},
            "journal_seq":120,"store_bytes":1048576,"disk_free_bytes":2147483648}"#;
        let fleet = r#"{"overall":"crit","agents":[
            {"agent_id":"pc-1","online":true,"overall":"crit","sections":{}},
            {"agent_id":"pc-2","online":false,"overall":"ok","sections":{}}]}"#;
        let (hub, fleet) = (serde_json::from_str(hub).expect("a hub"), serde_json::from_str(fleet).expect("a fleet"));
        let facts = Facts { hub, fleet, approvals: 2, pairings: 1, lone: None };
        insta::assert_snapshot!(facts.sheet().render_plain(), @r"
        hub            http://127.0.0.1:7410 (version 0.1.0)
        machines       2, 1 online
        health         pc-1 crit
        calls          1 running, 2 waiting for a person
        waits for you  2 approvals (convoke approvals list), 1 pairing (convoke pairings list)
        journal        120 records
        database       1.0 MiB
        disk free      2.0 GiB
        ");
    }
}
