//! The system prompt: the model's role, the person's and the project's rules, memories, and the list of skills.

use std::fmt::Write as _;
use std::path::Path;

use convoke_toolbox::skills;

use crate::backend::Backend;
use crate::config::Config;
use crate::environment::shown;
use crate::files;
use crate::sessions::live::Live;

/// How much of a file of rules is read.
const MAX_RULES: u64 = 32 * 1024;

const BASE: &str = "You are a coding assistant working in the person's own workspace with tools that read and change \
files and run commands. Look before you change something, prefer small and complete changes, check your work with the \
project's own tests where there are some, and say plainly what you did and what you did not.";

impl Backend {
    /// The instructions of a turn. The files are read each time, so that a changed rule applies at once.
    pub(crate) fn instructions(&self, live: &Live, config: &Config, input: &str) -> String {
        let mut out = format!("{BASE}\n\nWorkspace: {}\nPlatform: {}", shown(&live.root), std::env::consts::OS);
        add(&mut out, &self.rules());
        let (retrieval, block) = self.remember(config, &live.root, input);
        live.state().last_retrieval = Some(retrieval);
        add(&mut out, &block);
        add(&mut out, &self.skill_list());
        add(&mut out, &rules_in(&live.root));
        out
    }

    fn rules(&self) -> String {
        files::read_text_up_to(&self.paths.dir.join("AGENTS.md"), MAX_RULES).unwrap_or_default()
    }

    fn skill_list(&self) -> String {
        let skills = skills::discover(&self.paths.dir.join("skills"));
        if skills.is_empty() {
            return String::new();
        }
        let mut out = String::from("Skills that can be read with read_skill when they fit the task:\n");
        for skill in skills {
            // Writing into a `String` does not fail.
            let _ = writeln!(out, "- {}: {}", skill.name, skill.description);
        }
        out
    }

    /// Whether there are rules to show at the start: the person's own or the workspace's.
    pub(crate) fn has_rules(&self, root: &Path) -> bool {
        !self.rules().trim().is_empty() || !rules_in(root).trim().is_empty()
    }
}

fn rules_in(root: &Path) -> String {
    files::read_text_up_to(&root.join("AGENTS.md"), MAX_RULES).unwrap_or_default()
}

fn add(out: &mut String, part: &str) {
    let part = part.trim();
    if !part.is_empty() {
        out.push_str("\n\n");
        out.push_str(part);
    }
}
