//! The agent's own guard: what would wreck this machine is refused here, whoever asked and whatever the hub's guard said.
//!
//! Rules of the operator come by `policy` and can only add. So does what a hub of the field says of commands as such (all,
//! those of a list, none). Both are kept in files: an agent that starts anew must not be freer until its hub speaks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::guard::{AppliesTo, Guard, Hit, MAX_OPERATOR_RULES, Rule, RuleError, Surface, Whole};
use convoke_kenny::policy::{PolicyRule, ShellMode, ShellPolicy};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state::{StateError, read, write_whole};

/// Longest reason that is kept, in characters.
const MAX_REASON: usize = 500;

/// Which rule refuses a command that the hub's shell policy does not let run.
const SHELL_RULE: &str = "shell_policy";

/// Which rule refuses everything while the operators' rules are there and cannot be read.
const UNREADABLE_RULE: &str = "unreadable_rules";

/// The rules in force.
#[derive(Debug)]
pub(crate) struct AgentGuard {
    rules: Mutex<Guard>,
    shell: Mutex<Shell>,
    files: Files,
}

/// Where what the hub said is kept.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) rules: PathBuf,
    pub(crate) shell: PathBuf,
}

/// A shell policy, ready to be asked.
#[derive(Debug, Default)]
struct Shell {
    mode: ShellMode,
    allow: Vec<(AppliesTo, Whole)>,
}

impl Shell {
    /// With the ids of the rules that cannot be used. They allow nothing.
    fn new(policy: &ShellPolicy) -> (Self, Vec<(String, RuleError)>) {
        let mut refused = Vec::new();
        let mut allow = Vec::new();
        for rule in policy.allow.iter().take(MAX_OPERATOR_RULES) {
            match Whole::new(&rule.pattern) {
                Ok(pattern) => allow.push((rule.applies_to, pattern)),
                Err(why) => refused.push((rule.id.clone(), why)),
            }
        }
        refused
            .extend(policy.allow.iter().skip(MAX_OPERATOR_RULES).map(|rule| (rule.id.clone(), RuleError::TooMany)));
        (Self { mode: policy.mode, allow }, refused)
    }

    fn check(&self, group: AppliesTo, command: &str) -> Option<Hit> {
        let command = command.trim();
        let reason = match self.mode {
            ShellMode::Unrestricted => return None,
            ShellMode::Off => "shell execution is off by fleet policy",
            ShellMode::Allowlist if self.allow.iter().any(|(of, rule)| *of == group && rule.is_match(command)) => {
                return None;
            }
            ShellMode::Allowlist => "not permitted by the fleet shell allowlist",
        };
        Some(Hit { rule: SHELL_RULE.to_owned(), reason: reason.to_owned(), builtin: false })
    }
}

impl AgentGuard {
    /// With what was in force when the agent last heard of it. What cannot be read counts as the strictest: somebody has
    /// restricted this machine, and how is not known until the hub says it again.
    pub(crate) fn new(files: Files) -> Self {
        let rules = kept(&files.rules).unwrap_or_else(|| {
            tracing::error!(file = %files.rules.display(), "cannot read the operators' deny rules; refusing all commands and paths until the hub sends the rules again or the file is removed");
            AppliesTo::ALL.map(everything).to_vec()
        });
        let shell = kept(&files.shell).unwrap_or_else(|| {
            tracing::error!(file = %files.shell.display(), "cannot read the shell policy; running no command until the hub sends it again or the file is removed");
            ShellPolicy { mode: ShellMode::Off, allow: Vec::new() }
        });
        Self { rules: Mutex::new(guard(&rules).0), shell: Mutex::new(Shell::new(&shell).0), files }
    }

    /// Takes what the hub says of commands as such. Writes and compiles, so not on the runtime's thread.
    pub(crate) fn set_shell(&self, policy: &ShellPolicy) -> Vec<(String, RuleError)> {
        let (shell, refused) = Shell::new(policy);
        tracing::info!(mode = ?shell.mode, allowed = shell.allow.len(), "the hub's shell policy is in force");
        *self.shell.lock().unwrap_or_else(PoisonError::into_inner) = shell;
        if let Err(why) = keep(&self.files.shell, policy) {
            tracing::warn!(%why, "the shell policy is in force, but cannot be stored for the next start");
        }
        refused
    }

    /// Takes the operator's rules in place of those before, and returns those that cannot be used. Writes and compiles,
    /// so not on the runtime's thread.
    pub(crate) fn set_rules(&self, rules: &[PolicyRule]) -> Vec<(String, RuleError)> {
        let (guard, refused) = guard(rules);
        *self.rules() = guard;
        if let Err(why) = keep(&self.files.rules, &rules) {
            tracing::warn!(%why, "the operators' deny rules are in force, but cannot be stored for the next start");
        }
        refused
    }

    fn rules(&self) -> MutexGuard<'_, Guard> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rule that refuses a request with these texts, if one does: a deny rule, or for a command to a shell the shell
    /// policy. Matches, so not on the runtime's thread.
    pub(crate) fn check(&self, surfaces: &[Surface<'_>], shell_command: Option<(AppliesTo, &str)>) -> Option<Hit> {
        // A request without texts compiles nothing.
        let denied = if surfaces.is_empty() {
            None
        } else {
            let guard = self.rules().clone();
            guard.check(surfaces)
        };
        // Deny rules first: they name what is wrong with the command itself.
        denied.or_else(|| {
            let (group, command) = shell_command?;
            self.shell.lock().unwrap_or_else(PoisonError::into_inner).check(group, command)
        })
    }
}

/// What a hub said before, its default if it said nothing; none where it cannot be read.
fn kept<T: DeserializeOwned + Default>(file: &Path) -> Option<T> {
    match read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(StateError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => Some(T::default()),
        Err(_) => None,
    }
}

/// Writes what a hub said, unless the file says it already.
fn keep(file: &Path, said: &impl Serialize) -> Result<(), StateError> {
    let bytes = serde_json::to_vec(said).unwrap_or_default();
    if read(file).ok().is_some_and(|kept| kept == bytes) { Ok(()) } else { write_whole(file, &bytes) }
}

/// The builtin rules and these, and which of these cannot be used.
fn guard(rules: &[PolicyRule]) -> (Guard, Vec<(String, RuleError)>) {
    let rules: Vec<Rule> = rules.iter().map(rule).collect();
    if rules.is_empty() { (Guard::builtin(), Vec::new()) } else { Guard::with_received_rules(&rules) }
}

fn everything(applies_to: AppliesTo) -> PolicyRule {
    let reason = "the operators' deny rules cannot be read at this machine";
    PolicyRule { id: UNREADABLE_RULE.into(), applies_to, pattern: String::new(), reason: reason.into() }
}

fn rule(rule: &PolicyRule) -> Rule {
    let reason = match rule.reason.trim() {
        "" => "a rule of the operator".to_owned(),
        text => text.chars().take(MAX_REASON).collect(),
    };
    Rule {
        id: rule.id.chars().take(128).collect(),
        applies_to: rule.applies_to,
        pattern: rule.pattern.clone(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use convoke_kenny::tools::guard_surfaces;
    use serde_json::{Value, json};

    use super::*;
    use crate::calls::shell_command;

    fn at(dir: &tempfile::TempDir) -> AgentGuard {
        AgentGuard::new(Files { rules: dir.path().join("rules.json"), shell: dir.path().join("shell.json") })
    }

    fn policy(id: &str, pattern: &str) -> PolicyRule {
        PolicyRule { id: id.into(), applies_to: AppliesTo::Posix, pattern: pattern.into(), reason: String::new() }
    }

    fn check(guard: &AgentGuard, tool: &str, args: &Value) -> Option<Hit> {
        guard.check(&guard_surfaces(tool, args), shell_command(tool, args))
    }

    fn refused_by(guard: &AgentGuard, command: &str) -> Option<String> {
        check(guard, "shell_exec", &json!({ "command": command })).map(|hit| hit.rule)
    }

    #[test]
    fn operator_rules_only_add_are_replaced_as_a_whole_and_outlive_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let guard = at(&dir);
        assert!(refused_by(&guard, "rm -rf /").is_some());
        assert_eq!(refused_by(&guard, "nmap 10.0.0.1"), None);
        let bad = guard.set_rules(&[policy("no_nmap", "nmap"), policy("bad", "(")]);
        assert!(matches!(bad.as_slice(), [(id, _)] if id == "bad"), "{bad:?}");
        for guard in [guard, at(&dir)] {
            assert_eq!(refused_by(&guard, "nmap 10.0.0.1").as_deref(), Some("no_nmap"));
            assert!(refused_by(&guard, "rm -rf /").is_some());
        }
        assert!(at(&dir).set_rules(&[]).is_empty());
        let guard = at(&dir);
        assert_eq!(refused_by(&guard, "nmap 10.0.0.1"), None);
        assert!(refused_by(&guard, "rm -rf /").is_some(), "an empty policy leaves the builtin rules");
    }

    #[test]
    fn a_shell_policy_restricts_and_never_frees_and_outlives_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let guard = at(&dir);
        assert_eq!(refused_by(&guard, "uptime"), None);
        let list = ShellPolicy {
            mode: ShellMode::Allowlist,
            allow: vec![policy("a", "git (status|log)"), policy("all", "rm .*"), policy("bad", "a)|(?:b")],
        };
        let bad = guard.set_shell(&list);
        assert!(matches!(bad.as_slice(), [(id, _)] if id == "bad"), "{bad:?}");
        for _ in 0..2 {
            let guard = at(&dir);
            assert_eq!(refused_by(&guard, " git status\n"), None);
            for no in ["git status; id", "git status\nid", "id", "b", ""] {
                assert_eq!(refused_by(&guard, no).as_deref(), Some(SHELL_RULE), "{no:?}");
            }
            assert_ne!(refused_by(&guard, "rm -rf /").as_deref(), None, "a list frees nothing that is denied");
            assert_ne!(refused_by(&guard, "rm -rf /").as_deref(), Some(SHELL_RULE));
            let script = json!({ "script": "git status" });
            assert!(check(&guard, "powershell_exec", &script).is_some(), "a list is for its own shell");
            assert!(check(&guard, "fs_list", &json!({ "path": "/" })).is_none());
            for nothing in [json!({}), json!({ "command": 42 })] {
                assert_eq!(check(&guard, "shell_exec", &nothing).map(|hit| hit.rule).as_deref(), Some(SHELL_RULE));
            }
        }
        guard.set_shell(&ShellPolicy { mode: ShellMode::Off, allow: Vec::new() });
        assert_eq!(refused_by(&guard, "git status").as_deref(), Some(SHELL_RULE));
        guard.set_shell(&ShellPolicy::default());
        assert_eq!(refused_by(&at(&dir), "id"), None);
    }

    #[test]
    fn what_cannot_be_read_is_taken_for_the_strictest_until_the_hub_speaks() {
        let dir = tempfile::tempdir().expect("a directory");
        for (file, rule) in [("rules.json", UNREADABLE_RULE), ("shell.json", SHELL_RULE)] {
            let path = dir.path().join(file);
            std::fs::write(&path, "{").expect("written");
            assert_eq!(refused_by(&at(&dir), "id").as_deref(), Some(rule), "{file}");
            std::fs::remove_file(&path).expect("removed");
            std::fs::create_dir(&path).expect("made");
            assert_eq!(refused_by(&at(&dir), "id").as_deref(), Some(rule), "{file}");
            std::fs::remove_dir(&path).expect("removed");
        }
        std::fs::write(dir.path().join("rules.json"), "{").expect("written");
        let guard = at(&dir);
        let read = check(&guard, "fs_read", &json!({ "path": "/var/log/syslog" }));
        assert_eq!(read.map(|hit| hit.rule).as_deref(), Some(UNREADABLE_RULE));
        guard.set_rules(&[]);
        assert_eq!((refused_by(&guard, "id"), refused_by(&at(&dir), "id")), (None, None));
    }
}
