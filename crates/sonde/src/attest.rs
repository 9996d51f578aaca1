//! Attestation: what an agent says about itself, compared field by field (contract, `agent.register`; field facts,
//! section 7).
//!
//! The field compares one JSON text with the last, warns on every first start after enrolment, and then forgets. Here
//! the first value seen *while the agent runs* is the baseline; a change is named field by field and stays a change
//! until an operator accepts it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest value of one field that is kept; a longer one is cut (it still differs from another).
const MAX_VALUE: usize = 1024;
/// Most fields that are kept.
const MAX_FIELDS: usize = 64;

/// What an agent says about itself: fields by name, each as text. Both shapes fit in: the contract's three fields, the
/// field's five (`installedPacks` as one line per pack), and whatever else comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attestation(BTreeMap<String, String>);

/// One field that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which.
    pub field: String,
    /// The value in the baseline.
    pub was: Option<String>,
    /// The present value.
    pub now: Option<String>,
}

impl Attestation {
    /// Reads `attestation` of a registration. What is no object says nothing.
    pub fn read(value: &Value) -> Self {
        let Some(object) = value.as_object() else { return Self::default() };
        let fields = object.iter().take(MAX_FIELDS).filter(|(_, v)| !v.is_null());
        Self(fields.map(|(name, value)| (cut(name), cut(&shown(name, value)))).collect())
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What differs from the baseline. A new version of the agent is expected to bring another binary; everything else
    /// is told even then.
    pub fn changes_since(&self, baseline: &Self, version_changed: bool) -> Vec<Change> {
        let names: std::collections::BTreeSet<&String> = self.0.keys().chain(baseline.0.keys()).collect();
        let expected =
            |name: &str| version_changed && matches!(name, "binaryHash" | "nodeVersion" | "installedPacks");
        names
            .into_iter()
            .filter(|name| self.0.get(*name) != baseline.0.get(*name) && !expected(name))
            .map(|name| Change {
                field: name.clone(),
                was: baseline.0.get(name).cloned(),
                now: self.0.get(name).cloned(),
            })
            .collect()
    }
}

fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(packs) if name == "installedPacks" => {
            let text = |pack: &Value, key: &str| pack.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
            let mut lines: Vec<String> =
                packs.iter().map(|p| format!("{}@{}", text(p, "name"), text(p, "version"))).collect();
            // In whatever order they were loaded.
            lines.sort();
            lines.join(" ")
        }
        other => other.to_string(),
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_VALUE)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field_shape() -> Value {
        json!({"osVersion": "linux 6.1 x64", "binaryHash": "aa", "installedPacks": [{"name":"system","version":"0.2.0"},
            {"name":"docker","version":"0.1.0"}], "configHash": "cc", "nodeVersion": "v22.1.0"})
    }

    #[test]
    fn the_same_is_no_change_in_either_shape() {
        let contract = json!({"binaryHash":"a","configHash":"b","osFingerprint":"c"});
        for value in [contract, field_shape()] {
            let attestation = Attestation::read(&value);
            assert_eq!(attestation.changes_since(&Attestation::read(&value), false), []);
        }
        let mut reordered = field_shape();
        reordered["installedPacks"].as_array_mut().expect("a list").reverse();
        assert_eq!(Attestation::read(&reordered), Attestation::read(&field_shape()));
    }

    #[test]
    fn a_change_names_its_field() {
        let baseline = Attestation::read(&field_shape());
        let mut value = field_shape();
        value["configHash"] = "dd".into();
        value.as_object_mut().expect("object").remove("nodeVersion");
        let changes = Attestation::read(&value).changes_since(&baseline, false);
        let change = |field: &str, was: Option<&str>, now: Option<&str>| Change {
            field: field.into(),
            was: was.map(Into::into),
            now: now.map(Into::into),
        };
        assert_eq!(
            changes,
            [change("configHash", Some("cc"), Some("dd")), change("nodeVersion", Some("v22.1.0"), None)]
        );
    }

    #[test]
    fn an_update_may_bring_another_binary_and_nothing_else() {
        let baseline = Attestation::read(&field_shape());
        let mut value = field_shape();
        value["binaryHash"] = "zz".into();
        assert_eq!(Attestation::read(&value).changes_since(&baseline, true), []);
        assert_eq!(Attestation::read(&value).changes_since(&baseline, false).len(), 1);
        value["osVersion"] = "linux 6.2 x64".into();
        assert_eq!(Attestation::read(&value).changes_since(&baseline, true).len(), 1);
    }

    #[test]
    fn nonsense_is_bounded() {
        let long = "x".repeat(100_000);
        let attestation = Attestation::read(&json!({ "a": long, "b": [1, 2], "c": null }));
        assert_eq!(attestation.field("a").map(str::len), Some(MAX_VALUE));
        assert_eq!(attestation.field("b"), Some("[1,2]"));
        assert_eq!(attestation.field("c"), None);
        assert!(Attestation::read(&json!("text")).is_empty());
    }
}
