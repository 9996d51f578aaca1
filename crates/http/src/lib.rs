//! The HTTP API: agents, calls, approvals, policy, tokens, the journal, the fleet, and what operators of the hub look at.
//!
//! It knows no protocol: what is particular to one is in the crate of the wires.

pub mod agents;
pub mod approvals;
pub mod assistants;
pub mod backup;
pub mod calls;
pub mod events;
pub mod export;
pub mod fleet;
pub mod fleet_history;
pub mod grants;
pub mod hubs;
pub mod inbox;
pub mod notices;
pub mod open_page;
pub mod operations;
pub mod passkeys;
pub mod policy;
pub mod policy_test;
pub mod record;
pub mod runs;
pub mod section_history;
pub mod session;
pub mod tokens;
pub mod totp;
pub mod users;

use axum::http::Method;
use convoke_core::grant::Right;
use convoke_doors::Doors;

/// Opens the API's doors, each with the right it needs.
#[rustfmt::skip]
pub fn open(doors: Doors) -> Doors {
    use Right::{Approve, Call, OwnCredential, Policy, Public, SignIn, Tokens, Trust, Users, View, Withdraw};
    doors
        .open(Method::GET, "/healthz", Public, operations::healthz)
        .open(Method::GET, "/readyz", Public, operations::readyz)
        .open(Method::GET, "/metrics", View, operations::metrics)
        .open(Method::GET, "/api/hub", View, operations::about)
        .open(Method::GET, "/api/hubs", View, hubs::list)
        .open(Method::GET, "/api/hubs/parcels/{link}", OwnCredential, hubs::parcel)
        .open(Method::GET, "/api/settings", Policy, operations::settings)
        .open(Method::POST, "/api/backup", Policy, backup::make)
        .open(Method::GET, "/api/agents", View, agents::list)
        .open(Method::GET, "/api/agents/{id}", View, agents::show)
        .open(Method::PATCH, "/api/agents/{id}", Trust, agents::patch)
        .open(Method::DELETE, "/api/agents/{id}", Withdraw, agents::remove)
        .open(Method::POST, "/api/agents/{id}/revoke", Withdraw, agents::revoke)
        .open_for_calls(Method::POST, calls::PATH, Call, calls::call)
        .open(Method::GET, "/api/agents/{id}/snapshot", View, fleet::snapshot)
        .open(Method::GET, "/api/agents/{id}/snapshots", View, fleet::history)
        .open(Method::GET, "/api/agents/{id}/history", View, section_history::history)
        .open(Method::GET, "/api/agents/{id}/health", View, fleet::health)
        .open(Method::GET, "/api/fleet", View, fleet::overview)
        .open(Method::GET, "/api/fleet/history", View, fleet_history::history)
        .open(Method::GET, "/api/fleet/at", View, fleet_history::at)
        .open(Method::GET, "/api/runs", View, runs::list)
        .open(Method::GET, "/api/runs/{id}", View, runs::show)
        .open(Method::GET, "/api/calls", View, calls::list)
        .open(Method::GET, "/api/calls/{id}", View, calls::show)
        .open(Method::DELETE, "/api/calls/{id}", View, calls::take_back)
        .open(Method::GET, "/api/approvals", View, approvals::list)
        .open(Method::GET, "/api/approvals/{id}", View, approvals::show)
        .open(Method::POST, "/api/approvals/{id}", Approve, approvals::decide)
        .open(Method::GET, "/api/grants", View, grants::list)
        .open(Method::POST, "/api/grants", Approve, grants::give)
        .open(Method::DELETE, "/api/grants/{id}", View, grants::end)
        .open(Method::GET, "/api/policy/rules", View, policy::deny_rules)
        .open(Method::POST, "/api/policy/rules", Policy, policy::put_deny_rule)
        .open(Method::DELETE, "/api/policy/rules/{rule}", Policy, policy::delete_deny_rule)
        .open(Method::GET, "/api/policy/confirm", View, policy::confirm_rules)
        .open(Method::POST, "/api/policy/confirm", Policy, policy::put_confirm_rule)
        .open(Method::DELETE, "/api/policy/confirm/{id}", Policy, policy::delete_confirm_rule)
        .open(Method::POST, "/api/policy/test", Policy, policy_test::test)
        .open(Method::POST, "/api/policy/replay", Policy, policy_test::replay)
        .open(Method::GET, "/api/tokens", Tokens, tokens::list)
        .open(Method::POST, "/api/tokens", Tokens, tokens::mint)
        .open(Method::PATCH, "/api/tokens/{id}", Tokens, assistants::pause)
        .open(Method::DELETE, "/api/tokens/{id}", Tokens, tokens::revoke)
        .open(Method::GET, "/api/session", View, session::who)
        .open(Method::POST, "/api/session", SignIn, session::sign_in)
        .open(Method::DELETE, "/api/session", View, session::sign_out)
        .open(Method::POST, "/api/session/step-up", View, session::step_up)
        .open(Method::POST, "/api/session/link", SignIn, session::link)
        .open(Method::POST, "/api/session/open", View, open_page::open)
        .open(Method::GET, "/api/session/passkey", Public, passkeys::support)
        .open(Method::POST, "/api/session/passkey", SignIn, passkeys::sign_in)
        .open(Method::POST, "/api/session/passkey/challenge", SignIn, passkeys::challenge)
        .open(Method::GET, "/api/sessions", View, session::list)
        .open(Method::DELETE, "/api/sessions/{id}", View, session::end_one)
        .open(Method::GET, "/api/inbox", View, inbox::inbox)
        .open(Method::GET, "/api/notices", View, notices::list)
        .open(Method::POST, "/api/notices", View, notices::add)
        .open(Method::DELETE, "/api/notices/{id}", View, notices::remove)
        .open(Method::POST, "/api/notices/{id}/test", View, notices::test)
        .open(Method::GET, "/api/users", Users, users::list)
        .open(Method::POST, "/api/users", Users, users::add)
        .open(Method::PATCH, "/api/users/{name}", View, users::change)
        .open(Method::DELETE, "/api/users/{name}", Users, users::remove)
        .open(Method::POST, "/api/users/{name}/link", Users, users::link)
        .open(Method::GET, "/api/users/{name}/passkeys", View, passkeys::list)
        .open(Method::POST, "/api/users/{name}/passkeys", View, passkeys::add)
        .open(Method::POST, "/api/users/{name}/passkeys/challenge", View, passkeys::begin)
        .open(Method::DELETE, "/api/users/{name}/passkeys/{key}", View, passkeys::remove)
        .open(Method::POST, "/api/users/{name}/totp", View, totp::begin)
        .open(Method::DELETE, "/api/users/{name}/totp", View, totp::remove)
        .open(Method::POST, "/api/users/{name}/totp/confirm", View, totp::confirm)
        .open(Method::GET, "/api/journal", View, record::journal)
        .open(Method::GET, "/api/journal/checkpoints", View, record::checkpoints)
        .open(Method::GET, "/api/export/journal", View, export::journal)
        .open(Method::GET, "/api/export/agents", View, export::agents)
        .open(Method::GET, "/api/logs", View, record::logs)
        .open(Method::GET, "/api/events", View, events::stream)
}
