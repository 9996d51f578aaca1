//! `convoke backup`: copies of a data directory, made while the hub runs.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::Subcommand;
use convoke_store::backup::{self, Accept, Authenticity, Manifest};
use serde_json::json;

use super::{Verb, config, prompt, verdict};
use crate::exit::{Exit, usage};
use crate::table::Grid;
use crate::{local, show, when};

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Copy the hub's database to a new file; the hub may be running
    Create {
        /// The new file
        file: PathBuf,
        /// Include the data key, sealed under a passphrase [env: CONVOKE_PASSPHRASE; default: ask]
        #[arg(long)]
        with_key: bool,
    },
    /// Restore a backup into the empty directory --data
    Restore {
        /// The backup
        file: PathBuf,
        /// Do not restore the data key
        #[arg(long)]
        without_key: bool,
        /// Restore a backup of an earlier version, though nothing proves who made it
        #[arg(long)]
        accept_unsigned: bool,
    },
    /// Check a backup and the journal in it
    Verify {
        /// The backup
        file: PathBuf,
        /// Open the data key in it, too [env: CONVOKE_PASSPHRASE; default: ask]
        #[arg(long)]
        with_key: bool,
    },
}

pub(crate) fn run(verb: Verb<'_>, command: BackupCommand) -> Result<Exit> {
    verb.only_here(match &command {
        BackupCommand::Create { .. } => "backup create",
        BackupCommand::Restore { .. } => "backup restore",
        BackupCommand::Verify { .. } => "backup verify",
    })?;
    match command {
        BackupCommand::Create { file, with_key } => {
            let data = local::data_dir(verb.global.data.as_deref())?;
            verb.note_directory(&data);
            let passphrase = with_key.then(|| prompt::passphrase(true)).transpose()?;
            let data_key = local::data_key()?;
            let manifest = backup::create(config::store(&data), &file, passphrase.as_ref(), data_key.as_ref())
                .with_context(|| format!("cannot back up {}", data.display()))?;
            if verb.output.json {
                verb.output.json(&json!({ "ok": true, "data": data, "file": file, "backup": manifest }))?;
                return Ok(Exit::Done);
            }
            verb.output.text(&format!("backed up {} to {}", data.display(), file.display()))?;
            verb.output.table(&facts(&manifest), "")?;
            if !manifest.has_key() {
                verb.output.note(
                    "The backup does not contain the data key. Keep data.key (or CONVOKE_DATA_KEY) in another safe \
                     place, or include it with --with-key: without it the secrets in the backup are lost.",
                );
            }
            Ok(Exit::Done)
        }
        BackupCommand::Restore { file, without_key, accept_unsigned } => {
            let accept = if accept_unsigned { Accept::Unsigned } else { Accept::Proven };
            restore(verb, &file, without_key, accept)
        }
        BackupCommand::Verify { file, with_key } => {
            let (manifest, summary) = backup::verify(&file)?;
            if with_key && !manifest.has_key() {
                return Err(anyhow!("{} is complete, but does not contain the data key", file.display()));
            }
            let passphrase = with_key.then(|| prompt::passphrase(false)).transpose()?;
            if let Some(passphrase) = &passphrase {
                manifest.check_passphrase(passphrase)?;
            }
            let data = local::data_dir(verb.global.data.as_deref()).ok();
            let data_key = local::data_key()?;
            let made = backup::authenticity(&file, passphrase.as_ref(), data_key.as_ref(), data.as_deref())?;
            if made == Authenticity::Unsigned {
                return Err(anyhow!("{} is complete, but {UNSIGNED}", file.display()));
            }
            if verb.output.json {
                verb.output.json(&json!({
                    "ok": true, "file": file, "backup": manifest, "records": summary.last_seq, "key_opened": with_key,
                    "authenticated": made == Authenticity::Proven,
                }))?;
                return Ok(Exit::Done);
            }
            let key = if with_key { ", and the passphrase opens its data key" } else { "" };
            verb.output.text(&format!("{} is complete, and the journal in it holds{key}", file.display()))?;
            verb.output.table(&facts(&manifest), "")?;
            verb.output.table(&verdict::facts(&summary), "")?;
            if made == Authenticity::KeyMissing {
                verb.output.note(UNPROVEN);
            }
            Ok(Exit::Done)
        }
    }
}

/// What is said of a backup that nothing proves.
const UNSIGNED: &str = "nothing proves who made it: an earlier version of convoke did, or somebody changed it";
/// What is said of a backup whose key is not at hand.
const UNPROVEN: &str = "Whether the hub made this backup was not checked, since its data key is not here: name the hub's directory \
     with --data, set CONVOKE_DATA_KEY, or use --with-key. Without that, whoever could write to the file could have \
     changed anything in it.";

fn restore(verb: Verb<'_>, file: &std::path::Path, without_key: bool, accept: Accept) -> Result<Exit> {
    // Into the platform's directory by accident would be the wrong surprise.
    let Some(data) = verb.global.data.as_deref() else {
        return Err(usage("name the directory to restore to with --data"));
    };
    let (manifest, _) = backup::verify(file)?;
    let passphrase = (manifest.has_key() && !without_key).then(|| prompt::passphrase(false)).transpose()?;
    let data_key = local::data_key()?;
    let restored = backup::restore(file, data, passphrase.as_ref(), data_key.as_ref(), accept)
        .with_context(|| format!("cannot restore to {}", data.display()))?;
    if verb.output.json {
        verb.output.json(&json!({ "ok": true, "data": data, "with_key": restored.with_key, "backup": manifest }))?;
        return Ok(Exit::Done);
    }
    verb.output.text(&format!("restored {} from {}", data.display(), file.display()))?;
    verb.output.table(&facts(&manifest), "")?;
    if restored.authenticity != Authenticity::Proven {
        verb.output.note(UNPROVEN);
    }
    if !restored.with_key {
        verb.output.note(format_args!(
            "Before the hub starts, put the data key {id} into {} (readable by its owner only), or set CONVOKE_DATA_KEY. \
             If the key was rotated since, the hub's data directory has it as data.key.{id}.",
            data.join("data.key").display(),
            id = manifest.key_id,
        ));
    }
    Ok(Exit::Done)
}

fn facts(manifest: &Manifest) -> Grid {
    let mut grid = Grid::facts();
    grid.fact("hub", manifest.hub_id.to_string());
    grid.fact("made", when::shown(manifest.created_at, when::now()));
    grid.fact("size", show::bytes(manifest.db_bytes));
    grid.fact("journal up to", manifest.journal_seq.to_string());
    let has_key = if manifest.has_key() { "included, under a passphrase" } else { "not included" };
    grid.fact("data key", format!("{}, {has_key}", manifest.key_id));
    grid
}
