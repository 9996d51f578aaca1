//! `convoke fleet`: show the health of every agent.

use anyhow::Result;
use convoke_api::fleet::{Fleet, FleetAgent};
use serde_json::value::RawValue;

use super::{NO_QUERY, Verb, typed};
use crate::exit::Exit;
use crate::table::{Field, Grid, Tone};

pub(crate) async fn run(verb: Verb<'_>) -> Result<Exit> {
    let client = verb.client()?;
    let json: Box<RawValue> = client.get("/api/fleet", &NO_QUERY).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let fleet: Fleet = typed(&json)?;
    verb.output.table(&table(&fleet.agents), "no agents; invite one with `convoke enroll-token ID`")?;
    let online = fleet.agents.iter().filter(|agent| agent.online).count();
    let agents = match fleet.agents.len() {
        1 => "1 agent".to_owned(),
        n => format!("{n} agents"),
    };
    verb.output.note(format_args!("{agents}, {online} online; overall: {}", fleet.overall));
    Ok(Exit::Done)
}

fn table(agents: &[FleetAgent]) -> Grid {
    let mut grid = Grid::new(&["AGENT", "STATE", "HEALTH", "WHAT"]);
    for agent in agents {
        grid.row([
            agent.agent_id.as_str().into(),
            Field::state(if agent.online { "online" } else { "offline" }),
            Field::state(&agent.overall),
            troubles(agent),
        ]);
    }
    grid
}

/// The sections that are not well, the worst first.
fn troubles(agent: &FleetAgent) -> Field {
    let of = |status: &str| {
        let sections = agent.sections.iter().filter(|(_, s)| s.as_str() == status);
        sections.map(|(name, s)| format!("{name} {s}")).collect::<Vec<_>>()
    };
    let all: Vec<String> = of("crit").into_iter().chain(of("warn")).collect();
    if all.is_empty() { Field::new("-", Tone::Dim) } else { all.join(", ").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first() {
        let text = r#"[{"agent_id":"pc-1","online":true,"overall":"crit",
            "sections":{"disk":"warn","memory":"crit","uptime":"ok"}},
            {"agent_id":"pc-2","online":false,"overall":"unknown","sections":{}}]"#;
        let agents: Vec<FleetAgent> = serde_json::from_str(text).expect("a fleet");
        insta::assert_snapshot!(table(&agents).render_plain(), @r"
        AGENT  STATE    HEALTH   WHAT
        pc-1   online   crit     memory crit, disk warn
        pc-2   offline  unknown  -
        ");
    }
}
