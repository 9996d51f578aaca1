//! How much each token may hold at once of something that takes memory. Dropping a permit gives its share back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_core::id::TokenId;

/// What every token may hold, and what each holds now.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    /// Most permits of one token.
    max: usize,
    /// Most bytes of its permits together; a single one may be larger.
    max_bytes: usize,
    taken: Arc<Mutex<HashMap<TokenId, Taken>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    count: usize,
    bytes: usize,
}

/// Counted in its token's quota until it is dropped.
#[derive(Debug)]
pub(super) struct QuotaPermit {
    token: TokenId,
    bytes: usize,
    quota: Quota,
}

impl Quota {
    pub(super) fn new(max: usize, max_bytes: usize) -> Self {
        Self { max, max_bytes, taken: Arc::default() }
    }

    /// A permit of this size, unless the token holds as much as it may.
    pub(super) fn take(&self, token: TokenId, bytes: usize) -> Option<QuotaPermit> {
        let mut all = self.taken();
        let taken = all.get(&token).copied().unwrap_or_default();
        let sum = taken.bytes.saturating_add(bytes);
        if taken.count >= self.max || (taken.count > 0 && sum > self.max_bytes) {
            return None;
        }
        all.insert(token, Taken { count: taken.count + 1, bytes: sum });
        Some(QuotaPermit { token, bytes, quota: self.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<TokenId, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut all = self.quota.taken();
        let Some(taken) = all.get_mut(&self.token) else { return };
        taken.count = taken.count.saturating_sub(1);
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        if taken.count == 0 {
            all.remove(&self.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_gate::clock;

    #[test]
    fn a_token_has_so_many_permits_and_gets_them_back() {
        let quota = Quota::new(2, usize::MAX);
        let (one, other) = (TokenId::new(clock::uuid()), TokenId::new(clock::uuid()));
        let held = [quota.take(one, 1), quota.take(one, 1)];
        assert!(held.iter().all(Option::is_some) && quota.take(one, 0).is_none());
        assert!(quota.take(other, 1).is_some(), "another has its own");
        drop(held);
        assert!(quota.taken().is_empty(), "nothing is kept of those who have none");
        assert!(quota.take(one, 1).is_some());
    }

    #[test]
    fn its_permits_take_so_many_bytes_together() {
        let quota = Quota::new(usize::MAX, 10);
        let token = TokenId::new(clock::uuid());
        let first = quota.take(token, 7).expect("within the quota");
        assert!(quota.take(token, 4).is_none());
        let second = quota.take(token, 3).expect("within the quota");
        drop((first, second));
        let _large = quota.take(token, 11).expect("one alone may take more");
        assert!(quota.take(token, 0).is_none());
    }
}
