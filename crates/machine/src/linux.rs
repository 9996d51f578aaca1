//! Tools and telemetry on Linux.
//!
//! Each fact has one module: a thin layer that reads `/proc` or `/sys`, or runs the usual program, and pure functions
//! over text that make the fact of it. The tools and the sections are made of facts.

mod autostart;
mod daily;
mod disk;
mod hardware;
mod journal;
mod memory;
mod net;
mod power;
mod process;
mod reliability;
mod screen;
mod security;
mod services;
mod updates;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::collect::Collector;
use crate::exec::Command;
use crate::facts::Facts;
use crate::machine::Handler;
use crate::{ToolError, tools};

/// The tools that Linux has of its own.
pub(crate) const TOOLS: &[(&str, Handler)] = &[
    ("shell_exec", shell_exec),
    ("powershell_exec", powershell_exec),
    ("fs_disk_usage", disk::usage),
    ("diag_processes", process::list),
    ("diag_services", services::list),
    ("diag_eventlog", journal::events),
    ("diag_autostart", autostart::list),
    ("net_config", net::config),
    ("net_dns_flush", net::dns_flush),
    ("net_adapter_reset", net::adapter_reset),
    ("screen_capture", screen::capture),
];

/// Every section of the contract.
pub(crate) const COLLECTORS: &[(&str, Collector)] = &[
    ("disk", disk::section),
    ("peripherals", hardware::peripherals),
    ("network", net::section),
    ("routing", net::routing),
    ("processes", process::section),
    ("services", services::section),
    ("defender", security::defender),
    ("win_update", updates::win_update),
    ("disk_smart", hardware::disk_smart),
    ("battery", power::battery),
    ("memory", memory::section),
    ("thermals", power::thermals),
    ("firewall", security::firewall),
    ("encryption", security::encryption),
    ("av_thirdparty", security::av_thirdparty),
    ("defender_quarantine", security::defender_quarantine),
    ("reboot_pending", updates::reboot_pending),
    ("os_support", updates::os_support),
    ("reliability", reliability::section),
    ("app_updates", updates::app_updates),
    ("uptime", power::uptime),
    ("time_sync", daily::time_sync),
    ("printers", daily::printers),
    ("wifi_quality", daily::wifi_quality),
    ("autostart", autostart::section),
];

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

/// The names of all processes, as the kernel keeps them: at most 15 bytes.
fn running_processes(facts: &Facts) -> HashSet<String> {
    let pids = facts.names("proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter_map(|pid| facts.word(&format!("proc/{pid}/comm"))).collect()
}

/// A part in per cent, to one digit.
fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { round1(part as f64 / of as f64 * 100.0) }
}

fn round1(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// `15.6 GB`, for people.
fn bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}
