//! `convoke apply` and `convoke export`: tags, policy, rules and rooms as a file, for people who keep such things in git.

mod plan;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use convoke_api::Client;
use convoke_api::agents::{Agent, AgentQuery};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use self::plan::Change;
use super::pages::Pages;
use super::{NO_QUERY, Verb, prompt, typed};
use crate::exit::{Exit, usage};

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The file, as `convoke export` writes it, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Remove rules and rooms that are not in the file, in the sections that it has
    #[arg(long)]
    prune: bool,
    /// Show the changes, and make none
    #[arg(long)]
    dry_run: bool,
}

/// What the file holds. A section that is absent is left alone.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fleet {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    machines: BTreeMap<String, Machine>,
    /// Deny rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deny: Option<Vec<Entry>>,
    /// Rules for which calls need a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confirm: Option<Vec<Entry>>,
    /// Rules that route clients' messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<Entry>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rooms: Option<Vec<Entry>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    tags: Vec<String>,
}

/// A rule or a room, as the API has it.
type Entry = Map<String, Value>;

/// A list of the hub that a file can hold.
#[derive(Clone, Copy, Debug)]
struct Section {
    name: &'static str,
    path: &'static str,
    /// The member of the hub's answer with the entries.
    list: &'static str,
    /// The member of an entry that names it.
    id: &'static str,
    /// Which members the file holds; all where there is no such list.
    members: Option<&'static [&'static str]>,
    /// Whether an entry can be changed once it is there.
    changes: bool,
}

const SECTIONS: [Section; 4] = [
    Section { name: "deny", path: "/api/policy/rules", list: "operator", id: "id", members: None, changes: true },
    Section { name: "confirm", path: "/api/policy/confirm", list: "rules", id: "id", members: None, changes: true },
    Section { name: "rules", path: "/api/rules", list: "rules", id: "rule", members: None, changes: true },
    Section {
        name: "rooms",
        path: "/api/rooms",
        list: "rooms",
        id: "name",
        members: Some(&["name", "transport", "open", "lobby"]),
        changes: false,
    },
];

impl Fleet {
    fn entries(&self, section: &Section) -> Option<&Vec<Entry>> {
        match section.name {
            "deny" => self.deny.as_ref(),
            "confirm" => self.confirm.as_ref(),
            "rules" => self.rules.as_ref(),
            _ => self.rooms.as_ref(),
        }
    }

    fn put(&mut self, section: &Section, entries: Vec<Entry>) {
        let place = match section.name {
            "deny" => &mut self.deny,
            "confirm" => &mut self.confirm,
            "rules" => &mut self.rules,
            _ => &mut self.rooms,
        };
        *place = Some(entries);
    }

    /// As the hub has it.
    async fn of_hub(client: &Client) -> Result<Self> {
        let mut fleet = Self::default();
        let agents = Pages::new(client, "/api/agents", "agents", &AgentQuery::default(), None)?.all().await?;
        for agent in agents {
            let agent: Agent = typed(&agent)?;
            fleet.machines.insert(agent.id, Machine { tags: agent.tags });
        }
        for section in &SECTIONS {
            fleet.put(section, section.of_hub(client).await?);
        }
        Ok(fleet)
    }

    fn read(file: &Path) -> Result<Self> {
        let text = if file == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            text
        } else {
            std::fs::read_to_string(file).map_err(|why| usage(format!("cannot read {}: {why}", file.display())))?
        };
        let fleet: Self = toml::from_str(&text).map_err(|why| usage(format!("{}: {why}", file.display())))?;
        for section in &SECTIONS {
            let mut ids = std::collections::BTreeSet::new();
            for entry in fleet.entries(section).into_iter().flatten() {
                let Some(id) = entry.get(section.id).and_then(Value::as_str) else {
                    let (name, id) = (section.name, section.id);
                    return Err(usage(format!("{}: an entry of [[{name}]] has no `{id}`", file.display())));
                };
                if !ids.insert(id) {
                    return Err(usage(format!("{}: [[{}]] names `{id}` twice", file.display(), section.name)));
                }
            }
        }
        Ok(fleet)
    }
}

impl Section {
    async fn of_hub(&self, client: &Client) -> Result<Vec<Entry>> {
        let items: Vec<Box<RawValue>> = if self.name == "rooms" {
            Pages::new(client, self.path, self.list, &json!({}), None)?.all().await?
        } else {
            let mut answer: std::collections::HashMap<String, Box<RawValue>> =
                client.get(self.path, &NO_QUERY).await?;
            let list = answer.remove(self.list).context("the hub's answer contains no list")?;
            serde_json::from_str(list.get())?
        };
        items.iter().map(|item| Ok(self.kept(typed(item)?))).collect()
    }

    /// What of an entry the file holds: TOML has no null, and what the hub alone knows is left out.
    fn kept(&self, entry: Entry) -> Entry {
        let is_kept = |name: &str| self.members.is_none_or(|members| members.contains(&name));
        entry.into_iter().filter(|(name, value)| is_kept(name) && !value.is_null()).collect()
    }
}

pub(crate) async fn export(verb: Verb<'_>) -> Result<Exit> {
    let client = verb.client()?;
    let fleet = Fleet::of_hub(&client).await?;
    if verb.output.json {
        verb.output.json(&fleet)?;
    } else {
        verb.output.raw(&toml::to_string_pretty(&fleet)?)?;
    }
    Ok(Exit::Done)
}

pub(crate) async fn apply(verb: Verb<'_>, args: ApplyArgs) -> Result<Exit> {
    let wanted = Fleet::read(&args.file)?;
    let client = verb.client()?;
    let present = Fleet::of_hub(&client).await?;
    let plan = plan::of(&present, &wanted, args.prune)?;
    let output = verb.output;
    if output.json && args.dry_run {
        let changes: Vec<_> = plan.changes.iter().map(Change::to_string).collect();
        output.json(&json!({ "changes": changes, "left": plan.left }))?;
        return Ok(Exit::Done);
    }
    for change in &plan.changes {
        output.note(change);
    }
    for left in &plan.left {
        output.note(format_args!("  {left} is not in the file and stays; --prune removes it"));
    }
    let count = plan.changes.len();
    if count == 0 {
        output.note("nothing to change");
    }
    if count == 0 || args.dry_run {
        return Ok(Exit::Done);
    }
    let question = if count == 1 { "Make this change?".into() } else { format!("Make these {count} changes?") };
    if !args.yes && !prompt::confirm(&question, "add --yes to make the changes, or --dry-run to only look")? {
        return Err(usage("nothing was changed"));
    }
    for (done, change) in plan.changes.iter().enumerate() {
        let made = change.make(&client).await;
        made.map_err(|why| {
            anyhow!(why).context(format!("{done} of {count} changes are made; the next failed: {change}"))
        })?;
    }
    if output.json {
        output.json(&json!({ "changed": count }))?;
    } else {
        output.text(&format!("{count} changed"))?;
    }
    Ok(Exit::Done)
}
