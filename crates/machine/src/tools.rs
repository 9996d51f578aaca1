//! The tools that are the same on every platform: commands and files.

mod files;
mod search;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::ToolError;
use crate::exec::{Command, ExecError, Limits, Output};
use crate::facts::Facts;
use crate::machine::Handler;

/// What a platform does not have of its own.
pub(crate) const TOOLS: &[(&str, Handler)] = &[
    ("fs_list", files::list),
    ("fs_read", files::read),
    ("fs_search", search::search),
    ("remotehelp_status", no_remote_help),
];

/// A text among the arguments, which were checked before.
pub(crate) fn text<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a str, ToolError> {
    args.get(name).and_then(Value::as_str).ok_or_else(|| ToolError::bad_args(format!("{name} must be a text")))
}

/// Runs a shell's command and answers in the shape of the `*_exec` tools.
pub(crate) fn shell(facts: &Facts, command: Command) -> Result<Value, ToolError> {
    let command = match &facts.options.work_dir {
        Some(dir) => command.dir(made(dir)),
        None => command,
    };
    let limits = Limits { timeout: facts.patience, cap: facts.options.output_cap, cancel: facts.stop.clone() };
    let output = facts.wait(crate::exec::run(command, &limits)).map_err(|error| exec_error(&error))?;
    Ok(shown(output))
}

/// The directory, made for its owner alone if it is not there. A machine whose disk is full or read-only needs its shell
/// most of all, so that the next best place is taken where that fails.
fn made(dir: &Path) -> PathBuf {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(dir) {
        Ok(()) => dir.to_owned(),
        Err(_) => std::env::temp_dir(),
    }
}

/// A command's outcome as the tools of that kind return it. What goes beyond the contract's three keys is there only
/// when it has something to say.
fn shown(output: Output) -> Value {
    let mut result = json!({"stdout": output.stdout, "stderr": output.stderr, "exit_code": output.exit_code});
    if output.truncated {
        result["truncated"] = true.into();
        result["stdout_bytes"] = output.stdout_bytes.into();
        result["stderr_bytes"] = output.stderr_bytes.into();
    }
    if output.left_running {
        result["left_running"] = true.into();
    }
    result
}

/// The same failure in a tool's words.
pub(crate) fn exec_error(error: &ExecError) -> ToolError {
    match error {
        ExecError::NotFound { .. } => ToolError::unsupported(error.to_string()),
        ExecError::Io { .. } | ExecError::Cancelled => ToolError::failed(error.to_string()),
        ExecError::TimedOut { after, .. } => ToolError::timeout(*after),
    }
}

fn no_remote_help(_: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    Ok(json!({"installed": false, "version": "", "internet_ok": false, "interactive_session": false}))
}
