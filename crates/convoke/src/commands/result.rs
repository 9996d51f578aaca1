//! Shows a call's result to people: a shell's output unchanged, a directory as a table, everything else as JSON.

use anyhow::Result;
use convoke_api::calls::CallFailure;
use convoke_core::json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::remote::Ran;
use crate::exit::Exit;
use crate::output::Output;
use crate::show::{self, clean};
use crate::table::{Field, Grid, Tone};

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended<'a> {
    /// The machine, where it is known.
    pub(super) machine: Option<&'a str>,
    /// What was asked.
    pub(super) tool: &'a str,
    /// What came back.
    pub(super) result: Option<&'a RawValue>,
    /// Why nothing did.
    pub(super) error: Option<&'a CallFailure>,
    /// How long it took.
    pub(super) duration_ms: Option<u64>,
}

/// A directory.
#[derive(Deserialize)]
struct Listing {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    is_dir: bool,
    #[serde(default)]
    bytes: Option<u64>,
}

/// Shows how a call ended.
pub(super) fn show(output: &Output, ended: &Ended<'_>) -> Result<Exit> {
    if let Some(failure) = ended.error {
        output.note(format_args!("error: {} ({})", clean(&failure.message), clean(&failure.code)));
        if failure.code == "unsupported" {
            let machine = clean(ended.machine.unwrap_or("MACHINE"));
            output.note(format_args!("  hint: `convoke tools {machine}` lists what it can be asked for"));
        }
        return Ok(Exit::Failed);
    }
    // JSON may say what no value here can hold. The call was done all the same, and is not to be told as failed.
    let json = &*json::tame(ended.result.map_or("null", RawValue::get));
    match ended.tool {
        "shell_exec" | "powershell_exec" => {
            if let Ok(shell) = serde_json::from_str::<Ran>(json) {
                shell_output(output, &shell, ended.duration_ms)?;
                if let Some(cut) = shell.cut(ended.machine.unwrap_or("MACHINE")) {
                    output.note(cut);
                }
                return Ok(Exit::Done);
            }
        }
        "fs_list" => {
            if let Ok(listing) = serde_json::from_str::<Listing>(json) {
                output.table(&directory(listing), "the directory is empty")?;
                return Ok(Exit::Done);
            }
        }
        _ => {}
    }
    let value: Value = serde_json::from_str(json)?;
    output.text(&show::json(&value))?;
    if ended.tool == "fs_read" && value["truncated"] == true {
        let machine = clean(ended.machine.unwrap_or("MACHINE"));
        output.note(format_args!("the file was cut; to get all of it: convoke cp {machine}:PATH ."));
    }
    Ok(Exit::Done)
}

/// As if it had run here: its output and its errors each to their own place, unchanged.
fn shell_output(output: &Output, shell: &Ran, duration_ms: Option<u64>) -> Result<()> {
    output.raw(&shell.stdout)?;
    if !shell.stderr.is_empty() {
        output.note(shell.stderr.strip_suffix('\n').unwrap_or(&shell.stderr));
    }
    let code = shell.exit_code.map_or_else(|| "unknown".into(), |code| code.to_string());
    let took = duration_ms.map(|ms| format!(", {ms} ms")).unwrap_or_default();
    output.note(format_args!("(exit code {code}{took})"));
    Ok(())
}

fn directory(listing: Listing) -> Grid {
    let Listing { mut entries } = listing;
    entries.sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| a.name.cmp(&b.name)));
    let mut grid = Grid::new(&["NAME", "SIZE"]);
    for entry in entries {
        if entry.is_dir {
            grid.row([format!("{}/", entry.name).into(), Field::new("-", Tone::Dim)]);
        } else {
            grid.row([entry.name.into(), entry.bytes.map_or_else(|| "-".into(), show::bytes).into()]);
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_value_can_hold_is_no_failure() {
        for json in [r#"{"a":"\ud800"}"#, "[1e999]", &format!("{}{}", "[".repeat(500), "]".repeat(500))] {
            for tool in ["net_config", "shell_exec"] {
                let result = RawValue::from_string(json.to_owned()).expect("JSON");
                let ended = Ended { machine: None, tool, result: Some(&result), error: None, duration_ms: Some(1) };
                assert_eq!(show(&Output::new(false), &ended).expect("shows"), Exit::Done, "{json}");
            }
        }
    }

    #[test]
    fn a_directory_has_its_folders_first() {
        let listing = r#"{"entries":[{"name":"b.txt","is_dir":false,"bytes":2048},{"name":"a","is_dir":true,"bytes":0},
            {"name":"\u001bx","is_dir":false}]}"#;
        let grid = directory(serde_json::from_str(listing).expect("a listing"));
        insta::assert_snapshot!(grid.render_plain(), @r"
        NAME     SIZE
        a/       -
        \u{1b}x  -
        b.txt    2.0 KiB
        ");
    }
}
