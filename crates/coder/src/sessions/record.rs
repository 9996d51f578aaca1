//! The lines of a session file. They are Kward's own, so that files open here and there; ids and parents of entries are
//! those of its second version, which the first skips.

use std::borrow::Cow;

use convoke_kward::transcript::Stored;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The version in the header. Ids are extra members, so the first version's readers take the file.
pub(crate) const VERSION: u32 = 1;

/// A line as it is read. Members that the kind does not have are absent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) parent_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) parent_path: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) timestamp: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) cwd: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) provider: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) reasoning_effort: Option<Cow<'a, str>>,
    /// Null clears the name, absence leaves it.
    #[serde(default, deserialize_with = "present")]
    pub(crate) name: Option<Option<String>>,
    #[serde(default, borrow)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(crate) target_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(crate) summary: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) last_retrieval: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

impl<'a> Line<'a> {
    /// A line that can be read; others are skipped, as Kward does.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// The first line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) version: u32,
    pub(crate) id: String,
    pub(crate) timestamp: String,
    pub(crate) cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_path: Option<String>,
}

/// A line as it is written.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Record<'a> {
    Message {
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_id: Option<&'a str>,
        timestamp: String,
        message: &'a Stored,
    },
    Compaction {
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_id: Option<&'a str>,
        timestamp: String,
        message: &'a Stored,
    },
    ToolExecutionEnd {
        timestamp: String,
        tool_call_id: &'a str,
        tool_name: &'a str,
        args: &'a Value,
        result: &'a Value,
        is_error: bool,
    },
    SessionInfo {
        timestamp: String,
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_effort: Option<&'a str>,
    },
    MemoryState {
        timestamp: String,
        session_memories: &'a [Value],
        last_retrieval: &'a Value,
    },
}

/// A line with its end.
pub(crate) fn line<T: Serialize>(record: &T) -> Vec<u8> {
    // Records have text keys only, so there is nothing that could not be written.
    let mut bytes = serde_json::to_vec(record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
