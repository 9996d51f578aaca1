//! A look at a message before the SDK reads it.

use std::borrow::Cow;

use convoke_core::grant::Missing;
use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, InitializeRequestParams, ReadResourceRequestParams, RequestId,
    SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams,
};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Entry, find, page};
use crate::operators::Caller;

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

/// What is wrong with a message, as JSON-RPC says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: i32,
    pub(super) message: &'static str,
}

impl Fault {
    const LONG_ID: Self = Self { code: -32600, message: "`id` may have 256 bytes" };
    const LONG_METHOD: Self = Self { code: -32601, message: "there is no such method: `method` may have 128 bytes" };
    const LONG_TOKEN: Self = Self::of_params("`params._meta.progressToken` may have 256 bytes");
    const LONG_OPENING: Self = Self::of_params("`initialize` may have 65536 bytes");

    const OTHER_CURSOR: Self = Self::of_params(page::UNKNOWN_CURSOR);

    const fn of_params(message: &'static str) -> Self {
        Self { code: -32602, message }
    }
}

/// Whether an id, or a progress token, is no longer than it may be.
pub(super) fn is_short(id: &RequestId) -> bool {
    match id {
        RequestId::Number(_) => true,
        RequestId::String(text) => text.len() <= MAX_ID,
    }
}

/// As much of a message as must be known before the SDK reads it. What this cannot read, the SDK refuses; what it
/// lets through, the gate decides on. Whatever is odd about the rest of the message is not this one's business: the SDK
/// overlooks it, too.
pub(super) struct Peek {
    /// The request's id as it is written, where it is one: a text or a number.
    pub(super) id: String,
    /// It is to be answered.
    pub(super) is_request: bool,
    /// About how many bytes it takes until then.
    pub(super) weight: usize,
    /// The tool that is called.
    tool: Option<&'static Entry>,
    /// What is wrong with a message: parameters for which the SDK would say that there is no such method, a cursor that it
    /// would overlook, or something that is too long to be kept.
    pub(super) malformed: Option<Fault>,
    /// The request that the client no longer wants answered.
    pub(super) given_up: Option<RequestId>,
    /// The resources that it wants to hear of from now on.
    pub(super) listens_to: Vec<String>,
}

impl Peek {
    /// Of the message in this body, sent in a session or not.
    pub(super) fn at(body: &[u8], in_session: bool) -> Self {
        let top = Fields::of(std::str::from_utf8(body).unwrap_or_default());
        let id = top.id.filter(|id| id.get().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit()));
        let params = Fields::of(top.params.map(RawValue::get).unwrap_or_default());
        let method = top.method.and_then(read::<Cow<'_, str>>).unwrap_or_default();
        let name = params.name.filter(|_| method == "tools/call").and_then(read::<Cow<'_, str>>);
        let listens_to = params.notifications.filter(|_| method == "subscriptions/listen").and_then(read::<Wanted>);
        let given_up = params.request.filter(|_| method == "notifications/cancelled");
        Self {
            id: id.map_or("null", RawValue::get).to_owned(),
            is_request: id.is_some() && top.method.is_some(),
            weight: body.len() + META_WEIGHT * params.meta.map_or(0, |meta| meta.get().len()),
            tool: name.as_ref().and_then(|name| find(name)),
            malformed: match &*method {
                _ if top.has_long => Some(Fault::LONG_ID),
                _ if method.len() > MAX_METHOD => Some(Fault::LONG_METHOD),
                _ if Fields::of(params.meta.map(RawValue::get).unwrap_or_default()).has_long => {
                    Some(Fault::LONG_TOKEN)
                }
                "tools/call" => params.fault(name.is_some()).map(Fault::of_params),
                "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list"
                    if is_other(params.cursor, '"') =>
                {
                    Some(Fault::OTHER_CURSOR)
                }
                "initialize" if body.len() > MAX_OPENING => Some(Fault::LONG_OPENING),
                // Without sessions there is no such method.
                "initialize" if params.meta.is_some_and(|meta| meta.get().contains(REVISION)) => None,
                _ if id.is_some() => unfit(&method, in_session, top.params).map(Fault::of_params),
                _ => None,
            },
            given_up: given_up.and_then(read),
            listens_to: listens_to.map(|wanted| wanted.uris).unwrap_or_default(),
        }
    }

    /// The tool that is called, when the caller may never call it.
    pub(super) fn forbidden(&self, caller: &Caller) -> Option<(&'static Entry, Missing)> {
        let entry = self.tool?;
        entry.check(&caller.token.grant).err().map(|missing| (entry, missing))
    }
}

/// What a client wants to hear of.
#[derive(serde::Deserialize)]
struct Wanted {
    #[serde(rename = "resourceSubscriptions", default)]
    uris: Vec<String>,
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// What is wrong with the parameters of a request that is no call of a tool, where the SDK cannot read them. Some methods are
/// there within sessions alone, and one without: elsewhere there is no such method, whatever its parameters.
fn unfit(method: &str, in_session: bool, params: Option<&RawValue>) -> Option<&'static str> {
    fn fits<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> bool {
        params.and_then(read::<T>).is_some()
    }
    const URI: &str = "`params.uri` must be the address of a resource";
    let (fits, message) = match method {
        "initialize" => (
            fits::<InitializeRequestParams>(params),
            "`params` must have `protocolVersion` (a text), `capabilities` (an object) and `clientInfo` (an object with a \
             `name` and a `version`)",
        ),
        "resources/read" => (fits::<ReadResourceRequestParams>(params), URI),
        "resources/subscribe" if in_session => (fits::<SubscribeRequestParams>(params), URI),
        "resources/unsubscribe" if in_session => (fits::<UnsubscribeRequestParams>(params), URI),
        "subscriptions/listen" if !in_session => (
            fits::<SubscriptionsListenRequestParams>(params),
            "`params.notifications` must be an object that says what to tell of",
        ),
        "prompts/get" => (
            fits::<GetPromptRequestParams>(params),
            "`params.name` must be the name of a prompt, and `params.arguments`, if there are any, an object of texts",
        ),
        "completion/complete" => (
            fits::<CompleteRequestParams>(params),
            "`params.ref` must be a prompt or a resource, and `params.argument` a name with the beginning of a value",
        ),
        _ => return None,
    };
    (!fits).then_some(message)
}

/// Whether this is there, and neither null nor what begins so.
fn is_other(raw: Option<&RawValue>, kind: char) -> bool {
    raw.is_some_and(|raw| !raw.get().starts_with(kind) && raw.get() != "null")
}

/// Whether this cannot be a short id. The SDK reads no number that is long.
fn is_long(raw: &RawValue) -> bool {
    let quoted = MAX_ID + 2;
    raw.get().len() > quoted && read::<RequestId>(raw).is_none_or(|id| !is_short(&id))
}

/// What is looked at in an object, as it is written. Of several of one name the last counts, whoever takes the first.
#[derive(Default)]
struct Fields<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    state: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
    request: Option<&'a RawValue>,
    notifications: Option<&'a RawValue>,
    meta: Option<&'a RawValue>,
    /// There is an id or a progress token that is too long.
    has_long: bool,
    /// There are several of a name of which the SDK takes one alone.
    has_twice: bool,
}

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// What is wrong with these as the parameters of a tool's call.
    fn fault(&self, named: bool) -> Option<&'static str> {
        match () {
            () if !named => Some("`params.name` must be the name of a tool"),
            () if is_other(self.arguments, '{') => Some("`params.arguments` must be an object"),
            () if is_other(self.input, '{') => Some("`params.inputResponses` must be an object"),
            () if is_other(self.state, '"') => Some("`params.requestState` must be a text"),
            () if is_other(self.meta, '{') => Some("`params._meta` must be an object"),
            () if self.has_twice => Some(
                "`params` may have each of `name`, `arguments`, `inputResponses`, `requestState` and `_meta` once",
            ),
            () => None,
        }
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Looking;
        impl<'de> Visitor<'de> for Looking {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let value = Some(map.next_value::<&'de RawValue>()?);
                    if matches!(&*key, "id" | "progressToken") {
                        fields.has_long |= value.is_some_and(is_long);
                    }
                    let earlier = match &*key {
                        "name" => fields.name,
                        "arguments" => fields.arguments,
                        "inputResponses" => fields.input,
                        "requestState" => fields.state,
                        "_meta" => fields.meta,
                        _ => None,
                    };
                    fields.has_twice |= earlier.is_some();
                    match &*key {
                        "id" => fields.id = value,
                        "method" => fields.method = value,
                        "params" => fields.params = value,
                        "name" => fields.name = value,
                        "arguments" => fields.arguments = value,
                        "inputResponses" => fields.input = value,
                        "requestState" => fields.state = value,
                        "cursor" => fields.cursor = value,
                        "requestId" => fields.request = value,
                        "notifications" => fields.notifications = value,
                        "_meta" => fields.meta = value,
                        _ => {}
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Looking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peek(text: &str) -> (String, Option<&'static str>, Option<RequestId>) {
        let Peek { id, tool, given_up, .. } = Peek::at(text.as_bytes(), false);
        (id, tool.map(|tool| tool.name), given_up)
    }

    #[test]
    fn what_is_odd_about_the_rest_hides_nothing() {
        let called = (String::from("7"), Some("fs_list"), None);
        for text in [
            r#"{"id":7,"method":"tools/call","params":{"name":"fs_list"}}"#,
            r#"{"id":7,"method":"tools\/call","params":{"name":"fs_\u006cist","requestId":{},"name2":[]}}"#,
            r#"{"id":7,"extra":{"id":8},"id":7,"method":"x","method":"tools/call","params":{"name":1,"name":"fs_list"}}"#,
        ] {
            assert_eq!(peek(text), called, "{text}");
        }
        let given_up = r#"{"method":"notifications/cancelled","params":{"requestId":"r","reason":1,"name":{}}}"#;
        assert_eq!(peek(given_up), ("null".into(), None, Some(RequestId::String("r".into()))));
    }

    #[test]
    fn what_is_wrong_with_a_call_is_told_apart() {
        let fault = |params: &str| {
            let text = format!(r#"{{"id":1,"method":"tools/call"{params}}}"#);
            Peek::at(text.as_bytes(), false).malformed.map(|why| why.message.split('`').nth(1).expect("names what"))
        };
        for params in [r#","params":{"name":"x"}"#, r#","params":{"name":"x","arguments":{}}"#] {
            assert_eq!(fault(params), None, "{params}");
        }
        for params in ["", r#","params":[]"#, r#","params":{}"#, r#","params":{"name":7}"#] {
            assert_eq!(fault(params), Some("params.name"), "{params}");
        }
        for (params, wrong) in [
            (r#""arguments":"y""#, "params.arguments"),
            (r#""inputResponses":"y""#, "params.inputResponses"),
            (r#""inputResponses":[]"#, "params.inputResponses"),
            (r#""requestState":{}"#, "params.requestState"),
            (r#""_meta":7"#, "params._meta"),
            (r#""arguments":{},"arguments":{}"#, "params"),
            (r#""name":"x""#, "params"),
        ] {
            assert_eq!(fault(&format!(r#","params":{{"name":"x",{params}}}"#)), Some(wrong), "{params}");
        }
        let whole = r#""arguments":null,"inputResponses":{},"requestState":"","_meta":null,"x":1,"x":2"#;
        assert_eq!(fault(&format!(r#","params":{{"name":"x",{whole}}}"#)), None);
        assert_eq!(Peek::at(br#"{"id":1,"method":"tools/list"}"#, false).malformed, None);
        let opening = |bytes: usize| {
            let params = r#""protocolVersion":"x","capabilities":{},"clientInfo":{"name":"x","version":"1"}"#;
            let text =
                format!(r#"{{"id":1,"method":"initialize","params":{{{params},"x":"{}"}}}}"#, "x".repeat(bytes));
            Peek::at(text.as_bytes(), false).malformed
        };
        assert_eq!((opening(60_000), opening(MAX_OPENING)), (None, Some(Fault::LONG_OPENING)));
    }

    #[test]
    fn parameters_that_do_not_fit_are_told_for_every_method() {
        let fault = |method: &str, params: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let in_session = method.starts_with("resources/");
            assert!(
                !method.contains("subscri") || Peek::at(text.as_bytes(), !in_session).malformed.is_none(),
                "not there"
            );
            let fault = Peek::at(text.as_bytes(), in_session).malformed;
            // Either of the two reads it: whatever is refused here, the SDK has no method for.
            let read: rmcp::model::ClientJsonRpcMessage = serde_json::from_str(&text).expect("a message");
            let is_unknown = format!("{read:?}").contains("CustomRequest");
            assert_eq!(fault.is_some(), is_unknown, "{method} {params}: {read:?}");
            fault.map(|fault| (fault.code, fault.message.split('`').nth(1).expect("names what")))
        };
        let meta = r#""_meta":{"progressToken":1}"#;
        for (method, good) in [
            (
                "initialize",
                r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}"#,
            ),
            ("resources/read", r#""uri":"convoke://fleet""#),
            ("resources/subscribe", r#""uri":"convoke://fleet""#),
            ("resources/unsubscribe", r#""uri":"convoke://fleet""#),
            ("subscriptions/listen", r#""notifications":{"resourceSubscriptions":["convoke://fleet"]}"#),
            ("prompts/get", r#""name":"triage","arguments":{"agent":"pc"}"#),
            ("prompts/get", r#""name":"triage""#),
            (
                "completion/complete",
                r#""ref":{"type":"ref/prompt","name":"triage"},"argument":{"name":"agent","value":"p"}"#,
            ),
        ] {
            for params in [format!("{{{good}}}"), format!("{{{good},{meta}}}"), format!("{{{good},\"x\":[1]}}")] {
                assert_eq!(fault(method, &params), None, "{method} {params}");
            }
        }
        let of_no_session =
            r#"{"id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#;
        assert_eq!(Peek::at(of_no_session.as_bytes(), false).malformed, None, "it has no such method");
        for (method, bad, wrong) in [
            ("initialize", "{}", "params"),
            (
                "initialize",
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a"}}"#,
                "params",
            ),
            ("resources/read", "{}", "params.uri"),
            ("resources/subscribe", r#"{"uri":7}"#, "params.uri"),
            ("resources/unsubscribe", r#"{"uri":null}"#, "params.uri"),
            ("subscriptions/listen", r#"{"notifications":7}"#, "params.notifications"),
            ("prompts/get", r#"{"name":"triage","arguments":[]}"#, "params.name"),
            ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"triage"}}"#, "params.ref"),
        ] {
            assert_eq!(fault(method, bad), Some((-32602, wrong)), "{method} {bad}");
        }
    }

    #[test]
    fn what_is_kept_of_a_request_is_short() {
        let fault = |text: String| Peek::at(text.as_bytes(), false).malformed;
        let (fits, long) = ("ü".repeat(MAX_ID / 2), "x".repeat(MAX_ID + 1));
        let escaped = "\\u0078".repeat(MAX_ID);
        let with_id = |id: &str| fault(format!(r#"{{"id":"{id}","method":"x"}}"#));
        assert_eq!((with_id(&fits), with_id(&escaped), with_id(&long)), (None, None, Some(Fault::LONG_ID)));
        assert_eq!(
            fault(format!(r#"{{"id":"{long}","id":1,"method":"x"}}"#)),
            Some(Fault::LONG_ID),
            "whichever counts"
        );
        assert_eq!(fault(format!(r#"{{"id":{},"method":"x"}}"#, "1".repeat(1000))), Some(Fault::LONG_ID));
        let told = |token: &str| {
            fault(format!(r#"{{"id":1,"method":"ping","params":{{"_meta":{{"progressToken":"{token}"}}}}}}"#))
        };
        assert_eq!((told(&fits), told(&escaped), told(&long)), (None, None, Some(Fault::LONG_TOKEN)));
        let method = |length: usize| fault(format!(r#"{{"id":1,"method":"{}"}}"#, "x".repeat(length)));
        assert_eq!((method(MAX_METHOD), method(MAX_METHOD + 1)), (None, Some(Fault::LONG_METHOD)));
    }

    #[test]
    fn what_is_kept_in_values_weighs_more_than_its_text() {
        let weight = |text: &str| Peek::at(text.as_bytes(), false).weight;
        let (plain, meta) = (r#"{"id":1,"params":{"x":[[],[]]}}"#, r#"{"id":1,"params":{"_meta":[[],[]]}}"#);
        assert_eq!((weight(plain), weight(meta)), (plain.len(), meta.len() + META_WEIGHT * "[[],[]]".len()));
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for text in ["", "[]", "{", "null", r#"{"id":null,"method":7,"params":[]}"#, "\u{feff}{}"] {
            assert_eq!(peek(text), ("null".into(), None, None), "{text}");
        }
        assert_eq!(
            peek(r#"{"id":"a","method":"tools/list","params":{"name":"fs_list"}}"#),
            ("\"a\"".into(), None, None)
        );
        let _ = Peek::at(b"\xff\xfe", false);
    }
}
