//! How many files a process may have open. Each connection is one, and what a shell or a service manager allows at first is
//! often 1024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a hub opens besides connections: its store, its listeners, calls to webhooks, downloads.
const BESIDES: u64 = 256;

/// Raises what this process may open to what so many connections need, as far as it may, and says what it was before. Warns if
/// that is not enough.
pub fn raise(max_connections: usize) -> Option<u64> {
    let needed = (max_connections as u64).saturating_add(BESIDES);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let before = current?;
    // No more than is of use: where there is no bound, programs go through all that they may have open.
    let most = maximum.map_or(needed, |maximum| maximum.min(needed));
    let is_raised = most > before && setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }).is_ok();
    let allowed = if is_raised { most } else { before };
    if allowed < needed {
        tracing::warn!(
            "hub.max_connections={max_connections} needs up to {needed} open files, but this process may open only \
             {allowed}; connections beyond that will fail. Allow more (LimitNOFILE={needed} in a systemd unit, `ulimit \
             -n {needed}` in a shell), or lower hub.max_connections"
        );
    }
    is_raised.then_some(before)
}

/// Lowers it again: for a process that was started by one that has raised it, and starts others that may not count on it.
pub fn lower(to: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| to < current) {
        // What is allowed too much does no harm by itself.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(to), maximum });
    }
}
