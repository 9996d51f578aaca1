//! Links that somebody with a token has made to open the page: good once, for a minute, and in memory only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use convoke_core::id::TokenId;
use convoke_core::secret::{SecretText, TokenHash};
use convoke_core::time::Timestamp;

use crate::clock;

/// How long such a link is good.
pub const OPENING: Duration = Duration::from_secs(60);
/// Most of them at once; one more takes the place of the oldest.
const MAX: usize = 256;

/// The links.
#[derive(Debug, Default)]
pub struct Openings(Mutex<HashMap<TokenHash, (TokenId, Timestamp)>>);

impl Openings {
    /// Makes one that signs this user in.
    pub fn add(&self, user: TokenId, now: Timestamp) -> (SecretText, Timestamp) {
        let (secret, expires_at) = (clock::token("cvl_"), now.after(OPENING));
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, (_, at)| now < *at);
        if links.len() >= MAX
            && let Some(oldest) = links.iter().min_by_key(|(_, (_, at))| *at).map(|(hash, _)| *hash)
        {
            links.remove(&oldest);
        }
        links.insert(secret.hash(), (user, expires_at));
        (secret, expires_at)
    }

    /// Uses one up: the user whom it signs in.
    pub fn take(&self, hash: &TokenHash, now: Timestamp) -> Option<TokenId> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(hash);
        found.filter(|(_, at)| now < *at).map(|(user, _)| user)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_link_is_good_once_and_for_a_minute() {
        let links = Openings::default();
        let (user, now) = (TokenId::new(Uuid::from_u128(1)), Timestamp::from_millis(0));
        let (secret, expires_at) = links.add(user, now);
        assert_eq!(links.take(&secret.hash(), now), Some(user));
        assert_eq!(links.take(&secret.hash(), now), None);
        let (late, _) = links.add(user, now);
        assert_eq!(links.take(&late.hash(), expires_at), None);
        assert_eq!(links.take(&TokenHash::of("other"), now), None);
        for _ in 0..2 * MAX {
            links.add(user, now);
        }
        assert!(links.0.lock().expect("not poisoned").len() <= MAX);
    }
}
