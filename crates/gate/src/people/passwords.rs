//! Hashing passwords. It takes memory and time on purpose, so two run at once and no more, and they are shared out: of one
//! address one waits for its turn among all, and a few behind it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use convoke_core::secret::SecretText;
use convoke_store::PasswordHash;
use tokio::sync::Semaphore;

use crate::clock;
use crate::shares::network;

/// How many run at once.
const AT_ONCE: usize = 2;
/// How many of one address wait, the one that runs included.
const MAX_OF_ADDRESS: usize = 8;
/// How many addresses wait.
const MAX_ADDRESSES: usize = 200;

/// Shortest password.
pub const MIN_LEN: usize = 8;
/// Longest one, in bytes.
pub const MAX_LEN: usize = 1024;

/// Memory and passes of a hash: 19 MiB and 2, as OWASP has it.
static HASHER: LazyLock<Argon2<'static>> =
    LazyLock::new(|| Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default()));

/// What is checked where there is no user of that name, so that the answer takes as long.
static NOBODYS: LazyLock<Option<PasswordHash>> = LazyLock::new(|| hash(&clock::token("")));

/// Too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Hashes passwords.
#[derive(Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Mutex<HashMap<IpAddr, (usize, Arc<Semaphore>)>>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { running: Arc::new(Semaphore::new(AT_ONCE)), waiting: Mutex::default() }
    }
}

/// Counts one that waits or runs, until it is dropped.
struct Waiter<'a> {
    of: &'a Passwords,
    address: IpAddr,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.of.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = waiting.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.address);
            }
        }
    }
}

impl Passwords {
    /// The hash of a new password.
    pub async fn hash(&self, password: SecretText, from: IpAddr) -> Result<Option<PasswordHash>, Busy> {
        self.run(from, move || hash(&password)).await
    }

    /// Whether this is the password. Where there is none to compare it with, it takes as long to say no.
    pub async fn is_right(
        &self,
        password: SecretText,
        kept: Option<PasswordHash>,
        from: IpAddr,
    ) -> Result<bool, Busy> {
        self.run(from, move || {
            let right = kept
                .as_ref()
                .or(NOBODYS.as_ref())
                .is_some_and(|kept| HASHER.verify_password(password.reveal().as_bytes(), kept.0.as_str()).is_ok());
            right && kept.is_some()
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        from: IpAddr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let address = network(from);
        let (_waiter, own) = self.enter(address)?;
        // In this order: whoever sends many waits behind themselves, and beside others only once.
        let _own = own.acquire().await.map_err(|_| Busy)?;
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|_| Busy)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // Here and not where it is waited for: who goes away does not free what still runs.
            drop(running);
            done
        });
        done.await.map_err(|_| Busy)
    }

    fn enter(&self, address: IpAddr) -> Result<(Waiter<'_>, Arc<Semaphore>), Busy> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_ADDRESSES && !waiting.contains_key(&address) {
            return Err(Busy);
        }
        let (count, own) = waiting.entry(address).or_insert_with(|| (0, Arc::new(Semaphore::new(1))));
        if *count >= MAX_OF_ADDRESS {
            return Err(Busy);
        }
        *count += 1;
        Ok((Waiter { of: self, address }, Arc::clone(own)))
    }
}

fn hash(password: &SecretText) -> Option<PasswordHash> {
    let salt: [u8; 16] = clock::random();
    let hash = HASHER.hash_password_with_salt(password.reveal().as_bytes(), &salt).ok()?;
    Some(PasswordHash(hash.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test]
    async fn a_password_is_right_or_wrong_and_never_kept_as_it_is() {
        let passwords = Passwords::default();
        let kept = passwords.hash(SecretText::new("correct horse"), HERE).await.expect("free").expect("hashes");
        assert!(kept.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && !kept.0.contains("horse"));
        let right = async |text: &str, kept: Option<PasswordHash>| {
            passwords.is_right(SecretText::new(text), kept, HERE).await.expect("free")
        };
        assert!(right("correct horse", Some(kept.clone())).await);
        assert!(!right("wrong", Some(kept)).await);
        assert!(!right("wrong", None).await);
        let again = passwords.hash(SecretText::new("correct horse"), HERE).await.expect("free");
        assert_ne!(again, Some(PasswordHash(String::new())));
    }

    #[tokio::test]
    async fn one_address_takes_one_place_and_the_other_is_left() {
        let passwords = Arc::new(Passwords::default());
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (started, mut running) = tokio::sync::mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        for _ in 0..MAX_OF_ADDRESS {
            let (passwords, held, started) = (Arc::clone(&passwords), Arc::clone(&held), started.clone());
            tasks.push(tokio::spawn(async move {
                let work = move || {
                    let _ = started.send(());
                    let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
                };
                passwords.run(HERE, work).await
            }));
        }
        running.recv().await.expect("one runs");
        while passwords.waiting.lock().expect("sound").get(&HERE).is_none_or(|(n, _)| *n < MAX_OF_ADDRESS) {
            tokio::task::yield_now().await;
        }
        assert_eq!(passwords.run(HERE, || ()).await, Err(Busy), "too many of one address");
        assert_eq!(passwords.run(THERE, || 7).await, Ok(7), "somebody else has the other place");
        for _ in 0..MAX_OF_ADDRESS {
            let _ = release.send(());
        }
        for task in tasks {
            assert_eq!(task.await.expect("no panic"), Ok(()));
        }
        assert!(passwords.waiting.lock().expect("sound").is_empty());
    }
}
