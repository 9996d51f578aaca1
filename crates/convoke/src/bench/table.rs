//! What is printed: one row a measure, with its goal and what others need for the same.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::json;

use super::plan::Plan;

/// The load average up to which nobody else uses the machine.
const IDLE: f64 = 0.5;

/// One measure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// What was measured.
    pub(super) measure: String,
    /// What the numbers count.
    pub(super) unit: &'static str,
    /// This hub's figure.
    pub(super) hub: f64,
    /// The bare forwarder's, where it can do the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forwarder: Option<f64>,
    /// What the hub's figure should be.
    pub(super) goal: Goal,
    /// The original server's figure, as text: conditions differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) original: Option<&'static str>,
    /// What is worth knowing beside it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) note: String,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Goal {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    /// At most so many times the forwarder's.
    #[serde(skip_serializing_if = "Option::is_none")]
    times_forwarder: Option<f64>,
}

impl Goal {
    /// None.
    pub(super) const NONE: Self = Self { at_most: None, at_least: None, times_forwarder: None };

    pub(super) const fn at_most(value: f64) -> Self {
        Self { at_most: Some(value), ..Self::NONE }
    }

    pub(super) const fn at_least(value: f64) -> Self {
        Self { at_least: Some(value), ..Self::NONE }
    }

    pub(super) const fn and_times_forwarder(self, times: f64) -> Self {
        Self { times_forwarder: Some(times), ..self }
    }

    fn text(&self) -> String {
        let parts = [
            self.at_most.map(|most| format!("≤ {most}")),
            self.at_least.map(|least| format!("≥ {least}")),
            self.times_forwarder.map(|times| format!("≤ {times}×")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Whether a goal was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Met,
    Missed,
    /// There is no goal.
    None,
}

impl Row {
    /// How many times the forwarder's figure the hub's is.
    pub(super) fn ratio(&self) -> Option<f64> {
        self.forwarder.filter(|forwarder| *forwarder > 0.0).map(|forwarder| self.hub / forwarder)
    }

    pub(super) fn verdict(&self) -> Verdict {
        // A run too short to measure anything divides zero by zero.
        if !self.hub.is_finite() {
            return Verdict::None;
        }
        let Goal { at_most, at_least, times_forwarder } = self.goal;
        let ratio = times_forwarder.and_then(|times| Some((self.ratio()?, times)));
        let checks = [
            at_most.map(|most| self.hub <= most),
            at_least.map(|least| self.hub >= least),
            ratio.map(|(ratio, times)| ratio <= times),
        ];
        if checks.contains(&Some(false)) {
            Verdict::Missed
        } else if checks.contains(&Some(true)) {
            Verdict::Met
        } else {
            Verdict::None
        }
    }

    /// How many decimals are shown.
    fn decimals(&self) -> usize {
        match self.unit {
            "ms" if self.hub < 5.0 => 3,
            "×" => 2,
            "% of a core" => 4,
            _ => 1,
        }
    }
}

/// For people.
pub(super) fn text(plan: &Plan, rows: &[Row], busy: Option<f64>) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["measure", "", "hub", "forwarder", "ratio", "goal", "", "original", "note"]);
    for row in rows {
        let decimals = row.decimals();
        let number = |value: Option<f64>, decimals: usize| {
            Cell::new(value.map(|v| format!("{v:.decimals$}")).unwrap_or_default())
                .set_alignment(CellAlignment::Right)
        };
        table.add_row([
            Cell::new(&row.measure),
            Cell::new(row.unit),
            number(Some(row.hub).filter(|figure| figure.is_finite()), decimals),
            number(row.forwarder, decimals),
            number(row.ratio().filter(|_| row.unit == "ms"), 2),
            Cell::new(row.goal.text()),
            Cell::new(match row.verdict() {
                Verdict::Met => "met",
                Verdict::Missed => "missed",
                Verdict::None => "",
            }),
            Cell::new(row.original.unwrap_or_default()),
            Cell::new(&row.note),
        ]);
    }
    let mut text = table.trim_fmt();
    if plan.quick {
        text.push_str("\nThis was a quick run: it shows that everything works, but the figures are rough.");
    }
    if let Some(busy) = busy.filter(|busy| *busy > IDLE) {
        text.push_str(&format!(
            "\nThe machine was busy before the run (load {busy:.1}): rates and latencies are worse than on an idle machine, CPU times less so."
        ));
    }
    text
}

/// For programs.
pub(super) fn json(plan: &Plan, rows: &[Row], busy: Option<f64>) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut value = json!(row);
            value["verdict"] = json!(row.verdict());
            if let Some(ratio) = row.ratio() {
                value["ratio"] = json!(ratio);
            }
            value
        })
        .collect();
    json!({ "agents": plan.agents, "quick": plan.quick, "load_before": busy, "rows": rows }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(hub: f64, forwarder: Option<f64>, goal: Goal) -> Row {
        Row { measure: "x".into(), unit: "ms", hub, forwarder, goal, original: None, note: String::new() }
    }

    #[test]
    fn a_goal_is_met_when_every_part_of_it_is() {
        let goal = Goal::at_most(0.15).and_times_forwarder(2.5);
        for (hub, forwarder, verdict) in [
            (0.10, Some(0.05), Verdict::Met),
            (0.10, Some(0.03), Verdict::Missed),
            (0.20, Some(0.15), Verdict::Missed),
            (0.10, None, Verdict::Met),
        ] {
            assert_eq!(row(hub, forwarder, goal).verdict(), verdict, "{hub} {forwarder:?}");
        }
        assert_eq!(row(1.0, None, Goal::NONE).verdict(), Verdict::None);
        assert_eq!(row(f64::NAN, None, Goal::at_most(1.0)).verdict(), Verdict::None);
        assert_eq!(row(-11.0, None, Goal::at_least(-10.0)).verdict(), Verdict::Missed);
        assert_eq!(goal.text(), "≤ 0.15, ≤ 2.5×");
    }
}
