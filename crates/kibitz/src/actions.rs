//! What an agent offers to be asked for: `agent-actions@1`, a schema under a reserved name. A click on one comes back as
//! application data for that agent alone.

use serde::{Deserialize, Serialize};

/// The name of the schema.
pub const NAME: &str = "agent-actions";
/// Its version.
pub const VERSION: &str = "1";
/// What a click says it is.
const CLICK: &str = "agent-action@1";
/// Most actions of one agent that are shown.
const MAX_ACTIONS: usize = 24;
/// Longest id and label, and longest description.
const MAX_TEXT: (usize, usize) = (80, 280);

/// What an agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The agent's name for itself.
    #[serde(default)]
    pub agent: String,
    /// Where it would like to be shown.
    #[serde(default)]
    pub ui: Ui,
    /// What it may be asked for.
    #[serde(default)]
    pub actions: Vec<Action>,
}

/// Where and how an offer is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ui {
    /// `stage`, `chat`, `tile` or `controls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// A theme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

/// One action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its id.
    pub id: String,
    /// What the button says.
    pub label: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desc: Option<String>,
    /// Said words that mean it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voice: Vec<String>,
    /// Written words that mean it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chat: Vec<String>,
}

impl Offer {
    /// Reads the schema of an agent. Actions without an id or a label, or with too long ones, are left out; so is what
    /// stands there twice.
    pub fn read(schema: &str) -> Option<Self> {
        let mut offer: Self = serde_json::from_str(schema).ok()?;
        let fits = |text: &str, most| !text.trim().is_empty() && text.chars().count() <= most;
        let mut seen = Vec::new();
        offer.actions.retain(|action| {
            let is_new = !seen.contains(&action.id);
            seen.push(action.id.clone());
            is_new && fits(&action.id, MAX_TEXT.0) && fits(&action.label, MAX_TEXT.0)
        });
        offer.actions.truncate(MAX_ACTIONS);
        for action in &mut offer.actions {
            action.desc = action.desc.take().filter(|desc| fits(desc, MAX_TEXT.1));
        }
        let places = ["stage", "chat", "tile", "controls"];
        offer.ui.placement = offer.ui.placement.take().filter(|place| places.contains(&place.as_str()));
        Some(offer)
    }
}

/// The application data of a click.
pub fn click(id: &str) -> String {
    serde_json::json!({ "kind": CLICK, "id": id }).to_string()
}

/// The id of the action that was clicked, if this application data is a click.
pub fn clicked(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Click {
        kind: String,
        id: String,
    }
    let click: Click = serde_json::from_str(data).ok()?;
    (click.kind == CLICK).then_some(click.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_read_leniently_and_bounded() {
        let text = r#"{"agent":"scribe","ui":{"placement":"moon","theme":null},"hostMenu":1,"actions":[
            {"id":"sum","label":"Sum up","desc":"of the last hour","chat":["/sum"]},
            {"id":"sum","label":"again"},{"id":"","label":"x"},{"id":"x","label":" "}]}"#;
        let offer = Offer::read(text).expect("an offer");
        assert_eq!(offer.actions.iter().map(|a| a.id.as_str()).collect::<Vec<_>>(), ["sum"]);
        assert_eq!(offer.ui, Ui::default());
        assert_eq!(Offer::read("7"), None);
    }

    #[test]
    fn a_click_comes_back() {
        assert_eq!(click("sum"), r#"{"id":"sum","kind":"agent-action@1"}"#);
        assert_eq!(clicked(&click("sum")).as_deref(), Some("sum"));
        assert_eq!(clicked(r#"{"kind":"other","id":"sum"}"#), None);
    }
}
