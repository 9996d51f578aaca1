//! `fs_search`: names that contain a text, anywhere below a folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::{files, text};
use crate::ToolError;
use crate::facts::Facts;
use crate::open;

/// Folders that are not entered on the way: what is below changes while one looks, and has no end of links to itself.
/// A search that starts there is not stopped.
const PSEUDO: [&str; 2] = ["/proc", "/sys"];

/// Most folders that wait for their turn.
const MAX_WAITING: usize = 200_000;

/// Breadth first, so that what is found before a limit is reached is what is nearest. Ends at the first limit (hits,
/// entries, four fifths of the time) with what it has, and says so.
pub(super) fn search(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let root = files::path(args, "root")?;
    let pattern = text(args, "pattern")?.to_lowercase();
    // The folder that was asked for must be readable; one on the way may not be.
    let folder =
        open::folder(root, facts.rules.as_deref()).map_err(|error| ToolError::open(root.display(), &error))?;
    folder.entries().map_err(|error| ToolError::io(root.display(), &error))?;

    let deadline = Instant::now().checked_add(facts.patience.mul_f64(0.8));
    let mut walk = Walk { waiting: VecDeque::from([root.to_owned()]), entries: 0, cut_short: false };
    let mut matches = Vec::new();
    while let Some(folder) = walk.waiting.pop_front() {
        let late = deadline.is_some_and(|deadline| Instant::now() > deadline);
        if facts.stopped() || late || walk.entries > facts.options.search_entries {
            walk.cut_short = true;
            break;
        }
        if !walk.look_into(&folder, &pattern, facts, &mut matches) {
            break;
        }
    }
    let mut result = json!({"matches": matches});
    if walk.cut_short {
        result["truncated"] = true.into();
    }
    Ok(result)
}

struct Walk {
    waiting: VecDeque<PathBuf>,
    entries: usize,
    cut_short: bool,
}

impl Walk {
    /// Looks into one folder, unless a rule protects it. False when there are enough hits.
    fn look_into(&mut self, folder: &Path, pattern: &str, facts: &Facts, matches: &mut Vec<String>) -> bool {
        let Ok(opened) = open::folder(folder, facts.rules.as_deref()) else { return true };
        let Ok(entries) = opened.entries() else { return true };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > facts.options.search_entries || (self.entries.is_multiple_of(1024) && facts.stopped()) {
                self.cut_short = true;
                return false;
            }
            let name = entry.file_name();
            if name.to_string_lossy().to_lowercase().contains(pattern) {
                if matches.len() >= facts.options.search_hits {
                    self.cut_short = true;
                    return false;
                }
                matches.push(folder.join(&name).to_string_lossy().into_owned());
            }
            // `file_type` does not follow links, so a link to a folder is no folder here.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = folder.join(&name);
                if PSEUDO.iter().any(|pseudo| path == Path::new(pseudo)) {
                    continue;
                }
                if self.waiting.len() < MAX_WAITING {
                    self.waiting.push_back(path);
                } else {
                    self.cut_short = true;
                }
            }
        }
        true
    }
}
