//! What there is to ask, and how all of it is doing: the fleet in Sonde's shapes.

use std::sync::Arc;
use std::time::Instant;

use convoke_sonde::builtin;
use convoke_sonde::runbook::{Runbook, Severity};
use serde_json::{Map, Value, json};

use super::ask::{self, AskError};
use super::diagnose::{self, Known};
use super::registry::SondeAgent;
use crate::Wires;
use crate::joined::probers;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// Agents that one health check looks at, at most; the rest are named.
const MAX_CHECKED: usize = 500;
/// Agents that a health check looks at at once.
const CHECKED_AT_ONCE: usize = 16;

/// The agents within a caller's reach, with all of these tags.
fn within(hub: &Wires, caller: &Caller, tags: &[String]) -> Vec<Arc<SondeAgent>> {
    let wanted = |agent: &Arc<SondeAgent>| {
        let has = |tag: &String| {
            let tag = tag.trim_start_matches('#');
            hub.agents.find(agent.id.as_str()).is_some_and(|a| a.state().tags.iter().any(|t| t == tag))
        };
        tags.iter().all(has)
    };
    probers(hub, caller).into_iter().filter(wanted).collect()
}

fn is_online(hub: &Wires, agent: &SondeAgent) -> bool {
    hub.agents.find(agent.id.as_str()).is_some_and(|a| a.state().is_there())
}

/// One agent, as Sonde shows it.
pub fn agent(hub: &Wires, sonde: &SondeAgent) -> Value {
    let (online, last_seen, tags) = match hub.agents.find(sonde.id.as_str()) {
        Some(agent) => {
            let state = agent.state();
            (state.is_there(), state.last_seen(), state.tags.to_vec())
        }
        None => (false, None, Vec::new()),
    };
    let state = sonde.state();
    let facts = &state.facts;
    let status = match (online, &facts.changed) {
        (false, _) => "offline",
        (true, Some(_)) => "degraded",
        (true, None) => "online",
    };
    json!({
        "id": sonde.wire_id, "name": sonde.name, "status": status, "lastSeen": last_seen, "os": facts.os,
        "agentVersion": facts.version, "packs": facts.packs, "tags": tags, "hostname": facts.hostname,
        "certFingerprint": state.fingerprint.map(hex::encode),
        "attestationMismatch": facts.changed.is_some(),
        "attestation": { "baseline": facts.attested, "changed": facts.changed },
    })
}

/// All agents within a caller's reach.
pub fn agents(hub: &Wires, caller: &Caller, tags: &[String]) -> Value {
    let agents: Vec<Value> = within(hub, caller, tags).iter().map(|a| agent(hub, a)).collect();
    json!({ "agents": agents })
}

/// The built-in packs, and those that agents brought.
pub fn packs(hub: &Wires, caller: &Caller) -> Value {
    let mut packs: Vec<Value> = builtin::packs().iter().filter_map(|pack| serde_json::to_value(pack).ok()).collect();
    for agent in within(hub, caller, &[]) {
        for manifest in &agent.state().facts.manifests {
            let is_known = packs.iter().any(|p| p["name"] == manifest.name.as_str());
            if !is_known && let Ok(value) = serde_json::to_value(manifest) {
                packs.push(value);
            }
        }
    }
    json!({ "packs": packs })
}

/// The probes and runbooks of each agent.
pub async fn capabilities(hub: &Wires, caller: &Caller, tags: &[String]) -> Value {
    let runbooks = usable(hub).await;
    let mut brought = std::collections::BTreeMap::new();
    let mut agents = Vec::new();
    for sonde in within(hub, caller, tags) {
        let mut shown = agent(hub, &sonde);
        let state = sonde.state();
        let mut probes = Vec::new();
        for pack in &state.facts.packs {
            let own = state.facts.manifests.iter().find(|m| m.name == pack.name);
            let manifest = own.or_else(|| builtin::packs().iter().find(|m| m.name == pack.name));
            let Some(manifest) = manifest else { continue };
            for probe in &manifest.probes {
                let mut shown = json!({
                    "name": format!("{}.{}", manifest.name, probe.name), "description": probe.description,
                    "capability": probe.capability,
                });
                if !probe.params.is_empty() {
                    shown["params"] = serde_json::to_value(&probe.params).unwrap_or_default();
                }
                probes.push(shown);
            }
        }
        // Announced by name only: they can be asked for all the same.
        for name in &state.facts.capabilities {
            if !probes.iter().any(|p| p["name"] == name.as_str()) {
                probes.push(json!({ "name": name, "description": "" }));
            }
        }
        let has = |pack: &str| state.facts.packs.iter().any(|p| p.name == pack);
        let fitting = applicable(&runbooks, has);
        drop(state);
        let own = diagnose::own(&sonde, &runbooks);
        let categories: Vec<String> = fitting.iter().chain(&own).map(|r| r.category.clone()).collect();
        for runbook in own {
            brought.entry(runbook.category.clone()).or_insert(runbook);
        }
        shown["probes"] = probes.into();
        shown["runbookCategories"] = categories.into();
        agents.push(shown);
    }
    let about = |r: &Arc<Runbook>| {
        let mut about = json!({ "category": r.category, "type": r.kind(), "description": r.description });
        if !r.params.is_empty() {
            about["params"] = serde_json::to_value(&r.params).unwrap_or_default();
        }
        about
    };
    let categories: Vec<Value> = runbooks.iter().chain(brought.values()).map(about).collect();
    json!({ "agents": agents, "integrations": [], "runbookCategories": categories, "criticalPaths": [] })
}

/// The runbooks whose probes an agent with those packs has, and that need nothing from the asker.
fn applicable(runbooks: &[Arc<Runbook>], has: impl Fn(&str) -> bool) -> Vec<Arc<Runbook>> {
    let fits = |runbook: &&Arc<Runbook>| {
        let all = runbook.steps.iter().all(|s| s.probe.split('.').next().is_some_and(&has));
        all && runbook.needs_nothing()
    };
    runbooks.iter().filter(fits).cloned().collect()
}

/// The hub's own runbooks that can be used, read once.
async fn usable(hub: &Wires) -> Vec<Arc<Runbook>> {
    let good = |known| match known {
        Known::Good { runbook, .. } => Some(Arc::from(runbook)),
        Known::Bad { .. } => None,
    };
    diagnose::shared(hub).await.into_iter().filter_map(good).collect()
}

/// Runs every runbook that fits on one agent, on those with the tags, or on all there are. It only looks, whoever asks:
/// nobody means to change machines by asking how they are.
pub async fn health_check(
    hub: &Wires,
    caller: &Caller,
    agent: Option<&str>,
    categories: &[String],
    tags: &[String],
) -> Result<Value, AskError> {
    use futures_util::StreamExt as _;
    let started = Instant::now();
    let all = match agent {
        Some(name) => vec![ask::find(hub, caller, name).await?.0],
        None => within(hub, caller, tags),
    };
    let (online, offline): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| is_online(hub, a));
    let skipped_agents = online.len().saturating_sub(MAX_CHECKED);
    let runbooks = usable(hub).await;
    let checks: Vec<(Arc<SondeAgent>, Arc<Runbook>)> = online
        .iter()
        .take(MAX_CHECKED)
        .flat_map(|sonde| {
            let packs: Vec<String> = sonde.state().facts.packs.iter().map(|p| p.name.clone()).collect();
            let mut fitting = applicable(&runbooks, |pack| packs.iter().any(|p| p == pack));
            fitting.extend(diagnose::own(sonde, &runbooks));
            let wanted = fitting.into_iter().filter(|r| categories.is_empty() || categories.contains(&r.category));
            wanted.map(|runbook| (Arc::clone(sonde), runbook)).collect::<Vec<_>>()
        })
        .collect();
    let run: std::collections::BTreeSet<String> = checks.iter().map(|(_, r)| r.category.clone()).collect();
    let asked = checks.into_iter().map(|(sonde, runbook)| async move {
        let diagnosis = diagnose::run(hub, caller, &runbook, &sonde, None, true).await;
        (sonde, runbook, diagnosis)
    });
    let results: Vec<_> = futures_util::stream::iter(asked).buffer_unordered(CHECKED_AT_ONCE).collect().await;
    let mut findings = Vec::new();
    let mut by_agent: Map<String, Value> = Map::new();
    let (mut probes, mut good, mut bad, mut left_out) = (0, 0, 0, 0);
    for (sonde, runbook, diagnosis) in results {
        let category = &runbook.category;
        let shown = match diagnosis {
            Ok(diagnosis) => {
                probes += diagnosis.counts.0;
                good += diagnosis.counts.1;
                bad += diagnosis.counts.2;
                left_out += diagnosis.skipped.len();
                for finding in &diagnosis.findings {
                    let mut shown = serde_json::to_value(finding).unwrap_or_default();
                    shown["category"] = category.as_str().into();
                    shown["agent"] = sonde.name.as_str().into();
                    findings.push((finding.severity, shown));
                }
                let mut shown = json!({
                    "status": "ok", "findings": diagnosis.findings.len(), "probes": diagnosis.shown["meta"],
                });
                if !diagnosis.skipped.is_empty() {
                    let skipped = diagnosis.skipped.into_iter().map(|(probe, why)| (probe, why.into()));
                    shown["skipped"] = Value::Object(skipped.collect());
                }
                shown
            }
            Err(why) => json!({ "status": "error", "error": why.to_string() }),
        };
        let entry = by_agent.entry(sonde.name.clone()).or_insert_with(|| json!({}));
        entry[category.as_str()] = shown;
    }
    for agent in &offline {
        let shown = json!({
            "severity": "warning", "category": "connectivity", "agent": agent.name,
            "title": format!("{} is offline", agent.name), "detail": "It is not connected to the hub.",
            "relatedProbes": [],
        });
        findings.push((Severity::Warning, shown));
    }
    findings.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let count = |severity| findings.iter().filter(|(s, _)| *s == severity).count();
    let summary = json!({
        "critical": count(Severity::Critical), "warning": count(Severity::Warning), "info": count(Severity::Info),
        "probesRun": probes, "probesSucceeded": good, "probesFailed": bad,
        "probesSkipped": left_out,
    });
    let skipped: Vec<&String> = categories.iter().filter(|c| !run.contains(*c)).collect();
    Ok(json!({
        "meta": {
            "agent": agent, "agents": online.iter().map(|a| &a.name).collect::<Vec<_>>(),
            "offlineAgents": offline.iter().map(|a| &a.name).collect::<Vec<_>>(), "tags": tags,
            "timestamp": clock::now(), "categoriesRun": run, "categoriesSkipped": skipped,
            "agentsSkipped": skipped_agents,
            "totalDurationMs": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        },
        "summary": summary,
        "findings": findings.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>(),
        "categoryResults": by_agent,
    }))
}

/// The probe that reads logs of one kind, with its parameters.
pub fn log_probe(
    source: &str,
    mut params: Map<String, Value>,
) -> Result<(&'static str, Map<String, Value>), &'static str> {
    let kind = params.remove("type");
    let probe = match (source, kind.as_ref().and_then(Value::as_str)) {
        ("nginx", None | Some("access")) => "nginx.access.log.tail",
        ("nginx", Some("error")) => "nginx.error.log.tail",
        ("nginx", Some(_)) => return Err("`type` must be access or error"),
        ("systemd" | "docker", _) if kind.is_some() => return Err("`type` is for nginx only"),
        ("systemd", _) if params.contains_key("unit") => "systemd.journal.query",
        ("systemd", _) => "system.logs.journal",
        ("docker", _) => "docker.logs.tail",
        _ => return Err("`source` must be systemd, docker, nginx or audit"),
    };
    Ok((probe, params))
}

/// Log lines as Sonde shows them.
pub fn log_lines(source: &str, reply: &ask::ProbeReply) -> Value {
    let mut shown = reply.shown();
    let data = shown.get_mut("data").map(Value::take).unwrap_or_default();
    json!({
        "source": source, "agent": reply.agent.name, "probe": reply.probe, "data": data,
        "durationMs": shown["durationMs"],
    })
}
