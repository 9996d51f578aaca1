//! A platform that is neither Linux nor Windows: commands and files, and no telemetry yet.

use serde_json::{Map, Value};

use crate::collect::Collector;
use crate::exec::Command;
use crate::facts::Facts;
use crate::machine::Handler;
use crate::{ToolError, tools};

/// The tools that every Unix has.
pub(crate) const TOOLS: &[(&str, Handler)] = &[("shell_exec", shell_exec)];

/// None: a section that nothing collects says that it does not apply.
pub(crate) const COLLECTORS: &[(&str, Collector)] = &[];

fn shell_exec(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let command = tools::text(args, "command")?;
    tools::shell(facts, Command::new("/bin/sh").arg("-c").arg(command))
}
