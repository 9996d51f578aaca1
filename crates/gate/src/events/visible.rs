//! What a caller may see of the stream: what the corresponding list would show it.

use std::sync::Arc;

use convoke_core::event::{Event, Scope};
use convoke_core::glob;
use convoke_core::grant::{Right, Role};

use crate::hub::Hub;
use crate::operators::Token;

/// Whether this is the caller's to see, with the tags that agents have now.
pub fn is_visible(hub: &Hub, token: &Token, event: &Event) -> bool {
    let scopes = &token.grant.scopes;
    let is_narrowed = scopes.agents.is_some() || scopes.tags.is_some();
    let reaches = |id: &str| {
        let tags = || hub.agents.find(id).map(|agent| Arc::clone(&agent.state().tags)).unwrap_or_default();
        !is_narrowed || scopes.reaches(id, &tags())
    };
    let is_admin = token.grant.role == Role::Admin;
    match event.scope() {
        Scope::Everyone => true,
        Scope::Unnarrowed => !is_narrowed,
        Scope::Peer { id, tags_before } => {
            reaches(id) || (!tags_before.is_empty() && scopes.reaches(id, tags_before))
        }
        Scope::Inbox { sender, tool } => {
            scopes.tools.as_ref().is_none_or(|tools| glob::any_matches(tools, tool)) && reaches(sender)
        }
        Scope::User { name } => name == token.person() || token.grant.check(Right::Users).is_ok(),
        Scope::Call { owner, target } => owner == token.id || (is_admin && reaches(target)),
        Scope::Approval { owner, target, recipients } => {
            let sees_others = || is_admin || token.grant.check(Right::Approve).is_ok();
            owner == token.id || (sees_others() && reaches(target) && recipients.iter().all(|id| reaches(id)))
        }
    }
}
