//! The sessions of a workspace, newest first, children under their parents.
//!
//! Each listing may be a new process, so the facts of each file are kept in an index beside the files, with the file's
//! size and time. An entry whose size or time differs is made again; losing the index loses nothing.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use convoke_kward::results::ListedSession;
use serde::{Deserialize, Serialize};

use super::file::MAX_BYTES;
use super::scan::{Info, scan};
use crate::clock;
use crate::environment::shown;
use crate::files;

const INDEX: &str = ".convoke-index.json";

/// The version of the index; one of another version is made again.
const INDEX_VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Index<T> {
    version: u32,
    files: T,
}

/// The facts of a file, with its size and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u128,
    /// `None` for a file that is no session.
    info: Option<Info>,
}

struct Found {
    path: PathBuf,
    modified: u128,
    modified_at: String,
    info: Info,
}

/// The newest sessions of a workspace's folder.
pub(crate) fn list(dir: &Path, workspace: &str, limit: usize) -> io::Result<Vec<ListedSession>> {
    let mut candidates = candidates(dir)?;
    candidates.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    let index = read_index(dir);
    let mut fresh = index.clone();
    let mut found = Vec::new();
    for (name, modified, bytes) in candidates.iter().cloned() {
        if found.len() == limit {
            break;
        }
        let path = dir.join(&name);
        let known = index.get(&name).filter(|known| known.bytes == bytes && known.modified == modified);
        let info = match known {
            Some(known) => known.info.clone(),
            None => {
                if bytes > MAX_BYTES {
                    continue;
                }
                let Ok(content) = fs::read(&path) else { continue };
                let info = scan(&content, &path);
                // A file that grew in between is looked at again next time.
                let known = Known { bytes: content.len() as u64, modified, info: info.clone() };
                fresh.insert(name.clone(), known);
                info
            }
        };
        let Some(mut info) = info else { continue };
        if info.cwd.is_empty() {
            info.cwd = workspace.to_owned();
        }
        let time = UNIX_EPOCH + std::time::Duration::from_nanos(u64::try_from(modified).unwrap_or(u64::MAX));
        found.push(Found { path, modified, modified_at: clock::of(time).to_string(), info });
    }
    fresh.retain(|name, _| candidates.iter().any(|(candidate, ..)| candidate == name));
    if fresh != index {
        write_index(dir, &fresh);
    }
    Ok(tree(found))
}

fn candidates(dir: &Path) -> io::Result<Vec<(String, u128, u64)>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let candidate = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| name.ends_with(".jsonl"))?;
        let metadata = entry.metadata().ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        Some((name, modified, metadata.len()))
    };
    Ok(entries.flatten().filter_map(candidate).collect())
}

fn read_index(dir: &Path) -> BTreeMap<String, Known> {
    let bytes = fs::read(dir.join(INDEX)).unwrap_or_default();
    let index = serde_json::from_slice::<Index<BTreeMap<String, Known>>>(&bytes).ok();
    index.filter(|index| index.version == INDEX_VERSION).map(|index| index.files).unwrap_or_default()
}

/// A failure is ignored: nothing depends on it.
fn write_index(dir: &Path, index: &BTreeMap<String, Known>) {
    if let Ok(bytes) = serde_json::to_vec(&Index { version: INDEX_VERSION, files: index }) {
        let _ = files::replace_private(&dir.join(INDEX), &bytes);
    }
}

/// Puts children under their parents where those are in the list.
fn tree(found: Vec<Found>) -> Vec<ListedSession> {
    let by_path: HashMap<String, usize> = found.iter().enumerate().map(|(at, one)| (shown(&one.path), at)).collect();
    let by_id: HashMap<&str, usize> = found.iter().enumerate().map(|(at, one)| (one.info.id.as_str(), at)).collect();
    let parent = |at: usize| {
        let info = &found[at].info;
        let by_path = info.parent_path.as_ref().and_then(|path| by_path.get(path));
        let parent = by_path.or_else(|| by_id.get(info.parent_id.as_deref()?)).copied();
        parent.filter(|parent| *parent != at)
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
    let mut roots = Vec::new();
    for at in 0..found.len() {
        match parent(at).filter(|_| leads_to_a_root(at, &parent)) {
            Some(parent) => children[parent].push(at),
            None => roots.push(at),
        }
    }
    for siblings in children.iter_mut().chain([&mut roots]) {
        siblings.sort_by_key(|at| std::cmp::Reverse(found[*at].modified));
    }
    let mut out = Vec::new();
    let mut waiting: Vec<(usize, u32, bool, Vec<bool>)> = Vec::new();
    let push = |waiting: &mut Vec<_>, siblings: &[usize], depth: u32, continues: &[bool]| {
        for (index, at) in siblings.iter().enumerate().rev() {
            waiting.push((*at, depth, index + 1 == siblings.len(), continues.to_vec()));
        }
    };
    push(&mut waiting, &roots, 0, &[]);
    while let Some((at, depth, is_last, ancestor_continues)) = waiting.pop() {
        let mut continues = ancestor_continues.clone();
        if depth >= 1 {
            continues.push(!is_last);
        }
        out.push(shown_as(&found[at], depth, is_last, ancestor_continues));
        push(&mut waiting, &children[at], depth + 1, &continues);
    }
    out
}

/// Files that name each other as parent count as having none.
fn leads_to_a_root(start: usize, parent: &dyn Fn(usize) -> Option<usize>) -> bool {
    let (mut slow, mut fast) = (start, start);
    loop {
        let Some(next) = parent(fast).and_then(parent) else { return true };
        fast = next;
        slow = parent(slow).unwrap_or(slow);
        if slow == fast {
            return false;
        }
    }
}

fn shown_as(one: &Found, depth: u32, is_last: bool, ancestor_continues: Vec<bool>) -> ListedSession {
    let info = one.info.clone();
    ListedSession {
        id: info.id,
        path: shown(&one.path),
        workspace_root: info.cwd.clone(),
        cwd: info.cwd,
        created_at: info.created_at,
        modified_at: one.modified_at.clone(),
        name: info.name,
        first_message: info.first_message,
        message_count: info.message_count,
        parent_id: info.parent_id,
        parent_path: info.parent_path,
        depth,
        is_last,
        ancestor_continues,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, parent: Option<&str>, modified: u128) -> Found {
        let info = Info { id: name.into(), parent_id: parent.map(str::to_owned), ..Info::default() };
        Found { path: PathBuf::from(name), modified, modified_at: String::new(), info }
    }

    #[track_caller]
    fn check(found: Vec<Found>, expect: &[&str]) {
        let shown = |row: &ListedSession| {
            let continues: String = row.ancestor_continues.iter().map(|c| if *c { '|' } else { '.' }).collect();
            format!("{}{}{}{continues}", row.depth, row.id, if row.is_last { "$" } else { "" })
        };
        assert_eq!(tree(found).iter().map(shown).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn children_stand_under_their_parents() {
        check(
            vec![
                one("a", None, 9),
                one("b", Some("a"), 5),
                one("c", Some("a"), 7),
                one("d", Some("c"), 1),
                one("e", Some("b"), 2),
                one("z", Some("elsewhere"), 8),
            ],
            &["0a", "1c", "2d$|", "1b$", "2e$.", "0z$"],
        );
    }

    #[test]
    fn a_circle_of_parents_is_no_reason_to_hang() {
        check(vec![one("a", Some("b"), 2), one("b", Some("a"), 1), one("c", Some("c"), 3)], &["0c", "0a", "0b$"]);
    }

    #[test]
    fn a_list_is_kept_and_noticed_to_be_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let header = r#"{"type":"session","id":"u","timestamp":"t","cwd":"/w"}"#;
        fs::write(&path, format!("{header}\n")).unwrap();
        fs::write(dir.path().join("other.jsonl"), "no session\n").unwrap();
        assert_eq!(list(dir.path(), "/w", 20).unwrap()[0].message_count, 0);
        assert!(dir.path().join(INDEX).exists());
        let said = r#"{"type":"message","message":{"role":"user","content":"hello"}}"#;
        fs::write(&path, format!("{header}\n{said}\n")).unwrap();
        let listed = list(dir.path(), "/w", 20).unwrap();
        assert_eq!((listed.len(), listed[0].first_message.as_str()), (1, "hello"));
        for other in ["garbage", r#"{"a.jsonl":{"bytes":1,"modified":1,"info":null}}"#, r#"{"version":1,"files":{}}"#]
        {
            fs::write(dir.path().join(INDEX), other).unwrap();
            assert_eq!(list(dir.path(), "/w", 20).unwrap()[0].message_count, 1);
        }
    }
}
