//! What each token has at once of something that takes memory. A place is given back when it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_core::id::TokenId;

/// The places that tokens have.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Most places of one token.
    max: usize,
    /// Most bytes that they take together; one alone may take more.
    max_bytes: usize,
    taken: Arc<Mutex<HashMap<TokenId, Taken>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    count: usize,
    bytes: usize,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Place {
    token: TokenId,
    bytes: usize,
    places: Places,
}

impl Places {
    pub(super) fn new(max: usize, max_bytes: usize) -> Self {
        Self { max, max_bytes, taken: Arc::default() }
    }

    /// A place of this size, unless the token has as much as it may.
    pub(super) fn take(&self, token: TokenId, bytes: usize) -> Option<Place> {
        let mut all = self.taken();
        let taken = all.get(&token).copied().unwrap_or_default();
        let sum = taken.bytes.saturating_add(bytes);
        if taken.count >= self.max || (taken.count > 0 && sum > self.max_bytes) {
            return None;
        }
        all.insert(token, Taken { count: taken.count + 1, bytes: sum });
        Some(Place { token, bytes, places: self.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<TokenId, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.places.taken();
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
    fn a_token_has_so_many_places_and_gets_them_back() {
        let places = Places::new(2, usize::MAX);
        let (one, other) = (TokenId::new(clock::uuid()), TokenId::new(clock::uuid()));
        let held = [places.take(one, 1), places.take(one, 1)];
        assert!(held.iter().all(Option::is_some) && places.take(one, 0).is_none());
        assert!(places.take(other, 1).is_some(), "another has its own");
        drop(held);
        assert!(places.taken().is_empty(), "nothing is kept of those who have none");
        assert!(places.take(one, 1).is_some());
    }

    #[test]
    fn its_places_take_so_many_bytes_together() {
        let places = Places::new(usize::MAX, 10);
        let token = TokenId::new(clock::uuid());
        let first = places.take(token, 7).expect("there is room");
        assert!(places.take(token, 4).is_none());
        let second = places.take(token, 3).expect("there is room for so much");
        drop((first, second));
        let _large = places.take(token, 11).expect("one alone may take more");
        assert!(places.take(token, 0).is_none());
    }
}
