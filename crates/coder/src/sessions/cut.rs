//! What a compaction may leave out: estimates, where to cut, which files were worked on.

use std::collections::BTreeSet;

use convoke_kward::results::FileDetails;
use convoke_kward::tool;
use convoke_kward::transcript::{Role, Stored, summary_of};
use convoke_models::estimate_text;
use serde_json::Value;

use super::load::Item;
use crate::config::Config;

/// The estimate for one picture, in tokens.
const IMAGE_TOKENS: u64 = 1_200;

/// Tokens that are always reserved for an answer.
const LEAST_ROOM: u64 = 12_000;

/// The `compaction` settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) is_enabled: bool,
    pub(crate) reserve: u64,
    pub(crate) keep_recent: u64,
    pub(crate) window: Option<u64>,
}

impl Settings {
    pub(crate) fn of(config: &Config) -> Self {
        let number = |key: &str| config.member("compaction", key).and_then(Value::as_u64);
        Self {
            is_enabled: config.switch("compaction", "enabled").unwrap_or(true),
            reserve: number("reserve_tokens").unwrap_or(16_384),
            keep_recent: number("keep_recent_tokens").unwrap_or(20_000),
            window: number("context_window").filter(|window| *window > 0),
        }
    }

    /// Whether a conversation has grown too long for a window.
    pub(crate) fn is_due(&self, tokens: u64, window: u64) -> bool {
        let room = self.reserve.max(window / 10).max(LEAST_ROOM);
        self.is_enabled && tokens > window.saturating_sub(room)
    }
}

/// Roughly how many tokens a message has.
pub(crate) fn tokens_of(message: &Stored) -> u64 {
    let text = match message.role() {
        Role::Summary => estimate_text(summary_of(message)),
        _ => estimate_text(&message.text()),
    };
    let calls = message.calls().map(|call| estimate_text(call.name) + estimate_text(&call.arguments));
    text + calls.sum::<u64>() + message.images().count() as u64 * IMAGE_TOKENS
}

/// Roughly how many tokens the next request has: what the last answer counted, and an estimate of what came since.
pub(crate) fn tokens_in(items: &[Item]) -> u64 {
    let counted = items.iter().enumerate().rev().find_map(|(at, item)| {
        let total = item.message.0.get("usage")?.get("total_tokens")?.as_u64()?;
        (total > 0).then_some((at + 1, total))
    });
    // A later summary makes the count wrong.
    let summary = items.iter().rposition(|item| item.message.role() == Role::Summary);
    let (from, base) = match counted {
        Some((from, total)) if summary.is_none_or(|summary| summary + 1 < from && summary_is_old(items, summary)) => {
            (from, total)
        }
        _ => (0, 0),
    };
    base + items[from..].iter().map(|item| tokens_of(&item.message)).sum::<u64>()
}

/// Whether something was asked and answered since the summary: then counts include it.
fn summary_is_old(items: &[Item], summary: usize) -> bool {
    let kept = items[summary].message.0.get("kept_messages").and_then(Value::as_u64).unwrap_or(u64::MAX);
    (items.len() - summary - 1) as u64 > kept
}

/// Where to cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The first message that stays.
    pub(crate) first_kept: usize,
    /// The request whose turn is cut in two.
    pub(crate) split_request: Option<String>,
}

/// Finds the first message of a person from which on everything fits, else a place within the last turn. `None` when
/// everything fits.
pub(crate) fn cut(items: &[Item], keep_recent: u64) -> Option<Cut> {
    let begins = items.iter().position(|item| item.message.role() != Role::Summary)?;
    let mut left = keep_recent;
    let mut fits_from = items.len();
    for at in (begins..items.len()).rev() {
        let tokens = tokens_of(&items[at].message);
        if tokens > left {
            break;
        }
        left -= tokens;
        fits_from = at;
    }
    if fits_from == begins {
        return None;
    }
    let is_user = |at: &usize| items[*at].message.role() == Role::User;
    if let Some(first_kept) = (fits_from..items.len()).find(is_user) {
        return Some(Cut { first_kept, split_request: None });
    }
    // A tool's result may not stand without its call: the kept part begins with an answer, or there is none.
    let is_answer = |at: &usize| items[*at].message.role() == Role::Assistant;
    let first_kept = (fits_from..items.len()).find(is_answer).unwrap_or(items.len());
    let request = (begins..first_kept).rev().find(is_user);
    Some(Cut { first_kept, split_request: request.map(|at| items[at].message.text()) })
}

/// The files that were worked on, those of the summary before included.
pub(crate) fn files(items: &[Item]) -> FileDetails {
    let (mut read, mut modified) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        if let Some(details) = item.message.0.get("details") {
            let before: FileDetails = serde_json::from_value(details.clone()).unwrap_or_default();
            read.extend(before.read_files);
            modified.extend(before.modified_files);
        }
        for call in item.message.calls() {
            let path = tool::parse_arguments(&call.arguments).get("path").and_then(Value::as_str).map(str::to_owned);
            match (call.name, path) {
                ("read_file", Some(path)) => drop(read.insert(path)),
                ("write_file" | "edit_file", Some(path)) => drop(modified.insert(path)),
                _ => {}
            }
        }
    }
    let read_files = read.into_iter().filter(|path| !modified.contains(path)).collect();
    FileDetails { read_files, modified_files: modified.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn items(messages: Value) -> Vec<Item> {
        let messages: Vec<Stored> = serde_json::from_value(messages).unwrap();
        messages.into_iter().map(|message| Item { id: String::new(), message: Arc::new(message) }).collect()
    }

    fn said(role: &str, tokens: usize) -> Value {
        json!({ "role": role, "content": "abcd".repeat(tokens) })
    }

    #[test]
    fn the_cut_is_before_a_person_speaks() {
        let talk = items(json!([said("user", 10), said("assistant", 10), said("user", 10), said("assistant", 10)]));
        assert_eq!(cut(&talk, 40), None, "all fits");
        assert_eq!(cut(&talk, 39).unwrap().first_kept, 2);
        assert_eq!(cut(&talk, 20).unwrap(), Cut { first_kept: 2, split_request: None });
    }

    #[test]
    fn a_long_turn_is_split_before_an_answer() {
        let long = items(json!([
            said("user", 1),
            said("assistant", 5),
            said("tool", 50),
            said("assistant", 5),
            said("tool", 5)
        ]));
        let split = cut(&long, 12).unwrap();
        assert_eq!((split.first_kept, split.split_request.as_deref()), (3, Some("abcd")));
        assert_eq!(cut(&long, 0).unwrap().first_kept, 5, "nothing can be kept");
    }

    #[test]
    fn a_summary_alone_is_nothing_to_cut() {
        assert_eq!(cut(&items(json!([{ "role": "compactionSummary", "summary": "s" }])), 0), None);
        assert_eq!(cut(&[], 0), None);
    }

    #[test]
    fn the_last_count_is_taken_and_what_came_since_is_estimated() {
        let mut answer = said("assistant", 10);
        answer["usage"] = json!({ "total_tokens": 1000 });
        assert_eq!(tokens_in(&items(json!([said("user", 10), answer, said("user", 5)]))), 1005);
        assert_eq!(tokens_in(&items(json!([said("user", 10)]))), 10);
        let summary = json!({ "role": "compactionSummary", "summary": "abcd", "kept_messages": 1 });
        assert_eq!(tokens_in(&items(json!([summary, answer]))), 11, "the count was of what is gone");
    }

    #[test]
    fn files_are_told_once_and_changed_ones_as_changed() {
        let call = |name: &str, path: &str| json!({ "id": "c", "function": { "name": name, "arguments": json!({ "path": path }).to_string() } });
        let talk = items(json!([
            { "role": "compactionSummary", "summary": "s", "details": { "read_files": ["old"], "modified_files": [] } },
            { "role": "assistant", "content": "", "tool_calls": [call("read_file", "a"), call("edit_file", "a"), call("read_file", "b")] },
        ]));
        let files = files(&talk);
        assert_eq!(
            (files.read_files, files.modified_files),
            (vec!["b".to_owned(), "old".into()], vec!["a".to_owned()])
        );
    }

    #[test]
    fn room_is_kept_for_the_answer() {
        let settings = Settings { is_enabled: true, reserve: 16_384, keep_recent: 20_000, window: None };
        assert!(!settings.is_due(360_000, 400_000) && settings.is_due(360_001, 400_000));
        assert!(settings.is_due(111_617, 128_000) && !settings.is_due(111_616, 128_000));
        assert!(!Settings { is_enabled: false, ..settings }.is_due(u64::MAX, 1));
    }
}
