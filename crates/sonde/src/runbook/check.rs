//! Whether a runbook hangs together.

use super::{MAX_DEADLINE_S, MAX_EACH, MAX_STEPS, MAX_THRESHOLDS, Only, Op, Runbook, Step, placeholder};

impl Runbook {
    /// Whether it hangs together.
    pub(super) fn check(&self) -> Result<(), String> {
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
        if let Some(name) = self.one_of.iter().find(|name| !self.params.contains_key(*name)) {
            return Err(format!("`one_of` names {name}, which is no parameter of this runbook"));
        }
        for (i, step) in self.steps.iter().enumerate() {
            if !step.probe.contains('.') || step.probe.len() > crate::probe::MAX_PROBE_NAME {
                return Err(format!("step {}: {:?} is no probe; it must be pack.probe", i + 1, step.probe));
            }
            if self.steps[..i].iter().any(|s| s.name() == step.name()) {
                return Err(format!("step {}: there are two steps named {}; give one a `name`", i + 1, step.name()));
            }
            self.check_step(step, &self.steps[..i]).map_err(|why| format!("step {}: {why}", i + 1))?;
        }
        for (i, threshold) in self.thresholds.iter().enumerate() {
            if !self.steps.iter().any(|s| s.name() == threshold.probe) {
                return Err(format!("threshold {}: there is no step named {}", i + 1, threshold.probe));
            }
            for only in &threshold.only {
                self.check_only(only, &self.steps).map_err(|why| format!("threshold {}: {why}", i + 1))?;
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

    fn check_step(&self, step: &Step, earlier: &[Step]) -> Result<(), String> {
        for (name, value) in &step.params {
            let Some(wanted) = value.as_str().and_then(placeholder) else { continue };
            let known = match wanted.strip_prefix("item.") {
                Some(_) => step.each.is_some(),
                None => self.params.contains_key(wanted),
            };
            if !known {
                return Err(format!("`{name}` is {{{wanted}}}, which is no parameter of this runbook"));
            }
        }
        if let Some(name) = step.gives.keys().find(|name| !self.params.contains_key(*name)) {
            return Err(format!("it gives {name}, which is no parameter of this runbook"));
        }
        let Some(each) = &step.each else { return Ok(()) };
        // One loop deep, and only over what is there by then.
        if !earlier.iter().any(|s| s.name() == each.of && s.each.is_none()) {
            return Err(format!("`each` is over {}, which is no earlier step that runs once", each.of));
        }
        if each.limit == 0 || each.limit > MAX_EACH {
            return Err(format!("the limit of `each` must be 1 to {MAX_EACH}"));
        }
        if !step.gives.is_empty() {
            return Err("a step for each element cannot give a parameter".into());
        }
        each.only.as_ref().map_or(Ok(()), |only| self.check_only(only, earlier))
    }

    fn check_only(&self, only: &Only, steps: &[Step]) -> Result<(), String> {
        match (&only.is, &only.among) {
            (Some(value), None) => match value.as_str().and_then(placeholder) {
                Some(name) if !self.params.contains_key(name) => {
                    Err(format!("`only` is {{{name}}}, which is no parameter of this runbook"))
                }
                _ => Ok(()),
            },
            (None, Some(among)) if steps.iter().any(|s| s.name() == among.of) => Ok(()),
            (None, Some(among)) => {
                Err(format!("`only` is among {}, which is no step there can be by then", among.of))
            }
            _ => Err("`only` needs either `is` or `among`".into()),
        }
    }
}
