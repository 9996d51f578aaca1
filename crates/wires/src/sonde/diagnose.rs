//! Runbooks for callers: several probes, what their results say, and whatever is there when the time is over.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::event::{Event, FindingEvent, FindingSource};
use convoke_core::health::Status;
use convoke_core::id::RunId;
use convoke_sonde::builtin;
use convoke_sonde::runbook::{self, Finding, Outcome, Planned, Runbook, Severity};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ask::{self, AskError, ProbeAsk};
use super::registry::SondeAgent;
use crate::Wires;
use crate::joined::probers;
use convoke_gate::calls::{self, CancelUnlessDone, PlaceError};
use convoke_gate::clock;
use convoke_gate::operators::Caller;
use convoke_store::RunRow;

/// Most files that are read from a folder of runbooks.
const MAX_FILES: usize = 256;
/// Longest data of one probe in a runbook's output; longer data is named and left out.
const MAX_DATA: usize = 256 * 1024;
/// Longest error of one probe there.
const MAX_ERROR: usize = 2000;
/// Runbooks that are named when there is no such one.
const MAX_NAMED: usize = 32;
/// Probes of one runbook that are asked for at once.
const ASKED_AT_ONCE: usize = 16;

/// A runbook that can be asked for, or a file that is none.
#[derive(Debug)]
pub enum Known {
    /// A good one.
    Good {
        /// Where it comes from: `built in`, a file, or a pack that an agent brought.
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

/// All runbooks that a caller can ask for: the hub's own, and those of packs that agents within reach brought.
pub async fn all(hub: &Wires, caller: &Caller) -> Vec<Known> {
    let mut all = shared(hub).await;
    let category = |known: &Known| match known {
        Known::Good { runbook, .. } => Some(runbook.category.clone()),
        Known::Bad { .. } => None,
    };
    let mut seen: HashSet<String> = all.iter().filter_map(category).collect();
    for (pack, runbook) in probers(hub, caller).into_iter().flat_map(|agent| brought(&agent)) {
        if seen.insert(runbook.category.clone()) {
            all.push(Known::Good { from: format!("pack {pack}"), runbook: Box::new(runbook) });
        }
    }
    all
}

/// The runbooks of packs that an agent brought, with those packs' names.
fn brought(agent: &SondeAgent) -> Vec<(String, Runbook)> {
    let state = agent.state();
    let of = |m: &convoke_sonde::manifest::Manifest| Some((m.name.clone(), Runbook::of_pack(m)?));
    state.facts.manifests.iter().filter_map(of).collect()
}

/// What an agent brought and the hub does not have itself: nobody changes by a pack of theirs what `system` means.
pub(super) fn own(agent: &SondeAgent, shared: &[Arc<Runbook>]) -> Vec<Arc<Runbook>> {
    let is_new = |runbook: &Runbook| shared.iter().all(|known| known.category != runbook.category);
    brought(agent).into_iter().map(|(_, runbook)| runbook).filter(is_new).map(Arc::new).collect()
}

fn find<'a>(all: &'a [Known], category: &str) -> Option<&'a Runbook> {
    all.iter().find_map(|known| match known {
        Known::Good { runbook, .. } if runbook.category == category => Some(&**runbook),
        _ => None,
    })
}

/// The hub's own: an operator's file takes the place of a built-in one of the same category.
pub(super) async fn shared(hub: &Wires) -> Vec<Known> {
    let own = match hub.settings.sonde.runbook_dir.clone() {
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
        let parsed = read_file(&path);
        known.push(match parsed {
            Ok(runbook) => {
                let twice = known
                    .iter()
                    .any(|k| matches!(k, Known::Good { runbook: other, .. } if other.category == runbook.category));
                if twice {
                    bad(&path, format!("another file already has the category {}", runbook.category))
                } else {
                    Known::Good { from: path.display().to_string(), runbook: Box::new(runbook) }
                }
            }
            Err(why) => bad(&path, why),
        });
    }
    known
}

/// Reads one file, as it would be loaded.
pub fn read_file(path: &Path) -> Result<Runbook, String> {
    let length = std::fs::metadata(path).map_err(|why| why.to_string())?.len();
    if length > runbook::MAX_FILE as u64 {
        return Err("it is too long".into());
    }
    let text = std::fs::read_to_string(path).map_err(|why| why.to_string())?;
    Runbook::parse(&text).map_err(|why| why.to_string())
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
    /// Probes that were left out, with why.
    pub skipped: Vec<(String, &'static str)>,
}

/// Which agent a caller means.
#[derive(Clone, Copy, Debug)]
pub enum Whom<'a> {
    /// This one.
    Named(&'a str),
    /// The one that was chosen for whatever comes: it must have what is asked for.
    Chosen(&'a str),
    /// The only one that can be meant.
    Anyone,
}

impl<'a> From<Option<&'a str>> for Whom<'a> {
    fn from(name: Option<&'a str>) -> Self {
        name.map_or(Self::Anyone, Self::Named)
    }
}

/// Runs a runbook on an agent: the one that is named, or the only one that has what the runbook asks for. Through MCP it
/// only looks: whoever asks for a diagnosis has named no probe, and the tool says of itself that it changes nothing.
pub async fn diagnose<'a>(
    hub: &Wires,
    caller: &Caller,
    agent: impl Into<Whom<'a>>,
    category: &str,
    params: Option<&str>,
) -> Result<Diagnosis, AskError> {
    let agent = agent.into();
    let only_look = caller.door == Door::Mcp;
    let short = &category[..category.floor_char_boundary(64)];
    let shared = shared(hub).await;
    if let Some(runbook) = find(&shared, category) {
        let packs: BTreeSet<&str> = runbook.steps.iter().filter_map(|step| step.probe.split('.').next()).collect();
        let sonde = match agent {
            Whom::Named(name) => ask::find(hub, caller, name).await?.0,
            Whom::Chosen(name) => {
                let sonde = ask::find(hub, caller, name).await?.0;
                if !packs.iter().all(|pack| sonde.has_pack(pack)) {
                    let message = format!("the selected {} lacks the probes of '{short}'", sonde.id);
                    return Err(AskError::Bad(format!("{message}; name another as `agent`")));
                }
                sonde
            }
            Whom::Anyone => ask::only_one(hub, caller, &packs.into_iter().collect::<Vec<_>>())?,
        };
        return run(hub, caller, runbook, &sonde, params, only_look).await;
    }
    // Two agents may mean different things by one category: what is run is what the agent itself brought.
    let candidates = match agent {
        Whom::Named(name) | Whom::Chosen(name) => vec![ask::find(hub, caller, name).await?.0],
        Whom::Anyone => probers(hub, caller),
    };
    let having = |sonde: Arc<SondeAgent>| {
        let (_, runbook) = brought(&sonde).into_iter().find(|(_, runbook)| runbook.category == category)?;
        Some((sonde, runbook))
    };
    let mut having: Vec<_> = candidates.into_iter().filter_map(having).collect();
    match (having.len(), having.pop()) {
        (1, Some((sonde, runbook))) => run(hub, caller, &runbook, &sonde, params, only_look).await,
        (0, _) => {
            let mut known: Vec<String> = all(hub, caller)
                .await
                .into_iter()
                .filter_map(|k| match k {
                    Known::Good { runbook, .. } => Some(runbook.category),
                    Known::Bad { .. } => None,
                })
                .collect();
            let more = known.len().saturating_sub(MAX_NAMED);
            known.truncate(MAX_NAMED);
            if more > 0 {
                known.push(format!("and {more} more"));
            }
            Err(AskError::Bad(format!("no runbook '{short}' here; there are {}", known.join(", "))))
        }
        (n, _) => Err(AskError::Bad(format!("{n} agents bring a runbook '{short}'; name one as `agent`"))),
    }
}

/// Runs this very runbook on this very agent. What would wait for a person is left out: nobody reads its outcome once the
/// run is over, and every run would leave another call behind that waits.
pub(super) async fn run(
    hub: &Wires,
    caller: &Caller,
    runbook: &Runbook,
    sonde: &SondeAgent,
    params: Option<&str>,
    only_look: bool,
) -> Result<Diagnosis, AskError> {
    let mut progress = runbook.start(params).map_err(|why| AskError::Bad(why.to_string()))?;
    let started = Instant::now();
    let deadline = started + Duration::from_secs(runbook.deadline_s);
    let id = runbook.id();
    let at_once = if runbook.parallel { ASKED_AT_ONCE } else { 1 };
    let mut waiting = VecDeque::new();
    let mut under_way = FuturesUnordered::new();
    let mut results: Vec<(usize, Ran)> = Vec::new();
    let mut planned = 0..;
    // In the order in which they answer: a probe that hangs holds up only the steps that build on it.
    loop {
        waiting.extend(planned.by_ref().zip(progress.ready()));
        while under_way.len() < at_once
            && let Some((index, next)) = waiting.pop_front()
        {
            let step = run_step(hub, caller, sonde, &id, next, deadline, only_look);
            under_way.push(async move { (index, step.await) });
        }
        let Some((index, ran)) = under_way.next().await else { break };
        progress.done(&ran.step, ran.data.as_ref());
        results.push((index, ran));
    }
    results.sort_by_key(|(index, _)| *index);
    let results: Vec<Ran> = results.into_iter().map(|(_, ran)| ran).collect();
    let (told, values) = progress.into_told();
    if let Some(Ran { refused: Some(_), .. }) = results.iter().find(|r| r.refused.is_some())
        && results.iter().all(|r| r.refused.is_some())
    {
        // Nothing at all was allowed: the caller is told so, not handed an empty result.
        let first = results.into_iter().find_map(|r| r.refused);
        return Err(first.unwrap_or(PlaceError::Busy("no probe could be run").into()));
    }
    let findings = judge(runbook, told, &values, &results);
    let diagnosis = report(runbook, &sonde.name, &results, findings, started.elapsed());
    keep(hub, caller, sonde, &id, &diagnosis).await;
    Ok(diagnosis)
}

struct Ran {
    /// The step it is of.
    step: String,
    /// What its result is called.
    name: String,
    status: String,
    data: Option<Value>,
    error: Option<String>,
    duration_ms: u64,
    refused: Option<AskError>,
    /// It was not asked for, and why.
    skipped: Option<&'static str>,
    late: bool,
}

const MORE_THAN_LOOKS: &str = "it does more than look; call it on its own with `probe`";
const NEEDS_A_PERSON: &str = "it needs a person's approval; call it on its own with `probe`";

async fn run_step(
    hub: &Wires,
    caller: &Caller,
    sonde: &SondeAgent,
    id: &str,
    planned: Planned,
    deadline: Instant,
    only_look: bool,
) -> Ran {
    let Planned { step, name, probe, params } = planned;
    let failed = |status: &str, error: String| Ran {
        step: step.clone(),
        name: name.clone(),
        status: status.into(),
        data: None,
        error: Some(error),
        duration_ms: 0,
        refused: None,
        skipped: None,
        late: false,
    };
    let skipped = |why| Ran { skipped: Some(why), error: None, ..failed("skipped", String::new()) };
    if only_look && sonde.effect_of(&probe) > Effect::Observe {
        return skipped(MORE_THAN_LOOKS);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ran { late: true, ..failed("timeout", "the runbook ran out of time before this probe began".into()) };
    }
    let params = RawValue::from_string(Value::Object(params).to_string()).ok();
    let ask = ProbeAsk { agent: Some(&sonde.wire_id), probe: &probe, params, timeout: Some(left), requested_by: id };
    let over = || Ran { late: true, ..failed("timeout", "the runbook ran out of time before this probe".into()) };
    let asked = tokio::time::timeout(left, async {
        let (agent, ask) = ask::prepare(hub, caller, ask).await?;
        if calls::would_ask(hub, &ask).await {
            return Ok(None);
        }
        Ok(Some((agent, ask::place(hub, ask).await?)))
    });
    let (agent, call) = match asked.await {
        Err(_) => return over(),
        Ok(Ok(None)) => return skipped(NEEDS_A_PERSON),
        Ok(Ok(Some(asked))) => asked,
        Ok(Err(why)) => return Ran { refused: Some(why), ..failed("error", String::new()) }.with_error(),
    };
    let abandoned = (caller.door == Door::Mcp).then(|| CancelUnlessDone::new(&call));
    let left = deadline.saturating_duration_since(Instant::now());
    let reply = tokio::time::timeout(left, ask::ended(agent, probe, call)).await;
    // From here on somebody is answered. A probe that is too late for that ends by its own deadline.
    if let Some(abandoned) = abandoned {
        abandoned.let_go();
    }
    match reply {
        Ok(reply) => {
            let mut shown = reply.shown();
            let status = shown["status"].as_str().unwrap_or("error").to_owned();
            let data = shown.get_mut("data").map(Value::take).unwrap_or_default();
            match &reply.outcome {
                Ok(_) => Ran {
                    step,
                    name,
                    status,
                    data: Some(data),
                    error: None,
                    duration_ms: shown["durationMs"].as_f64().unwrap_or_default() as u64,
                    refused: None,
                    skipped: None,
                    late: false,
                },
                Err(failure) => Ran { duration_ms: reply.duration_ms, ..failed(&status, clipped(&failure.message)) },
            }
        }
        Err(_) => over(),
    }
}

fn clipped(error: &str) -> String {
    error[..error.floor_char_boundary(MAX_ERROR)].to_owned()
}

impl Ran {
    fn with_error(mut self) -> Self {
        self.error = self.refused.as_ref().map(ToString::to_string);
        self
    }
}

/// Keeps a run, to be held against the next one, and tells whoever watches what it found that needs a look.
async fn keep(hub: &Wires, caller: &Caller, sonde: &SondeAgent, runbook: &str, diagnosis: &Diagnosis) {
    let status = |finding: &Finding| match finding.severity {
        Severity::Critical => Some(Status::Crit),
        Severity::Warning => Some(Status::Warn),
        _ => None,
    };
    let at = clock::now();
    let grave: Vec<_> = diagnosis.findings.iter().filter(|finding| status(finding).is_some()).collect();
    let worst = grave.iter().filter_map(|finding| status(finding)).max();
    let run = RunRow {
        id: RunId::new(clock::uuid()),
        agent: sonde.id.clone(),
        runbook: runbook.to_owned(),
        caller: caller.token.id,
        at,
        status: worst.unwrap_or(Status::Ok),
        titles: grave.iter().take(MAX_TITLES).map(|finding| finding.title.clone()).collect(),
        summary: diagnosis.shown["meta"]["summaryText"].as_str().unwrap_or_default().to_owned(),
    };
    let id = run.id;
    let mut result = diagnosis.shown.to_string();
    if result.len() > MAX_KEPT {
        let (meta, findings) = (&diagnosis.shown["meta"], &diagnosis.shown["findings"]);
        result = json!({ "meta": meta, "findings": findings, "probes": {}, "truncated": true }).to_string();
    }
    // Whoever asked has their answer whether or not it can be kept.
    if let Err(why) = hub.store.put_run(run, result).await {
        tracing::error!(%why, agent = %sonde.id, runbook, "cannot keep the run of a runbook");
    }
    if let Some(status) = worst {
        hub.events.publish(Event::Finding(FindingEvent {
            agent: sonde.id.clone(),
            source: FindingSource::Runbook,
            subject: runbook.to_owned(),
            status,
            before: None,
            run: Some(id),
            at,
        }));
    }
}

/// Longest result of a run that is kept whole; of a longer one what the probes gave is left out.
const MAX_KEPT: usize = 128 * 1024;
/// Most findings of one run that are shown as waiting for a person.
const MAX_TITLES: usize = 10;

fn judge(runbook: &Runbook, told: Vec<Finding>, values: &Map<String, Value>, results: &[Ran]) -> Vec<Finding> {
    runbook::evaluate(runbook, told, values, |step| {
        let of_step = results.iter().filter(|ran| ran.step == step);
        of_step
            .filter_map(|ran| {
                let result = match (&ran.data, &ran.error) {
                    (Some(data), _) => Ok(data),
                    (None, Some(error)) => Err(error.as_str()),
                    (None, None) => return None,
                };
                Some(Outcome { name: &ran.name, result })
            })
            .collect()
    })
}

fn report(runbook: &Runbook, agent: &str, results: &[Ran], findings: Vec<Finding>, took: Duration) -> Diagnosis {
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
        if let Some(why) = ran.skipped {
            shown["reason"] = why.into();
        }
        probes.insert(ran.name.clone(), shown);
    }
    let succeeded = results.iter().filter(|r| r.data.is_some()).count();
    let skipped: Vec<_> = results.iter().filter_map(|r| Some((r.name.clone(), r.skipped?))).collect();
    let run = results.len() - skipped.len();
    let counts = (run, succeeded, run - succeeded);
    let worst = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let summary = format!(
        "{} of {} probes succeeded; {} critical, {} warning, {} info",
        succeeded,
        run,
        worst(Severity::Critical),
        worst(Severity::Warning),
        worst(Severity::Info)
    );
    let shown = json!({
        "meta": {
            "target": agent, "source": "agent", "timestamp": clock::now(), "category": runbook.category,
            "runbookId": runbook.id(), "probesRun": counts.0, "probesSucceeded": counts.1, "probesFailed": counts.2, "probesSkipped": skipped.len(),
            "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX), "findingsCount": {
                "critical": worst(Severity::Critical), "warning": worst(Severity::Warning), "info": worst(Severity::Info),
            },
            "summaryText": summary, "truncated": truncated, "timedOut": results.iter().any(|r| r.late),
        },
        "probes": probes,
        "findings": findings,
    });
    Diagnosis { shown, findings, counts, skipped }
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
