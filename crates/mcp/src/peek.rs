//! What the door must know of a message before the SDK reads it: its id, for an answer of the door's own; the tool that is
//! called, for the 403 that names a missing scope; and whether what is kept of it until it is answered is bounded.

use std::borrow::Cow;

use rmcp::model::{InitializeRequestParams, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::page;

/// Longest `initialize`: what a client says of itself is kept for as long as its session.
const MAX_OPENING: usize = 64 * 1024;
/// Longest id of a request, and longest name of its progress: they are kept until it is answered, and what it is told of its
/// progress has them in it every time.
const MAX_ID: usize = 256;
/// Longest method; there is none nearly as long.
const MAX_METHOD: usize = 128;
/// The SDK keeps what stands in `_meta` as the values that it has read, of which each takes as much as so many bytes of
/// text, and an empty list is two bytes long.
const META_WEIGHT: usize = 32;

/// By this in `_meta` a request says its revision, which those with sessions do not.
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";

/// Said of an id that a message does not have, or that nobody could read.
const NO_ID: &str = "null";

/// What is wrong with a message, as JSON-RPC says it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The request's id as it is written.
    pub(super) id: String,
    pub(super) code: i32,
    pub(super) message: Cow<'static, str>,
}

impl Fault {
    /// Of a body that is none of the protocol's messages.
    pub(super) fn unreadable(body: &[u8], id: &str, why: &str) -> Self {
        let (code, message) = match serde_json::from_slice::<IgnoredAny>(body) {
            Err(why) => (-32700, format!("the body is not JSON: {why}")),
            Ok(_) => (-32600, format!("the body is not one request, notification or response of MCP{why}")),
        };
        Self { id: id.to_owned(), code, message: message.into() }
    }

    /// Whether it is a request that has something wrong with it.
    pub(super) fn of_request(&self) -> bool {
        self.id != NO_ID
    }
}

/// As much of a message as is looked at. What this overlooks, the SDK refuses or the gate decides on.
#[derive(Debug)]
pub(super) struct Peek<'a> {
    /// The request's id as it is written, where it is one: a text or a number.
    pub(super) id: &'a str,
    /// It is to be answered.
    pub(super) is_request: bool,
    /// About how many bytes it takes until then.
    pub(super) weight: usize,
    /// The tool that is called.
    pub(super) tool: Option<String>,
    /// The resources that it wants to hear of from now on.
    pub(super) listens_to: Vec<String>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    notifications: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress: Option<&'a RawValue>,
}

/// What a client wants to hear of.
#[derive(Deserialize)]
struct Wanted {
    #[serde(rename = "resourceSubscriptions", default)]
    uris: Vec<String>,
}

impl<'a> Peek<'a> {
    /// Of the message in this body.
    pub(super) fn at(body: &'a [u8]) -> Result<Self, Fault> {
        // A list would be taken as an object's values in their order.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(Fault::unreadable(body, NO_ID, ""));
        }
        let message: Message<'_> =
            serde_json::from_slice(body).map_err(|why| Fault::unreadable(body, NO_ID, &format!(": {why}")))?;
        let id = message.id.map(RawValue::get);
        let id = id.filter(|id| id.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit()));
        let fault = |code, message: Cow<'static, str>| Fault { id: id.unwrap_or(NO_ID).to_owned(), code, message };
        if message.id.is_some_and(is_long) {
            return Err(fault(-32600, "`id` may have 256 bytes".into()));
        }
        let method = message.method.as_deref().unwrap_or_default();
        if method.len() > MAX_METHOD {
            return Err(fault(-32601, "there is no such method: `method` may have 128 bytes".into()));
        }
        let of_params = |message: Cow<'static, str>| fault(-32602, message);
        let params: Params<'_> =
            members(message.params).map_err(|why| of_params(format!("`params`: {why}").into()))?;
        let meta: Meta<'_> =
            members(params.meta).map_err(|why| of_params(format!("`params._meta`: {why}").into()))?;
        if meta.progress.is_some_and(is_long) {
            return Err(of_params("`params._meta.progressToken` may have 256 bytes".into()));
        }
        match method {
            "initialize" if body.len() > MAX_OPENING => {
                return Err(of_params("`initialize` may have 65536 bytes".into()));
            }
            // Without sessions there is no such method, and the SDK says so.
            "initialize" if params.meta.is_some_and(|meta| meta.get().contains(REVISION)) => {}
            // The SDK would ask for a session.
            "initialize" if message.params.and_then(read::<InitializeRequestParams>).is_none() => {
                return Err(of_params(
                    "`params` must have `protocolVersion` (a text), `capabilities` (an object) and `clientInfo` (an \
                     object with a `name` and a `version`)"
                        .into(),
                ));
            }
            // The SDK would overlook it.
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list"
                if params.cursor.is_some_and(|cursor| !cursor.get().starts_with('"')) =>
            {
                return Err(of_params(page::UNKNOWN_CURSOR.into()));
            }
            _ => {}
        }
        let listens_to = params.notifications.filter(|_| method == "subscriptions/listen").and_then(read::<Wanted>);
        Ok(Self {
            id: id.unwrap_or(NO_ID),
            is_request: id.is_some() && message.method.is_some(),
            weight: body.len() + META_WEIGHT * params.meta.map_or(0, |meta| meta.get().len()),
            tool: params.name.filter(|_| method == "tools/call").and_then(read),
            listens_to: listens_to.map(|wanted| wanted.uris).unwrap_or_default(),
        })
    }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// The members of an object that are looked at; none of anything else. An error where one is there twice: who reads it
/// after this might take the other.
fn members<'a, T: Default + Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, serde_json::Error> {
    match raw.map(RawValue::get) {
        Some(text) if text.starts_with('{') => serde_json::from_str(text),
        _ => Ok(T::default()),
    }
}

/// Whether this cannot be a short id. The SDK reads no number that is long.
fn is_long(raw: &RawValue) -> bool {
    let quoted = MAX_ID + 2;
    let is_short = |id: &RequestId| match id {
        RequestId::Number(_) => true,
        RequestId::String(text) => text.len() <= MAX_ID,
    };
    raw.get().len() > quoted && read::<RequestId>(raw).is_none_or(|id| !is_short(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peek(text: &str) -> (String, Option<String>) {
        let Peek { id, tool, .. } = Peek::at(text.as_bytes()).expect("nothing is wrong with it");
        (id.to_owned(), tool)
    }

    /// The code, and what the message names.
    fn fault(text: &str) -> Option<(i32, String)> {
        let fault = Peek::at(text.as_bytes()).err()?;
        Some((fault.code, fault.message.split('`').nth(1).unwrap_or_default().to_owned()))
    }

    #[test]
    fn the_tool_is_found_whatever_is_odd_about_the_rest() {
        let called = (String::from("7"), Some("fs_list".into()));
        for text in [
            r#"{"id":7,"method":"tools/call","params":{"name":"fs_list"}}"#,
            r#"{"id":7,"method":"tools\/call","params":{"name":"fs_\u006cist","requestId":{},"name2":[]}}"#,
            r#"{"id":7,"extra":{"id":8},"method":"tools/call","params":{"name":"fs_list","arguments":7}}"#,
        ] {
            assert_eq!(peek(text), called, "{text}");
        }
        for text in [
            r#"{"id":"a","method":"tools/list","params":{"name":"fs_list"}}"#,
            r#"{"id":"a","method":"tools/call","params":{"name":["fs_list"]}}"#,
            r#"{"id":"a","method":"tools/call","params":["fs_list"]}"#,
        ] {
            assert_eq!(peek(text), ("\"a\"".into(), None), "{text}");
        }
        assert_eq!(peek(r#"{"id":null,"result":{}}"#), ("null".into(), None));
    }

    #[test]
    fn what_is_no_message_is_told_as_json_rpc_has_it() {
        for (text, code) in [
            ("", -32700),
            ("{", -32700),
            ("[}", -32700),
            ("\u{feff}{}", -32700),
            ("[]", -32600),
            ("null", -32600),
            (r#"{"id":7,"method":7}"#, -32600),
            (r#"{"id":7,"id":8,"method":"ping"}"#, -32600),
        ] {
            assert_eq!(fault(text).map(|(code, _)| code), Some(code), "{text}");
        }
        assert!(Peek::at(b"\xff\xfe").is_err());
        for params in [r#""name":"x","name":"y""#, r#""_meta":{"progressToken":1,"progressToken":2}"#] {
            let text = format!(r#"{{"id":7,"method":"tools/call","params":{{{params}}}}}"#);
            let fault = Peek::at(text.as_bytes()).expect_err("twice");
            assert_eq!((fault.code, fault.id.as_str()), (-32602, "7"), "{fault:?}");
        }
    }

    #[test]
    fn what_is_kept_of_a_request_is_short() {
        let (fits, long) = ("ü".repeat(MAX_ID / 2), "x".repeat(MAX_ID + 1));
        let escaped = "\\u0078".repeat(MAX_ID);
        let with_id = |id: &str| fault(&format!(r#"{{"id":"{id}","method":"x"}}"#));
        let long_id = Some((-32600, "id".into()));
        assert_eq!((with_id(&fits), with_id(&escaped), with_id(&long)), (None, None, long_id.clone()));
        assert_eq!(fault(&format!(r#"{{"id":{},"method":"x"}}"#, "1".repeat(1000))), long_id);
        let told = |token: &str| {
            fault(&format!(r#"{{"id":1,"method":"ping","params":{{"_meta":{{"progressToken":"{token}"}}}}}}"#))
        };
        let long_token = Some((-32602, "params._meta.progressToken".into()));
        assert_eq!((told(&fits), told(&escaped), told(&long)), (None, None, long_token));
        let method = |length: usize| fault(&format!(r#"{{"id":1,"method":"{}"}}"#, "x".repeat(length)));
        assert_eq!((method(MAX_METHOD), method(MAX_METHOD + 1)), (None, Some((-32601, "method".into()))));
        let opening = |bytes: usize| {
            let params = r#""protocolVersion":"x","capabilities":{},"clientInfo":{"name":"x","version":"1"}"#;
            let long = "x".repeat(bytes);
            fault(&format!(r#"{{"id":1,"method":"initialize","params":{{{params},"x":"{long}"}}}}"#))
        };
        assert_eq!((opening(60_000), opening(MAX_OPENING)), (None, Some((-32602, "initialize".into()))));
        assert_eq!(fault(r#"{"id":1,"method":"initialize","params":{}}"#), Some((-32602, "params".into())));
        let of_no_session =
            r#"{"id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#;
        assert_eq!(fault(of_no_session), None, "it has no such method");
    }

    #[test]
    fn what_is_kept_in_values_weighs_more_than_its_text() {
        let weight = |text: &str| Peek::at(text.as_bytes()).expect("a message").weight;
        let (plain, meta) = (r#"{"id":1,"params":{"x":[[],[]]}}"#, r#"{"id":1,"params":{"_meta":[[],[]]}}"#);
        assert_eq!((weight(plain), weight(meta)), (plain.len(), meta.len() + META_WEIGHT * "[[],[]]".len()));
    }
}
