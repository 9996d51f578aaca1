//! Tools and telemetry on Linux.
//!
//! Each fact has one module: a thin layer that reads `/proc` or `/sys`, or runs the usual program, and pure functions
//! over text that make the fact of it. The tools and the sections are made of facts.

mod power;

use serde_json::{Map, Value};

use crate::collect::Collector;
use crate::exec::Command;
use crate::facts::Facts;
use crate::machine::Handler;
use crate::{ToolError, tools};

/// The tools that Linux has of its own.
pub(crate) const TOOLS: &[(&str, Handler)] = &[("shell_exec", shell_exec), ("powershell_exec", powershell_exec)];

/// Every section of the contract.
pub(crate) const COLLECTORS: &[(&str, Collector)] = &[("uptime", power::uptime)];

fn shell_exec(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let command = tools::text(args, "command")?;
    tools::shell(facts, Command::new("/bin/sh").arg("-c").arg(command))
}

/// PowerShell where it is installed. `sh` would misread a script that was written for another language.
fn powershell_exec(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let script = tools::text(args, "script")?;
    let Some(pwsh) = facts.program("pwsh") else {
        return Err(ToolError::unsupported(
            "powershell_exec needs PowerShell (pwsh), which is not installed; use shell_exec",
        ));
    };
    let command = Command::new(pwsh).args(["-NoLogo", "-NoProfile", "-NonInteractive", "-Command"]).arg(script);
    tools::shell(facts, command)
}
