//! The whole answer to a call that went well, written at once. What is not quite plain (a picture, something to cut,
//! characters that must be made visible) is left to the longer way, and a test holds the two together.

use convoke_core::id::Protocol;
use rmcp::model::RequestId;
use serde_json::Value;
use uuid::Uuid;

use super::super::call::LARGE;
use super::super::render::{INTRO, NOTE, UNTRUSTED, push_between_marks};
use super::super::schema;
use super::Era;
use crate::calls::{Call, Done};

/// An answer's text around what the machine said.
const AROUND: usize = 1024;

/// The reply to the request `id`, if it is plain. At most `budget` bytes of what the machine said are shown.
pub(super) fn text(id: &RequestId, call: &Call, done: &Done, budget: usize, era: Era) -> Option<String> {
    let (raw, ms) = (done.result.as_ref()?.get(), done.duration_ms?);
    let of_a_machine = call.target.protocol() == Protocol::Kenny && call.tool != "screen_capture";
    let plain = raw.len() <= budget.min(LARGE) && raw.bytes().all(|b| (b' '..0x7f).contains(&b));
    if !(done.is_ok() && of_a_machine && plain) {
        return None;
    }
    let value: Value = serde_json::from_str(raw).ok()?;
    let key = if schema::fits(&call.tool, &value) { "result" } else { "other_result" };
    let (id, value, ms) = (serde_json::to_string(id).ok()?, serde_json::to_string(&value).ok()?, ms.to_string());
    let mut call_id = Uuid::encode_buffer();
    let call_id = &*call.id.uuid().hyphenated().encode_lower(&mut call_id);
    // Neither an id nor a name of the catalogue has a character that JSON would escape.
    let (agent, tool) = (call.target.as_str(), call.tool.as_str());
    let mut text = String::with_capacity(AROUND + 2 * raw.len() + value.len());
    let complete = if era == Era::Stateless { "\"resultType\":\"complete\"," } else { "" };
    text.extend(["{\"jsonrpc\":\"2.0\",\"id\":", &id, ",\"result\":{", complete, "\"content\":["]);
    text.extend([
        "{\"type\":\"text\",\"text\":\"",
        tool,
        " on ",
        agent,
        ": done after ",
        &ms,
        " ms; call_id ",
        call_id,
    ]);
    text.extend([".\"},{\"type\":\"text\",\"text\":\"", INTRO.0, agent, INTRO.1]);
    push_between_marks(&mut text, "\\n", |text| push_escaped(text, raw));
    text.extend(["\",\"_meta\":{\"", UNTRUSTED, "\":true}}],\"structuredContent\":{\"agent\":\"", agent]);
    text.extend(["\",\"call_id\":\"", call_id, "\",\"duration_ms\":", &ms, ",\"note\":\"", NOTE, "\",\"", key]);
    text.extend(["\":", &value, ",\"state\":\"done\",\"tool\":\"", tool, "\"},\"isError\":false}}"]);
    Some(text)
}

/// Printable ASCII as it stands between the quotes of a JSON text.
fn push_escaped(text: &mut String, ascii: &str) {
    for part in ascii.split_inclusive(['"', '\\']) {
        match part.strip_suffix(['"', '\\']) {
            Some(plain) => text.extend([plain, "\\", &part[plain.len()..]]),
            None => text.push_str(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::call::CallState;
    use convoke_core::id::{CallId, TokenId};
    use rmcp::model::ServerResult;
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::super::super::render::Outcome;
    use super::*;
    use crate::clock;

    fn ended(tool: &str, outcome: &str, result: &str) -> (Call, Done) {
        let (id, caller) = (CallId::new(clock::uuid()), TokenId::new(clock::uuid()));
        let call = Call::new(id, caller, "pc-1".parse().expect("an id"), tool.into(), CallState::Running);
        let result = RawValue::from_string(result.into()).expect("JSON");
        let (outcome, result) = (outcome.to_owned(), Some(result.into()));
        (call, Done { outcome: outcome.into(), result, message: None, duration_ms: Some(3), by_agent: false })
    }

    /// Without the mark, which is new every time.
    fn masked(mut reply: Value) -> Value {
        let text = reply["result"]["content"][1]["text"].as_str().expect("a text").to_owned();
        let mark = text.split("<data ").nth(1).and_then(|rest| rest.split('>').next()).expect("a mark");
        reply["result"]["content"][1]["text"] = text.replace(mark, "…").into();
        reply
    }

    #[test]
    fn it_is_what_the_longer_way_writes() {
        for (tool, result) in [
            ("fs_list", r#"{"entries":[]}"#),
            ("fs_list", r#"{"entries": "none \\ \"quoted\" \n \u00fc </data>" }"#),
            ("fs_read", r#"{"content":"a","truncated":false,"content":"b"}"#),
            ("net_config", "[1.50, -0, 1e3, true, null]"),
            ("made_up", "null"),
        ] {
            let (call, done) = ended(tool, "ok", result);
            let ids = [RequestId::Number(-7), RequestId::String("a\"b".into())];
            for (id, era) in ids.into_iter().flat_map(|id| [(id.clone(), Era::Stateless), (id, Era::Sessions)]) {
                let written = text(&id, &call, &done, 1000, era).expect("plain");
                let mut longer = ServerResult::CallToolResult(Outcome::ended(&call, &done, 1000).into_result());
                if era == Era::Sessions {
                    longer.strip_result_type_for_legacy_peer();
                }
                let longer = json!({ "jsonrpc": "2.0", "id": id, "result": longer });
                let written: Value = serde_json::from_str(&written).expect("JSON");
                assert_eq!(masked(written), masked(longer), "{result}");
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_not_written() {
        let id = RequestId::Number(1);
        let is_plain = |tool: &str, outcome: &str, result: &str, budget: usize| {
            let (call, done) = ended(tool, outcome, result);
            text(&id, &call, &done, budget, Era::Stateless).is_some()
        };
        assert!(is_plain("fs_list", "ok", "{}", 2));
        assert!(!is_plain("fs_list", "ok", "{}", 1), "to be cut");
        assert!(!is_plain("fs_list", "timeout", "{}", 9), "failed");
        assert!(!is_plain("screen_capture", "ok", "{}", 9), "may be a picture");
        for hidden in ["\"\u{7f}\"", "\"ü\"", "{\n}", "\"\u{200b}\""] {
            assert!(!is_plain("fs_list", "ok", hidden, 99), "{hidden:?}");
        }
        let (call, done) = ended("fs_list", "ok", "{}");
        assert!(text(&id, &call, &Done { result: None, ..done }, 9, Era::Stateless).is_none(), "not kept");
    }
}
