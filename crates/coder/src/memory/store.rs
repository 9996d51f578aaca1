//! `core.json`, `soft.jsonl` and `events.jsonl`: Kward's own files. Changes happen under a lock that other processes
//! respect, and replace a file whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use convoke_kward::results::{MemoryPaths, MemoryWhy};
use serde_json::{Map, Value, json};

use crate::clock;
use crate::environment::shown;
use crate::files::{self, Lock};

/// Memories of one kind that are kept. One more is refused, not stored in the place of another.
const MAX_MEMORIES: usize = 2000;

/// The longest memory, in characters.
const MAX_TEXT: usize = 2000;

/// Most tags of one.
const MAX_TAGS: usize = 10;

/// What stands where a memory stood.
const FORGOTTEN: &str = "[forgotten]";

/// Which of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Core,
    Soft,
}

impl Layer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Soft => "soft",
        }
    }
}

/// Where a new memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A person added it.
    Person,
    /// It was found in what they said.
    Inferred,
    /// It was soft before.
    Promoted,
}

/// Why a memory cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryError {
    #[error("Memory text cannot be empty")]
    Empty,
    #[error("Memory text is longer than {MAX_TEXT} characters")]
    TooLong,
    #[error("There are {MAX_MEMORIES} memories already. Forget some first.")]
    Full,
    #[error("Unknown active soft memory: {0}")]
    Unknown(String),
    #[error("Unknown core memory: {0}")]
    UnknownCore(String),
    #[error("Only workspace core memories can be promoted")]
    GlobalAlready,
    #[error("Only global core memories can be relaxed")]
    NotGlobal,
    #[error("Invalid Kward core memory JSON: {0}")]
    Broken(String),
    #[error("Memories cannot be read or written: {0}")]
    File(#[from] io::Error),
}

/// The files, and what was last retrieved from them.
#[derive(Debug)]
pub(crate) struct Memory {
    dir: PathBuf,
    pub(super) last: Mutex<Option<MemoryWhy>>,
}

impl Memory {
    pub(crate) fn new(config_dir: &Path) -> Self {
        Self { dir: config_dir.join("memory"), last: Mutex::default() }
    }

    pub(super) fn paths(&self) -> MemoryPaths {
        let path = |name: &str| shown(&self.dir.join(name));
        MemoryPaths { core: path("core.json"), soft: path("soft.jsonl"), events: path("events.jsonl") }
    }

    /// Makes the files that are not there yet.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let _lock = Lock::of_dir(&self.dir)?;
        for (name, content) in [("core.json", "[]\n"), ("soft.jsonl", ""), ("events.jsonl", "")] {
            let path = self.dir.join(name);
            if !path.exists() {
                files::replace_private(&path, content.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Memories that are kept without being asked about. What cannot be read is left out.
    pub(super) fn core(&self) -> Vec<Value> {
        let text = std::fs::read(self.dir.join("core.json")).unwrap_or_default();
        match serde_json::from_slice(&text) {
            Ok(Value::Array(memories)) => memories,
            Ok(Value::Object(mut map)) => match map.remove("memories") {
                Some(Value::Array(memories)) => memories,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Memories that come up when they fit, forgotten ones included.
    pub(super) fn soft(&self) -> Vec<Value> {
        let text = std::fs::read(self.dir.join("soft.jsonl")).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).filter(Value::is_object).collect()
    }

    pub(super) fn add(
        &self,
        layer: Layer,
        source: Source,
        text: &str,
        scope: &str,
        tags: &[String],
    ) -> Result<Value, MemoryError> {
        let text = cleaned(text);
        if text.is_empty() {
            return Err(MemoryError::Empty);
        }
        if text.chars().count() > MAX_TEXT {
            return Err(MemoryError::TooLong);
        }
        let _lock = Lock::of_dir(&self.dir)?;
        let mut memories = match layer {
            Layer::Core => self.whole_core()?,
            Layer::Soft => self.soft(),
        };
        if memories.len() >= MAX_MEMORIES {
            return Err(MemoryError::Full);
        }
        let memory = new_memory(layer, source, &next_id(layer, &memories), &text, scope, tags);
        match layer {
            Layer::Core => {
                memories.push(memory.clone());
                self.write(layer, &memories)?;
            }
            // Kward knows no lock: what it appends in this moment stays.
            Layer::Soft => self.append(&memory)?,
        }
        self.event("add", json!({ "id": memory["id"], "layer": layer.name(), "scope": scope, "tags": tags }))?;
        Ok(memory)
    }

    /// Core memories are removed; soft ones stay as an empty place, so that their number is not given again.
    pub(super) fn forget(&self, id: &str) -> Result<bool, MemoryError> {
        let _lock = Lock::of_dir(&self.dir)?;
        let mut core = self.whole_core()?;
        let before = core.len();
        core.retain(|memory| memory["id"] != id);
        if core.len() < before {
            self.write(Layer::Core, &core)?;
            self.event("forget", json!({ "id": id, "layer": "core" }))?;
            return Ok(true);
        }
        let mut soft = self.soft();
        let Some(memory) = soft.iter_mut().find(|memory| memory["id"] == id && is_active(memory)) else {
            return Ok(false);
        };
        blank(memory);
        self.write(Layer::Soft, &soft)?;
        self.event("forget", json!({ "id": id, "layer": "soft" }))?;
        Ok(true)
    }

    pub(super) fn promote(&self, id: &str) -> Result<Value, MemoryError> {
        let _lock = Lock::of_dir(&self.dir)?;
        let (mut core, mut soft) = (self.whole_core()?, self.soft());
        if let Some(memory) = core.iter_mut().find(|memory| memory["id"] == id) {
            if !memory["scope"].as_str().is_some_and(|scope| scope.starts_with("workspace:")) {
                return Err(MemoryError::GlobalAlready);
            }
            let memory = moved(memory, "global");
            self.write(Layer::Core, &core)?;
            self.event("promote", of_core(&memory))?;
            return Ok(memory);
        }
        let Some(memory) = soft.iter_mut().find(|memory| memory["id"] == id && is_active(memory)) else {
            return Err(MemoryError::Unknown(id.to_owned()));
        };
        let text = memory["text"].as_str().unwrap_or_default().to_owned();
        let scope = memory["scope"].as_str().unwrap_or("global").to_owned();
        let tags: Vec<String> = serde_json::from_value(memory["tags"].clone()).unwrap_or_default();
        let new = new_memory(Layer::Core, Source::Promoted, &next_id(Layer::Core, &core), &text, &scope, &tags);
        core.push(new.clone());
        blank(memory);
        // The new one first: a crash in between leaves it twice rather than not at all.
        self.write(Layer::Core, &core)?;
        self.write(Layer::Soft, &soft)?;
        self.event("promote", json!({ "from_id": id, "to_id": new["id"] }))?;
        Ok(new)
    }

    /// A core memory for everywhere counts in one workspace from now on.
    pub(super) fn relax(&self, id: &str, scope: &str) -> Result<Value, MemoryError> {
        let _lock = Lock::of_dir(&self.dir)?;
        let mut core = self.whole_core()?;
        let Some(memory) = core.iter_mut().find(|memory| memory["id"] == id) else {
            return Err(MemoryError::UnknownCore(id.to_owned()));
        };
        if memory["scope"].as_str().is_some_and(|scope| scope != "global") {
            return Err(MemoryError::NotGlobal);
        }
        let memory = moved(memory, scope);
        self.write(Layer::Core, &core)?;
        self.event("relax", of_core(&memory))?;
        Ok(memory)
    }

    /// These have come up: they live longer for it.
    pub(super) fn touch(&self, ids: &[String]) -> io::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let _lock = Lock::of_dir(&self.dir)?;
        let mut soft = self.soft();
        for memory in soft.iter_mut().filter(|memory| ids.iter().any(|id| memory["id"] == id.as_str())) {
            memory["hits"] = (memory["hits"].as_u64().unwrap_or(0) + 1).into();
            memory["last_seen_at"] = clock::now_text().into();
        }
        self.write(Layer::Soft, &soft)
    }

    /// Appends to the record of what happened to memories.
    pub(super) fn event(&self, kind: &str, facts: Value) -> io::Result<()> {
        let mut event = Map::new();
        event.insert("type".into(), kind.into());
        event.insert("timestamp".into(), clock::now_text().into());
        if let Value::Object(facts) = facts {
            event.extend(facts);
        }
        let mut line = Value::Object(event).to_string().into_bytes();
        line.push(b'\n');
        files::append_private(&self.dir.join("events.jsonl"), &line)
    }

    /// The core memories, in order to change them. A file that is there and cannot be read (Kward may be in the middle of
    /// writing it) is not taken for an empty one: that would be its end.
    fn whole_core(&self) -> Result<Vec<Value>, MemoryError> {
        let path = self.dir.join("core.json");
        match std::fs::read(&path) {
            Ok(text) if serde_json::from_slice::<Value>(&text).is_err() => Err(MemoryError::Broken(shown(&path))),
            Ok(_) => Ok(self.core()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends a soft memory, behind a line that somebody may have left half-written.
    fn append(&self, memory: &Value) -> io::Result<()> {
        let path = self.dir.join("soft.jsonl");
        let is_torn = std::fs::read(&path).is_ok_and(|text| text.last().is_some_and(|last| *last != b'\n'));
        let line = format!("{}{memory}\n", if is_torn { "\n" } else { "" });
        files::append_private(&path, line.as_bytes())
    }

    fn write(&self, layer: Layer, memories: &[Value]) -> io::Result<()> {
        match layer {
            Layer::Core => {
                let mut text = serde_json::to_vec_pretty(memories)?;
                text.push(b'\n');
                files::replace_private(&self.dir.join("core.json"), &text)
            }
            Layer::Soft => {
                let text: String = memories.iter().map(|memory| format!("{memory}\n")).collect();
                files::replace_private(&self.dir.join("soft.jsonl"), text.as_bytes())
            }
        }
    }
}

/// Whether a soft memory has not been forgotten.
pub(super) fn is_active(memory: &Value) -> bool {
    memory["status"].as_str().unwrap_or("active") == "active"
}

/// Gives a memory another scope.
fn moved(memory: &mut Value, scope: &str) -> Value {
    memory["scope"] = scope.into();
    memory["updated_at"] = clock::now_text().into();
    memory.clone()
}

fn of_core(memory: &Value) -> Value {
    json!({ "id": memory["id"], "layer": "core", "scope": memory["scope"], "tags": memory["tags"] })
}

fn blank(memory: &mut Value) {
    memory["status"] = "forgotten".into();
    memory["text"] = FORGOTTEN.into();
    memory["tags"] = json!([]);
    memory["confidence"] = 0.into();
    memory["hits"] = 0.into();
    memory["updated_at"] = clock::now_text().into();
}

fn next_id(layer: Layer, memories: &[Value]) -> String {
    let number = |memory: &Value| memory["id"].as_str()?.rsplit('_').next()?.parse::<u64>().ok();
    let last = memories.iter().filter_map(number).max().unwrap_or(0);
    format!("{}_{:03}", layer.name(), last + 1)
}

fn new_memory(layer: Layer, source: Source, id: &str, text: &str, scope: &str, tags: &[String]) -> Value {
    let now = clock::now_text();
    match layer {
        Layer::Core => json!({
            "id": id, "text": text, "scope": scope, "tags": tags, "created_at": now, "updated_at": now,
            "source": if source == Source::Promoted { "promoted_soft_memory" } else { "explicit_user_instruction" },
            "pinned": true,
        }),
        Layer::Soft => json!({
            "id": id, "text": text, "scope": scope, "tags": tags,
            "confidence": if source == Source::Inferred { 0.55 } else { 0.65 },
            "hits": 0, "created_at": now, "updated_at": now, "last_seen_at": now, "ttl_days": 60,
            "source": if source == Source::Inferred { "inferred" } else { "manual" }, "status": "active",
        }),
    }
}

/// A text as it is kept: one line, without a preamble, beginning with a capital.
pub(super) fn cleaned(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.starts_with("[workspace:")
        && let Some(end) = text.find(']')
    {
        text = text[end + 1..].trim_start().to_owned();
    }
    const PREAMBLES: [&str; 6] =
        ["please remember that ", "please remember ", "remember that ", "remember: ", "remember ", "note that "];
    for preamble in PREAMBLES {
        if text.get(..preamble.len()).is_some_and(|start| start.eq_ignore_ascii_case(preamble)) {
            text = text[preamble.len()..].trim_start().to_owned();
            break;
        }
    }
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => text,
    }
}

/// Tags from a list or from one text: apart at commas and spaces, each once, ten at most.
pub(super) fn tags(given: Option<&Value>) -> Vec<String> {
    let texts: Vec<&str> = match given {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut tags: Vec<String> = Vec::new();
    for tag in texts.iter().flat_map(|text| text.split([',', ' '])).map(str::trim).filter(|tag| !tag.is_empty()) {
        if tags.len() < MAX_TAGS && !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(memory: &Memory, layer: Layer, text: &str) -> Value {
        memory.add(layer, Source::Person, text, "global", &[]).unwrap()
    }

    #[test]
    fn numbers_are_never_given_twice() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        assert_eq!(add(&memory, Layer::Soft, "a")["id"], "soft_001");
        assert!(memory.forget("soft_001").unwrap());
        assert!(!memory.forget("soft_001").unwrap(), "it is gone");
        assert_eq!(add(&memory, Layer::Soft, "b")["id"], "soft_002");
        let blank = &memory.soft()[0];
        assert_eq!(
            (&blank["text"], &blank["confidence"], &blank["tags"]),
            (&json!("[forgotten]"), &json!(0), &json!([]))
        );
        assert_eq!(memory.promote("soft_002").unwrap()["id"], "core_001");
        assert_eq!(memory.core()[0]["source"], "promoted_soft_memory");
        let why = memory.promote("soft_002").unwrap_err().to_string();
        assert_eq!(why, "Unknown active soft memory: soft_002");
        assert!(memory.forget("core_001").unwrap() && memory.core().is_empty());
        assert_eq!(
            memory.add(Layer::Core, Source::Person, "  ", "global", &[]).unwrap_err().to_string(),
            "Memory text cannot be empty"
        );
        let events = std::fs::read_to_string(dir.path().join("memory/events.jsonl")).unwrap();
        let kinds: Vec<Value> =
            events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
        assert_eq!(kinds, ["add", "forget", "add", "promote", "forget"]);
    }

    #[test]
    fn a_core_memory_goes_from_a_workspace_to_everywhere_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        memory.add(Layer::Core, Source::Person, "x", "workspace:/w", &["t".into()]).unwrap();
        let why = |result: Result<Value, MemoryError>| result.unwrap_err().to_string();
        assert_eq!(why(memory.relax("core_001", "workspace:/v")), "Only global core memories can be relaxed");
        assert_eq!(memory.promote("core_001").unwrap()["scope"], "global");
        assert_eq!(why(memory.promote("core_001")), "Only workspace core memories can be promoted");
        assert_eq!(memory.relax("core_001", "workspace:/v").unwrap()["scope"], "workspace:/v");
        assert_eq!(memory.core()[0]["scope"], "workspace:/v");
        assert_eq!(why(memory.relax("core_009", "workspace:/v")), "Unknown core memory: core_009");
        let events = std::fs::read_to_string(dir.path().join("memory/events.jsonl")).unwrap();
        let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["type"], &last["id"], &last["layer"]),
            (&json!("relax"), &json!("core_001"), &json!("core"))
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        add(&memory, Layer::Core, "a");
        let path = dir.path().join("memory/core.json");
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let why = memory.add(Layer::Core, Source::Person, "b", "global", &[]).unwrap_err().to_string();
        assert!(why.starts_with("Invalid Kward core memory JSON: "), "{why}");
        assert!(memory.forget("core_001").is_err() && memory.core().is_empty());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole[..whole.len() / 2]);
        // A soft one is appended, and a torn line costs only itself.
        add(&memory, Layer::Soft, "a");
        files::append_private(&dir.path().join("memory/soft.jsonl"), b"{\"id\":\"so").unwrap();
        add(&memory, Layer::Soft, "b");
        let ids: Vec<Value> = memory.soft().iter().map(|memory| memory["id"].clone()).collect();
        assert_eq!(ids, ["soft_001", "soft_002"]);
    }

    #[test]
    fn texts_and_tags_are_put_in_order() {
        assert_eq!(cleaned("  please remember that\n we use tabs"), "We use tabs");
        assert_eq!(cleaned("[workspace:/x y] note that é"), "É");
        assert_eq!(cleaned("Remember: tests first"), "Tests first");
        assert_eq!(tags(Some(&json!("a, b a"))), ["a", "b"]);
        assert_eq!(tags(Some(&json!(["x y", "x", 5]))), ["x", "y"]);
        assert_eq!(tags(Some(&json!((0..20).map(|n| n.to_string()).collect::<Vec<_>>()))).len(), 10);
    }

    #[test]
    fn both_forms_of_the_core_file_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new(dir.path());
        memory.prepare().unwrap();
        std::fs::write(dir.path().join("memory/core.json"), r#"{"memories":[{"id":"core_007","text":"x"}]}"#)
            .unwrap();
        assert_eq!(add(&memory, Layer::Core, "y")["id"], "core_008");
        std::fs::write(dir.path().join("memory/soft.jsonl"), "garbage\n{\"id\":\"soft_003\"}\n").unwrap();
        assert_eq!(add(&memory, Layer::Soft, "y")["id"], "soft_004");
    }
}
