//! Wrong passwords and codes per account and address. Whoever guesses at an account is not listened to there for a while. Neither
//! is an account that is guessed at from many addresses, nor an address that guesses at many accounts; except for a user
//! where they have signed in before. Sessions are not asked about here: whoever is signed in stays so.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;

use crate::shares::network;

/// Wrong ones that an address may show of one account in a minute.
const PER_PAIR: u32 = 10;
/// Wrong ones that an address may show in a minute, of all accounts together.
const PER_ADDRESS: u32 = 60;
/// Wrong ones that an account may be shown in a minute, from all addresses together.
const PER_ACCOUNT: u32 = 20;
const WINDOW_MS: i64 = 60_000;
/// Most addresses and accounts that are remembered; past it the oldest go first.
const MAX_REMEMBERED: usize = 10_000;
/// Most addresses that are remembered as an account's own.
const OWN_ADDRESSES: usize = 8;

/// Wrong attempts.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    pairs: HashMap<(IpAddr, TokenHash), (i64, u32)>,
    addresses: HashMap<IpAddr, (i64, u32)>,
    /// By a hash: a name that nobody has is somebody's typing, perhaps of a password.
    accounts: HashMap<TokenHash, (i64, u32)>,
    own: HashMap<TokenHash, VecDeque<IpAddr>>,
}

impl Attempts {
    /// For how many seconds nobody at this address is listened to about this account, begun ones included.
    pub fn blocked_for(&self, account: &str, from: IpAddr, now: Timestamp) -> Option<u32> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (account, from) = (TokenHash::of(account), network(from));
        let is_own = inner.own.get(&account).is_some_and(|own| own.contains(&from));
        let of_pair = left(inner.pairs.get(&(from, account)), PER_PAIR, now);
        let of_address = left(inner.addresses.get(&from).filter(|_| !is_own), PER_ADDRESS, now);
        let of_account = left(inner.accounts.get(&account).filter(|_| !is_own), PER_ACCOUNT, now);
        of_pair.max(of_address).max(of_account)
    }

    /// Counts a wrong one.
    pub fn failed(&self, account: &str, from: IpAddr, now: Timestamp) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (account, from) = (TokenHash::of(account), network(from));
        count(&mut inner.pairs, (from, account), now);
        count(&mut inner.addresses, from, now);
        count(&mut inner.accounts, account, now);
    }

    /// Somebody signed in.
    pub fn succeeded(&self, account: &str, from: IpAddr) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // As many as there are users, at most.
        let own = inner.own.entry(TokenHash::of(account)).or_default();
        own.retain(|known| *known != network(from));
        own.push_back(network(from));
        if own.len() > OWN_ADDRESSES {
            own.pop_front();
        }
    }

    /// A user is no more.
    pub fn forget(&self, account: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).own.remove(&TokenHash::of(account));
    }
}

fn left(counted: Option<&(i64, u32)>, most: u32, now: Timestamp) -> Option<u32> {
    let (since, _) = counted.filter(|(_, count)| *count >= most)?;
    // A clock that was set back would otherwise block for as long as it was set back.
    let left_ms = Some(since + WINDOW_MS - now.millis()).filter(|left| (1..=WINDOW_MS).contains(left))?;
    u32::try_from((left_ms + 999) / 1_000).ok()
}

fn count<K: Copy + Eq + Hash>(map: &mut HashMap<K, (i64, u32)>, key: K, now: Timestamp) {
    if map.len() >= MAX_REMEMBERED && !map.contains_key(&key) {
        map.retain(|_, (since, _)| (*since..*since + WINDOW_MS).contains(&now.millis()));
        if map.len() >= MAX_REMEMBERED
            && let Some(oldest) = map.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key)
        {
            map.remove(&oldest);
        }
    }
    let entry = map.entry(key).or_insert((now.millis(), 0));
    if !(entry.0..entry.0 + WINDOW_MS).contains(&now.millis()) {
        *entry = (now.millis(), 0);
    }
    entry.1 += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn an_address_that_guesses_is_not_listened_to_and_others_are() {
        let attempts = Attempts::default();
        let [here, there] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        attempts.succeeded("bert", here);
        (0..PER_PAIR).for_each(|_| attempts.failed("anna", here, at(0)));
        assert_eq!(attempts.blocked_for("anna", here, at(1)), Some(60));
        assert_eq!(attempts.blocked_for("carla", here, at(1)), None, "nobody has guessed at this one");
        (PER_PAIR..PER_ADDRESS).for_each(|n| attempts.failed(&n.to_string(), here, at(0)));
        assert_eq!(attempts.blocked_for("carla", here, at(1)), Some(60));
        assert_eq!(attempts.blocked_for("bert", here, at(1)), None, "this one has signed in from there");
        assert_eq!(attempts.blocked_for("anna", there, at(1)), None);
        assert_eq!(attempts.blocked_for("anna", here, at(WINDOW_MS)), None);
    }

    #[test]
    fn an_account_that_is_guessed_at_still_opens_from_where_its_user_works() {
        let attempts = Attempts::default();
        let home = IpAddr::from([10, 1, 1, 1]);
        attempts.succeeded("anna", home);
        for n in 0..PER_ACCOUNT {
            attempts.failed("anna", IpAddr::from([10, 0, 0, u8::try_from(n).expect("few")]), at(0));
        }
        let new = IpAddr::from([10, 2, 2, 2]);
        assert!(attempts.blocked_for("anna", new, at(1)).is_some());
        assert_eq!(attempts.blocked_for("anna", home, at(1)), None);
        assert_eq!(attempts.blocked_for("bert", new, at(1)), None);
        attempts.forget("anna");
        assert!(attempts.blocked_for("anna", home, at(1)).is_some());
    }

    #[test]
    fn a_subscriber_is_one_address() {
        let attempts = Attempts::default();
        for n in 0..PER_PAIR {
            attempts.failed("anna", format!("2001:db8::{n}").parse().expect("an address"), at(0));
        }
        let of = |text: &str| attempts.blocked_for("anna", text.parse().expect("an address"), at(1));
        assert!(of("2001:db8::ffff").is_some());
        assert!(of("2001:db8:0:1::1").is_none());
        (0..PER_PAIR).for_each(|_| attempts.failed("anna", "10.0.0.1".parse().expect("one"), at(0)));
        assert!(of("::ffff:10.0.0.1").is_some());
    }
}
