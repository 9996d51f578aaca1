//! Runbooks for callers: several probes, what their results say, and whatever is there when the time is over.

use std::path::Path;
use std::time::{Duration, Instant};

use convoke_sonde::builtin;
use convoke_sonde::runbook::{self, Finding, Planned, Runbook, Severity};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ask::{self, AskError, ProbeAsk};
use super::registry::SondeAgent;
use crate::clock;
use crate::hub::Hub;
use crate::operators::Caller;

/// Most files that are read from a folder of runbooks.
const MAX_FILES: usize = 256;
/// Longest data of one probe in a runbook's output; longer data is named and left out.
const MAX_DATA: usize = 256 * 1024;

/// A runbook that can be asked for, or a file that is none.
#[derive(Debug)]
pub enum Known {
    /// A good one.
    Good {
        /// Where it comes from: `built in`, or a file.
        from: String,
        /// What it is.
        runbook: Box<Runbook>,
    },
    /// A file that cannot be used.
    Bad {
        /// Which.
        from: String,
        /// Why not.
        error: String,
    },
}

/// All runbooks: an operator's own file takes the place of a built-in one of the same category.
pub async fn all(hub: &Hub) -> Vec<Known> {
    let folder = hub.settings.text("sonde.runbook_dir").map(std::path::PathBuf::from);
    let own = match folder {
        Some(folder) => tokio::task::spawn_blocking(move || read_folder(&folder)).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let taken = |category: &str| {
        own.iter().any(|known| matches!(known, Known::Good { runbook, .. } if runbook.category == category))
    };
    let built_in = builtin::runbooks().iter().filter(|r| !taken(&r.category));
    let mut all: Vec<Known> =
        built_in.map(|r| Known::Good { from: "built in".into(), runbook: Box::new(r.clone()) }).collect();
    all.extend(own);
    all
}

fn read_folder(folder: &Path) -> Vec<Known> {
    let bad = |from: &Path, error: String| Known::Bad { from: from.display().to_string(), error };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) => return vec![bad(folder, why.to_string())],
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files.truncate(MAX_FILES);
    let mut known: Vec<Known> = Vec::new();
    for path in files {
        let long = std::fs::metadata(&path).is_ok_and(|m| m.len() > runbook::MAX_FILE as u64);
        let read = if long {
            Err("it is too long".into())
        } else {
            std::fs::read_to_string(&path).map_err(|e| e.to_string())
        };
        let parsed = read.and_then(|text| Runbook::parse(&text).map_err(|why| why.to_string()));
        known.push(match parsed {
            Ok(runbook) => {
                let twice = known
                    .iter()
                    .any(|k| matches!(k, Known::Good { runbook: other, .. } if other.category == runbook.category));
                if twice {
                    bad(&path, format!("another file has the category {} already", runbook.category))
                } else {
                    Known::Good { from: path.display().to_string(), runbook: Box::new(runbook) }
                }
            }
            Err(why) => bad(&path, why),
        });
    }
    known
}

/// What a runbook came to.
#[derive(Debug)]
pub struct Diagnosis {
    /// In Sonde's shape.
    pub shown: Value,
    /// What is worth telling.
    pub findings: Vec<Finding>,
    /// Probes that were run, that succeeded, that failed.
    pub counts: (usize, usize, usize),
}

/// Runs a runbook on an agent: the one that is named, or the only one that has what the runbook asks for.
pub async fn diagnose(
    hub: &Hub,
    caller: &Caller,
    agent: Option<&str>,
    category: &str,
    params: Option<&str>,
) -> Result<Diagnosis, AskError> {
    let runbook = all(hub).await.into_iter().find_map(|known| match known {
        Known::Good { runbook, .. } if runbook.category == category => Some(runbook),
        _ => None,
    });
    let Some(runbook) = runbook else {
        let known: Vec<String> = all(hub)
            .await
            .into_iter()
            .filter_map(|k| match k {
                Known::Good { runbook, .. } => Some(runbook.category),
                Known::Bad { .. } => None,
            })
            .collect();
        let category = &category[..category.floor_char_boundary(64)];
        return Err(AskError::Bad(format!("there is no runbook '{category}': there are {}", known.join(", "))));
    };
    let sonde = match agent {
        Some(name) => ask::find(hub, caller, name).await?.0,
        None => {
            let packs: std::collections::BTreeSet<&str> =
                runbook.steps.iter().filter_map(|step| step.probe.split('.').next()).collect();
            ask::only_one(hub, caller, &packs.into_iter().collect::<Vec<_>>())?
        }
    };
    run(hub, caller, &runbook, &sonde, params).await
}

/// Runs this very runbook on this very agent.
pub(super) async fn run(
    hub: &Hub,
    caller: &Caller,
    runbook: &Runbook,
    sonde: &SondeAgent,
    params: Option<&str>,
) -> Result<Diagnosis, AskError> {
    let plan = runbook.plan(params).map_err(|why| AskError::Bad(why.to_string()))?;
    let started = Instant::now();
    let deadline = started + Duration::from_secs(runbook.deadline_s);
    let id = runbook.id();
    let run = |step: Planned| run_step(hub, caller, &sonde.wire_id, &id, step, deadline);
    let results: Vec<Ran> = if runbook.parallel {
        futures_util::future::join_all(plan.into_iter().map(run)).await
    } else {
        let mut results = Vec::new();
        for step in plan {
            results.push(run(step).await);
        }
        results
    };
    if let Some(Ran { refused: Some(_), .. }) = results.iter().find(|r| r.refused.is_some())
        && results.iter().all(|r| r.refused.is_some())
    {
        // Nothing at all was allowed: the caller is told so, not handed an empty result.
        let first = results.into_iter().find_map(|r| r.refused);
        return Err(first.unwrap_or(AskError::Busy("nothing could be asked")));
    }
    Ok(report(runbook, &sonde.name, &results, started.elapsed()))
}

struct Ran {
    name: String,
    status: String,
    data: Option<Value>,
    error: Option<String>,
    duration_ms: u64,
    refused: Option<AskError>,
    late: bool,
}

async fn run_step(
    hub: &Hub,
    caller: &Caller,
    agent: &str,
    id: &str,
    (step, params): Planned,
    deadline: Instant,
) -> Ran {
    let name = step.name().to_owned();
    let failed = |status: &str, error: String| Ran {
        name: name.clone(),
        status: status.into(),
        data: None,
        error: Some(error),
        duration_ms: 0,
        refused: None,
        late: false,
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ran { late: true, ..failed("timeout", "the runbook's time was over before this probe began".into()) };
    }
    let params = RawValue::from_string(Value::Object(params).to_string()).ok();
    let ask = ProbeAsk { agent: Some(agent), probe: &step.probe, params, timeout: Some(left), requested_by: id };
    match tokio::time::timeout(left, ask::probe(hub, caller, ask)).await {
        Ok(Ok(reply)) => {
            let mut shown = reply.shown();
            let status = shown["status"].as_str().unwrap_or("error").to_owned();
            let data = shown.get_mut("data").map(Value::take).unwrap_or_default();
            match &reply.outcome {
                Ok(_) => Ran {
                    name,
                    status,
                    data: Some(data),
                    error: None,
                    duration_ms: shown["durationMs"].as_f64().unwrap_or_default() as u64,
                    refused: None,
                    late: false,
                },
                Err(failure) => Ran { duration_ms: reply.duration_ms, ..failed(&status, failure.message.clone()) },
            }
        }
        Ok(Err(why)) => Ran { refused: Some(why), ..failed("error", String::new()) }.with_error(),
        Err(_) => Ran { late: true, ..failed("timeout", "the runbook's time was over before this probe".into()) },
    }
}

impl Ran {
    fn with_error(mut self) -> Self {
        self.error = self.refused.as_ref().map(ToString::to_string);
        self
    }
}

fn report(runbook: &Runbook, agent: &str, results: &[Ran], took: Duration) -> Diagnosis {
    let findings = runbook::evaluate(runbook, |name| {
        let ran = results.iter().find(|r| r.name == name)?;
        match (&ran.data, &ran.error) {
            (Some(data), _) => Some(Ok(data)),
            (None, Some(error)) => Some(Err(error.as_str())),
            (None, None) => None,
        }
    });
    let mut truncated = false;
    let mut probes = Map::new();
    for ran in results {
        let mut shown = json!({ "status": ran.status, "durationMs": ran.duration_ms });
        if let Some(data) = &ran.data {
            let size = data.to_string().len();
            shown["data"] = if size > MAX_DATA {
                truncated = true;
                json!({ "_truncated": true, "_originalSize": size, "_maxSize": MAX_DATA })
            } else {
                data.clone()
            };
        }
        if let Some(error) = &ran.error {
            shown["error"] = error.as_str().into();
        }
        probes.insert(ran.name.clone(), shown);
    }
    let succeeded = results.iter().filter(|r| r.data.is_some()).count();
    let counts = (results.len(), succeeded, results.len() - succeeded);
    let worst = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let summary = format!(
        "{} of {} probes succeeded; {} critical, {} warning, {} info",
        succeeded,
        results.len(),
        worst(Severity::Critical),
        worst(Severity::Warning),
        worst(Severity::Info)
    );
    let shown = json!({
        "meta": {
            "target": agent, "source": "agent", "timestamp": clock::now(), "category": runbook.category,
            "runbookId": runbook.id(), "probesRun": counts.0, "probesSucceeded": counts.1, "probesFailed": counts.2,
            "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX), "findingsCount": findings.len(),
            "summaryText": summary, "truncated": truncated, "timedOut": results.iter().any(|r| r.late),
        },
        "probes": probes,
        "findings": findings,
    });
    Diagnosis { shown, findings, counts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_good_files_and_says_what_is_wrong_with_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writes");
        write("a.toml", "category = \"mine\"\n[[steps]]\nprobe = \"system.disk.usage\"\n");
        write("b.toml", "category = \"mine\"\n[[steps]]\nprobe = \"system.disk.usage\"\n");
        write("c.toml", "category = 7\n");
        write("notes.txt", "no runbook");
        let known = read_folder(folder.path());
        assert_eq!(known.len(), 3);
        assert!(matches!(&known[0], Known::Good { runbook, .. } if runbook.category == "mine"));
        assert!(matches!(&known[1], Known::Bad { error, .. } if error.contains("already")));
        assert!(
            matches!(&known[2], Known::Bad { error, from } if error.contains("category") && from.ends_with("c.toml"))
        );
        assert!(matches!(&read_folder(&folder.path().join("gone"))[..], [Known::Bad { .. }]));
    }
}
