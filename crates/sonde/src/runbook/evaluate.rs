//! From results to findings.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Op, Runbook, Severity, Threshold};

/// Most findings of one runbook; the worst are kept.
const MAX_FINDINGS: usize = 200;
/// Longest value that is put into a text.
const MAX_SHOWN: usize = 200;

/// Something worth telling (field facts, section 12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// In one line.
    pub title: String,
    /// In more.
    pub detail: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
    /// Where it comes from.
    pub related_probes: Vec<String>,
}

/// What the results say: worst first. `results` has each step's data or its error's text.
pub fn evaluate<'a>(runbook: &Runbook, results: impl Fn(&str) -> Option<Result<&'a Value, &'a str>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for step in &runbook.steps {
        if let (Some(severity), Some(Err(error))) = (step.on_error, results(step.name())) {
            findings.push(Finding {
                severity,
                title: format!("{} failed", step.name()),
                detail: error.to_owned(),
                remediation: None,
                related_probes: vec![step.probe.clone()],
            });
        }
    }
    for threshold in &runbook.thresholds {
        let Some(Ok(data)) = results(&threshold.probe) else { continue };
        match &threshold.each {
            None => findings.extend(judge(threshold, data, data)),
            Some(path) => {
                let items = look(data, path).and_then(|v| v.as_array().cloned()).unwrap_or_default();
                findings.extend(items.iter().filter_map(|item| judge(threshold, item, data)));
            }
        }
    }
    // Stable: within one severity in the order of the file.
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    findings.truncate(MAX_FINDINGS);
    findings
}

fn judge(threshold: &Threshold, item: &Value, data: &Value) -> Option<Finding> {
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
    let filled = |text: &str| fill(text, &value, item, data);
    Some(Finding {
        severity: level.severity,
        title: filled(&threshold.title),
        detail: filled(&threshold.detail),
        remediation: threshold.remediation.as_deref().map(filled),
        related_probes: vec![threshold.probe.clone()],
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

/// The value at a path; `#` is the length of a list.
fn look(value: &Value, path: &str) -> Option<Value> {
    let mut at = value;
    for part in path.split('.') {
        match part {
            "#" => return at.as_array().map(|items| items.len().into()),
            "" => {}
            name => at = at.get(name)?,
        }
    }
    Some(at.clone())
}

/// `{value}` is what was compared; any other name is looked up in the element, then in the whole result.
fn fill(text: &str, value: &Value, item: &Value, data: &Value) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        let found = if name == "value" { Some(value.clone()) } else { look(item, name).or_else(|| look(data, name)) };
        match found {
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
        let findings = evaluate(&runbook(threshold), |_| Some(Ok(data)));
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
    fn a_failed_probe_keeps_its_words() {
        let book = runbook("path=\"x\"\nop=\"==\"\nlevels=[{severity=\"info\",value=1}]\ntitle=\"t\"");
        let findings = evaluate(&book, |_| Some(Err("psql: connection refused")));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].detail, "psql: connection refused");
        assert_eq!(evaluate(&book, |_| None), [], "a step that did not run says nothing");
    }
}
