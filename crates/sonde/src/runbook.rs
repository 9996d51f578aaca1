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

mod check;
mod evaluate;
mod progress;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::manifest::Manifest;
use crate::params::ParamSpec;

pub use evaluate::{Finding, Outcome, evaluate};
pub use progress::{Planned, Progress};

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
/// Most elements of a list that one step is run for.
pub const MAX_EACH: usize = 50;
/// Most probes of one run, over all steps and elements.
pub const MAX_RUNS: usize = 256;

/// A runbook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runbook {
    /// The category, by which the runbook is called.
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
    /// The parameters of the caller.
    #[serde(default)]
    pub params: BTreeMap<String, ParamSpec>,
    /// Of these, the asker must say at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The thresholds that make findings.
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
    /// The name of its result; the probe's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With what; the text `{name}` stands for the runbook's own parameter.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The severity of a failure of the probe; no finding when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<Severity>,
    /// Run once for each element of an earlier step's list; `{item.name}` in `params` is a value of the element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<Each>,
    /// Parameters of the runbook that its result says, by their paths, where the asker did not. When they all were said,
    /// the step is not run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gives: BTreeMap<String, String>,
    /// The message when a parameter is not in its result; the steps that need it are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_nothing: Option<String>,
}

/// Which elements a step is run for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// The earlier step, by its name.
    pub of: String,
    /// The list in its result.
    pub list: String,
    /// Only elements that fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
    /// The path of an element's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How many at most; the report says if there were more.
    #[serde(default = "ten")]
    pub limit: usize,
}

/// Which elements count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// The path of the value in the element.
    pub path: String,
    /// It must be this; the text `{name}` stands for the runbook's own parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<Value>,
    /// Or it must be among these values of another step's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub among: Option<Among>,
}

/// Values of a step's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Among {
    /// The step, by its name.
    pub of: String,
    /// A list in its result; the result itself when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The path of the value.
    pub path: String,
}

const fn ten() -> usize {
    10
}

impl Step {
    /// The name of its result.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.probe)
    }
}

/// The severity of a finding.
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
    /// Only elements of which one of these holds; all when nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<Only>,
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
    /// The remediation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<String>,
}

/// One level of a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The severity.
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

/// An error in a runbook file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunbookError(pub String);

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

    /// The simple runbook that a pack brings: its probes, nothing to judge them by. None when it has none, or one that
    /// could not be asked for.
    pub fn of_pack(manifest: &Manifest) -> Option<Self> {
        let brought = manifest.runbook.as_ref()?;
        let step = |probe: &String| Step {
            probe: format!("{}.{probe}", manifest.name),
            name: None,
            params: Map::new(),
            on_error: None,
            each: None,
            gives: BTreeMap::new(),
            on_nothing: None,
        };
        let runbook = Self {
            category: brought.category.clone(),
            description: manifest.description.clone(),
            parallel: brought.parallel,
            deadline_s: deadline(),
            params: BTreeMap::new(),
            one_of: Vec::new(),
            steps: brought.probes.iter().map(step).collect(),
            thresholds: Vec::new(),
        };
        runbook.check().is_ok().then_some(runbook)
    }

    /// `diagnostic` when it judges results, `simple` when it shows them only: the field's words.
    pub fn kind(&self) -> &'static str {
        if self.thresholds.is_empty() { "simple" } else { "diagnostic" }
    }

    /// Whether it can be run without anything being said.
    pub fn needs_nothing(&self) -> bool {
        self.one_of.is_empty() && self.params.values().all(|p| !p.required)
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
        let plan = runbook.start(Some(r#"{"lines":5}"#)).expect("starts").ready();
        assert_eq!(Value::Object(plan[1].params.clone()).to_string(), r#"{"lines":5,"priority":"err"}"#);
        assert!(runbook.start(Some(r#"{"lines":"five"}"#)).is_err());
        assert!(runbook.start(Some(r#"{"other":1}"#)).is_err());
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
            ("parallel = false", "one_of = [\"who\"]", "who"),
            ("on_error = \"warning\"", "gives = { host = \"a\" }", "host"),
            ("on_error = \"warning\"", "each = { of = \"later\", list = \"l\" }", "earlier"),
            ("on_error = \"warning\"", "each = { of = \"system.disk.usage\", list = \"l\", limit = 51 }", "limit"),
            ("priority = \"err\"", "priority = \"{item.name}\"", "item.name"),
            ("op = \">=\"", "only = [{ path = \"a\" }]\nop = \">=\"", "`is`"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = Runbook::parse(&text).expect_err(to).to_string();
            assert!(error.contains(word), "{error} should speak of {word}");
        }
    }
}
