//! What a list shows of a file, without building its conversation.

use convoke_kward::transcript::{Role, Stored, summary_of};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

use super::load;
use super::record::Line;

/// How much of a first message is shown.
const SHOWN_CHARS: usize = 120;

/// What a list shows of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Info {
    pub(crate) id: String,
    pub(crate) created_at: String,
    pub(crate) cwd: String,
    pub(crate) name: Option<String>,
    pub(crate) first_message: String,
    pub(crate) message_count: u64,
    pub(crate) parent_id: Option<String>,
    pub(crate) parent_path: Option<String>,
}

/// As much of a message as counting needs.
#[derive(Deserialize)]
struct Light<'a> {
    #[serde(default, borrow)]
    role: Cow<'a, str>,
}

/// Looks through a file; `None` for what is no session.
pub(crate) fn scan(bytes: &[u8], path: &Path) -> Option<Info> {
    let mut info: Option<Info> = None;
    let mut first: Option<String> = None;
    let mut count = 0u64;
    let mut previous: Option<Cow<'_, str>> = None;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(line) = Line::parse(line) else { continue };
        let Some(info) = &mut info else {
            // A file that begins with something else may have its header further down, or have lost it.
            match from_header(&line).filter(|_| line.kind == "session") {
                Some(found) => info = Some(found),
                None => return whole(bytes, path),
            }
            continue;
        };
        match line.kind.as_ref() {
            "message" => {
                // More than one branch, or a summary in the place of others: the whole conversation has to be built.
                if line.id.is_some() && line.parent_id != previous {
                    return whole(bytes, path);
                }
                let Some(message) = line.message else { continue };
                let Ok(light) = serde_json::from_str::<Light<'_>>(message.get()) else { continue };
                previous = line.id.or(previous);
                match light.role.as_ref() {
                    "user" | "compactionSummary" if first.is_none() => {
                        count += 1;
                        first =
                            serde_json::from_str::<Stored>(message.get()).ok().map(|message| first_text(&message));
                    }
                    "user" | "assistant" | "tool" | "toolResult" | "compactionSummary" => count += 1,
                    _ => {}
                }
            }
            "compaction" | "leaf" | "branch_summary" => return whole(bytes, path),
            "session_info" => {
                if let Some(name) = line.name {
                    info.name = name.filter(|name| !name.trim().is_empty());
                }
            }
            _ => {}
        }
    }
    let mut info = info?;
    info.first_message = first.unwrap_or_default();
    info.message_count = count;
    Some(info)
}

fn whole(bytes: &[u8], path: &Path) -> Option<Info> {
    let loaded = load::load_at(bytes, path)?;
    let counts = |role: Role| matches!(role, Role::User | Role::Assistant | Role::Tool | Role::Summary);
    let first = loaded.items.iter().find(|item| matches!(item.message.role(), Role::User | Role::Summary));
    Some(Info {
        first_message: first.map(|item| first_text(&item.message)).unwrap_or_default(),
        message_count: loaded.items.iter().filter(|item| counts(item.message.role())).count() as u64,
        name: loaded.name,
        id: loaded.header.id,
        created_at: loaded.header.timestamp,
        cwd: loaded.header.cwd,
        parent_id: loaded.header.parent_id,
        parent_path: loaded.header.parent_path,
    })
}

fn first_text(message: &Stored) -> String {
    match message.role() {
        Role::Summary => compact(summary_of(message)),
        _ => compact(&message.display_text()),
    }
}

fn from_header(line: &Line<'_>) -> Option<Info> {
    let own = |text: &Option<Cow<'_, str>>| text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(Info {
        id: own(&line.id)?,
        created_at: own(&line.timestamp).unwrap_or_default(),
        cwd: own(&line.cwd).unwrap_or_default(),
        parent_id: own(&line.parent_id),
        parent_path: own(&line.parent_path),
        ..Info::default()
    })
}

/// A text in one line, shortened for display.
pub(crate) fn compact(text: &str) -> String {
    let mut out = String::new();
    let mut left = SHOWN_CHARS;
    for word in text.split_whitespace() {
        let space = usize::from(!out.is_empty());
        if left <= space {
            break;
        }
        if space == 1 {
            out.push(' ');
        }
        let before = out.chars().count();
        out.extend(word.chars().take(left - space));
        left = left - space - (out.chars().count() - before);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"type":"session","version":1,"id":"u","timestamp":"t","cwd":"/w","parentId":"p"}"#;

    #[test]
    fn a_file_is_told_in_one_line() {
        let file = [
            HEADER,
            r#"{"type":"session_info","name":"n"}"#,
            r#"{"type":"message","message":{"role":"user","content":"long  \n text","display_content":"/plan x"}}"#,
            r#"{"type":"message","message":{"role":"assistant","content":"a"}}"#,
            r#"{"type":"tool_execution_end","toolCallId":"c"}"#,
            r#"{"type":"message","message":{"role":"tool","content":"a"}}"#,
            r#"{"type":"message","message":{"role":"user","content":"later"}}"#,
            r#"{"type":"mess"#,
        ];
        let info = scan(file.join("\n").as_bytes(), Path::new("s.jsonl")).unwrap();
        assert_eq!((info.first_message.as_str(), info.message_count), ("/plan x", 4));
        assert_eq!((info.name.as_deref(), info.parent_id.as_deref()), (Some("n"), Some("p")));
        assert_eq!(scan(b"nonsense", Path::new("s.jsonl")), None);
    }

    #[test]
    fn after_a_compaction_only_what_is_left_counts() {
        let said = r#"{"type":"message","message":{"role":"user","content":"x"}}"#;
        let cut = r#"{"type":"compaction","message":{"role":"compactionSummary","summary":"so far","first_kept_entry_id":"message:2"}}"#;
        let info = scan([HEADER, said, said, said, cut, said].join("\n").as_bytes(), Path::new("s.jsonl")).unwrap();
        assert_eq!((info.first_message.as_str(), info.message_count), ("so far", 3));
        // Kward's copies of a compacted session have the summary as a message.
        let copied = r#"{"type":"message","message":{"role":"compactionSummary","summary":"so  far"}}"#;
        let info = scan([HEADER, copied, said].join("\n").as_bytes(), Path::new("s.jsonl")).unwrap();
        assert_eq!((info.first_message.as_str(), info.message_count), ("so far", 2));
    }

    #[test]
    fn texts_are_shortened_to_one_line() {
        assert_eq!(compact(" a \n\t b "), "a b");
        assert_eq!(compact(&"é".repeat(200)), "é".repeat(120));
        let words = compact(&"word ".repeat(60));
        assert!(words.chars().count() <= 120 && words.starts_with("word word"), "{words}");
    }
}
