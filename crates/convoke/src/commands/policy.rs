//! `convoke policy`: deny rules and confirm rules.

use anyhow::Result;
use clap::{Args, Subcommand};
use convoke_api::policy::{ConfirmRules, DenyRules};
use convoke_core::confirm::ConfirmRule;
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::guard::{AppliesTo, Rule};
use serde_json::value::RawValue;

use super::{NO_QUERY, Verb, approvers, typed};
use crate::exit::Exit;
use crate::parse;
use crate::table::{Field, Grid, Tone};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// List deny rules, the operators' and the built-in ones
    List,
    /// Add a deny rule, or replace the rule with the same id
    Add {
        /// The rule's id: lower-case letters, digits, '_', '.' and '-'
        #[arg(long, value_parser = parse::rule)]
        id: String,
        /// Which texts the rule examines
        #[arg(long, value_parser = parse::group())]
        applies_to: AppliesTo,
        /// The regular expression; a text that it matches anywhere is refused
        #[arg(long, allow_hyphen_values = true)]
        pattern: String,
        /// The reason that the caller sees
        #[arg(long)]
        reason: String,
    },
    /// Remove a deny rule that an operator added
    Remove {
        #[arg(value_parser = parse::rule)]
        id: String,
    },
    /// Manage confirm rules: which calls need a person
    #[command(subcommand)]
    Confirm(ConfirmCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfirmCommand {
    /// List confirm rules
    List,
    /// Add a confirm rule, or replace the rule with the same id; calls that match every list need a person
    Add(ConfirmArgs),
    /// Remove a confirm rule
    Remove {
        #[arg(value_parser = parse::rule)]
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// The rule's id
    #[arg(long, value_parser = parse::rule)]
    id: String,
    /// Only these tools; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Only calls with these effects
    #[arg(long, value_delimiter = ',', value_parser = parse::effect())]
    effects: Option<Vec<Effect>>,
    /// Only these agents; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    agents: Option<Vec<String>>,
    /// Only agents with one of these tags; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    tags: Option<Vec<String>>,
    /// Only these callers, by their token's name; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    callers: Option<Vec<String>>,
    /// Only calls through these doors
    #[arg(long, value_delimiter = ',', value_parser = parse::door())]
    doors: Option<Vec<Door>>,
    /// Only a second person's yes counts: not the owner's of what asks
    #[arg(long)]
    second_person: bool,
}

pub(crate) async fn run(verb: Verb<'_>, command: PolicyCommand) -> Result<Exit> {
    const RULES: &str = "/api/policy/rules";
    let client = verb.client()?;
    let output = verb.output;
    let (json, said): (Box<RawValue>, String) = match command {
        PolicyCommand::List => {
            let json: Box<RawValue> = client.get(RULES, &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&deny_rules(&typed(&json)?), "no rules")?;
            }
            return Ok(Exit::Done);
        }
        PolicyCommand::Add { id, applies_to, pattern, reason } => {
            let rule = Rule { id, applies_to, pattern, reason };
            let at_agents = match applies_to {
                AppliesTo::Posix => "and at kenny agents of version 0.14 and newer",
                _ => "and at every agent",
            };
            (client.post(RULES, &rule).await?, format!("rule {} is in force at the hub, {at_agents}", rule.id))
        }
        PolicyCommand::Remove { id } => {
            (client.delete(&format!("{RULES}/{id}")).await?, format!("removed rule {id}"))
        }
        PolicyCommand::Confirm(command) => return confirm(verb, command).await,
    };
    if output.json {
        output.raw_json(&json)?
    } else {
        output.text(&said)?
    }
    Ok(Exit::Done)
}

async fn confirm(verb: Verb<'_>, command: ConfirmCommand) -> Result<Exit> {
    const RULES: &str = "/api/policy/confirm";
    let client = verb.client()?;
    let output = verb.output;
    let (json, said): (Box<RawValue>, String) = match command {
        ConfirmCommand::List => {
            let json: Box<RawValue> = client.get(RULES, &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&confirm_rules(&typed(&json)?), "no call needs a person")?;
            }
            return Ok(Exit::Done);
        }
        ConfirmCommand::Add(ConfirmArgs { id, tools, effects, agents, tags, callers, doors, second_person }) => {
            let rule = ConfirmRule { id, tools, effects, agents, tags, callers, doors, second_person };
            let before: ConfirmRules = client.get(RULES, &NO_QUERY).await?;
            if let Some(before) = before.rules.iter().find(|before| before.id == rule.id)
                && serde_json::to_value(before).ok() != serde_json::to_value(&rule).ok()
            {
                output.remark(format_args!("warning: this replaces rule {} as it was", rule.id));
            }
            if has_no_filter(&rule) {
                output.remark("warning: the rule has no filters: every call of everybody now needs a person, also calls that only look");
            }
            if let Some(why) = approvers::persons(&client).await.as_ref().and_then(approvers::too_few) {
                output.remark(format_args!("warning: {why}"));
            }
            (client.post(RULES, &rule).await?, format!("calls that match rule {} now need a person", rule.id))
        }
        ConfirmCommand::Remove { id } => {
            (client.delete(&format!("{RULES}/{id}")).await?, format!("removed rule {id}"))
        }
    };
    if output.json {
        output.raw_json(&json)?
    } else {
        output.text(&said)?
    }
    Ok(Exit::Done)
}

fn has_no_filter(rule: &ConfirmRule) -> bool {
    let ConfirmRule { id: _, second_person: _, tools, effects, agents, tags, callers, doors } = rule;
    tools.is_none() && effects.is_none() && agents.is_none() && tags.is_none() && callers.is_none() && doors.is_none()
}

fn deny_rules(rules: &DenyRules) -> Grid {
    let mut grid = Grid::new(&["RULE", "APPLIES TO", "FROM", "REASON", "PATTERN"]);
    for rule in &rules.operator {
        let pattern = rule.pattern.as_str().into();
        grid.row([
            rule.id.as_str().into(),
            rule.applies_to.name().into(),
            "operator".into(),
            rule.reason.as_str().into(),
            pattern,
        ]);
    }
    for rule in &rules.builtin {
        // Their patterns are long and cannot be changed; `--json` has them.
        let (from, pattern) = (Field::new("built in", Tone::Dim), Field::new("-", Tone::Dim));
        grid.row([
            rule.id.as_str().into(),
            rule.applies_to.name().into(),
            from,
            rule.reason.as_str().into(),
            pattern,
        ]);
    }
    grid
}

fn confirm_rules(rules: &ConfirmRules) -> Grid {
    let any =
        |list: Option<Vec<&str>>| list.map_or_else(|| Field::new("any", Tone::Dim), |list| list.join(", ").into());
    let texts = |list: &Option<Vec<String>>| any(list.as_ref().map(|list| list.iter().map(String::as_str).collect()));
    let mut grid = Grid::new(&["RULE", "TOOLS", "EFFECTS", "AGENTS", "TAGS", "CALLERS", "DOORS", "WHOSE YES"]);
    for rule in &rules.rules {
        grid.row([
            rule.id.as_str().into(),
            texts(&rule.tools),
            any(rule.effects.as_ref().map(|list| list.iter().map(|e| e.name()).collect())),
            texts(&rule.agents),
            texts(&rule.tags),
            texts(&rule.callers),
            any(rule.doors.as_ref().map(|list| list.iter().map(|d| d.name()).collect())),
            if rule.second_person { "a second person's" } else { "a person's" }.into(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_rules_come_first() {
        let rule = |id: &str| Rule {
            id: id.into(),
            applies_to: AppliesTo::Posix,
            pattern: "\\breboot\\b".into(),
            reason: "ask first".into(),
        };
        let rules = DenyRules { builtin: vec![rule("posix-wipe")], operator: vec![rule("no-reboots")] };
        insta::assert_snapshot!(deny_rules(&rules).render_plain(), @r"
        RULE        APPLIES TO  FROM      REASON     PATTERN
        no-reboots  posix       operator  ask first  \breboot\b
        posix-wipe  posix       built in  ask first  -
        ");
    }

    #[test]
    fn a_list_that_is_not_there_matches_any() {
        let rules = ConfirmRules { rules: vec![ConfirmRule::default_rule()] };
        insta::assert_snapshot!(confirm_rules(&rules).render_plain(), @r"
        RULE                TOOLS  EFFECTS           AGENTS  TAGS  CALLERS  DOORS      WHOSE YES
        mcp-needs-a-person  any    interact, manage  any     any   any      mcp, room  a person's
        ");
    }
}
