//! The largest directories, found with a bounded look.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Volume;
use crate::facts::Facts;

/// A directory deeper than this counts to its ancestor there.
const DEPTH: usize = 4;

/// A directory is left out for the one below it that holds this much of it: that one tells more.
const DOMINATED: f64 = 0.8;

/// What was found holds this long. Looking costs more than anything else in a snapshot, and what is large stays so.
const AGE: Duration = Duration::from_secs(6 * 60 * 60);

/// `top_dirs`, and whether everything was looked at (`complete`).
pub(super) fn section_fields(facts: &Facts, volumes: &[Volume]) -> Value {
    if facts.options.top_dirs == 0 || volumes.is_empty() {
        return json!({"top_dirs": [], "complete": true});
    }
    let find = || {
        let starts: Vec<&Path> = volumes.iter().map(|volume| Path::new(&volume.mount)).collect();
        let (dirs, complete) = largest(facts, &starts);
        let dirs: Vec<_> = dirs.iter().map(|(path, bytes)| json!({"path": path, "bytes": bytes})).collect();
        Some(json!({"top_dirs": dirs, "complete": complete}))
    };
    facts.remembered.or_find("top_dirs", AGE, None, find).unwrap_or_default()
}

/// A directory down to [`DEPTH`], with what is in it.
struct Node {
    path: PathBuf,
    parent: Option<usize>,
    depth: usize,
    bytes: u64,
}

fn largest(facts: &Facts, starts: &[&Path]) -> (Vec<(String, u64)>, bool) {
    let options = &facts.options;
    let deadline = Instant::now() + options.top_dirs_time;
    // A part for each volume, so that a large first one does not hide the others.
    let share = (options.top_dirs_entries / starts.len()).max(1);
    let mut nodes: Vec<Node> = Vec::new();
    let mut complete = true;
    for start in starts {
        let Ok(device) = fs::metadata(start).map(|metadata| metadata.dev()) else { continue };
        nodes.push(Node { path: (*start).to_owned(), parent: None, depth: 0, bytes: 0 });
        let mut waiting = vec![((*start).to_owned(), nodes.len() - 1)];
        let mut entries = 0;
        while let Some((folder, node)) = waiting.pop() {
            if entries >= share || facts.stopped() || Instant::now() > deadline {
                complete = false;
                break;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries += 1;
                // Links are not followed: `metadata` of an entry is the entry's own.
                let Ok(metadata) = entry.metadata() else { continue };
                nodes[node].bytes += metadata.blocks() * 512;
                if !metadata.is_dir() || metadata.dev() != device {
                    continue;
                }
                let depth = nodes[node].depth + 1;
                let owner = if depth <= DEPTH {
                    nodes.push(Node { path: entry.path(), parent: Some(node), depth, bytes: 0 });
                    nodes.len() - 1
                } else {
                    node
                };
                waiting.push((entry.path(), owner));
            }
        }
    }
    // Children come after their parents, so one pass from the end gives every directory what is below it.
    for index in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[index].parent {
            nodes[parent].bytes += nodes[index].bytes;
        }
    }
    let mut dominated = vec![false; nodes.len()];
    for node in &nodes {
        if let Some(parent) = node.parent {
            dominated[parent] |= node.bytes as f64 >= nodes[parent].bytes as f64 * DOMINATED;
        }
    }
    let mut found: Vec<_> = nodes
        .iter()
        .zip(dominated)
        // A whole volume is no finding: its size stands under `volumes`.
        .filter(|(node, dominated)| !dominated && node.depth > 0 && node.bytes > 0)
        .map(|(node, _)| (node.path.to_string_lossy().into_owned(), node.bytes))
        .collect();
    found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    found.truncate(options.top_dirs);
    (found, complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::linux::tests::facts;

    #[test]
    fn the_directory_that_holds_it_is_named_and_not_all_those_above() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        let flat = folder.path().join("d");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(&flat).unwrap();
        fs::write(deep.join("big"), vec![1; 4 << 20]).unwrap();
        fs::write(flat.join("small"), vec![1; 1 << 20]).unwrap();
        // A link to everything adds nothing, and does not send the look round in circles.
        std::os::unix::fs::symlink(folder.path(), flat.join("loop")).unwrap();
        let (runtime, facts) = facts(Options::default());
        let (found, complete) = largest(&facts, &[folder.path()]);
        drop(runtime);
        let names: Vec<_> = found.iter().map(|(path, _)| PathBuf::from(path)).collect();
        assert_eq!(names, [deep, flat]);
        assert!(complete && found[0].1 >= 4 << 20 && found[0].1 < 5 << 20, "{found:?}");
    }

    #[test]
    fn the_look_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c", "d"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let (runtime, facts) = facts(Options { top_dirs_entries: 2, ..Options::default() });
        assert!(!largest(&facts, &[folder.path()]).1);
        drop(runtime);
    }
}
