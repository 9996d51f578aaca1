//! The endpoint's rules on the real paths of what a call opens: the guard's, and those of the call itself.

use std::path::Path;
use std::sync::Arc;

use convoke_kenny::tools::path_surfaces;
use convoke_machine::open::{Refused, Rules, Shows};

use crate::guard::AgentGuard;

/// The rule that a refusal names when a call may read only below certain folders.
const BELOW: &str = "viewer_paths";

/// See the module.
#[derive(Debug)]
pub(crate) struct RealPaths {
    pub(crate) guard: Arc<AgentGuard>,
    /// The only folders below which the call may read, if the hub says so.
    pub(crate) below: Option<Vec<String>>,
}

impl Rules for RealPaths {
    fn refusal(&self, real: &str, shows: Shows) -> Option<Refused> {
        let surfaces: Vec<_> = path_surfaces(real);
        if let Some(hit) = self.guard.check(&surfaces, None) {
            return Some(Refused { rule: hit.rule, reason: hit.reason });
        }
        let below = self.below.as_ref().filter(|_| shows == Shows::Contents)?;
        (!lies_below(real, below)).then(|| Refused {
            rule: BELOW.into(),
            reason: format!("A viewer reads files only below {}.", below.join(", ")),
        })
    }
}

/// The folders may be links themselves.
fn lies_below(real: &str, folders: &[String]) -> bool {
    let linked = || folders.iter().filter_map(|folder| Path::new(folder).canonicalize().ok());
    convoke_core::contents::lies_below(real, folders) || linked().any(|folder| Path::new(real).starts_with(folder))
}
