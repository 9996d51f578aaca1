//! A runbook that is being run: what can run now, given what is known.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::evaluate::{fits, look};
use super::{Each, Finding, MAX_RUNS, Runbook, Severity, Step, placeholder};
use crate::params::{self, ParamError};

/// One probe to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The step it is of, by its name.
    pub step: String,
    /// The name of its result: the step's name, with `:element` if the step runs for each element of a list.
    pub name: String,
    /// Which probe.
    pub probe: String,
    /// With what.
    pub params: Map<String, Value>,
}

/// The progress of a run.
#[derive(Debug)]
pub struct Progress<'a> {
    runbook: &'a Runbook,
    /// The caller's parameters, and those that steps found.
    values: Map<String, Value>,
    /// Steps that are to be planned yet.
    open: Vec<&'a Step>,
    /// Steps that were planned, with how many of their probes are still awaited.
    awaited: BTreeMap<&'a str, usize>,
    /// Results that another step needs; nothing when the probe failed.
    kept: BTreeMap<&'a str, Option<Value>>,
    told: Vec<Finding>,
    runs: usize,
}

impl Runbook {
    /// Begins a run with what the asker said.
    pub fn start(&self, given: Option<&str>) -> Result<Progress<'_>, ParamError> {
        let values = params::validate(&self.params, given)?;
        if !self.one_of.is_empty() && !self.one_of.iter().any(|name| values.contains_key(name)) {
            return Err(ParamError(format!("one of {} must be given", self.one_of.join(", "))));
        }
        // Who says what a step would find out spares that step.
        let is_said = |step: &Step| !step.gives.is_empty() && step.gives.keys().all(|name| values.contains_key(name));
        let open = self.steps.iter().filter(|step| !is_said(step)).collect();
        Ok(Progress {
            runbook: self,
            values,
            open,
            awaited: BTreeMap::new(),
            kept: BTreeMap::new(),
            told: Vec::new(),
            runs: 0,
        })
    }
}

impl<'a> Progress<'a> {
    /// The probes that can run now. When there are none and no answer is awaited, the run is over.
    pub fn ready(&mut self) -> Vec<Planned> {
        let mut ready = Vec::new();
        // A step that comes to nothing may let another come to something.
        loop {
            let (now, later): (Vec<_>, Vec<_>) = self.open.iter().copied().partition(|step| self.is_free(step));
            self.open = later;
            if now.is_empty() {
                return ready;
            }
            for step in now {
                let planned = self.plan(step);
                self.awaited.insert(step.name(), planned.len());
                ready.extend(planned);
            }
        }
    }

    /// Whether everything that a step is made of is there, or will never be.
    fn is_free(&self, step: &Step) -> bool {
        let of = step.each.iter().flat_map(|each| {
            let among = each.only.as_ref().and_then(|only| only.among.as_ref());
            [Some(each.of.as_str()), among.map(|among| among.of.as_str())].into_iter().flatten()
        });
        let givers = self
            .runbook
            .steps
            .iter()
            .filter(|giver| giver.name() != step.name() && uses(step).any(|name| giver.gives.contains_key(name)));
        of.chain(givers.map(Step::name)).all(|name| self.is_over(name))
    }

    fn is_over(&self, step: &str) -> bool {
        let is_open = self.open.iter().any(|s| s.name() == step);
        !is_open && self.awaited.get(step).is_none_or(|left| *left == 0)
    }

    fn plan(&mut self, step: &'a Step) -> Vec<Planned> {
        let given = |name: &str| self.runbook.steps.iter().any(|s| s.gives.contains_key(name));
        if uses(step).any(|name| given(name) && !self.values.contains_key(name)) {
            // Whoever was to give it has told why it is not there.
            return Vec::new();
        }
        let elements = match &step.each {
            None => vec![None],
            Some(each) => self.elements(step, each).into_iter().map(Some).collect(),
        };
        let room = MAX_RUNS.saturating_sub(self.runs);
        if elements.len() > room {
            self.tell(
                step,
                format!("{} was not run for everything: a run has at most {MAX_RUNS} probes", step.name()),
            );
        }
        let planned: Vec<Planned> = elements.iter().take(room).map(|e| self.fill(step, e.as_ref())).collect();
        self.runs += planned.len();
        planned
    }

    /// The elements that a step runs for, with what they are called.
    fn elements(&mut self, step: &Step, each: &Each) -> Vec<(String, Value)> {
        let result = self.kept.get(each.of.as_str()).and_then(Option::as_ref);
        let Some(Value::Array(items)) = result.and_then(|data| look(data, &each.list)) else { return Vec::new() };
        let values_of = |of: &str| self.kept.get(of).and_then(Option::as_ref).into_iter().collect();
        let fit = |item: &Value| each.only.as_ref().is_none_or(|only| fits(only, item, &self.values, values_of));
        let mut elements: Vec<(String, Value)> = Vec::new();
        let all: Vec<Value> = items.into_iter().filter(fit).collect();
        let count = all.len();
        for (n, item) in all.into_iter().take(each.limit).enumerate() {
            let label = each.label.as_deref().and_then(|path| look(&item, path));
            let label = match label {
                Some(Value::String(text)) => text.chars().filter(|c| !c.is_control()).take(64).collect(),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            };
            let label = if label.is_empty() { (n + 1).to_string() } else { label };
            let taken = elements.iter().any(|(other, _)| *other == label);
            elements.push((if taken { format!("{label} ({})", n + 1) } else { label }, item));
        }
        if count > each.limit {
            self.tell(step, format!("{} was run for {} of {count} only", step.name(), each.limit));
        }
        elements
    }

    fn fill(&self, step: &Step, element: Option<&(String, Value)>) -> Planned {
        let filled = |value: &Value| match value.as_str().and_then(placeholder) {
            Some(name) => match name.strip_prefix("item.") {
                Some(path) => element.and_then(|(_, item)| look(item, path)),
                None => self.values.get(name).cloned(),
            },
            None => Some(value.clone()),
        };
        // A parameter that was left open is left out.
        let params = step.params.iter().filter_map(|(name, value)| Some((name.clone(), filled(value)?))).collect();
        let name = match element {
            Some((label, _)) => format!("{}:{label}", step.name()),
            None => step.name().to_owned(),
        };
        Planned { step: step.name().to_owned(), name, probe: step.probe.clone(), params }
    }

    /// A probe of a step came to something, or failed.
    pub fn done(&mut self, step: &str, data: Option<&Value>) {
        let Some(step) = self.runbook.steps.iter().find(|s| s.name() == step) else { return };
        if let Some(left) = self.awaited.get_mut(step.name()) {
            *left = left.saturating_sub(1);
        }
        for (name, path) in &step.gives {
            if self.values.contains_key(name) {
                continue;
            }
            let found = data.and_then(|data| look(data, path));
            let spec = self.runbook.params.get(name);
            match found.filter(|value| spec.is_some_and(|spec| spec.fits(value).is_ok())) {
                Some(value) => drop(self.values.insert(name.clone(), value)),
                // The step's `on_error` reports that the probe failed.
                None if data.is_some() => {
                    let title = step.on_nothing.as_deref().unwrap_or("Nothing was found that fits");
                    let title = super::evaluate::with_values(title, &self.values);
                    self.told.push(Finding::new(Severity::Critical, title, step.name()));
                }
                None => {}
            }
        }
        let is_needed = self.runbook.steps.iter().filter_map(|s| s.each.as_ref()).any(|each| {
            let among = each.only.as_ref().and_then(|only| only.among.as_ref());
            each.of == step.name() || among.is_some_and(|among| among.of == step.name())
        });
        if is_needed {
            self.kept.insert(step.name(), data.cloned());
        }
    }

    fn tell(&mut self, step: &Step, title: String) {
        self.told.push(Finding::new(Severity::Info, title, step.name()));
    }

    /// The run's own findings, and the present parameters.
    pub fn into_told(self) -> (Vec<Finding>, Map<String, Value>) {
        (self.told, self.values)
    }
}

/// The runbook's parameters that a step is made of.
fn uses(step: &Step) -> impl Iterator<Item = &str> {
    let in_params = step.params.values().filter_map(|value| value.as_str().and_then(placeholder));
    let only = step.each.as_ref().and_then(|each| each.only.as_ref()?.is.as_ref()?.as_str().and_then(placeholder));
    in_params.chain(only).filter(|name| !name.starts_with("item."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BOOK: &str = r#"
        category = "machines"
        one_of = ["id", "name"]
        [params.id]
        type = "string"
        [params.name]
        type = "string"
        [[steps]]
        probe = "p.find"
        params = { name = "{name}" }
        gives = { id = "found.0.id" }
        on_nothing = "There is no {name}"
        [[steps]]
        probe = "p.detail"
        params = { id = "{id}" }
        [[steps]]
        probe = "p.disk"
        params = { disk = "{item.uuid}", id = "{id}" }
        each = { of = "p.detail", list = "disks", label = "path", limit = 2, only = { path = "kind", is = "disk" } }
        [[steps]]
        probe = "p.other"
    "#;

    fn names(planned: &[Planned]) -> Vec<&str> {
        planned.iter().map(|p| p.name.as_str()).collect()
    }

    #[test]
    fn what_a_step_finds_out_is_what_the_next_are_asked_with() {
        let book = Runbook::parse(BOOK).expect("a runbook");
        let mut run = book.start(Some(r#"{"name":"web"}"#)).expect("starts");
        assert_eq!(names(&run.ready()), ["p.find", "p.other"], "the others wait for the id");
        run.done("p.other", None);
        assert_eq!(run.ready(), []);
        run.done("p.find", Some(&json!({"found": [{"id": "vm-7"}]})));
        let detail = run.ready();
        assert_eq!((names(&detail), &detail[0].params["id"]), (vec!["p.detail"], &json!("vm-7")));
        let disk = |n: u32, kind: &str| json!({"uuid": n, "path": format!("sd{n}\u{1b}"), "kind": kind});
        let disks = json!({"disks": [disk(1, "disk"), disk(2, "cdrom"), disk(3, "disk"), disk(4, "disk")]});
        run.done("p.detail", Some(&disks));
        let each = run.ready();
        assert_eq!(names(&each), ["p.disk:sd1", "p.disk:sd3"]);
        assert_eq!(Value::Object(each[1].params.clone()), json!({"disk": 3, "id": "vm-7"}));
        run.done("p.disk", None);
        run.done("p.disk", None);
        assert_eq!(run.ready(), []);
        let (told, values) = run.into_told();
        assert_eq!((told[0].title.as_str(), told.len()), ("p.disk was run for 2 of 3 only", 1));
        assert_eq!(values["id"], "vm-7");
    }

    #[test]
    fn who_says_what_would_be_looked_up_spares_the_looking() {
        let book = Runbook::parse(BOOK).expect("a runbook");
        let mut run = book.start(Some(r#"{"id":"vm-1","name":"web"}"#)).expect("starts");
        assert_eq!(names(&run.ready()), ["p.detail", "p.other"]);
        let error = book.start(None).expect_err("nothing is said").to_string();
        assert_eq!(error, "one of id, name must be given");
    }

    #[test]
    fn nothing_found_ends_what_depends_on_it_and_is_told() {
        let book = Runbook::parse(BOOK).expect("a runbook");
        for (found, told) in [(Some(json!({"found": []})), 1), (Some(json!({"found": [{"id": 7}]})), 1), (None, 0)] {
            let mut run = book.start(Some(r#"{"name":"web"}"#)).expect("starts");
            run.ready();
            run.done("p.other", None);
            run.done("p.find", found.as_ref());
            assert_eq!(run.ready(), [], "neither the detail nor its disks");
            let (findings, _) = run.into_told();
            assert_eq!(findings.len(), told, "{found:?}");
            assert!(findings.iter().all(|f| f.title == "There is no web" && f.severity == Severity::Critical));
        }
    }

    #[test]
    fn a_run_is_bounded_whatever_the_lists_say() {
        let step = |n: usize| {
            format!("[[steps]]\nprobe = \"p.x{n}\"\neach = {{ of = \"p.all\", list = \"l\", limit = 50 }}\n")
        };
        let text = (0..6).map(step).collect::<String>();
        let book = Runbook::parse(&format!("category = \"t\"\n[[steps]]\nprobe = \"p.all\"\n{text}"));
        let book = book.expect("a runbook");
        let mut run = book.start(None).expect("starts");
        assert_eq!(run.ready().len(), 1);
        run.done("p.all", Some(&json!({ "l": vec![0; 1000] })));
        assert_eq!(run.ready().len(), MAX_RUNS - 1);
        assert!(run.into_told().0.iter().any(|f| f.title.contains("at most 256")));
    }
}
