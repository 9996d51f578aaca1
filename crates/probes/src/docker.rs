//! The pack `docker`.

use serde_json::{Map, Value, json};

use crate::context::{last_lines, needed, number};
use crate::{Context, ProbeError};

/// One JSON object per line, in every version of the program.
const JSON: &str = "{{json .}}";

pub(crate) async fn containers(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let text = cx.output("docker", &["ps", "-a", "--format", JSON]).await?;
    let shown = rows(
        &text,
        &[
            ("id", "ID"),
            ("name", "Names"),
            ("image", "Image"),
            ("state", "State"),
            ("status", "Status"),
            ("ports", "Ports"),
        ],
    )?;
    Ok(json!({ "containers": shown }))
}

pub(crate) async fn images(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let text = cx.output("docker", &["images", "--format", JSON]).await?;
    let shown = rows(
        &text,
        &[("id", "ID"), ("repository", "Repository"), ("tag", "Tag"), ("size", "Size"), ("created", "CreatedSince")],
    )?;
    Ok(json!({ "images": shown }))
}

pub(crate) async fn logs(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let container = needed(params, "container")?;
    let count = number(params, "lines", 100);
    let output = cx.run("docker", &["logs", "--tail", &count.to_string(), "--", container]).await?;
    if !output.success() {
        return Err(ProbeError::of_program("docker", output.exit_code, &output.stderr, &output.stdout));
    }
    // A container writes to both, and docker keeps them apart.
    let (lines, truncated) = last_lines(output.stdout.lines().chain(output.stderr.lines()), count);
    let mut result = json!({ "container": container, "lineCount": lines.len(), "lines": lines });
    if truncated || output.truncated {
        result["truncated"] = true.into();
    }
    Ok(result)
}

pub(crate) async fn info(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let text = cx.output("docker", &["info", "--format", JSON]).await?;
    let info: Value = serde_json::from_str(text.trim()).map_err(|why| ProbeError::unreadable("docker info", why))?;
    // The program succeeds without a daemon, and says so inside.
    if let Some(errors) = info["ServerErrors"].as_array().filter(|e| !e.is_empty()) {
        return Err(ProbeError::Failed(format!(
            "docker: {}",
            errors[0].as_str().unwrap_or("the daemon does not answer")
        )));
    }
    Ok(json!({
        "serverVersion": info["ServerVersion"], "containers": info["Containers"], "images": info["Images"],
        "driver": info["Driver"], "os": info["OperatingSystem"], "memoryBytes": info["MemTotal"], "cpus": info["NCPU"],
    }))
}

fn rows(text: &str, fields: &[(&str, &str)]) -> Result<Vec<Value>, ProbeError> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).map_err(|why| ProbeError::unreadable("docker", why))?;
        let shown: Map<String, Value> = fields
            .iter()
            .map(|(name, theirs)| ((*name).to_owned(), row.get(*theirs).cloned().unwrap_or_default()))
            .collect();
        Ok(Value::Object(shown))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
}
