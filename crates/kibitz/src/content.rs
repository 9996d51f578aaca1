//! What participants say to each other (contract, section 3): content messages told apart by `k`, and inside `app` the
//! agents' envelope under `__kib_agent`. The relay does not look into application data beyond that key.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Longest line of chat, in characters.
pub const MAX_CHAT: usize = 500;
/// Largest application data, as JSON.
pub const MAX_APP: usize = 262_144;
/// Largest schema, as JSON.
pub const MAX_SCHEMA: usize = 256 * 1024;
/// Longest name of a schema.
pub const MAX_SCHEMA_NAME: usize = 120;
/// Longest version of a schema.
pub const MAX_SCHEMA_VERSION: usize = 64;
/// Longest address and label of a request for payment.
const MAX_PAY: (usize, usize) = (512, 80);
/// Longest kind that is not one of the contract's seven.
const MAX_KIND: usize = 32;
/// Largest ink event: a stroke's point with its color.
const MAX_INK: usize = 4_096;

/// The kind of an agent's envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A line of chat, both ways.
    Chat,
    /// A snapshot of the application, for agents.
    View,
    /// A request of an agent to the application.
    Act,
    /// What became of such a request.
    Acted,
    /// Another word: application data like any other.
    Other,
}

/// A content message that passed the rules of its kind.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// A line of chat.
    Chat(Chat),
    /// Application data; with the agents' envelope, if it has one.
    App {
        /// The data as it came.
        data: &'a RawValue,
        /// The envelope.
        envelope: Option<Envelope>,
    },
    /// A request for payment.
    Pay(Pay),
    /// A pointer or a stroke.
    Ink {
        /// The event as it came.
        event: &'a RawValue,
        /// The message as it came.
        raw: &'a RawValue,
    },
    /// A person's identity token for their peers. The relay vouches for its participants, so it goes no further.
    IdToken,
    /// A map of grants. Only the authority makes those.
    Caps,
    /// The shape of an application's views.
    Schema(Schema<'a>),
    /// A kind that is newer than this program: handed on as it is, to who may read.
    Other {
        /// Its name.
        kind: String,
        /// The message as it came.
        raw: &'a RawValue,
    },
}

/// A line of chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The text.
    pub text: String,
    /// It was meant for one participant: display only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dm: Option<bool>,
    /// Its id among all lines: the sender's id, `#`, a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mid: Option<String>,
    /// When, in milliseconds since 1970, as the sender says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<i64>,
    /// The Yonexus rule that a message of the hub's came by; from nobody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The Yonexus client that sent it; from nobody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Which part of a longer message it is, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Of how many parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
}

impl Chat {
    /// A line with nothing but text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), dm: None, mid: None, ts: None, rule: None, sender: None, part: None, parts: None }
    }
}

/// A request for payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pay {
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The address.
    pub url: String,
    /// Meant for one participant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dm: Option<bool>,
}

/// The shape of an application's views.
#[derive(Clone, Debug)]
pub struct Schema<'a> {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The schema, as it came.
    pub schema: &'a RawValue,
}

/// Why a content message is not taken, in words for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadContent {
    /// No object with a `k`, or a known field of the wrong type or twice.
    #[error("the payload must be an object with a text `k` and the fields of that kind, each once")]
    Shape,
    /// A field that the kind needs is missing or empty.
    #[error("`{kind}` needs `{field}`")]
    Missing {
        /// The kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
    /// Longer than the contract's programs take.
    #[error("`{what}` is over the limit of {limit}")]
    TooLong {
        /// The content.
        what: &'static str,
        /// How long it may be.
        limit: usize,
    },
}

/// Every field that one of the seven kinds has. One pass over the text; what is opaque stays text.
#[derive(Deserialize)]
struct Read<'a> {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    dm: Option<bool>,
    #[serde(default)]
    mid: Option<String>,
    #[serde(default, borrow)]
    ts: Option<&'a RawValue>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, borrow)]
    e: Option<&'a RawValue>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default, borrow)]
    schema: Option<&'a RawValue>,
}

/// Only the kind: what a newer kind's fields are is not known here.
#[derive(Deserialize)]
struct KindOnly {
    #[serde(default)]
    k: Option<String>,
}

impl<'a> Content<'a> {
    /// Reads a content message and holds it to the rules of its kind.
    pub fn read(raw: &'a RawValue) -> Result<Self, BadContent> {
        // An array would be read as a struct's fields in their order.
        if !raw.get().starts_with('{') {
            return Err(BadContent::Shape);
        }
        let kind: KindOnly = serde_json::from_str(raw.get()).map_err(|_| BadContent::Shape)?;
        let kind = kind.k.filter(|k| !k.is_empty()).ok_or(BadContent::Shape)?;
        if !["chat", "app", "pay", "ink", "idtoken", "caps", "schema"].contains(&kind.as_str()) {
            let plain = kind.len() <= MAX_KIND && kind.bytes().all(|b| b.is_ascii_graphic());
            return if plain { Ok(Self::Other { kind, raw }) } else { Err(BadContent::Shape) };
        }
        let read: Read<'a> = serde_json::from_str(raw.get()).map_err(|_| BadContent::Shape)?;
        match kind.as_str() {
            "chat" => chat(&read).map(Self::Chat),
            "app" => app(&read),
            "pay" => pay(read).map(Self::Pay),
            "ink" => match read.e {
                None => Err(BadContent::Missing { kind: "ink", field: "e" }),
                Some(_) if raw.get().len() > MAX_INK => Err(BadContent::TooLong { what: "ink", limit: MAX_INK }),
                Some(event) => Ok(Self::Ink { event, raw }),
            },
            "schema" => schema(&read).map(Self::Schema),
            "caps" => Ok(Self::Caps),
            _ => Ok(Self::IdToken),
        }
    }

    /// Its kind, as a refusal names it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Chat(_) => "chat",
            Self::App { envelope: Some(Envelope::Act), .. } => "act",
            Self::App { envelope: Some(Envelope::Acted), .. } => "acted",
            Self::App { envelope: Some(Envelope::View), .. } => "view",
            Self::App { .. } => "app",
            Self::Pay(_) => "pay",
            Self::Ink { .. } => "ink",
            Self::IdToken => "idtoken",
            Self::Caps => "caps",
            Self::Schema(_) => "schema",
            Self::Other { kind, .. } => kind,
        }
    }

    /// As it is handed on. Chat, payment and schemas are written anew, so that a sender cannot add what only the hub
    /// says (`rule`, `sender`); the rest is handed on as it came.
    pub fn written(&self) -> String {
        #[derive(Serialize)]
        struct With<'k, T: Serialize> {
            k: &'k str,
            #[serde(flatten)]
            rest: T,
        }
        fn with<T: Serialize>(k: &str, rest: T) -> String {
            // Texts, numbers and flags under fixed names: nothing that could fail to be written.
            serde_json::to_string(&With { k, rest }).unwrap_or_default()
        }
        match self {
            Self::Chat(chat) => with("chat", chat),
            Self::Pay(pay) => with("pay", pay),
            Self::App { data, .. } => format!(r#"{{"k":"app","data":{data}}}"#),
            Self::Schema(schema) => schema.written(),
            Self::Ink { raw, .. } | Self::Other { raw, .. } => raw.get().to_owned(),
            Self::IdToken => r#"{"k":"idtoken"}"#.into(),
            Self::Caps => r#"{"k":"caps","grants":{}}"#.into(),
        }
    }
}

impl Schema<'_> {
    /// As it is handed on.
    pub fn written(&self) -> String {
        let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let Self { name, version, schema } = self;
        format!(r#"{{"k":"schema","name":{},"version":{},"schema":{schema}}}"#, text(name), text(version))
    }
}

fn chat(read: &Read<'_>) -> Result<Chat, BadContent> {
    let text = read.text.as_deref().unwrap_or_default().trim();
    if text.is_empty() {
        return Err(BadContent::Missing { kind: "chat", field: "text" });
    }
    // Told instead of cut: whoever sends more can send it in parts, or as an agent's envelope.
    if text.chars().count() > MAX_CHAT {
        return Err(BadContent::TooLong { what: "text", limit: MAX_CHAT });
    }
    let mid = read.mid.clone().filter(|mid| mid.len() <= 128);
    let ts = read.ts.and_then(|ts| serde_json::from_str(ts.get()).ok());
    Ok(Chat { dm: read.dm, mid, ts, ..Chat::new(text) })
}

fn app<'a>(read: &Read<'a>) -> Result<Content<'a>, BadContent> {
    let data = read.data.ok_or(BadContent::Missing { kind: "app", field: "data" })?;
    if data.get().len() > MAX_APP {
        return Err(BadContent::TooLong { what: "data", limit: MAX_APP });
    }
    Ok(Content::App { data, envelope: envelope(data)? })
}

/// The agents' envelope of application data, if it has one. With the key twice readers would disagree on what it is, so
/// such data is refused.
fn envelope(data: &RawValue) -> Result<Option<Envelope>, BadContent> {
    #[derive(Deserialize)]
    struct Peek<'a> {
        #[serde(default, rename = "__kib_agent", borrow)]
        kind: Option<&'a RawValue>,
    }
    if !data.get().trim_start().starts_with('{') {
        return Ok(None);
    }
    let peek: Peek<'_> = serde_json::from_str(data.get()).map_err(|_| BadContent::Shape)?;
    let word = peek.kind.and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
    Ok(word.map(|word| match word.as_str() {
        "chat" => Envelope::Chat,
        "view" => Envelope::View,
        "act" => Envelope::Act,
        "acted" => Envelope::Acted,
        _ => Envelope::Other,
    }))
}

fn pay(read: Read<'_>) -> Result<Pay, BadContent> {
    let url = read.url.filter(|url| !url.is_empty()).ok_or(BadContent::Missing { kind: "pay", field: "url" })?;
    if url.chars().count() > MAX_PAY.0 {
        return Err(BadContent::TooLong { what: "url", limit: MAX_PAY.0 });
    }
    if read.label.as_ref().is_some_and(|label| label.chars().count() > MAX_PAY.1) {
        return Err(BadContent::TooLong { what: "label", limit: MAX_PAY.1 });
    }
    Ok(Pay { label: read.label, url, dm: read.dm })
}

fn schema<'a>(read: &Read<'a>) -> Result<Schema<'a>, BadContent> {
    let missing = |field| BadContent::Missing { kind: "schema", field };
    let text = |text: &Option<String>| text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned);
    let name = text(&read.name).ok_or(missing("name"))?;
    let version = text(&read.version).ok_or(missing("version"))?;
    let schema = read.schema.ok_or(missing("schema"))?;
    for (what, size, limit) in [
        ("name", name.chars().count(), MAX_SCHEMA_NAME),
        ("version", version.chars().count(), MAX_SCHEMA_VERSION),
        ("schema", schema.get().len(), MAX_SCHEMA),
    ] {
        if size > limit {
            return Err(BadContent::TooLong { what, limit });
        }
    }
    Ok(Schema { name, version, schema })
}

/// An agent's line of chat as application data.
pub fn say(text: &str) -> String {
    serde_json::json!({ "__kib_agent": "chat", "text": text }).to_string()
}

/// An agent's request to the application as application data. `action` is JSON. With an `id` it is answered.
pub fn act(action: &RawValue, id: Option<&str>) -> String {
    let id = id.map(|id| format!(r#","id":{}"#, json_text(id))).unwrap_or_default();
    format!(r#"{{"__kib_agent":"act","action":{action}{id}}}"#)
}

/// What became of the request with this id, as application data: the result, which is JSON, or why it failed.
pub fn acted(id: &str, outcome: Result<Option<&RawValue>, &str>) -> String {
    let id = json_text(id);
    match outcome {
        Ok(None) => format!(r#"{{"__kib_agent":"acted","id":{id},"ok":true}}"#),
        Ok(Some(result)) => format!(r#"{{"__kib_agent":"acted","id":{id},"ok":true,"result":{result}}}"#),
        Err(why) => format!(r#"{{"__kib_agent":"acted","id":{id},"ok":false,"error":{}}}"#, json_text(why)),
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An application's snapshot for agents as application data. `view` is JSON.
pub fn view(view: &RawValue) -> String {
    format!(r#"{{"__kib_agent":"view","view":{view}}}"#)
}

/// Application data as a content message. `data` is JSON.
pub fn app_message(data: &RawValue) -> String {
    format!(r#"{{"k":"app","data":{data}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("JSON")
    }

    #[track_caller]
    fn check(text: &str, kind: &str, written: &str) {
        let raw = raw(text);
        let content = Content::read(&raw).expect("content");
        assert_eq!((content.kind(), content.written().as_str()), (kind, written));
    }

    #[test]
    fn each_kind_is_read_and_handed_on() {
        check(r#"{"k":"chat","text":" hi "}"#, "chat", r#"{"k":"chat","text":"hi"}"#);
        check(
            r#"{"k":"chat","text":"hi","dm":true,"mid":"a#1","ts":5,"name":"x"}"#,
            "chat",
            r#"{"k":"chat","text":"hi","dm":true,"mid":"a#1","ts":5}"#,
        );
        check(r#"{"k":"app","data":[1.50]}"#, "app", r#"{"k":"app","data":[1.50]}"#);
        check(r#"{"k":"pay","url":"https://x","label":null}"#, "pay", r#"{"k":"pay","url":"https://x"}"#);
        check(r#"{"k":"ink","e":{"k":"clear"},"n":1}"#, "ink", r#"{"k":"ink","e":{"k":"clear"},"n":1}"#);
        check(
            r#"{"k":"schema","name":" s ","version":"1","schema":{"a":1}}"#,
            "schema",
            r#"{"k":"schema","name":"s","version":"1","schema":{"a":1}}"#,
        );
        check(r#"{"k":"xbegin","id":7,"name":9}"#, "xbegin", r#"{"k":"xbegin","id":7,"name":9}"#);
        for kind in ["idtoken", "caps"] {
            assert_eq!(Content::read(&raw(&format!(r#"{{"k":"{kind}"}}"#))).expect("content").kind(), kind);
        }
    }

    #[test]
    fn what_only_the_hub_says_is_not_handed_on_from_others() {
        check(
            r#"{"k":"chat","text":"x","rule":"deploy","sender":"client-a","part":1}"#,
            "chat",
            r#"{"k":"chat","text":"x"}"#,
        );
    }

    #[test]
    fn envelopes_are_seen_and_raw_data_is_left_alone() {
        for (data, kind) in [
            (r#"{"__kib_agent":"act","action":1}"#, "act"),
            (r#"{"\u005f_kib_agent":"act"}"#, "act"),
            (r#"{"__kib_agent":"view","view":1}"#, "view"),
            (r#"{"__kib_agent":"chat","text":"x"}"#, "app"),
            (r#"{"__kib_agent":7}"#, "app"),
            ("7", "app"),
        ] {
            let raw = raw(&format!(r#"{{"k":"app","data":{data}}}"#));
            assert_eq!(Content::read(&raw).expect("content").kind(), kind, "{data}");
        }
    }

    #[test]
    fn what_breaks_a_rule_is_told() {
        let long = format!(r#"{{"k":"chat","text":"{}"}}"#, "x".repeat(501));
        for (text, words) in [
            ("7", "the payload must be"),
            (r#"["newer"]"#, "the payload must be"),
            (r#"{"k":7}"#, "the payload must be"),
            (r#"{"k":""}"#, "the payload must be"),
            (r#"{"k":"chat","k":"caps"}"#, "the payload must be"),
            (r#"{"k":"app","data":{"__kib_agent":"chat","__kib_agent":"act"}}"#, "the payload must be"),
            (r#"{"k":"chat","text":" "}"#, "`chat` needs `text`"),
            (&long, "`text` is over the limit of 500"),
            (r#"{"k":"app"}"#, "`app` needs `data`"),
            (r#"{"k":"pay"}"#, "`pay` needs `url`"),
            (r#"{"k":"ink"}"#, "`ink` needs `e`"),
            (r#"{"k":"schema","name":"a","version":"1"}"#, "`schema` needs `schema`"),
        ] {
            let why = Content::read(&raw(text)).expect_err(text).to_string();
            assert!(why.starts_with(words), "{text}: {why}");
        }
    }
}
