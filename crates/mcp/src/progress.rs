//! Waiting on behalf of a client: it is told that something still happens, and may give up.

use std::time::Duration;

use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::Instant;

use super::door::SESSION;
use crate::Sessions;
use convoke_gate::hub::Hub;

/// How often a client that asked for it hears that a call still runs.
pub const EVERY: Duration = Duration::from_secs(2);

/// Waits for `what`, which is put into words only where the client wants to hear of it. `None` when the client gave up
/// first, or its session has ended: then nobody can hear of it any more.
pub async fn wait<T>(
    hub: &Hub,
    context: &RequestContext<RoleServer>,
    what: impl Fn() -> String,
    future: impl Future<Output = T>,
) -> Option<T> {
    let token = context.meta.get_progress_token();
    let closed = session(context).map(|session| Sessions::of(hub).closed(session)).unwrap_or_default();
    let started = Instant::now();
    let mut next = started + EVERY;
    tokio::pin!(future);
    loop {
        tokio::select! {
            biased;
            done = &mut future => return Some(done),
            () = context.ct.cancelled() => return None,
            () = closed.cancelled() => return None,
            () = tokio::time::sleep_until(next), if token.is_some() => {
                next += EVERY;
                if let Some(token) = &token {
                    // A client that is gone is noticed by its cancellation.
                    let _ = context.peer.notify_progress(notice(token, started, &what())).await;
                }
            }
        }
    }
}

/// The session that a request came in.
fn session(context: &RequestContext<RoleServer>) -> Option<&str> {
    context.extensions.get::<Parts>()?.headers.get(SESSION)?.to_str().ok()
}

/// What a client hears: for how long it has been going on.
fn notice(token: &ProgressToken, started: Instant, what: &str) -> ProgressNotificationParam {
    let seconds = started.elapsed().as_secs_f64();
    ProgressNotificationParam::new(token.clone(), seconds).with_message(format!("{what}: {seconds:.0} s"))
}
