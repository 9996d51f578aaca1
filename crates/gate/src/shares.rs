//! Shares that are shared out per address: however many somebody takes from one, as many are left for others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The address that shares and attempts are counted by: for IPv6 the /64, which is all of one subscriber's.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        },
        v4 => v4,
    }
}

/// So many shares.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

/// A share that is taken, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    address: IpAddr,
}

/// The share of a connection, until somebody shows on it who they are.
#[derive(Clone, Debug)]
pub struct Unproven(Arc<Mutex<Option<Share>>>);

impl Unproven {
    /// Holds this share.
    pub fn new(share: Share) -> Self {
        Self(Arc::new(Mutex::new(Some(share))))
    }

    /// Whoever it is has shown it: strangers have the share again.
    pub fn proven(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Shares {
    /// So many.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One, unless there is none, or this address has more than are left.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Share> {
        self.take_beside(address, 0)
    }

    /// The same, where `others` are taken up by somebody who has shown who they are.
    pub fn take_beside(self: &Arc<Self>, address: IpAddr, others: usize) -> Option<Share> {
        let address = network(address);
        let mut taken = self.taken();
        let free = self.most.saturating_sub(taken.all + others);
        let own = taken.of.get(&address).copied().unwrap_or_default();
        if free == 0 || own > free {
            return None;
        }
        taken.all += 1;
        *taken.of.entry(address).or_default() += 1;
        Some(Share { shares: Arc::clone(self), address })
    }

    /// How many are taken.
    pub fn count(&self) -> usize {
        self.taken().all
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.all -= 1;
        if let Some(own) = taken.of.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.of.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_as_much_as_it_takes() {
        let shares = Shares::new(4096);
        let [here, there] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let mut all: Vec<_> = std::iter::from_fn(|| shares.take(here)).collect();
        assert_eq!(all.len(), 2049);
        assert!(shares.take(here).is_none());
        all.extend(std::iter::from_fn(|| shares.take(there)));
        assert_eq!(shares.count(), 2049 + 1024);
        assert!(shares.take(IpAddr::from([10, 0, 0, 3])).is_some(), "and another gets in, too");
        drop(all);
        assert_eq!((shares.count(), shares.taken().of.len()), (0, 0));
        assert!(shares.take_beside(here, 4096).is_none());
    }

    #[test]
    fn few_are_all_good_for_one() {
        for most in [1, 2] {
            let shares = Shares::new(most);
            let all: Vec<_> = std::iter::from_fn(|| shares.take(IpAddr::from([10, 0, 0, 1]))).collect();
            assert_eq!(all.len(), most);
        }
    }

    #[test]
    fn a_subscriber_is_one_address() {
        let of = |text: &str| network(text.parse().expect("an address")).to_string();
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
    }
}
