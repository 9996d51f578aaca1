//! A file's lines as a conversation: messages replayed, compactions applied, the branch in use picked.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use convoke_kward::results::TokenTotals;
use convoke_kward::tool;
use convoke_kward::transcript::{Role, Stored};
use convoke_models::{ProviderKind, Usage, facts};
use serde_json::Value;

use super::folder;
use super::record::{Header, Line, VERSION};

/// A message in the conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// Its id in the file.
    pub(crate) id: String,
    pub(crate) message: Arc<Stored>,
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) header: Header,
    pub(crate) name: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    /// The conversation as a model gets it.
    pub(crate) items: Vec<Item>,
    /// The entry that the next one follows.
    pub(crate) last_entry: Option<String>,
    pub(crate) totals: Totals,
    pub(crate) last_retrieval: Option<Value>,
    /// Whether somebody has spoken.
    pub(crate) is_used: bool,
    /// Nothing has been said since the last compaction.
    pub(crate) is_just_compacted: bool,
    /// The first line is not there; what is known comes from the file's name.
    pub(crate) is_header_lost: bool,
}

/// What a session has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) tokens: TokenTotals,
    cost: Option<f64>,
    /// Something was used whose price nobody knows.
    has_unpriced: bool,
}

impl Totals {
    /// Counts what an answer used, as it is stored with it.
    pub(crate) fn add(&mut self, message: &Stored) {
        let Some(usage) = message.0.get("usage") else { return };
        let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (input, output) = (count("input_tokens"), count("output_tokens"));
        let (read, write) = (count("cache_read_tokens"), count("cache_write_tokens"));
        let total = usage.get("total_tokens").and_then(Value::as_u64).unwrap_or(input + output);
        // Providers count cached tokens as input, too; clients show them apart.
        self.tokens.input += input.saturating_sub(read + write);
        self.tokens.output += output;
        self.tokens.cache_read += read;
        self.tokens.cache_write += write;
        self.tokens.total += total;
        let used = Usage { input, cached_input: read, cache_write: write, output, total, ..Usage::default() };
        match usage.get("cost").and_then(Value::as_f64).or_else(|| listed_cost(message, &used)) {
            Some(cost) => *self.cost.get_or_insert(0.0) += cost,
            None => self.has_unpriced |= total > 0,
        }
    }

    /// In dollars, if the price of all of it is known. A part of the sum would look like the whole.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.cost.filter(|_| !self.has_unpriced)
    }
}

/// What the price list says of an answer that was stored without its cost, as Kward stores them.
fn listed_cost(message: &Stored, usage: &Usage) -> Option<f64> {
    let provider: ProviderKind = message.text_of("provider")?.parse().ok()?;
    facts(provider, message.text_of("model")?).price?.cost(usage)
}

/// The ids of a file's entries. As long as each entry follows the one before it, nothing is kept for that.
#[derive(Default)]
struct Ids {
    last: Option<String>,
    /// The last entry has none in the file.
    is_last_made_up: bool,
    all: Option<HashSet<String>>,
}

impl Ids {
    fn contains(&mut self, entries: &[Entry], id: &str) -> bool {
        if self.last.as_deref() == Some(id) {
            return true;
        }
        let all = self.all.get_or_insert_with(|| entries.iter().map(|entry| entry.id.clone()).collect());
        all.contains(id)
    }

    fn add(&mut self, id: &str) {
        self.last = Some(id.to_owned());
        if let Some(all) = &mut self.all {
            all.insert(id.to_owned());
        }
    }
}

struct Entry {
    id: String,
    parent: Option<String>,
    is_compaction: bool,
    message: Arc<Stored>,
}

/// Reads a session; `None` for what is none.
pub(crate) fn load(bytes: &[u8]) -> Option<Loaded> {
    load_or(bytes, || None)
}

/// Reads the session of a file, also if its first line is lost: Kward writes on into a file that it has removed as
/// empty, and the name still has the id and the time.
pub(crate) fn load_at(bytes: &[u8], path: &Path) -> Option<Loaded> {
    load_or(bytes, || folder::header_of_name(path))
}

fn load_or(bytes: &[u8], lost: impl FnOnce() -> Option<Header>) -> Option<Loaded> {
    let mut loaded = Loaded::default();
    let mut first_line: Option<Header> = None;
    // Whether there is a line that only a session has.
    let mut is_session = false;
    let mut entries: Vec<Entry> = Vec::new();
    let mut leaf: Option<String> = None;
    let mut answered_by: Option<String> = None;
    // Whether the entries are one chain; if not, the branch of the last leaf counts.
    let mut is_chain = true;
    let mut ids = Ids::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(line) = Line::parse(line) else { continue };
        is_session |= matches!(line.kind.as_ref(), "message" | "session_info" | "system_prompt" | "memory_state");
        match line.kind.as_ref() {
            "session" if first_line.is_none() => first_line = header(&line),
            kind @ ("message" | "compaction" | "branch_summary") => {
                let Some(message) = message(&line, kind) else { continue };
                loaded.is_used |= matches!(message.role(), Role::User | Role::Assistant | Role::Tool);
                loaded.totals.add(&message);
                // Older files name the provider only with each answer.
                if let Some(provider) = message.text_of("provider") {
                    answered_by = Some(provider.to_owned());
                }
                if message.role() == Role::System {
                    continue;
                }
                if kind != "branch_summary" {
                    loaded.is_just_compacted = kind == "compaction";
                }
                let mut parent = line.parent_id.map(Cow::into_owned);
                // The first version knows no ids: its entries follow one another as they stand in the file, and so does
                // whatever was written behind them, whose parent nobody can know.
                let follows = match &parent {
                    _ if line.id.is_none() => true,
                    Some(parent) => !ids.contains(&entries, parent),
                    None => ids.is_last_made_up,
                };
                if follows {
                    parent.clone_from(&leaf);
                } else if parent != leaf {
                    is_chain = false;
                }
                ids.is_last_made_up = line.id.is_none();
                let id = line.id.map(Cow::into_owned).unwrap_or_else(|| format!("entry-{}", entries.len()));
                leaf = Some(id.clone());
                ids.add(&id);
                entries.push(Entry { id, parent, is_compaction: kind == "compaction", message: Arc::new(message) });
            }
            "leaf" => {
                leaf = line.target_id.map(Cow::into_owned);
                is_chain = false;
            }
            "session_info" => {
                if let Some(name) = line.name {
                    loaded.name = name.filter(|name| !name.trim().is_empty());
                }
                take(&mut loaded.provider, line.provider);
                take(&mut loaded.model, line.model);
                take(&mut loaded.effort, line.reasoning_effort);
            }
            "memory_state" => loaded.last_retrieval = line.last_retrieval,
            _ => {}
        }
    }
    loaded.is_header_lost = first_line.is_none();
    loaded.header = first_line.or_else(|| lost().filter(|_| is_session))?;
    let header = &loaded.header;
    loaded.provider = loaded.provider.or_else(|| header.provider.clone()).or(answered_by);
    loaded.model = loaded.model.or_else(|| header.model.clone());
    loaded.effort = loaded.effort.or_else(|| header.reasoning_effort.clone());
    if !is_chain {
        entries = branch(entries, leaf.as_deref());
    }
    loaded.last_entry = leaf;
    for entry in entries {
        let item = Item { id: entry.id, message: entry.message };
        if entry.is_compaction {
            loaded.items = compacted(loaded.items, item);
        } else {
            loaded.items.push(item);
        }
    }
    Some(loaded)
}

fn take(field: &mut Option<String>, new: Option<Cow<'_, str>>) {
    if let Some(new) = new.filter(|new| !new.is_empty()) {
        *field = Some(new.into_owned());
    }
}

fn header(line: &Line<'_>) -> Option<Header> {
    let own = |text: &Option<Cow<'_, str>>| text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(Header {
        kind: "session",
        version: VERSION,
        id: own(&line.id)?,
        timestamp: own(&line.timestamp).unwrap_or_default(),
        cwd: own(&line.cwd).unwrap_or_default(),
        provider: own(&line.provider),
        model: own(&line.model),
        reasoning_effort: own(&line.reasoning_effort),
        parent_id: own(&line.parent_id),
        parent_path: own(&line.parent_path),
    })
}

fn message(line: &Line<'_>, kind: &str) -> Option<Stored> {
    if kind == "branch_summary" && line.message.is_none() {
        let (summary, id) = (line.summary.as_deref()?, line.id.as_deref());
        // Kward hands it out as `content`; its client looks for `summary`.
        return Some(Stored::from_value(
            serde_json::json!({ "role": "branchSummary", "content": summary, "summary": summary, "id": id }),
        ));
    }
    serde_json::from_str(line.message?.get()).ok()
}

/// The entries from the root to the leaf; others belong to other branches.
fn branch(entries: Vec<Entry>, leaf: Option<&str>) -> Vec<Entry> {
    let by_id: HashMap<&str, usize> = entries.iter().enumerate().map(|(at, entry)| (entry.id.as_str(), at)).collect();
    let mut picked = Vec::new();
    let mut seen = vec![false; entries.len()];
    let mut at = leaf.and_then(|leaf| by_id.get(leaf).copied());
    while let Some(index) = at {
        // A file that leads in a circle is no reason to hang.
        if std::mem::replace(&mut seen[index], true) {
            break;
        }
        picked.push(index);
        at = entries[index].parent.as_deref().and_then(|parent| by_id.get(parent).copied());
    }
    let mut entries: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
    picked.into_iter().rev().filter_map(|index| entries[index].take()).collect()
}

/// The conversation after a compaction: the summary, and what was kept.
fn compacted(items: Vec<Item>, summary: Item) -> Vec<Item> {
    let kept = first_kept(&items, &summary.message).unwrap_or(items.len());
    let mut out = vec![summary];
    out.extend(items.into_iter().skip(kept));
    out
}

/// Where the kept part begins. `message:N` counts from the summary before, which is number 0, as Kward's does.
pub(crate) fn first_kept(items: &[Item], summary: &Stored) -> Option<usize> {
    let by_id = |id: &str| items.iter().position(|item| item.id == id || item.message.text_of("id") == Some(id));
    if let Some(at) = summary.text_of("first_kept_id").and_then(by_id) {
        return Some(at);
    }
    let wanted = summary.text_of("first_kept_entry_id")?;
    if let Some(at) = by_id(wanted) {
        return Some(at);
    }
    let number: usize = wanted.strip_prefix("message:")?.parse().ok()?;
    let summary_before = items.iter().rposition(|item| item.message.role() == Role::Summary).unwrap_or(0);
    let at = summary_before.saturating_add(number);
    (at < items.len()).then_some(at).or_else(|| (number < items.len()).then_some(number))
}

/// The files that were read before, so that they may be replaced: the paths of successful `read_file` calls.
pub(crate) fn read_paths(items: &[Item]) -> Vec<String> {
    let mut asked: HashMap<&str, String> = HashMap::new();
    let mut read = Vec::new();
    for item in items {
        for call in item.message.calls().filter(|call| call.name == "read_file") {
            let args = tool::parse_arguments(&call.arguments);
            if let Some(path) = args.get("path").and_then(Value::as_str) {
                asked.insert(call.id, path.to_owned());
            }
        }
        if item.message.role() == Role::Tool && !item.message.is_error() {
            let path = item.message.call_id().and_then(|id| asked.remove(id));
            read.extend(path);
        }
    }
    read
}

/// Reads a session's file.
pub(crate) fn load_file(path: &Path) -> std::io::Result<Option<Loaded>> {
    Ok(load(&std::fs::read(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn texts(lines: &[&str]) -> Vec<String> {
        let file = format!("{HEADER}\n{}\n", lines.join("\n"));
        let loaded = load(file.as_bytes()).expect("a session");
        let text = |item: &Item| match item.message.role() {
            Role::Summary => format!("[{}]", item.message.text_of("summary").unwrap_or_default()),
            _ => item.message.text(),
        };
        loaded.items.iter().map(text).collect()
    }

    const HEADER: &str = r#"{"type":"session","version":1,"id":"u","timestamp":"t","cwd":"/w","model":"m"}"#;

    fn said(text: &str) -> String {
        format!(r#"{{"type":"message","timestamp":"t","message":{{"role":"user","content":"{text}"}}}}"#)
    }

    fn said_as(id: &str, parent: &str, text: &str) -> String {
        let parent = if parent.is_empty() { "null".into() } else { format!("\"{parent}\"") };
        format!(
            r#"{{"type":"message","id":"{id}","parentId":{parent},"message":{{"role":"user","content":"{text}"}}}}"#
        )
    }

    fn summary(kept: &str) -> String {
        format!(
            r#"{{"type":"compaction","message":{{"role":"compactionSummary","summary":"s","first_kept_entry_id":"{kept}"}}}}"#
        )
    }

    #[test]
    fn bad_lines_are_skipped_and_a_torn_tail_is_one() {
        assert_eq!(texts(&[&said("a"), "nonsense", "", "5", &said("b"), r#"{"type":"mess"#]), ["a", "b"]);
        assert!(load(b"").is_none());
        assert!(load(b"{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n").is_none());
        assert!(load(b"{\"type\":\"session\"}\n").is_none());
    }

    #[test]
    fn a_file_that_lost_its_first_line_is_known_by_its_name() {
        let name = "2026-01-02T03-04-05.678Z_0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d.jsonl";
        let lines = format!("{}\n{}\n", said("a"), r#"{"type":"session_info","name":"n"}"#);
        let loaded = load_at(lines.as_bytes(), &Path::new("/s").join(name)).unwrap();
        assert_eq!(loaded.header.id, "0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d");
        assert_eq!((loaded.header.timestamp.as_str(), loaded.header.cwd.as_str()), ("2026-01-02T03:04:05.678Z", ""));
        assert_eq!((loaded.items.len(), loaded.name.as_deref(), loaded.is_header_lost), (1, Some("n"), true));
        // A name that says nothing, and a file in which nothing is a session's.
        assert!(load_at(lines.as_bytes(), Path::new("/s/notes.jsonl")).is_none());
        assert!(load_at(b"{\"type\":\"x\"}\n", &Path::new("/s").join(name)).is_none());
        // It counts wherever it stands.
        let late = load_at(format!("{lines}{HEADER}\n").as_bytes(), &Path::new("/s").join(name)).unwrap();
        assert_eq!((late.header.id.as_str(), late.items.len(), late.is_header_lost), ("u", 1, false));
    }

    #[test]
    fn whether_anything_was_said_since_the_last_compaction_is_known() {
        let is_just_compacted =
            |lines: &[&str]| load(format!("{HEADER}\n{}\n", lines.join("\n")).as_bytes()).unwrap().is_just_compacted;
        let (a, b, cut) = (said("a"), said("b"), summary("message:1"));
        assert!(is_just_compacted(&[&a, &b, &cut, r#"{"type":"session_info","name":"n"}"#]));
        assert!(!is_just_compacted(&[&a, &b, &cut, &a]));
        assert!(!is_just_compacted(&[]));
    }

    #[test]
    fn a_compaction_keeps_what_it_says() {
        let (a, b, c) = (said("a"), said("b"), said("c"));
        assert_eq!(texts(&[&a, &b, &c, &summary("message:2")]), ["[s]", "c"]);
        assert_eq!(texts(&[&a, &b, &c, &summary("message:9")]), ["[s]"]);
        // The second one counts from the first's summary, which is number 0.
        assert_eq!(texts(&[&a, &b, &summary("message:1"), &c, &summary("message:2"), &a]), ["[s]", "c", "a"]);
        assert_eq!(texts(&[&a, &b, &summary("message:1"), &c, &summary("message:1")]), ["[s]", "b", "c"]);
        let by_id = [said_as("1", "", "a"), said_as("2", "1", "b"), summary("2")];
        assert_eq!(texts(&by_id.iter().map(String::as_str).collect::<Vec<_>>()), ["[s]", "b"]);
    }

    #[test]
    fn the_branch_of_the_last_leaf_counts() {
        let lines = [said_as("1", "", "a"), said_as("2", "1", "b"), said_as("3", "1", "c"), said_as("4", "3", "d")];
        assert_eq!(texts(&lines.iter().map(String::as_str).collect::<Vec<_>>()), ["a", "c", "d"]);
        let mut back = lines.to_vec();
        back.push(r#"{"type":"leaf","targetId":"2"}"#.into());
        assert_eq!(texts(&back.iter().map(String::as_str).collect::<Vec<_>>()), ["a", "b"]);
        let circle = [said_as("1", "2", "a"), said_as("2", "1", "b")];
        assert_eq!(texts(&circle.iter().map(String::as_str).collect::<Vec<_>>()).len(), 2);
    }

    #[test]
    fn what_is_written_behind_entries_without_ids_follows_them() {
        let (a, b) = (said("a"), said("b"));
        // Ours behind the first version's; its again behind ours; and a parent that nobody knows.
        let ours = [said_as("1", "entry-1", "c"), said_as("2", "1", "d"), said("e"), said_as("3", "x", "f")];
        let mixed: Vec<&str> = [a.as_str(), &b].into_iter().chain(ours.iter().map(String::as_str)).collect();
        assert_eq!(texts(&mixed), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(texts(&[&a, &b, &said_as("1", "", "c")]), ["a", "b", "c"]);
        let loaded = load(format!("{HEADER}\n{a}\n{b}\n").as_bytes()).unwrap();
        assert_eq!(loaded.last_entry.as_deref(), Some("entry-1"), "the same whenever the file is opened");
        // A branch made later still leads back through them.
        let mut branched = mixed.clone();
        let other = said_as("4", "1", "g");
        branched.push(&other);
        assert_eq!(texts(&branched), ["a", "b", "c", "g"]);
    }

    #[test]
    fn a_cost_is_told_only_if_all_of_it_is_known() {
        let answer = |model: &str, cost: &str| {
            format!(
                r#"{{"type":"message","message":{{"role":"assistant","content":"a","provider":"OpenAI","model":"{model}","usage":{{"input_tokens":1000000,"output_tokens":0,"total_tokens":1000000{cost}}}}}}}"#
            )
        };
        let cost =
            |lines: &[String]| load(format!("{HEADER}\n{}\n", lines.join("\n")).as_bytes()).unwrap().totals.cost();
        assert_eq!(cost(&[]), None);
        assert_eq!(cost(&[answer("gpt-4o", ""), answer("nobody-knows", r#","cost":0.5"#)]), Some(3.0));
        assert_eq!(cost(&[answer("gpt-4o", ""), answer("nobody-knows", "")]), None);
    }

    #[test]
    fn the_last_information_counts() {
        let file = format!(
            "{HEADER}\n{}\n{}\n{}\n",
            r#"{"type":"session_info","name":"one","model":"n"}"#,
            r#"{"type":"session_info","name":"two"}"#,
            r#"{"type":"session_info","reasoningEffort":"high"}"#
        );
        let loaded = load(file.as_bytes()).unwrap();
        assert_eq!((loaded.name.as_deref(), loaded.model.as_deref()), (Some("two"), Some("n")));
        assert_eq!(loaded.effort.as_deref(), Some("high"));
        assert!(!loaded.is_used);
        let cleared = format!("{file}{}\n", r#"{"type":"session_info","name":null}"#);
        assert_eq!(load(cleared.as_bytes()).unwrap().name, None);
    }
}
