//! The pack `systemd`.

use serde_json::{Map, Value, json};

use crate::context::needed;
use crate::{Context, ProbeError};

pub(crate) async fn services(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let args = ["list-units", "--type=service", "--all", "--no-pager", "--output=json"];
    let text = cx.output("systemctl", &args).await?;
    let units: Vec<Value> =
        serde_json::from_str(text.trim()).map_err(|why| ProbeError::unreadable("systemctl", why))?;
    let shown: Vec<Value> = units
        .iter()
        .map(|u| {
            json!({ "unit": u["unit"], "load": u["load"], "active": u["active"], "sub": u["sub"], "description": u["description"] })
        })
        .collect();
    Ok(json!({ "services": shown }))
}

pub(crate) async fn status(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let service = needed(params, "service")?;
    let wanted = "--property=Id,LoadState,ActiveState,SubState,MainPID,MemoryCurrent,NRestarts";
    let text = cx.output("systemctl", &["show", "--no-pager", wanted, "--", service]).await?;
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
    // Without accounting it is "[not set]", or the largest number there is.
    let number = |name: &str| field(name).parse::<u64>().ok().filter(|n| *n != u64::MAX);
    Ok(json!({
        "name": if field("Id").is_empty() { service } else { field("Id") }, "loadState": field("LoadState"),
        "activeState": field("ActiveState"), "subState": field("SubState"), "mainPid": number("MainPID"),
        "memoryBytes": number("MemoryCurrent"), "restartCount": number("NRestarts"),
    }))
}
