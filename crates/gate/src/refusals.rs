//! Refusals of known callers: recorded one by one up to a number per principal and minute, and counted beyond it, so that
//! nobody with a token can fill the disk by asking for what they may not have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::id::TokenId;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::time::Timestamp;
use serde_json::json;

use crate::operators::Token;

/// Refusals of one principal that are recorded in a minute.
pub const MAX_RECORDED: u64 = 120;

/// The counts of the present minute.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<TokenId, Count>>);

#[derive(Debug)]
struct Count {
    name: String,
    refused: u64,
}

impl Refusals {
    /// Counts one, and says whether it is to be recorded.
    pub fn count(&self, token: &Token) -> bool {
        let mut counts = self.lock();
        let count = counts.entry(token.id).or_insert_with(|| Count { name: token.name.clone(), refused: 0 });
        count.refused += 1;
        count.refused <= MAX_RECORDED
    }

    /// The records of those of the minute that ends now that have none of their own.
    pub fn drain(&self, now: Timestamp) -> Vec<Draft> {
        let counts = std::mem::take(&mut *self.lock());
        let beyond = counts.into_values().filter(|count| count.refused > MAX_RECORDED);
        let record = |count: Count| {
            let detail = json!({ "what": "further refusals", "count": count.refused - MAX_RECORDED });
            let mut draft = Draft::new(now, Kind::Refusal).detail(&detail);
            draft.who = Some(count.name);
            draft.decision = Some(Decision::Denied);
            draft
        };
        beyond.map(record).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenId, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
