//! The system's journal, for `system.logs.journal` and `systemd.journal.query`.

use serde_json::{Map, Value, json};

use crate::context::{last_lines, needed, number, text};
use crate::{Context, ProbeError};

pub(crate) async fn system(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let unit = text(params, "unit");
    let lines = number(params, "lines", 50);
    let output = query(cx, unit, lines, text(params, "priority")).await?;
    let entries: Vec<Value> = entries(&output, lines)
        .iter()
        .map(|entry| {
            let mut shown = json!({
                "timestamp": entry.micros.map(iso), "priority": entry.priority, "message": entry.message,
                "pid": entry.pid, "uid": entry.uid,
            });
            if let Some(unit) = &entry.unit {
                shown["unit"] = unit.as_str().into();
            }
            shown
        })
        .collect();
    let mut result = json!({ "entryCount": entries.len(), "entries": entries });
    if let Some(unit) = unit {
        result["unit"] = unit.into();
    }
    Ok(result)
}

pub(crate) async fn unit(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let unit = needed(params, "unit")?;
    let lines = number(params, "lines", 50);
    let output = query(cx, Some(unit), lines, None).await?;
    // Texts but for the priority, as the field's pack gives them.
    let as_text = |n: Option<i64>| n.map(|n| n.to_string());
    let entries: Vec<Value> = entries(&output, lines)
        .iter()
        .map(|entry| {
            json!({
                "timestamp": entry.micros.map(|n| n.to_string()), "priority": entry.priority,
                "message": entry.message, "pid": as_text(entry.pid), "uid": as_text(entry.uid),
            })
        })
        .collect();
    Ok(json!({ "unit": unit, "entryCount": entries.len(), "entries": entries }))
}

async fn query(
    cx: &Context<'_>,
    unit: Option<&str>,
    lines: u64,
    priority: Option<&str>,
) -> Result<String, ProbeError> {
    let mut args =
        vec!["--output=json".to_owned(), "--no-pager".into(), "--quiet".into(), format!("--lines={lines}")];
    args.extend(unit.map(|unit| format!("--unit={unit}")));
    args.extend(priority.map(|priority| format!("--priority={priority}")));
    cx.output("journalctl", &args).await
}

struct Entry {
    micros: Option<i64>,
    priority: Option<i64>,
    message: String,
    pid: Option<i64>,
    uid: Option<i64>,
    unit: Option<String>,
}

fn entries(output: &str, lines: u64) -> Vec<Entry> {
    // Cut as lines first, so that a journal of huge entries stays within bounds.
    let (kept, _) = last_lines(output.lines(), lines);
    let entry = |line: &Value| {
        let fields: Map<String, Value> = serde_json::from_str(line.as_str()?).ok()?;
        let number = |name: &str| fields.get(name).and_then(Value::as_str).and_then(|t| t.parse().ok());
        Some(Entry {
            micros: number("__REALTIME_TIMESTAMP"),
            priority: number("PRIORITY"),
            message: message(fields.get("MESSAGE")),
            pid: number("_PID").or_else(|| number("SYSLOG_PID")),
            uid: number("_UID"),
            unit: fields.get("_SYSTEMD_UNIT").and_then(Value::as_str).map(Into::into),
        })
    };
    kept.iter().filter_map(entry).collect()
}

/// A message that is no text comes as a list of bytes.
fn message(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(bytes)) => {
            let bytes: Vec<u8> = bytes.iter().filter_map(|b| u8::try_from(b.as_u64()?).ok()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => String::new(),
    }
}

fn iso(micros: i64) -> String {
    convoke_core::time::Timestamp::from_millis(micros / 1000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_texts_and_of_bytes() {
        let output = concat!(
            r#"{"__REALTIME_TIMESTAMP":"1780596000123456","PRIORITY":"6","MESSAGE":"hello","_PID":"7","_UID":"0","_SYSTEMD_UNIT":"ssh.service"}"#,
            "\n",
            r#"{"__REALTIME_TIMESTAMP":"1780596000123457","MESSAGE":[104,105,255]}"#,
            "\nnot json\n"
        );
        let entries = entries(output, 10);
        assert_eq!(entries.len(), 2);
        assert_eq!(
            (entries[0].message.as_str(), entries[0].pid, entries[0].micros.map(iso).as_deref()),
            ("hello", Some(7), Some("2026-06-04T18:00:00.123Z"))
        );
        assert_eq!((entries[1].message.as_str(), entries[1].priority), ("hi\u{FFFD}", None));
    }
}
