//! One section of a telemetry snapshot.

use convoke_core::health::{MAX_SUMMARY, Status};
use serde_json::{Map, Value};

use crate::text;

/// A section: its status, a sentence, and the fields of its kind (kenny, "Telemetry sections").
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    status: Status,
    summary: String,
    fields: Map<String, Value>,
}

impl Section {
    /// A section of that status. The summary is cut to what the hub keeps of it.
    pub fn new(status: Status, summary: impl Into<String>) -> Self {
        let summary = text::one_line(&summary.into(), MAX_SUMMARY);
        Self { status, summary, fields: Map::new() }
    }

    /// A section with nothing to complain of.
    pub fn ok(summary: impl Into<String>) -> Self {
        Self::new(Status::Ok, summary)
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Its status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Its sentence.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// A field.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }
}

impl From<Section> for Value {
    fn from(section: Section) -> Self {
        let mut map = Map::new();
        map.insert("status".to_owned(), section.status.name().into());
        map.insert("summary".to_owned(), section.summary.into());
        map.extend(section.fields);
        Value::Object(map)
    }
}
