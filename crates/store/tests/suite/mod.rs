//! What every engine must do. A test is a function that takes a backend; `for_backend!` runs them all on one.

pub(crate) mod accounts;
pub(crate) mod agents;
pub(crate) mod calls;
pub(crate) mod journal;
pub(crate) mod operators;
pub(crate) mod rooms;
pub(crate) mod sonde;
pub(crate) mod telemetry;
pub(crate) mod watching;
pub(crate) mod yonexus;

use std::sync::Arc;

use convoke_core::id::PeerId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_store::{JournalFilter, Store};

/// An engine with a place of its own.
pub(crate) trait Backend {
    /// A new place.
    fn new() -> Self;
    /// Opens the store in that place; the one opened before was closed.
    fn open(&self) -> Arc<dyn Store>;
}

/// Runs the suite on a backend: `for_backend!(Backend, each)` gives all tests to the macro `each`.
macro_rules! for_backend {
    ($backend:ty, $each:ident) => {
        $each!($backend;
            agents: agents_survive_a_restart, a_token_binds_one_key_once, a_lost_reply_can_be_repeated,
                a_bound_key_is_replaced_only_by_a_token_that_may, a_revoked_key_is_never_bound_again, lapsed_and_older_tokens_bind_nothing,
                an_invitation_that_ran_out_is_withdrawn,
                a_revoked_agent_is_not_bound_by_its_old_token, tags_and_trust_are_kept, an_agent_goes_with_all_it_left;
            telemetry: the_latest_snapshot_and_the_history, unknown_agents_are_left_out, last_seen_and_meta_are_kept,
                what_was_committed_is_told_in_order_with_the_ids_of_lines,
                logs_page_and_filter, pruning_keeps_each_agents_latest_snapshot,
                pruning_passes_by_what_a_clock_that_ran_ahead_left, pruning_takes_old_logs_only,
                pruning_bounds_each_agents_bytes;
            operators: a_token_name_is_used_once, tokens_are_revoked_once_and_remember_their_use,
                rules_keep_their_order, a_new_store_has_the_default_confirm_rule, secrets_are_kept;
            accounts: users_survive_a_restart_with_their_secrets, a_name_is_one_users_or_tokens,
                a_changed_password_ends_sessions_and_links, a_removed_user_takes_all_along,
                a_link_is_used_once_and_in_time, a_new_link_voids_the_old, a_cookie_is_changed_in_place,
                a_passkey_has_one_user, a_token_is_paused_and_goes_on;
            watching: health_is_known_of_each_moment, the_latest_runs_of_each_runbook_stay, one_snapshot_stands_for_a_step, a_grant_lasts_until_it_lapses_or_ends,
                a_notice_is_claimed_once_per_channel;
            sonde: a_sonde_agent_survives_a_restart, a_sonde_token_is_used_once_and_in_time,
                a_sonde_name_has_one_holder, a_removed_sonde_agent_frees_its_name,
                two_tunnels_are_joined_until_either_is_another;
            calls: an_idempotency_key_finds_its_first_call, a_waiting_call_survives_a_restart,
                an_approval_moves_once, a_call_starts_and_ends_once, kept_calls_are_forgotten_in_time,
                calls_that_nobody_will_end_are_found,
                open_intents_are_what_a_killed_hub_left;
            journal: records_are_numbered_and_chained, filters_and_pages, what_fails_leaves_no_record,
                checkpoints_sign_the_end_once, every_thousand_records_are_signed, a_closed_store_refuses,
                many_writers_share_commits;
            yonexus: clients_and_pairings_survive_a_restart, a_pairing_goes_when_it_is_over,
                what_is_seen_later_stays, rules_keep_their_place_and_secret, the_inbox_pages_and_is_bounded,
                the_outbox_waits_until_it_is_delivered, nothing_is_kept_for_a_token_that_is_revoked,
                what_expires_and_who_leaves_is_forgotten;
            rooms: rooms_survive_a_restart_with_their_keys;
        );
    };
}
pub(crate) use for_backend;

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_780_000_000_000 + millis)
}

pub(crate) fn record(kind: Kind) -> Draft {
    Draft::new(at(0), kind)
}

pub(crate) fn peer(id: &str) -> PeerId {
    PeerId::parse(id).expect("a test id")
}

/// How many records the journal has.
pub(crate) async fn records(store: &dyn Store) -> usize {
    store.journal(JournalFilter { limit: 10_000, ..JournalFilter::default() }).await.expect("reads").len()
}
