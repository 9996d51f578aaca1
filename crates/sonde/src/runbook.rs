//! Runbooks (field facts, section 12): which probes to run, and what in their results is worth telling.
//!
//! A runbook is a TOML file:
//!
//! ```toml
//! category = "system"
//! description = "Disk, memory and load of a machine"
//! parallel = true
//!
//! [[steps]]
//! probe = "system.disk.usage"
//!
//! [[thresholds]]
//! probe = "system.disk.usage"
//! each = "filesystems"
//! path = "usePct"
//! op = ">="
//! levels = [{ severity = "critical", value = 95 }, { severity = "warning", value = 85 }]
//! title = "{mountedOn} is {usePct} % full"
//! remediation = "Remove what is not needed, or enlarge the file system."
//! ```

mod evaluate;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::params::{self, ParamSpec};

pub use evaluate::{Finding, evaluate};

/// The field's limit for a whole runbook.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(45);
/// Longest a runbook may take.
pub const MAX_DEADLINE_S: u64 = 600;
/// Most steps of one runbook.
pub const MAX_STEPS: usize = 64;
/// Most thresholds of one runbook.
pub const MAX_THRESHOLDS: usize = 128;
/// Longest file.
pub const MAX_FILE: usize = 256 * 1024;

/// A runbook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runbook {
    /// What it is about: the name by which it is asked for.
    pub category: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// All steps at once, or one after the other.
    #[serde(default = "yes")]
    pub parallel: bool,
    /// How long the whole may take; what is there by then is the result.
    #[serde(default = "deadline")]
    pub deadline_s: u64,
    /// What the asker may or must say.
    #[serde(default)]
    pub params: BTreeMap<String, ParamSpec>,
    /// What to run.
    pub steps: Vec<Step>,
    /// What is worth telling.
    #[serde(default)]
    pub thresholds: Vec<Threshold>,
}

const fn yes() -> bool {
    true
}

const fn deadline() -> u64 {
    DEFAULT_DEADLINE.as_secs()
}

/// One probe of a runbook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which probe.
    pub probe: String,
    /// What its result is called; the probe's name when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With what; the text `{name}` stands for the runbook's own parameter.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// What it means when the probe fails; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Severity>,
}

impl Step {
    /// What its result is called.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.probe)
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Look at it.
    Warning,
    /// Do something.
    Critical,
}

impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// When a result is worth telling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Of which step (its name).
    pub probe: String,
    /// A list in the result, each element of which is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// What is looked at: names with dots between. `#` at the end is the length of a list.
    pub path: String,
    /// If given, what is looked at is `path` in percent of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// How it is compared.
    pub op: Op,
    /// From the worst down; the first that fits counts.
    pub levels: Vec<Level>,
    /// For people; `{path}` stands for a value of the element or the result.
    pub title: String,
    /// More, likewise.
    #[serde(default)]
    pub detail: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
}

/// One level of a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// How bad.
    pub severity: Severity,
    /// From or at which value.
    pub value: Value,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Above.
    #[serde(rename = ">")]
    Above,
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// Below.
    #[serde(rename = "<")]
    Below,
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// Equal.
    #[serde(rename = "==")]
    Equal,
    /// Not equal, where there is a value at all.
    #[serde(rename = "!=")]
    NotEqual,
    /// A text that has this in it, in any case of letters.
    #[serde(rename = "contains")]
    Contains,
}

/// What is wrong with a runbook's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunbookError(pub String);

/// A step with the parameters it runs with.
pub type Planned = (Step, Map<String, Value>);

impl Runbook {
    /// Reads and checks a file.
    pub fn parse(text: &str) -> Result<Self, RunbookError> {
        if text.len() > MAX_FILE {
            return Err(RunbookError(format!("a runbook has at most {MAX_FILE} bytes")));
        }
        let runbook: Self =
            toml::from_str(text).map_err(|why| RunbookError(why.to_string().trim_end().to_owned()))?;
        runbook.check().map_err(RunbookError)?;
        Ok(runbook)
    }

    /// `<category>-runbook`, as the field calls it.
    pub fn id(&self) -> String {
        format!("{}-runbook", self.category)
    }

    fn check(&self) -> Result<(), String> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        if self.category.is_empty() || self.category.len() > 64 || !self.category.bytes().all(plain) {
            return Err("`category` must be 1 to 64 lower-case letters, digits, '-' and '_'".into());
        }
        if self.steps.is_empty() || self.steps.len() > MAX_STEPS {
            return Err(format!("a runbook has 1 to {MAX_STEPS} steps"));
        }
        if self.thresholds.len() > MAX_THRESHOLDS {
            return Err(format!("a runbook has at most {MAX_THRESHOLDS} thresholds"));
        }
        if self.deadline_s == 0 || self.deadline_s > MAX_DEADLINE_S {
            return Err(format!("`deadline_s` must be 1 to {MAX_DEADLINE_S}"));
        }
        for (name, spec) in &self.params {
            spec.check().map_err(|why| format!("parameter `{name}`: {why}"))?;
        }
        for (i, step) in self.steps.iter().enumerate() {
            if !step.probe.contains('.') || step.probe.len() > crate::probe::MAX_PROBE_NAME {
                return Err(format!("step {}: {:?} is no probe; it must be pack.probe", i + 1, step.probe));
            }
            if self.steps[..i].iter().any(|s| s.name() == step.name()) {
                return Err(format!("step {}: there are two steps named {}; give one a `name`", i + 1, step.name()));
            }
            for (name, value) in &step.params {
                if let Some(wanted) = value.as_str().and_then(placeholder)
                    && !self.params.contains_key(wanted)
                {
                    return Err(format!(
                        "step {}: `{name}` is {{{wanted}}}, which is no parameter of this runbook",
                        i + 1
                    ));
                }
            }
        }
        for (i, threshold) in self.thresholds.iter().enumerate() {
            if !self.steps.iter().any(|s| s.name() == threshold.probe) {
                return Err(format!("threshold {}: there is no step named {}", i + 1, threshold.probe));
            }
            if threshold.levels.is_empty() || threshold.path.is_empty() || threshold.title.is_empty() {
                return Err(format!("threshold {}: it needs `path`, `levels` and `title`", i + 1));
            }
            let numeric = matches!(threshold.op, Op::Above | Op::AtLeast | Op::Below | Op::AtMost);
            if (numeric || threshold.of.is_some()) && !threshold.levels.iter().all(|l| l.value.is_number()) {
                return Err(format!("threshold {}: this comparison needs numbers as values", i + 1));
            }
        }
        Ok(())
    }

    /// The steps with what the asker said put in.
    pub fn plan(&self, given: Option<&str>) -> Result<Vec<Planned>, params::ParamError> {
        let values = params::validate(&self.params, given)?;
        let filled = |value: &Value| match value.as_str().and_then(placeholder) {
            Some(name) => values.get(name).cloned(),
            None => Some(value.clone()),
        };
        let plan = self.steps.iter().map(|step| {
            // A parameter that was left open is left out.
            let params =
                step.params.iter().filter_map(|(name, value)| Some((name.clone(), filled(value)?))).collect();
            (step.clone(), params)
        });
        Ok(plan.collect())
    }
}

fn placeholder(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        category = "disk"
        parallel = false
        [params.lines]
        type = "number"
        default = 20
        [params.unit]
        type = "string"
        [[steps]]
        probe = "system.disk.usage"
        [[steps]]
        probe = "system.logs.journal"
        params = { lines = "{lines}", unit = "{unit}", priority = "err" }
        on_error = "warning"
        [[thresholds]]
        probe = "system.disk.usage"
        each = "filesystems"
        path = "usePct"
        op = ">="
        levels = [{ severity = "critical", value = 95 }]
        title = "full"
    "#;

    #[test]
    fn parameters_are_put_into_the_steps() {
        let runbook = Runbook::parse(GOOD).expect("a good runbook");
        assert_eq!((runbook.id().as_str(), runbook.deadline_s, runbook.parallel), ("disk-runbook", 45, false));
        let plan = runbook.plan(Some(r#"{"lines":5}"#)).expect("plans");
        assert_eq!(Value::Object(plan[1].1.clone()).to_string(), r#"{"lines":5,"priority":"err"}"#);
        assert!(runbook.plan(Some(r#"{"lines":"five"}"#)).is_err());
        assert!(runbook.plan(Some(r#"{"other":1}"#)).is_err());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, word) in [
            ("category = \"disk\"", "category = \"Disk!\"", "category"),
            ("probe = \"system.logs.journal\"", "probe = \"journal\"", "pack.probe"),
            ("probe = \"system.logs.journal\"", "probe = \"system.disk.usage\"", "two steps"),
            ("unit = \"{unit}\"", "unit = \"{units}\"", "no parameter"),
            ("value = 95", "value = \"high\"", "numbers"),
            ("op = \">=\"", "op = \"=~\"", "=~"),
            ("parallel = false", "paralel = false", "paralel"),
            ("each = \"filesystems\"", "probe2 = 1", "probe2"),
            ("parallel = false", "deadline_s = 0", "deadline_s"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = Runbook::parse(&text).expect_err(to).to_string();
            assert!(error.contains(word), "{error} should speak of {word}");
        }
    }
}
