//! Who could say yes to a call that waits: so that its caller is told at once where nobody could, and whoever can finds it.

use convoke_core::approval::Approval;
use convoke_core::grant::Right;
use convoke_store::CallRow;

use super::approve::{check_reach, effect_of};
use super::planned::Planned;
use crate::clock;
use crate::hub::Hub;
use crate::operators::{Caller, Token};

/// Whether anybody could say yes to this call: somebody else with the right to approve it, or, for an assistant's call that
/// no rule wants a second person for, the user whose assistant it is.
pub(super) fn is_anybody(hub: &Hub, planned: &Planned, second_person: bool) -> bool {
    let now = clock::now();
    let recipients = planned.recipients();
    let may = |token: &Token| {
        token.is_active(now)
            && token.grant.check(Right::Approve).is_ok()
            && token.grant.check_scopes(planned.effect, &planned.call.tool).is_ok()
            && recipients.iter().all(|to| token.grant.check_reach(&to.id, &to.tags).is_ok())
    };
    let (asker, person) = (&planned.token, planned.token.person());
    let owner_counts = asker.grant.is_for_assistant() && !second_person;
    hub.operators.people.users().iter().any(|user| {
        let user = &user.principal;
        user.id != asker.id && may(user) && (owner_counts || user.person() != person)
    }) || hub.operators.list().iter().any(|token| token.person() != person && may(token))
}

/// Whether it is this caller's to decide on a call that waits.
pub fn may_decide(hub: &Hub, by: &Caller, approval: &Approval, row: &CallRow) -> bool {
    may_decide_as(hub, &by.token, by.session.is_some(), approval, row)
}

/// The same for a principal, signed in or not.
pub fn may_decide_as(hub: &Hub, by: &Token, signed_in: bool, approval: &Approval, row: &CallRow) -> bool {
    let grant = &by.grant;
    let asker = hub.operators.find(row.caller);
    let is_own = row.caller == by.id || asker.as_ref().is_some_and(|asker| asker.person() == by.person());
    let is_assistants = asker.is_some_and(|asker| asker.grant.is_for_assistant());
    let own_counts = row.caller != by.id && signed_in && is_assistants && !approval.second_person;
    grant.check(Right::Approve).is_ok()
        && (!is_own || own_counts)
        && grant.check_scopes(effect_of(hub, row), &row.tool).is_ok()
        && check_reach(hub, by, row).is_ok()
}
