//! `convoke agent packs`: the owner's own packs, looked at as the agent will look at them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use convoke_endpoint::sonde::{Manifest, check_pack, check_packs, packs_dir};
use serde_json::json;

use super::{StateArgs, Verb, state_dir};
use crate::exit::Exit;
use crate::show;

#[derive(Debug, Subcommand)]
pub enum PacksCommand {
    /// Check pack files without loading them
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The files [default: all that the agent would load]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

pub(super) fn run(verb: Verb<'_>, command: PacksCommand) -> Result<Exit> {
    let PacksCommand::Check(args) = command;
    let (good, bad) = if args.files.is_empty() {
        check_packs(&packs_dir(&state_dir(&args.state)?)?)
    } else {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for file in &args.files {
            match check_pack(file) {
                Ok(manifest) => good.push(manifest),
                Err(why) => bad.push(format!("{}: {why}", file.display())),
            }
        }
        (good, bad)
    };
    if verb.output.json {
        verb.output.json(&json!({ "packs": good, "errors": bad }))?;
    } else {
        for manifest in &good {
            verb.output.text(&show::clean_lines(&shown(manifest)))?;
        }
        for why in &bad {
            verb.output.note(why);
        }
        if good.is_empty() && bad.is_empty() {
            verb.output.note("no packs of your own");
        }
    }
    Ok(if bad.is_empty() { Exit::Done } else { Exit::Failed })
}

fn shown(manifest: &Manifest) -> String {
    let mut text = format!("{} {}: {}", manifest.name, manifest.version, manifest.description);
    for probe in &manifest.probes {
        let params: Vec<&str> = probe.params.keys().map(String::as_str).collect();
        let takes = if params.is_empty() { String::new() } else { format!(" ({})", params.join(", ")) };
        text.push_str(&format!("\n  {}.{}{takes}: {}", manifest.name, probe.name, probe.capability.name()));
    }
    if let Some(runbook) = &manifest.runbook {
        text.push_str(&format!("\n  runbook {}: {}", runbook.category, runbook.probes.join(", ")));
    }
    text
}
