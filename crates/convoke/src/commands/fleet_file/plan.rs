//! What must change for the hub to be as a file says. Pure: it compares two states.

use std::fmt;

use anyhow::Result;
use convoke_api::Client;
use convoke_api::ClientError;
use convoke_api::agents::AgentPatch;
use serde_json::{Value, json};

use super::{Entry, Fleet, SECTIONS, Section};
use crate::exit::usage;
use crate::parse::segment;
use crate::show::clean;

/// The changes, in the order in which they are made, and what stays although the file does not have it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    pub(super) left: Vec<String>,
}

/// One change.
#[derive(Debug)]
pub(super) enum Change {
    Tags { machine: String, before: Vec<String>, after: Vec<String> },
    Put { section: &'static Section, id: String, before: Option<Entry>, after: Entry },
    Remove { section: &'static Section, id: String },
}

pub(super) fn of(present: &Fleet, wanted: &Fleet, prune: bool) -> Result<Plan> {
    let mut plan = Plan::default();
    for (id, machine) in &wanted.machines {
        let Some(before) = present.machines.get(id) else {
            return Err(usage(format!(
                "there is no machine `{id}`; it must be enrolled before it can have tags, and the file names it by its id"
            )));
        };
        let sorted = |tags: &[String]| {
            let mut tags = tags.to_vec();
            tags.sort();
            tags.dedup();
            tags
        };
        let (before, after) = (sorted(&before.tags), sorted(&machine.tags));
        if before != after {
            plan.changes.push(Change::Tags { machine: id.clone(), before, after });
        }
    }
    for section in &SECTIONS {
        let Some(wanted) = wanted.entries(section) else { continue };
        let present = present.entries(section).map(Vec::as_slice).unwrap_or_default();
        add(&mut plan, section, present, wanted, prune)?;
    }
    Ok(plan)
}

fn add(plan: &mut Plan, section: &'static Section, present: &[Entry], wanted: &[Entry], prune: bool) -> Result<()> {
    let id_of = |entry: &Entry| entry.get(section.id).and_then(Value::as_str).unwrap_or_default().to_owned();
    for after in wanted {
        let id = id_of(after);
        let before = present.iter().find(|entry| id_of(entry) == id);
        if before.is_some_and(|before| is_same(before, after)) {
            continue;
        }
        if before.is_some() && !section.changes {
            return Err(usage(format!(
                "{} `{id}` is there and cannot be changed to what the file says; remove it first",
                section.name
            )));
        }
        plan.changes.push(Change::Put { section, id, before: before.cloned(), after: after.clone() });
    }
    for entry in present {
        let id = id_of(entry);
        if wanted.iter().any(|wanted| id_of(wanted) == id) {
            continue;
        }
        if prune {
            plan.changes.push(Change::Remove { section, id });
        } else {
            plan.left.push(format!("{} {id}", section.name));
        }
    }
    Ok(())
}

/// Whether the hub's entry is what the file wants. What the file leaves out and the hub fills with a default is the same.
fn is_same(hub: &Entry, file: &Entry) -> bool {
    let is_default = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
    let fits = |(name, value): (&String, &Value)| match file.get(name) {
        Some(wanted) => equal(value, wanted),
        None => is_default(value) || name == "transport",
    };
    hub.iter().all(fits) && file.iter().all(|(name, value)| hub.contains_key(name) || is_default(value))
}

fn equal(hub: &Value, file: &Value) -> bool {
    match (hub, file) {
        (Value::Object(hub), Value::Object(file)) => {
            // Where the secret of a webhook comes from says nothing of what it is: that is sealed at the hub.
            let file = file.iter().filter(|(name, _)| *name != SECRET_FROM);
            is_same(hub, &file.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        (hub, file) => hub == file,
    }
}

/// The environment variable with the secret of a webhook.
const SECRET_FROM: &str = "secret_from";

impl Change {
    pub(super) async fn make(&self, client: &Client) -> Result<()> {
        let _: Value = match self {
            Self::Tags { machine, after, .. } => {
                client
                    .patch(&format!("/api/agents/{}", segment(machine)), &AgentPatch { tags: after.clone() })
                    .await?
            }
            Self::Put { section, after, .. } => client.post(section.path, &with_secret(after)?).await?,
            Self::Remove { section, id } => {
                let removed = client.delete(&format!("{}/{}", section.path, segment(id))).await;
                match removed {
                    // Another removed it meanwhile: it is as the file says.
                    Err(ClientError::Refused { status: 404, .. }) => json!({}),
                    removed => removed?,
                }
            }
        };
        Ok(())
    }
}

/// The entry with the secret that a webhook of it is to sign with.
fn with_secret(entry: &Entry) -> Result<Entry> {
    let mut entry = entry.clone();
    if let Some(hook) =
        entry.get_mut("target").and_then(|target| target.get_mut("webhook")).and_then(Value::as_object_mut)
        && let Some(from) = hook.remove(SECRET_FROM)
    {
        let name = from.as_str().unwrap_or_default();
        let secret = std::env::var(name)
            .map_err(|_| usage(format!("${name}, the secret of a webhook in the file, is not set")))?;
        hook.insert("secret".into(), secret.into());
    }
    Ok(entry)
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags = |tags: &[String]| if tags.is_empty() { "none".into() } else { tags.join(", ") };
        match self {
            Self::Tags { machine, before, after } => {
                write!(f, "~ machine {}: tags {} → {}", clean(machine), tags(before), tags(after))
            }
            Self::Put { section, id, before: None, after } => {
                write!(f, "+ {} {}: {}", section.name, clean(id), shown(section, after))
            }
            Self::Put { section, id, before: Some(before), after } => {
                let (before, after) = (shown(section, before), shown(section, after));
                write!(f, "~ {} {}: {before} → {after}", section.name, clean(id))
            }
            Self::Remove { section, id } => write!(f, "- {} {}", section.name, clean(id)),
        }
    }
}

/// An entry without its name.
fn shown(section: &Section, entry: &Entry) -> String {
    let rest: Entry =
        entry.iter().filter(|(name, _)| *name != section.id).map(|(n, v)| (n.clone(), v.clone())).collect();
    clean(&Value::Object(rest).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(present: &str, wanted: &str, prune: bool, expect: &[&str]) {
        let read = |text: &str| toml::from_str::<Fleet>(text).expect("a file");
        let plan = of(&read(present), &read(wanted), prune).expect("a plan");
        let shown: Vec<_> = plan.changes.iter().map(ToString::to_string).chain(plan.left).collect();
        assert_eq!(shown, expect);
    }

    const HUB: &str = r#"
        [machines.pc-1]
        tags = ["lab", "web"]
        [[confirm]]
        id = "manage"
        effects = ["manage"]
        second_person = false
        [[rules]]
        rule = "chat"
        target = { webhook = { url = "https://h/x", keep_s = 60 } }
        [[rooms]]
        name = "standup"
        transport = "relay"
        open = true
        lobby = false
    "#;

    #[test]
    fn what_is_as_the_file_says_is_left_alone() {
        check(HUB, HUB, true, &[]);
        check(HUB, "", true, &[]);
        check(
            HUB,
            r#"[machines.pc-1]
            tags = ["web", "lab", "lab"]"#,
            true,
            &[],
        );
        check(
            HUB,
            r#"[[confirm]]
            id = "manage"
            effects = ["manage"]"#,
            true,
            &[],
        );
        check(
            HUB,
            r#"[[rules]]
            rule = "chat"
            target = { webhook = { url = "https://h/x", keep_s = 60, secret_from = "SECRET" } }"#,
            true,
            &[],
        );
        check(
            HUB,
            r#"[[rooms]]
            name = "standup"
            open = true"#,
            true,
            &[],
        );
    }

    #[test]
    fn changes_are_told_one_by_one() {
        check(HUB, "machines.pc-1.tags = []", false, &["~ machine pc-1: tags lab, web → none"]);
        check(
            HUB,
            r#"[[confirm]]
            id = "all"
            [[confirm]]
            id = "manage"
            tools = ["fs_*"]"#,
            false,
            &[
                "+ confirm all: {}",
                r#"~ confirm manage: {"effects":["manage"],"second_person":false} → {"tools":["fs_*"]}"#,
            ],
        );
        check(HUB, "confirm = []", false, &["confirm manage"]);
        check(HUB, "confirm = []\nrooms = []", true, &["- confirm manage", "- rooms standup"]);
    }

    #[test]
    fn what_cannot_be_is_told_before_anything_changes() {
        let read = |text: &str| toml::from_str::<Fleet>(text).expect("a file");
        for (wanted, expect) in [
            ("machines.pc-9.tags = []", "no machine `pc-9`"),
            ("[[rooms]]\nname = \"standup\"\nopen = false", "remove it first"),
        ] {
            let why = of(&read(HUB), &read(wanted), false).expect_err(wanted).to_string();
            assert!(why.contains(expect), "{why}");
        }
    }
}
