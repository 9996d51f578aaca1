//! From results to findings.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Only, Op, Runbook, Severity, Threshold};

/// Most findings of one runbook; the worst are kept.
const MAX_FINDINGS: usize = 200;
/// Longest value that is put into a text.
const MAX_SHOWN: usize = 200;

/// Something worth telling (field facts, section 12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// In one line.
    pub title: String,
    /// In more.
    pub detail: String,
    /// The remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// The probes that it comes from.
    pub related_probes: Vec<String>,
}

impl Finding {
    /// Without detail or remedy.
    pub fn new(severity: Severity, title: String, probe: &str) -> Self {
        let related_probes = vec![probe.to_owned()];
        Self { severity, title, detail: String::new(), remediation: None, related_probes }
    }
}

/// The outcome of one probe of a step.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The name of its result.
    pub name: &'a str,
    /// Its data, or its error's text.
    pub result: Result<&'a Value, &'a str>,
}

impl<'a> Outcome<'a> {
    /// The element it was run for, if the step runs for each of a list.
    fn label(&self, step: &str) -> Option<&'a str> {
        self.name.strip_prefix(step)?.strip_prefix(':')
    }
}

/// What the results say: worst first. `outcomes` has those of a step by its name; `told` is what the run itself has to
/// tell, `values` the runbook's parameters.
pub fn evaluate<'a>(
    runbook: &Runbook,
    told: Vec<Finding>,
    values: &Map<String, Value>,
    outcomes: impl Fn(&str) -> Vec<Outcome<'a>>,
) -> Vec<Finding> {
    let mut findings = told;
    for step in &runbook.steps {
        let Some(severity) = step.on_error else { continue };
        for Outcome { name, result } in outcomes(step.name()) {
            if let Err(error) = result {
                let detail = error.to_owned();
                findings.push(Finding { detail, ..Finding::new(severity, format!("{name} failed"), name) });
            }
        }
    }
    let data_of = |step: &str| outcomes(step).into_iter().filter_map(|outcome| outcome.result.ok()).collect();
    for threshold in &runbook.thresholds {
        for outcome in outcomes(&threshold.probe) {
            let Ok(data) = outcome.result else { continue };
            let source = Source { name: outcome.name, label: outcome.label(&threshold.probe), data };
            let counts = |item: &Value| {
                threshold.only.is_empty() || threshold.only.iter().any(|only| fits(only, item, values, data_of))
            };
            match &threshold.each {
                None => findings.extend(counts(data).then(|| judge(threshold, data, &source)).flatten()),
                Some(path) => {
                    let items = look(data, path).and_then(|v| v.as_array().cloned()).unwrap_or_default();
                    findings.extend(items.iter().filter(|i| counts(i)).filter_map(|i| judge(threshold, i, &source)));
                }
            }
        }
    }
    // Stable: within one severity in the order of the file.
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Whether an element counts.
pub(super) fn fits<'a>(
    only: &Only,
    item: &Value,
    values: &Map<String, Value>,
    data_of: impl Fn(&str) -> Vec<&'a Value>,
) -> bool {
    let Some(value) = look(item, &only.path).filter(|v| !v.is_null()) else { return false };
    if let Some(wanted) = &only.is {
        return match wanted.as_str().and_then(super::placeholder) {
            Some(name) => values.get(name) == Some(&value),
            None => *wanted == value,
        };
    }
    let Some(among) = &only.among else { return false };
    data_of(&among.of).into_iter().any(|data| match &among.list {
        None => look(data, &among.path) == Some(value.clone()),
        Some(list) => look(data, list)
            .and_then(|items| Some(items.as_array()?.iter().any(|i| look(i, &among.path).as_ref() == Some(&value))))
            .unwrap_or(false),
    })
}

/// What a value was found in.
struct Source<'a> {
    name: &'a str,
    label: Option<&'a str>,
    data: &'a Value,
}

fn judge(threshold: &Threshold, item: &Value, source: &Source<'_>) -> Option<Finding> {
    let value = match &threshold.of {
        None => look(item, &threshold.path)?,
        Some(of) => {
            let (part, whole) = (number(&look(item, &threshold.path)?)?, number(&look(item, of)?)?);
            if whole <= 0.0 {
                return None;
            }
            Value::from((part / whole * 1000.0).round() / 10.0)
        }
    };
    let level = threshold.levels.iter().find(|level| holds(threshold.op, &value, &level.value))?;
    let filled = |text: &str| {
        fill(text, |name| match name {
            "value" => Some(value.clone()),
            "label" => source.label.map(Into::into),
            _ => look(item, name).or_else(|| look(source.data, name)),
        })
    };
    Some(Finding {
        severity: level.severity,
        title: filled(&threshold.title),
        detail: filled(&threshold.detail),
        remediation: threshold.remediation.as_deref().map(filled),
        related_probes: vec![source.name.to_owned()],
    })
}

fn holds(op: Op, value: &Value, limit: &Value) -> bool {
    let order = || number(value)?.partial_cmp(&number(limit)?);
    match op {
        Op::Above => order().is_some_and(std::cmp::Ordering::is_gt),
        Op::AtLeast => order().is_some_and(std::cmp::Ordering::is_ge),
        Op::Below => order().is_some_and(std::cmp::Ordering::is_lt),
        Op::AtMost => order().is_some_and(std::cmp::Ordering::is_le),
        Op::Equal => same(value, limit),
        Op::NotEqual => !value.is_null() && !same(value, limit),
        Op::Contains => match (value, limit.as_str()) {
            (Value::Array(items), _) => items.iter().any(|item| same(item, limit)),
            (Value::String(text), Some(part)) => text.to_lowercase().contains(&part.to_lowercase()),
            _ => false,
        },
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// A number, or a text that is one (some tools print all values as texts).
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok(),
        _ => None,
    }
    .filter(|n: &f64| n.is_finite())
}

/// The value at a path; `#` is the length of a list, a number the place in one.
pub(super) fn look(value: &Value, path: &str) -> Option<Value> {
    let mut at = value;
    for part in path.split('.') {
        match part {
            "#" => return at.as_array().map(|items| items.len().into()),
            "" => {}
            name => {
                at = match at.as_array() {
                    Some(items) => items.get(name.parse::<usize>().ok()?)?,
                    None => at.get(name)?,
                }
            }
        }
    }
    Some(at.clone())
}

/// A text with a runbook's parameters put in.
pub(super) fn with_values(text: &str, values: &Map<String, Value>) -> String {
    fill(text, |name| values.get(name).cloned())
}

/// A text with what its `{names}` stand for.
fn fill(text: &str, known: impl Fn(&str) -> Option<Value>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        match known(name) {
            Some(Value::String(text)) => out.push_str(&text[..text.floor_char_boundary(MAX_SHOWN)]),
            Some(other) => {
                let text = other.to_string();
                out.push_str(&text[..text.floor_char_boundary(MAX_SHOWN)]);
            }
            None => out.push('?'),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runbook(threshold: &str) -> Runbook {
        let text = format!(
            "category = \"t\"\n[[steps]]\nprobe = \"p.x\"\non_error = \"warning\"\n[[thresholds]]\nprobe = \"p.x\"\n{threshold}"
        );
        Runbook::parse(&text).expect("a runbook")
    }

    #[track_caller]
    fn check(threshold: &str, data: &Value, expect: &[(Severity, &str)]) {
        let findings = evaluate(&runbook(threshold), Vec::new(), &Map::new(), |name| {
            assert_eq!(name, "p.x");
            vec![Outcome { name: "p.x", result: Ok(data) }]
        });
        let got: Vec<_> = findings.iter().map(|f| (f.severity, f.title.as_str())).collect();
        assert_eq!(got, expect, "{threshold}");
    }

    #[test]
    fn each_element_is_judged_and_the_worst_come_first() {
        let data = json!({"filesystems":[{"mountedOn":"/","usePct":86},{"mountedOn":"/b","usePct":99},{"mountedOn":"/c","usePct":10}]});
        check(
            "each = \"filesystems\"\npath = \"usePct\"\nop = \">=\"\nlevels = [{severity=\"critical\",value=95},{severity=\"warning\",value=85}]\ntitle = \"{mountedOn} {value} %\"",
            &data,
            &[(Severity::Critical, "/b 99 %"), (Severity::Warning, "/ 86 %")],
        );
    }

    #[test]
    fn shares_lengths_texts_and_missing_values() {
        let data = json!({"used": 95, "total": 100, "zero": 0, "list": [1,2,3], "state": "FAILED hard", "ok": false, "n": "97.5"});
        let one = |rest: &str, expect: &[(Severity, &str)]| {
            check(&format!("{rest}\ntitle = \"{{value}}\""), &data, expect);
        };
        one(
            "path=\"used\"\nof=\"total\"\nop=\">\"\nlevels=[{severity=\"warning\",value=90}]",
            &[(Severity::Warning, "95.0")],
        );
        one("path=\"used\"\nof=\"zero\"\nop=\">\"\nlevels=[{severity=\"warning\",value=90}]", &[]);
        one("path=\"list.#\"\nop=\"==\"\nlevels=[{severity=\"info\",value=3}]", &[(Severity::Info, "3")]);
        one(
            "path=\"state\"\nop=\"contains\"\nlevels=[{severity=\"critical\",value=\"failed\"}]",
            &[(Severity::Critical, "FAILED hard")],
        );
        one("path=\"ok\"\nop=\"==\"\nlevels=[{severity=\"critical\",value=false}]", &[(Severity::Critical, "false")]);
        one("path=\"gone\"\nop=\"!=\"\nlevels=[{severity=\"critical\",value=1}]", &[]);
        one("path=\"n\"\nop=\">=\"\nlevels=[{severity=\"warning\",value=97.5}]", &[(Severity::Warning, "97.5")]);
    }

    #[test]
    fn a_resource_of_a_cluster_that_failed_or_is_fenced_is_critical() {
        let books = crate::builtin::runbooks();
        let book = books.iter().find(|book| book.category == "proxmox-cluster").expect("built in");
        let resource =
            |sid: &str, state: &str| json!({ "sid": sid, "state": state, "node": "pve1", "request": "started" });
        let data = json!({ "resources": [
            resource("vm:100", "started"), resource("vm:101", "error"), resource("ct:102", "fence"), resource("vm:103", "stopped"),
        ]});
        let findings = evaluate(book, Vec::new(), &Map::new(), |name| {
            let is_it = name == "proxmox-node.local.ha.status";
            is_it.then_some(Outcome { name: "proxmox-node.local.ha.status", result: Ok(&data) }).into_iter().collect()
        });
        let got: Vec<_> = findings.iter().map(|f| (f.severity, f.title.as_str(), f.detail.as_str())).collect();
        let critical = |title| (Severity::Critical, title, "On node pve1.");
        assert_eq!(got, [critical("vm:101 is in state error"), critical("ct:102 is in state fence")]);
    }

    #[test]
    fn a_failed_probe_keeps_its_words() {
        let book = runbook("path=\"x\"\nop=\"==\"\nlevels=[{severity=\"info\",value=1}]\ntitle=\"t\"");
        let failed = |_: &str| vec![Outcome { name: "p.x", result: Err("psql: connection refused") }];
        let findings = evaluate(&book, Vec::new(), &Map::new(), failed);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].detail, "psql: connection refused");
        assert_eq!(
            evaluate(&book, Vec::new(), &Map::new(), |_| Vec::new()),
            [],
            "a step that did not run says nothing"
        );
    }

    #[test]
    fn only_what_fits_is_judged_and_each_element_by_its_name() {
        let text = r#"
            category = "t"
            [params.id]
            type = "string"
            [[steps]]
            probe = "p.vms"
            [[steps]]
            probe = "p.stats"
            each = { of = "p.vms", list = "vms", label = "name" }
            [[steps]]
            probe = "p.alerts"
            [[thresholds]]
            probe = "p.stats"
            path = "cpu"
            op = ">"
            levels = [{ severity = "warning", value = 85 }]
            title = "{label}: {cpu} %"
            [[thresholds]]
            probe = "p.alerts"
            each = "alerts"
            only = [{ path = "vm.id", is = "{id}" }, { path = "vm.name", among = { of = "p.vms", list = "vms", path = "name" } }]
            path = "title"
            op = "!="
            levels = [{ severity = "critical", value = "" }]
            title = "{title}"
        "#;
        let book = Runbook::parse(text).expect("a runbook");
        let vms = json!({"vms": [{"name": "web"}, {"name": "db"}]});
        let (busy, idle) = (json!({"cpu": 97}), json!({"cpu": 3}));
        let alert =
            |title: &str, id: &str, name: Option<&str>| json!({"title": title, "vm": {"id": id, "name": name}});
        let alerts = json!({"alerts": [
            alert("by id", "7", None), alert("by name", "8", Some("db")), alert("another's", "9", Some("mail")),
        ]});
        let values = Map::from_iter([("id".to_owned(), json!("7"))]);
        let findings = evaluate(&book, Vec::new(), &values, |step| match step {
            "p.vms" => vec![Outcome { name: "p.vms", result: Ok(&vms) }],
            "p.stats" => vec![
                Outcome { name: "p.stats:web", result: Ok(&busy) },
                Outcome { name: "p.stats:db", result: Ok(&idle) },
            ],
            _ => vec![Outcome { name: "p.alerts", result: Ok(&alerts) }],
        });
        let titles: Vec<&str> = findings.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(titles, ["by id", "by name", "web: 97 %"]);
        assert_eq!(findings[2].related_probes, ["p.stats:web"]);
    }
}
