//! `convoke probe` and `convoke runbook`: run probes on Sonde agents.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use convoke_core::json;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{NO_QUERY, Verb};
use crate::commands::call::read_args;
use crate::complete;
use crate::exit::Exit;
use crate::show;
use crate::table::{Field, Grid};

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The machine, by name or id
    #[arg(add = complete::machines())]
    agent: String,
    /// The probe, such as system.disk.usage
    #[arg(add = complete::probes())]
    probe: String,
    /// The parameters: a JSON object, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
    /// Give up after this time
    #[arg(long, value_name = "SECONDS", value_parser = crate::parse::seconds)]
    timeout: Option<f64>,
}

pub(crate) async fn run(verb: Verb<'_>, args: ProbeArgs) -> Result<Exit> {
    let params = read_params(args.params.as_deref())?;
    let body = json!({
        "agent": args.agent, "probe": args.probe, "params": params, "timeout": args.timeout.map(|s| s * 1000.0),
    });
    let reply: Box<RawValue> = verb.client()?.post("/api/v1/probe", &body).await?;
    let shown: Value = serde_json::from_str(&json::tame(reply.get()))?;
    if verb.output.json {
        verb.output.raw_json(&reply)?;
    } else if let Some(approval) = shown.get("approval") {
        verb.output.note(format_args!("needs a person: convoke approvals approve {}", text(&approval["id"])));
    } else {
        verb.output.text(&show::json(&shown["data"]))?;
        verb.output.note(format_args!("{} in {} ms", text(&shown["status"]), shown["durationMs"]));
    }
    Ok(if shown["status"] == "success" { Exit::Done } else { Exit::Failed })
}

fn read_params(given: Option<&str>) -> Result<Option<Box<RawValue>>> {
    given.map(|given| read_args("--params", given)).transpose()
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunbookCommand {
    /// List the runbooks, and files that could not be loaded
    List,
    /// Run a runbook on a Sonde agent
    Run(RunbookArgs),
    /// Check runbook files; needs no hub
    Check {
        /// The files
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunbookArgs {
    /// The runbook, such as system
    category: String,
    /// The machine, by name or id
    #[arg(long, value_name = "AGENT", add = complete::machines())]
    agent: String,
    /// The parameters: a JSON object, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    params: Option<String>,
}

pub(crate) async fn runbook(verb: Verb<'_>, command: RunbookCommand) -> Result<Exit> {
    match command {
        RunbookCommand::List => list(verb).await,
        RunbookCommand::Run(args) => run_one(verb, args).await,
        RunbookCommand::Check { files } => check(verb, &files),
    }
}

fn check(verb: Verb<'_>, files: &[PathBuf]) -> Result<Exit> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for file in files {
        match convoke_hub::read_runbook(file) {
            Ok(runbook) => good.push(runbook),
            Err(why) => bad.push(format!("{}: {why}", file.display())),
        }
    }
    if verb.output.json {
        verb.output.json(&json!({ "runbooks": good, "errors": bad }))?;
    } else {
        for runbook in &good {
            let steps: Vec<&str> = runbook.steps.iter().map(|step| step.name()).collect();
            let text = format!("{}: {}\n  {}", runbook.category, runbook.description, steps.join(", "));
            verb.output.text(&show::clean_lines(&text))?;
        }
        bad.iter().for_each(|why| verb.output.note(why));
    }
    Ok(if bad.is_empty() { Exit::Done } else { Exit::Failed })
}

async fn list(verb: Verb<'_>) -> Result<Exit> {
    let shown: Value = verb.client()?.get("/api/v1/runbooks", &NO_QUERY).await?;
    if verb.output.json {
        verb.output.json(&shown)?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(&["RUNBOOK", "PROBES", "FROM", "ABOUT"]);
    for runbook in shown["runbooks"].as_array().into_iter().flatten() {
        let steps = runbook["steps"].as_array().map_or(0, Vec::len).to_string();
        grid.row([
            text(&runbook["category"]).into(),
            steps.as_str().into(),
            text(&runbook["from"]).into(),
            text(&runbook["description"]).into(),
        ]);
    }
    verb.output.table(&grid, "no runbooks")?;
    for bad in shown["errors"].as_array().into_iter().flatten() {
        let why = show::clean_lines(text(&bad["error"]));
        verb.output.note(format_args!("{} is not a runbook: {why}", text(&bad["from"])));
    }
    Ok(Exit::Done)
}

async fn run_one(verb: Verb<'_>, args: RunbookArgs) -> Result<Exit> {
    let params = read_params(args.params.as_deref())?;
    let body = json!({ "agent": args.agent, "category": args.category, "params": params });
    let shown: Value = verb.client()?.post("/api/v1/diagnose", &body).await?;
    let (exit, word) = verdict(&shown["meta"]);
    if verb.output.json {
        verb.output.json(&shown)?;
        return Ok(exit);
    }
    verb.output.table(&findings(&shown), "no findings")?;
    for (name, probe) in shown["probes"].as_object().into_iter().flatten() {
        if let Some(error) = probe["error"].as_str() {
            verb.output.note(show::clean(&format!("{name}: {error}")));
        } else if let Some(why) = probe["reason"].as_str() {
            verb.output.note(show::clean(&format!("{name} was skipped: {why}")));
        }
    }
    verb.output.note(text(&shown["meta"]["summaryText"]));
    if let Some(word) = word {
        verb.output.note(word);
    }
    Ok(exit)
}

/// How a runbook's run ended, and what the summary does not say of it. One that asked nothing has found nothing wrong, and
/// must not look like a machine that is well.
fn verdict(meta: &Value) -> (Exit, Option<&'static str>) {
    let count = |name: &str| meta[name].as_u64();
    if count("probesRun") == Some(0) && count("probesSkipped").is_some_and(|skipped| skipped > 0) {
        return (Exit::Failed, Some("every probe was skipped"));
    }
    (if count("probesFailed") == Some(0) { Exit::Done } else { Exit::Failed }, None)
}

fn findings(shown: &Value) -> Grid {
    let mut grid = Grid::new(&["SEVERITY", "FINDING", "WHAT TO DO"]);
    for finding in shown["findings"].as_array().into_iter().flatten() {
        let detail = text(&finding["detail"]);
        let title = text(&finding["title"]);
        let what = if detail.is_empty() { title.to_owned() } else { format!("{title}: {detail}") };
        let remedy = text(&finding["remediation"]);
        grid.row([Field::state(text(&finding["severity"])), what.as_str().into(), remedy.into()]);
    }
    grid
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runbook_that_asked_nothing_has_failed() {
        let of = |run: u32, failed: u32, skipped: u32| {
            verdict(&json!({ "probesRun": run, "probesFailed": failed, "probesSkipped": skipped }))
        };
        assert_eq!(of(2, 0, 0), (Exit::Done, None));
        assert_eq!(of(1, 0, 1), (Exit::Done, None));
        assert_eq!(of(2, 1, 0), (Exit::Failed, None));
        assert!(matches!(of(0, 0, 2), (Exit::Failed, Some(_))));
        assert_eq!(verdict(&json!({})), (Exit::Failed, None), "not what a hub says");
    }

    #[test]
    fn findings_are_shown_with_what_to_do() {
        let shown = json!({"findings": [
            {"severity": "critical", "title": "/ is full", "detail": "1 KiB left", "remediation": "clean up"},
            {"severity": "info", "title": "a lock", "detail": ""},
        ]});
        let table = findings(&shown).render_plain();
        assert!(
            table.contains("critical") && table.contains("/ is full: 1 KiB left") && table.contains("clean up"),
            "{table}"
        );
    }
}
