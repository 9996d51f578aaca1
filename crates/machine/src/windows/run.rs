//! Runs the scripts: the one part that needs Windows.

use std::time::Duration;

use convoke_core::health::{SECTIONS, Status};
use convoke_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::{collect, json as answers, scripts, tools, winget};
use crate::collect::Collector;
use crate::exec::{Command, ExecError};
use crate::facts::Facts;
use crate::machine::Handler;
use crate::tools as common;
use crate::{Section, ToolError};

/// The tools of the catalogue.
pub(crate) const TOOLS: &[(&str, Handler)] = &[
    ("powershell_exec", powershell_exec),
    ("fs_disk_usage", |facts, _| Ok(json!({"volumes": tools::volumes(&ask(facts, scripts::VOLUMES, &[])?)}))),
    ("diag_processes", |facts, _| Ok(json!({"processes": tools::processes(&ask(facts, scripts::PROCESSES, &[])?)}))),
    ("diag_services", |facts, args| {
        let filter = args.get("filter").and_then(Value::as_str).unwrap_or_default();
        Ok(json!({"services": tools::services(&ask(facts, scripts::SERVICES, &[])?, filter)}))
    }),
    ("diag_eventlog", event_log),
    ("diag_autostart", |facts, _| Ok(json!({"entries": tools::autostart(&ask(facts, scripts::AUTOSTART, &[])?)}))),
    ("net_config", |facts, _| {
        let (interfaces, dns) = tools::network(&ask(facts, scripts::NETWORK, &[])?);
        Ok(json!({"interfaces": interfaces, "dns": dns}))
    }),
    ("net_dns_flush", |facts, _| tools::done(&ask(facts, scripts::DNS_FLUSH, &[])?, "DNS cache")),
    ("net_adapter_reset", |facts, args| {
        let name = common::text(args, "name")?;
        tools::done(&ask(facts, scripts::ADAPTER_RESET, &[("ARG_NAME", name)])?, "network adapter of that name")
    }),
    ("screen_capture", |facts, _| tools::screen(&ask(facts, scripts::SCREEN, &[])?)),
    ("winget_list", |facts, args| tools::winget_list(&winget(facts, "winget_list", args)?)),
    ("winget_install", |facts, args| tools::winget_log(&winget(facts, "winget_install", args)?)),
    ("winget_uninstall", |facts, args| tools::winget_log(&winget(facts, "winget_uninstall", args)?)),
    ("winget_update", |facts, args| tools::winget_log(&winget(facts, "winget_update", args)?)),
    ("remotehelp_status", |facts, _| Ok(tools::help_status(&ask(facts, scripts::HELP_STATUS, &[])?))),
    ("remotehelp_start", |facts, _| tools::help_started(&ask(facts, scripts::HELP_START, &[])?)),
    ("remotehelp_stop", |facts, _| {
        let answer = ask(facts, scripts::HELP_STOP, &[])?;
        Ok(json!({"stopped": answers::truth(&answer, "stopped").unwrap_or(false)}))
    }),
];

/// Every section of the contract, in its order: a function that knows its number finds its name there.
pub(crate) const COLLECTORS: &[(&str, Collector)] = &[
    (SECTIONS[0].name, collected::<0>),
    (SECTIONS[1].name, collected::<1>),
    (SECTIONS[2].name, collected::<2>),
    (SECTIONS[3].name, collected::<3>),
    (SECTIONS[4].name, collected::<4>),
    (SECTIONS[5].name, collected::<5>),
    (SECTIONS[6].name, collected::<6>),
    (SECTIONS[7].name, collected::<7>),
    (SECTIONS[8].name, collected::<8>),
    (SECTIONS[9].name, collected::<9>),
    (SECTIONS[10].name, collected::<10>),
    (SECTIONS[11].name, collected::<11>),
    (SECTIONS[12].name, collected::<12>),
    (SECTIONS[13].name, collected::<13>),
    (SECTIONS[14].name, collected::<14>),
    (SECTIONS[15].name, collected::<15>),
    (SECTIONS[16].name, collected::<16>),
    (SECTIONS[17].name, collected::<17>),
    (SECTIONS[18].name, collected::<18>),
    (SECTIONS[19].name, collected::<19>),
    (SECTIONS[20].name, collected::<20>),
    (SECTIONS[21].name, collected::<21>),
    (SECTIONS[22].name, collected::<22>),
    (SECTIONS[23].name, collected::<23>),
    (SECTIONS[24].name, collected::<24>),
];

fn collected<const SECTION: usize>(facts: &Facts) -> Section {
    let name = SECTIONS[SECTION].name;
    let Some(script) = scripts::section(name) else {
        return Section::new(Status::Warn, format!("{name} has no script"));
    };
    let now = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
    let mut why = String::new();
    let mut ask = || ask(facts, script, &[]).inspect_err(|error| why.clone_from(&error.message)).ok();
    let answer = match KEPT.iter().find(|(kept, _)| *kept == name) {
        Some((_, hours)) => facts.remembered.or_find(name, Duration::from_secs(hours * 3600), None, ask),
        None => ask(),
    };
    // A failure of a moment ago is believed and not repeated, and left no words.
    let why = if why.is_empty() { "the script gave no answer a moment ago".to_owned() } else { why };
    let Some(answer) = answer else { return Section::new(Status::Warn, why) };
    let section = collect::section(name, &answer, now);
    if name != "disk" || facts.options.top_dirs == 0 {
        return section;
    }
    let look = || self::ask(facts, scripts::TOP_DIRS, &[]).ok();
    let dirs = facts.remembered.or_find("top_dirs", TOP_DIRS_AGE, None, look);
    collect::with_top_dirs(section, &dirs.unwrap_or_default())
}

/// For how long the largest directories are believed.
const TOP_DIRS_AGE: Duration = Duration::from_secs(6 * 3600);

/// Answers that cost much to find and change seldom, and for how many hours they hold.
const KEPT: &[(&str, u64)] = &[("app_updates", 6), ("win_update", 1), ("reliability", 1), ("defender_quarantine", 1)];

fn event_log(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let log = common::text(args, "log")?;
    let count =
        args.get("count").and_then(Value::as_u64).unwrap_or(1).min(facts.options.event_cap as u64).to_string();
    tools::events(&ask(facts, scripts::EVENTS, &[("ARG_LOG", log), ("ARG_COUNT", &count)])?, log)
}

fn winget(facts: &Facts, tool: &str, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let id = args.get("id").and_then(Value::as_str).unwrap_or_default();
    if !id.is_empty() && !winget::is_id(id) {
        return Err(ToolError::bad_args("id must be the id of a package, such as 7zip.7zip"));
    }
    let script = scripts::winget(tool).ok_or_else(|| ToolError::internal("winget has no such script"))?;
    ask(facts, &script, &[("ARG_ID", id)])
}

fn powershell_exec(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let script = common::text(args, "script")?;
    common::shell(facts, powershell(script))
}

/// The PowerShell that every Windows has.
fn powershell(script: &str) -> Command {
    let root = std::env::var_os("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
    let program = std::path::Path::new(&root).join(r"System32\WindowsPowerShell\v1.0\powershell.exe");
    Command::new(program)
        .args(["-NoLogo", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-OutputFormat", "Text"])
        .arg("-Command")
        .arg(script)
}

/// What a script of the table answers. Arguments go in by the environment.
fn ask(facts: &Facts, script: &str, arguments: &[(&str, &str)]) -> Result<Value, ToolError> {
    let mut command = powershell(&format!("{}{script}", scripts::PRELUDE));
    for (name, value) in arguments {
        command = command.env(name, value);
    }
    let output = facts.exec(command).map_err(|error: ExecError| common::exec_error(&error))?;
    answers::parse(&output.stdout).map_err(|why| {
        let said = crate::text::one_line(&output.stderr, 200);
        ToolError::failed(if said.is_empty() { why } else { format!("{why}; {said}") })
    })
}
