//! The endpoint's own policy: what every request of every protocol passes before anything is done for it.
//!
//! In this order: kill switch, guard, the protocol's own limit. All tunnels of an agent share one policy, so the rules
//! that one hub sent hold for the requests of every hub.

use std::fmt;
use std::sync::Arc;

use convoke_core::guard::{AppliesTo, Hit, Surface};
use convoke_machine::open::Rules;

use crate::guard::{AgentGuard, Files};
use crate::paths::RealPaths;
use crate::state::StateDir;
use crate::switch::Switch;

/// A request of a hub, as the policy reads it. Each protocol has its own.
pub(crate) trait Request: Send + 'static {
    /// Whether it may change this machine. The kill switch refuses it then.
    fn changes_machine(&self) -> bool;
    /// The commands and paths in it, for the deny rules.
    fn surfaces(&self) -> Vec<Surface<'_>>;
    /// The whole command, if a hub's shell policy decides about it.
    fn shell_command(&self) -> Option<(AppliesTo, &str)> {
        None
    }
    /// Why the protocol's own limit refuses it, if it does.
    fn over_limit(&self) -> Option<Refusal>;
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The kill switch is off, and the request would change this machine.
    SwitchedOff,
    /// A rule of the guard.
    Blocked(Hit),
    /// The protocol's own limit.
    OverLimit(String),
    /// The policy could not be checked.
    Failed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchedOff => f.write_str("remote control is disabled at the endpoint"),
            Self::Blocked(hit) => write!(f, "refused by agent safety policy: {} (rule {})", hit.reason, hit.rule),
            Self::OverLimit(why) => f.write_str(why),
            Self::Failed => f.write_str("the agent's guard failed; its log has more"),
        }
    }
}

/// The policy of one agent. Cheap to clone; clones share the rules.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) switch: Switch,
    pub(crate) guard: Arc<AgentGuard>,
}

impl Policy {
    /// The policy of the agent with this state directory.
    pub fn new(state: &StateDir) -> Self {
        let files = Files { rules: state.rules_file(), shell: state.shell_file() };
        Self { switch: Switch::new(state.switch_file()), guard: Arc::new(AgentGuard::new(files)) }
    }

    /// Gives the request back if it may be done.
    pub(crate) async fn check<R: Request>(&self, request: R) -> Result<R, Refusal> {
        let policy = self.clone();
        // A file is read and patterns are matched: both may block.
        let checked = tokio::task::spawn_blocking(move || match policy.refusal(&request) {
            None => Ok(request),
            Some(refusal) => Err(refusal),
        });
        checked.await.unwrap_or(Err(Refusal::Failed))
    }

    /// What decides on the real paths of what a request opens.
    pub(crate) fn real_paths(&self, below: Option<Vec<String>>) -> Arc<dyn Rules> {
        Arc::new(RealPaths { guard: Arc::clone(&self.guard), below })
    }

    fn refusal(&self, request: &impl Request) -> Option<Refusal> {
        if self.switch_refuses(request.changes_machine()) {
            return Some(Refusal::SwitchedOff);
        }
        let hit = self.guard.check(&request.surfaces(), request.shell_command());
        hit.map(Refusal::Blocked).or_else(|| request.over_limit())
    }

    /// Whether the kill switch refuses a request now. It reads a file of a few bytes.
    pub(crate) fn switch_refuses(&self, changes_machine: bool) -> bool {
        changes_machine && !self.switch.read().is_enabled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RemoteControl;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Fake {
        changes: bool,
        path: &'static str,
        over: bool,
    }

    impl Request for Fake {
        fn changes_machine(&self) -> bool {
            self.changes
        }

        fn surfaces(&self) -> Vec<Surface<'_>> {
            vec![Surface { group: AppliesTo::Path, text: self.path.into() }]
        }

        fn over_limit(&self) -> Option<Refusal> {
            self.over.then(|| Refusal::OverLimit("too much".into()))
        }
    }

    #[tokio::test]
    async fn the_kill_switch_comes_before_the_guard_and_the_guard_before_the_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path());
        let policy = Policy::new(&state);
        for on in [true, false] {
            policy.switch.set(if on { RemoteControl::Enabled } else { RemoteControl::Disabled }).expect("set");
            for changes in [true, false] {
                for (path, denied) in [("/var/log/syslog", false), ("/srv/web/.ssh/id_rsa", true)] {
                    for over in [true, false] {
                        let request = Fake { changes, path, over };
                        let checked = policy.clone().check(request).await;
                        match checked {
                            Err(Refusal::SwitchedOff) => assert!(changes && !on, "{request:?}"),
                            Err(Refusal::Blocked(_)) => assert!(denied && (on || !changes), "{request:?}"),
                            Err(Refusal::OverLimit(_)) => assert!(over && !denied && (on || !changes), "{request:?}"),
                            Ok(given) => assert!(given == request && !over && !denied && (on || !changes)),
                            Err(Refusal::Failed) => panic!("{request:?}"),
                        }
                    }
                }
            }
        }
    }
}
