//! Envelopes: what a message is sealed in, so that only hubs of the same cluster can read or make one, and none counts twice.
//!
//! ```text
//! version (1), sending hub (16), its epoch (8), number (8), nonce (24), ciphertext
//! ```
//!
//! Numbers are big-endian. All that stands before the nonce, and the subject, is authenticated with the body: a message that
//! somebody repeats, sends to another subject or in another hub's name does not open.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use convoke_core::id::HubId;
use convoke_core::secret::SecretBytes;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use uuid::Uuid;

use crate::Subject;

const VERSION: u8 = 1;
const HEAD: usize = 1 + 16 + 8 + 8;
const NONCE: usize = 24;
/// How far behind the newest a number may come and still be taken: messages of different subjects overtake each other, by as
/// many as are under way.
const WINDOW: u64 = 1 << 16;
/// Hubs whose numbers are remembered.
const MOST_HUBS: usize = 1_024;

/// Seals what this hub sends, and opens what others sent.
pub struct Envelope {
    cipher: XChaCha20Poly1305,
    hub: HubId,
    epoch: u64,
    last: AtomicU64,
    seen: Mutex<HashMap<HubId, Seen>>,
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope").field("hub", &self.hub).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// What was in an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Who sent it.
    pub hub: HubId,
    /// In which of its epochs.
    pub epoch: u64,
    /// The message.
    pub body: Bytes,
}

/// Why an envelope was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// It is none, or not of this cluster, or not for this subject.
    #[error("the message was not sealed by a hub of this cluster for this subject")]
    Foreign,
    /// It was opened before, or is too old to tell.
    #[error("the message was there before")]
    Repeated,
    /// Its hub has been taken over since.
    #[error("the message is of an earlier epoch of its hub")]
    Overtaken,
    /// There was no randomness to seal with.
    #[error("the system gave no random bytes")]
    NoRandomness,
}

/// Which numbers of a hub have come.
#[derive(Clone, Debug)]
struct Seen {
    epoch: u64,
    newest: u64,
    /// Whether a number within the window has come, at its place modulo the window.
    bits: Box<[u64]>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { epoch: 0, newest: 0, bits: vec![0; (WINDOW / 64) as usize].into() }
    }
}

impl Seen {
    fn take(&mut self, epoch: u64, number: u64) -> Result<(), Unopened> {
        if epoch < self.epoch {
            return Err(Unopened::Overtaken);
        }
        if epoch > self.epoch {
            *self = Self { epoch, ..Self::default() };
        }
        if number > self.newest {
            if number - self.newest >= WINDOW {
                self.bits.fill(0);
            } else {
                (self.newest + 1..=number).for_each(|passed| *self.word(passed) &= !bit(passed));
            }
            self.newest = number;
        } else if self.newest - number >= WINDOW || *self.word(number) & bit(number) != 0 {
            return Err(Unopened::Repeated);
        }
        *self.word(number) |= bit(number);
        Ok(())
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.bits[(number % WINDOW / 64) as usize]
    }
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

impl Envelope {
    /// For a hub in its epoch. The key is made from the cluster's data key.
    pub fn new(data_key: &SecretBytes, hub: HubId, epoch: u64) -> Self {
        let mut key =
            Hmac::<Sha256>::new_from_slice(data_key.reveal()).expect("a key of any length is good for HMAC");
        key.update(b"convoke-bus-v1");
        let cipher = XChaCha20Poly1305::new(&key.finalize().into_bytes());
        Self { cipher, hub, epoch, last: AtomicU64::new(0), seen: Mutex::default() }
    }

    /// Seals a message for a subject.
    pub fn seal(&self, subject: &Subject, body: &[u8]) -> Result<Bytes, Unopened> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| Unopened::NoRandomness)?;
        let mut sealed = BytesMut::with_capacity(HEAD + NONCE + body.len() + 16);
        sealed.put_u8(VERSION);
        sealed.put_slice(self.hub.uuid().as_bytes());
        sealed.put_u64(self.epoch);
        sealed.put_u64(number);
        let aad = bound(&sealed, subject);
        let ciphertext = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: body, aad: &aad });
        sealed.put_slice(&nonce);
        sealed.put_slice(&ciphertext.map_err(|_| Unopened::Foreign)?);
        Ok(sealed.freeze())
    }

    /// Opens a message that came on a subject, once.
    pub fn open(&self, subject: &Subject, sealed: &[u8]) -> Result<Opened, Unopened> {
        let (head, rest) = sealed.split_first_chunk::<HEAD>().ok_or(Unopened::Foreign)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>().ok_or(Unopened::Foreign)?;
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|n| head[at + n]));
        let hub = HubId::new(Uuid::from_bytes(std::array::from_fn(|n| head[1 + n])));
        let (epoch, number) = (number(17), number(25));
        if head[0] != VERSION {
            return Err(Unopened::Foreign);
        }
        let aad = bound(head, subject);
        let body = self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: ciphertext, aad: &aad });
        let body = body.map_err(|_| Unopened::Foreign)?;
        // Only what a hub has sealed gets a place here.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST_HUBS && !seen.contains_key(&hub) {
            return Err(Unopened::Repeated);
        }
        seen.entry(hub).or_default().take(epoch, number)?;
        Ok(Opened { hub, epoch, body: body.into() })
    }
}

fn bound(head: &[u8], subject: &Subject) -> Vec<u8> {
    [head, subject.as_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn hub(n: u128) -> HubId {
        HubId::new(Uuid::from_u128(n))
    }

    fn envelope(key: u8, n: u128, epoch: u64) -> Envelope {
        Envelope::new(&SecretBytes::new([key; 32]), hub(n), epoch)
    }

    fn subject(text: &str) -> Subject {
        Subject::parse(text).expect("a subject")
    }

    #[test]
    fn a_message_opens_once_on_its_subject_with_the_clusters_key() {
        let (a, b) = (envelope(1, 1, 3), envelope(1, 2, 1));
        let feed = subject("convoke.feed");
        let sealed = a.seal(&feed, b"hello").expect("seals");
        assert_eq!(b.open(&subject("convoke.other"), &sealed), Err(Unopened::Foreign));
        assert_eq!(envelope(2, 2, 1).open(&feed, &sealed), Err(Unopened::Foreign));
        let opened = b.open(&feed, &sealed).expect("opens");
        assert_eq!((opened.hub, opened.epoch, &opened.body[..]), (hub(1), 3, &b"hello"[..]));
        assert_eq!(b.open(&feed, &sealed), Err(Unopened::Repeated));
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(envelope(1, 2, 1).open(&feed, &changed).is_err(), "byte {at}");
        }
        assert_eq!(b.open(&feed, b"short"), Err(Unopened::Foreign));
    }

    #[test]
    fn an_earlier_epoch_is_over_once_a_later_one_was_heard() {
        let (old, new, b) = (envelope(1, 1, 3), envelope(1, 1, 4), envelope(1, 2, 1));
        let feed = subject("convoke.feed");
        let late = old.seal(&feed, b"late").expect("seals");
        assert!(b.open(&feed, &new.seal(&feed, b"new").expect("seals")).is_ok());
        assert_eq!(b.open(&feed, &late), Err(Unopened::Overtaken));
    }

    proptest! {
        /// Against a set of all that has come: nothing is taken twice, and what is new within the window is taken.
        #[test]
        fn numbers_are_taken_once(numbers in prop::collection::vec((1_u64..300, 0_u64..3), 1..200)) {
            let (mut seen, mut model, mut newest) = (Seen::default(), HashSet::new(), 0);
            for (number, turns) in numbers {
                let number = number + turns * (WINDOW - 100);
                let is_new = model.insert(number) && number + WINDOW > newest;
                newest = newest.max(number);
                prop_assert_eq!(seen.take(0, number).is_ok(), is_new, "{}", number);
            }
        }
    }
}
