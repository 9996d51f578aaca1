//! The pack `redis`.

use serde_json::{Map, Value, json};

use crate::context::{needed, number};
use crate::{Context, ProbeError};

pub(crate) async fn info(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let info = ask(cx, params, &[]).await?;
    Ok(json!({
        "version": info.text("redis_version"), "uptimeSeconds": info.number("uptime_in_seconds"),
        "connectedClients": info.number("connected_clients"), "usedMemoryHuman": info.text("used_memory_human"),
        "usedMemoryPeakHuman": info.text("used_memory_peak_human"),
        "totalConnectionsReceived": info.number("total_connections_received"),
        "totalCommandsProcessed": info.number("total_commands_processed"), "role": info.text("role"), "raw": info.0,
    }))
}

pub(crate) async fn keys(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let info = ask(cx, params, &["keyspace"]).await?;
    let mut total = 0;
    let mut databases = Vec::new();
    for (name, value) in &info.0 {
        let number = name.strip_prefix("db").and_then(|number| number.parse::<u64>().ok());
        let (Some(text), Some(db)) = (value.as_str(), number) else { continue };
        let part =
            |key: &str| text.split(',').find_map(|p| p.strip_prefix(key)?.strip_prefix('=')?.parse::<u64>().ok());
        let count = part("keys").unwrap_or(0);
        total += count;
        databases.push(json!({ "db": db, "keys": count, "expires": part("expires").unwrap_or(0) }));
    }
    Ok(json!({ "databases": databases, "totalKeys": total }))
}

pub(crate) async fn memory(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let info = ask(cx, params, &["memory"]).await?;
    let ratio = info.0.get("mem_fragmentation_ratio").and_then(Value::as_str).and_then(|t| t.parse::<f64>().ok());
    Ok(json!({
        "usedMemory": info.number("used_memory"), "usedMemoryHuman": info.text("used_memory_human"),
        "usedMemoryPeak": info.number("used_memory_peak"), "usedMemoryPeakHuman": info.text("used_memory_peak_human"),
        "usedMemoryRss": info.number("used_memory_rss"), "usedMemoryRssHuman": info.text("used_memory_rss_human"),
        "memFragmentationRatio": ratio, "maxmemory": info.number("maxmemory"),
        "maxmemoryHuman": info.text("maxmemory_human"), "maxmemoryPolicy": info.text("maxmemory_policy"),
    }))
}

struct Info(Map<String, Value>);

impl Info {
    fn text(&self, name: &str) -> Value {
        self.0.get(name).cloned().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Value {
        self.0.get(name).and_then(Value::as_str).and_then(|t| t.parse::<u64>().ok()).map_or(Value::Null, Value::from)
    }
}

async fn ask(cx: &Context<'_>, params: &Map<String, Value>, section: &[&str]) -> Result<Info, ProbeError> {
    let host = needed(params, "host")?;
    cx.check_host(host)?;
    let port = number(params, "port", 6379).to_string();
    let mut args = vec!["-h", host, "-p", &port, "INFO"];
    args.extend(section);
    let text = cx.output("redis-cli", &args).await?;
    let info = parse(&text);
    if info.0.is_empty() && !text.trim_start().starts_with('#') {
        // The program succeeds when the server refuses: NOAUTH, a wrong password.
        return Err(ProbeError::Failed(format!("redis: {}", text.trim())));
    }
    Ok(info)
}

fn parse(text: &str) -> Info {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let error = text.trim_start();
    if ["NOAUTH", "ERR", "WRONGPASS", "LOADING", "(error)"].iter().any(|word| error.starts_with(word)) {
        return Info(Map::new());
    }
    Info(lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.to_owned(), value.into())).collect())
}
