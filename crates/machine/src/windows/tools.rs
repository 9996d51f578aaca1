//! What the tools make of a script's answer.

use convoke_core::redact;
use serde_json::{Value, json};

use super::json::{list, number, round1, text, truth, whole};
use crate::ToolError;

/// `{volumes}`.
pub(super) fn volumes(answer: &Value) -> Value {
    let volume = |disk: &Value| {
        let (total, free) = (whole(disk, "Size")?, whole(disk, "FreeSpace").unwrap_or(0));
        let used = if total == 0 { 0.0 } else { total.saturating_sub(free) as f64 / total as f64 * 100.0 };
        Some(json!({
            "mount": text(disk, "DeviceID")?,
            "total_bytes": total,
            "free_bytes": free,
            "percent_used": round1(used),
        }))
    };
    list(answer).iter().filter_map(volume).collect()
}

/// `{processes}`, the busiest first. A counter calls the second of a name `x#1`.
pub(super) fn processes(answer: &Value) -> Vec<Value> {
    let mut found: Vec<(f64, u64, Value)> = list(answer)
        .iter()
        .filter_map(|process| {
            let name = text(process, "Name")?;
            let name = name
                .rsplit_once('#')
                .filter(|(_, n)| n.bytes().all(|b| b.is_ascii_digit()))
                .map_or(&*name, |(n, _)| n);
            let (cpu, memory) =
                (number(process, "PercentProcessorTime").unwrap_or(0.0), whole(process, "WorkingSet").unwrap_or(0));
            let shown =
                json!({"pid": whole(process, "IDProcess")?, "name": name, "cpu": round1(cpu), "mem_bytes": memory});
            Some((cpu, memory, shown))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    found.into_iter().map(|(_, _, shown)| shown).collect()
}

/// `{services}` whose name or title has the filter in it.
pub(super) fn services(answer: &Value, filter: &str) -> Vec<Value> {
    let filter = filter.to_lowercase();
    let service = |service: &Value| {
        let (name, display) = (text(service, "Name")?, text(service, "DisplayName").unwrap_or_default());
        if !name.to_lowercase().contains(&filter) && !display.to_lowercase().contains(&filter) {
            return None;
        }
        let status = text(service, "State").unwrap_or_default().to_lowercase();
        let start = text(service, "StartMode").unwrap_or_default().to_lowercase();
        let status = match status.as_str() {
            "start pending" => "starting".to_owned(),
            "stop pending" => "stopping".to_owned(),
            _ => status,
        };
        Some(json!({"name": name, "display": display, "status": status, "start": start}))
    };
    list(answer).iter().filter_map(service).collect()
}

/// `{events}`, the newest first.
pub(super) fn events(answer: &Value, log: &str) -> Result<Value, ToolError> {
    if truth(answer, "missing") == Some(true) {
        return Err(ToolError::not_found(format!("event log {log:?} does not exist")));
    }
    let event = |event: &Value| {
        let level = match whole(event, "level") {
            Some(1) => "critical",
            Some(2) => "error",
            Some(3) => "warning",
            Some(5) => "debug",
            _ => "info",
        };
        json!({
            "time": text(event, "time"),
            "level": level,
            "source": text(event, "source").unwrap_or_default(),
            "message": event["message"].as_str().unwrap_or_default(),
        })
    };
    Ok(json!({"events": list(&answer["events"]).iter().map(event).collect::<Vec<_>>()}))
}

/// `{entries}`.
pub(super) fn autostart(answer: &Value) -> Vec<Value> {
    let entry = |entry: &Value| {
        let command = redact::clean_text(&text(entry, "command").unwrap_or_default());
        Some(
            json!({"name": text(entry, "name")?, "command": command, "location": text(entry, "location").unwrap_or_default()}),
        )
    };
    list(answer).iter().filter_map(entry).collect()
}

/// `{interfaces, dns}`.
pub(super) fn network(answer: &Value) -> (Vec<Value>, Vec<String>) {
    let texts =
        |value: &Value| list(value).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>();
    let interface = |adapter: &Value| {
        Some(json!({
            "name": text(adapter, "name")?,
            "mac": text(adapter, "mac").unwrap_or_default(),
            "ips": texts(&adapter["ips"]),
            "up": truth(adapter, "up").unwrap_or(false),
        }))
    };
    (list(&answer["interfaces"]).iter().filter_map(interface).collect(), texts(&answer["dns"]))
}

/// `{ok}` of a script that says whether it went well.
pub(super) fn done(answer: &Value, what: &str) -> Result<Value, ToolError> {
    match (truth(answer, "missing"), truth(answer, "ok")) {
        (Some(true), _) => Err(ToolError::not_found(format!("there is no {what}"))),
        (_, Some(true)) => Ok(json!({"ok": true})),
        _ => Err(ToolError::failed(text(answer, "error").unwrap_or_else(|| format!("{what} failed")))),
    }
}

/// `{image_b64, format}`.
pub(super) fn screen(answer: &Value) -> Result<Value, ToolError> {
    if truth(answer, "session0") == Some(true) {
        return Err(ToolError::unsupported("an agent that runs as a service has no desktop to take a picture of"));
    }
    match answer["png"].as_str() {
        Some(png) => Ok(json!({"image_b64": png, "format": "png"})),
        None => Err(ToolError::failed("the desktop returned no picture")),
    }
}

/// `{ok, log}` of an installation.
pub(super) fn winget_log(answer: &Value) -> Result<Value, ToolError> {
    if truth(answer, "missing") == Some(true) {
        return Err(ToolError::unsupported("winget is not installed on this machine"));
    }
    // The moving bar is drawn over itself: of each line the last state is what one saw.
    let raw = answer["text"].as_str().unwrap_or_default();
    let lines: Vec<_> = raw.lines().map(|line| line.rsplit('\r').next().unwrap_or(line).trim_end()).collect();
    let log: Vec<_> =
        lines.into_iter().filter(|line| !line.trim_matches(['-', '\\', '|', '/', ' ']).is_empty()).collect();
    Ok(json!({"ok": number(answer, "code") == Some(0.0), "log": log.join("\n")}))
}

/// `{packages}`.
pub(super) fn winget_list(answer: &Value) -> Result<Value, ToolError> {
    if truth(answer, "missing") == Some(true) {
        return Err(ToolError::unsupported("winget is not installed on this machine"));
    }
    Ok(json!({"packages": super::winget::parse(answer["text"].as_str().unwrap_or_default())}))
}

/// `{installed, version, internet_ok, interactive_session}`.
pub(super) fn help_status(answer: &Value) -> Value {
    json!({
        "installed": truth(answer, "installed").unwrap_or(false),
        "version": text(answer, "version").unwrap_or_default(),
        "internet_ok": truth(answer, "internet").unwrap_or(false),
        "interactive_session": truth(answer, "session").unwrap_or(false),
    })
}

/// `{launched, pid, note}`.
pub(super) fn help_started(answer: &Value) -> Result<Value, ToolError> {
    if truth(answer, "session0") == Some(true) {
        return Err(ToolError::unsupported(
            "an agent that runs as a service has no desktop to start Quick Assist on",
        ));
    }
    match whole(answer, "pid") {
        None => Err(ToolError::failed("Quick Assist did not start")),
        Some(pid) => Ok(json!({
            "launched": true,
            "pid": pid,
            "note": "a helper must give the person a Quick Assist code, and the person must accept",
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_results() {
        let disks = json!({"DeviceID": "C:", "Size": 1000, "FreeSpace": 90});
        assert_eq!(
            volumes(&disks),
            json!([{"mount": "C:", "total_bytes": 1000, "free_bytes": 90, "percent_used": 91.0}])
        );
        let list = json!([
            {"IDProcess": 4, "Name": "System", "PercentProcessorTime": 1, "WorkingSet": 151_552},
            {"IDProcess": 9, "Name": "chrome#12", "PercentProcessorTime": 140, "WorkingSet": 5},
        ]);
        assert_eq!(processes(&list)[0], json!({"pid": 9, "name": "chrome", "cpu": 140.0, "mem_bytes": 5}));
        let list =
            json!([{"Name": "Spooler", "DisplayName": "Print Spooler", "State": "Running", "StartMode": "Auto"}]);
        let expect = json!({"name": "Spooler", "display": "Print Spooler", "status": "running", "start": "auto"});
        assert_eq!(services(&list, "PRINT"), [expect]);
        assert!(services(&list, "dns").is_empty());
        let log = json!({"events": {"time": "2026-11-15T11:00:00Z", "level": 2, "source": "SCM", "message": "a\nb"}});
        let event = json!({"time": "2026-11-15T11:00:00Z", "level": "error", "source": "SCM", "message": "a\nb"});
        assert_eq!(events(&log, "System").unwrap(), json!({"events": [event]}));
        assert!(events(&json!({"missing": true}), "Nope").is_err());
        assert!(done(&json!({"ok": true}), "adapter").is_ok());
        assert!(done(&json!({"ok": false, "error": "denied"}), "adapter").unwrap_err().message.contains("denied"));
        assert!(screen(&json!({"session0": true})).is_err());
        let entries = autostart(&json!([{"name": "x", "command": "x.exe --password=hush", "location": "HKLM"}, {}]));
        assert!(entries.len() == 1 && !entries[0].to_string().contains("hush"), "{entries:?}");
        let log = winget_log(&json!({"text": "   -\r   \\\r  50%\r 100%\r\nSuccessfully installed\r\n", "code": 0}))
            .unwrap();
        assert_eq!(log, json!({"ok": true, "log": " 100%\nSuccessfully installed"}));
        let adapters = json!({"interfaces": {"name": "Ethernet", "mac": "02:00:00:00:00:01", "up": true, "ips": "192.0.2.7/24"}, "dns": "192.0.2.1"});
        let (interfaces, dns) = network(&adapters);
        assert_eq!((interfaces[0]["ips"].clone(), dns), (json!(["192.0.2.7/24"]), vec!["192.0.2.1".to_owned()]));
    }
}
