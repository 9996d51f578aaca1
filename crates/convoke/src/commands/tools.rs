//! `convoke tools`: what a machine can be asked for.

use anyhow::Result;
use clap::Args;
use convoke_api::tools::{ToolList, ToolView};
use convoke_core::effect::Effect;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{NO_QUERY, Verb, remote, typed};
use crate::complete;
use crate::exit::Exit;
use crate::parse::{self, AgentName};
use crate::show;
use crate::table::{Field, Grid, Tone};

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// The machine
    #[arg(value_parser = parse::agent_name, add = complete::machines())]
    machine: AgentName,
    /// Only tools and probes whose name contains this
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

pub(crate) async fn run(verb: Verb<'_>, args: ToolsArgs) -> Result<Exit> {
    let client = verb.client()?;
    let agent = remote::find(&client, &args.machine).await?;
    let json: Box<RawValue> = client.get(&format!("/api/agents/{}/tools", agent.id), &NO_QUERY).await?;
    if verb.output.json {
        verb.output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let ToolList { mut tools } = typed(&json)?;
    let wanted = args.name.unwrap_or_default();
    tools.retain(|tool| tool.name.contains(&wanted));
    let name = show::clean(&agent.id);
    verb.output.table(&table(&tools), "nothing that this token may ask for")?;
    if tools.iter().any(|tool| tool.probe) {
        verb.output.note(format_args!(
            "call tools with `convoke call {name} NAME`, probes with `convoke probe {name} NAME`"
        ));
    }
    Ok(Exit::Done)
}

fn table(tools: &[ToolView]) -> Grid {
    let mut grid = Grid::new(&["NAME", "EFFECT", "ARGUMENTS", "WHAT IT DOES"]);
    for tool in tools {
        let tone = match tool.effect {
            Effect::Observe => Tone::Plain,
            Effect::Interact => Tone::Warn,
            Effect::Manage => Tone::Bad,
        };
        let about = tool.description.split_once(". ").map_or(tool.description.as_str(), |(first, _)| first);
        let args = show::list(&arguments(&tool.input_schema));
        grid.row([tool.name.as_str().into(), Field::new(tool.effect.name(), tone), args.into(), about.into()]);
    }
    grid
}

/// The names of a schema's arguments; those that a call can do without end in `?`.
fn arguments(schema: &Value) -> Vec<String> {
    let required = schema["required"].as_array();
    let is_needed = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let names = schema["properties"].as_object().into_iter().flat_map(|map| map.keys());
    names.map(|name| if is_needed(name) { name.clone() } else { format!("{name}?") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_shown_with_what_they_take() {
        let text = r#"[{"name":"fs_read","description":"Reads a text file. Long files come cut.","effect":"observe",
            "probe":false,"mutating":false,"destructive":false,
            "input_schema":{"properties":{"path":{},"extra":{}},"required":["path"]}},
            {"name":"system.disk.usage","description":"Disks","effect":"observe","probe":true,"mutating":false,
            "destructive":false,"input_schema":{"type":"object"}}]"#;
        let tools: Vec<ToolView> = serde_json::from_str(text).expect("tools");
        insta::assert_snapshot!(table(&tools).render_plain(), @r"
        NAME               EFFECT   ARGUMENTS     WHAT IT DOES
        fs_read            observe  extra?, path  Reads a text file
        system.disk.usage  observe  -             Disks
        ");
    }
}
