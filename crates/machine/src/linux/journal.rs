//! What the system wrote down: the journal, else the files of syslog.

mod syslog;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::facts::Facts;
use crate::{ToolError, text, tools};

/// Most characters of one message.
const MAX_MESSAGE: usize = 2000;

/// One event in the words of the contract; `level` is `critical`, `error`, `warning`, `info` or `debug`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    pub(super) time: String,
    pub(super) level: &'static str,
    pub(super) source: String,
    pub(super) message: String,
}

/// `diag_eventlog`: the newest events of a log, the newest first.
///
/// `log` is one of the names that people know from Windows (`System`, `Security`, `Application`, in any case), `kernel`,
/// `all`, or the name of a unit.
pub(super) fn events(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let log = tools::text(args, "log")?;
    let asked = args.get("count").and_then(Value::as_u64).unwrap_or(1);
    let count = usize::try_from(asked).unwrap_or(usize::MAX).min(facts.options.event_cap);
    let log = Log::parse(log)?;
    let from_journal = journal(facts, &log, count)?;
    let events = match from_journal {
        Some(events) => events,
        None => syslog::events(facts, &log, count)?,
    };
    let mut result = json!({"events": events});
    if asked > count as u64 {
        result["note"] = format!("at most {count} events are returned at once").into();
    }
    Ok(result)
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Log {
    All,
    /// What services and the kernel say.
    System,
    Kernel,
    /// Who came in, who became root.
    Security,
    /// What is not the kernel's and not the system's own.
    Application,
    /// A unit, or a program.
    Unit(String),
}

impl Log {
    fn parse(name: &str) -> Result<Self, ToolError> {
        Ok(match name.to_lowercase().as_str() {
            "all" | "journal" => Self::All,
            "system" | "syslog" | "messages" => Self::System,
            "kernel" | "kern" | "dmesg" => Self::Kernel,
            "security" | "auth" => Self::Security,
            "application" | "user" => Self::Application,
            _ => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "@._:-\\".contains(c);
                if name.is_empty() || name.len() > 255 || !name.chars().all(plain) || name.starts_with(['-', '.']) {
                    return Err(ToolError::bad_args(
                        "log must be System, Security, Application, kernel, all or the name of a unit",
                    ));
                }
                Self::Unit(name.to_owned())
            }
        })
    }

    /// What selects it. All of these are whole words of ours, or a name behind an equals sign.
    fn filter(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::All => Vec::new(),
            // Several values of one field mean any of them. 4 and 10 are the facilities auth and authpriv.
            Self::Security => words(&["SYSLOG_FACILITY=4", "SYSLOG_FACILITY=10"]),
            Self::Kernel => words(&["_TRANSPORT=kernel"]),
            Self::System => words(&["--system"]),
            Self::Application => {
                words(&["_TRANSPORT=syslog", "_TRANSPORT=stdout", "_TRANSPORT=journal", "--priority=debug"])
            }
            Self::Unit(name) => vec![format!("--unit={name}")],
        }
    }
}

/// The newest events, or nothing where there is no journal.
fn journal(facts: &Facts, log: &Log, count: usize) -> Result<Option<Vec<Event>>, ToolError> {
    if !has_journal(facts) {
        return Ok(None);
    }
    let lines = format!("--lines={count}");
    let filter = log.filter();
    let mut args = vec!["--no-pager", "--quiet", "--reverse", "--output=json", FIELDS, &lines];
    args.extend(filter.iter().map(String::as_str));
    let Some(output) = facts.command("journalctl", &args) else { return Ok(None) };
    let output = output.map_err(|error| tools::exec_error(&error))?;
    if !output.success() {
        return Err(ToolError::failed(format!("journalctl: {}", text::one_line(&output.stderr, 300))));
    }
    Ok(Some(output.stdout.lines().filter_map(parse_entry).map(Event::from).collect()))
}

/// Whether there is a journal to read: a machine may have the program and the folder without the daemon.
pub(super) fn has_journal(facts: &Facts) -> bool {
    ["var/log/journal", "run/log/journal"].iter().any(|folder| {
        let machines = facts.names(folder);
        machines
            .iter()
            .any(|machine| facts.names(&format!("{folder}/{machine}")).iter().any(|file| file.ends_with(".journal")))
    })
}

/// Entries carry some thirty fields; these are the ones that matter.
pub(super) const FIELDS: &str =
    "--output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_COMM,_SYSTEMD_UNIT,MESSAGE_ID,UNIT,_TRANSPORT";

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Microseconds since 1970.
    pub(super) micros: i64,
    pub(super) priority: Option<u8>,
    pub(super) source: String,
    pub(super) message: String,
    /// The unit that it is about.
    pub(super) unit: Option<String>,
    pub(super) kernel: bool,
    /// What kind of message it is, where its writer says so.
    pub(super) message_id: Option<String>,
}

impl From<Entry> for Event {
    fn from(entry: Entry) -> Self {
        Self {
            time: shown_time(entry.micros),
            level: level(entry.priority),
            source: entry.source,
            message: entry.message,
        }
    }
}

/// A moment as RFC 3339.
pub(super) fn shown_time(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros).map(|time| format!("{time:.3}")).unwrap_or_default()
}

/// What the kernel said, where there is no journal.
pub(super) fn kernel_events(facts: &Facts) -> Option<Vec<Event>> {
    syslog::events(facts, &Log::Kernel, usize::MAX).ok()
}

/// A line of `journalctl -o json`.
pub(super) fn parse_entry(line: &str) -> Option<Entry> {
    let entry: Map<String, Value> = serde_json::from_str(line).ok()?;
    let field = |name: &str| entry.get(name).and_then(field_text);
    let source = field("SYSLOG_IDENTIFIER").or_else(|| field("_COMM")).or_else(|| field("_SYSTEMD_UNIT"));
    Some(Entry {
        micros: field("__REALTIME_TIMESTAMP")?.parse().ok()?,
        priority: field("PRIORITY").and_then(|text| text.parse().ok()),
        source: text::one_line(&source.unwrap_or_default(), 128),
        message: cut(&field("MESSAGE").unwrap_or_default()),
        unit: field("UNIT").or_else(|| field("_SYSTEMD_UNIT")),
        kernel: field("_TRANSPORT").as_deref() == Some("kernel"),
        message_id: field("MESSAGE_ID"),
    })
}

/// A field is a text; bytes that are none come as a list of numbers, a field that occurs twice as a list of either.
fn field_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if items.iter().all(Value::is_u64) => {
            let bytes: Vec<u8> =
                items.iter().filter_map(|item| item.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect();
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        Value::Array(items) => items.first().and_then(field_text),
        _ => None,
    }
}

fn level(priority: Option<u8>) -> &'static str {
    match priority {
        Some(0..=2) => "critical",
        Some(3) => "error",
        Some(4) => "warning",
        Some(7..) => "debug",
        Some(5 | 6) | None => "info",
    }
}

fn cut(message: &str) -> String {
    message.chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = include_str!("../../../../fixtures/machine/linux/journal.jsonl");

    #[test]
    fn entries_become_events() {
        let events: Vec<_> = ENTRIES.lines().filter_map(parse_entry).map(Event::from).collect();
        let lines: Vec<_> =
            events.iter().map(|e| format!("{} {} {}: {}", e.time, e.level, e.source, e.message)).collect();
        assert_eq!(
            lines,
            [
                "2026-11-15T11:40:00.000Z error systemd: Failed to start nginx.service.",
                "2026-11-15T11:40:01.500Z info kernel: usb 1-1: new device",
                "2026-11-15T11:40:02.000Z warning blob: a\u{fffd}b",
                "2026-11-15T11:40:03.000Z info twice: first",
            ]
        );
    }

    #[test]
    fn a_name_of_a_log_is_no_option() {
        for (name, log) in
            [("SYSTEM", Log::System), ("Security", Log::Security), ("ssh.service", Log::Unit("ssh.service".into()))]
        {
            assert_eq!(Log::parse(name), Ok(log));
        }
        for name in ["", "-f", "--vacuum-size=1", "a b", "a;b", "../x", "a\nb", "x=y"] {
            assert!(Log::parse(name).is_err(), "{name}");
        }
        assert_eq!(Log::Unit("a@b".into()).filter(), ["--unit=a@b"]);
    }
}
