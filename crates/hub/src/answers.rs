//! What machines answered, and how much of it the hub holds at once. Each answer is bounded by its frame, and calls by their
//! number; but that many of that size would be more memory than any machine has.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Answers up to this size are not counted: there are many of them, and they do not stay.
pub const SMALL: usize = 64 * 1024;
/// How often a large answer is there while its caller is told: as it came, and as it goes out.
const COPIES: usize = 2;
/// How long the connection that an answer came on waits for room: callers who read make some quickly.
const PATIENCE: Duration = Duration::from_secs(3);
/// Large answers that are read at once: as values they take many times as much.
const READ_AT_ONCE: usize = 2;

/// Room for answers.
#[derive(Debug)]
pub struct Answers {
    room: Arc<Semaphore>,
    limit: u32,
    reading: Semaphore,
}

impl Answers {
    /// Room for so many bytes.
    pub fn new(limit: usize) -> Self {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        Self { room: Arc::new(Semaphore::new(limit as usize)), limit, reading: Semaphore::new(READ_AT_ONCE) }
    }

    /// Takes an answer in, and holds its room until the last who has it lets go of it. It comes back if there is no room.
    pub fn take(&self, text: Box<RawValue>) -> Result<Told, Box<RawValue>> {
        let size = text.get().len();
        if size <= SMALL {
            return Ok(text.into());
        }
        match Arc::clone(&self.room).try_acquire_many_owned(self.room_for(size)) {
            Ok(held) => Ok(Told(Arc::new(Kept { text, held: Some(held) }))),
            Err(_) => Err(text),
        }
    }

    /// Waits until there is room for an answer of this size, but not for long. Whoever comes from another thread in the moment after
    /// that may still take it away.
    pub async fn wait_for_room(&self, size: usize) {
        if !self.has_room(size) {
            let _ = tokio::time::timeout(PATIENCE, self.room.acquire_many(self.room_for(size))).await;
        }
    }

    /// Whether an answer of this size finds room at this moment.
    pub fn has_room(&self, size: usize) -> bool {
        size <= SMALL || self.room.available_permits() >= self.room_for(size) as usize
    }

    /// One that is larger than all there is has it for itself.
    fn room_for(&self, size: usize) -> u32 {
        u32::try_from(size.saturating_mul(COPIES)).unwrap_or(u32::MAX).min(self.limit)
    }

    /// Bytes that are held, or put aside for who waits.
    pub fn held(&self) -> usize {
        self.limit as usize - self.room.available_permits()
    }

    /// Waits for one's turn to read a large answer.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.reading.acquire().await.ok()
    }
}

/// What a machine answered.
#[derive(Clone, Debug)]
pub struct Told(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    text: Box<RawValue>,
    held: Option<OwnedSemaphorePermit>,
}

impl Told {
    /// A body in which this stands: while it goes out, its room is not given to others.
    pub fn in_body(&self, body: String) -> Bytes {
        struct Body(String, #[expect(dead_code, reason = "held, not read")] Told);
        impl AsRef<[u8]> for Body {
            fn as_ref(&self) -> &[u8] {
                self.0.as_bytes()
            }
        }
        if self.0.held.is_none() { body.into() } else { Bytes::from_owner(Body(body, self.clone())) }
    }
}

impl Deref for Told {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        &self.0.text
    }
}

impl From<Box<RawValue>> for Told {
    fn from(text: Box<RawValue>) -> Self {
        Self(Arc::new(Kept { text, held: None }))
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(size: usize) -> Box<RawValue> {
        RawValue::from_string(format!("\"{}\"", "x".repeat(size - 2))).expect("JSON")
    }

    #[test]
    fn what_is_held_is_given_back_with_the_last_who_has_it() {
        let answers = Answers::new(1_000_000);
        let first = answers.take(answer(300_000)).expect("room");
        assert_eq!(answers.held(), 600_000);
        assert!(answers.take(answer(300_000)).is_err(), "no room for its copies");
        let body = first.in_body("a body".into());
        assert_eq!(body, "a body");
        let second = first.clone();
        drop(first);
        drop(second);
        assert_eq!(answers.held(), 600_000, "it goes out");
        let half = body.slice(..3);
        drop(body);
        assert_eq!(answers.held(), 600_000);
        drop(half);
        assert_eq!(answers.held(), 0);
    }

    #[tokio::test]
    async fn one_that_finds_no_room_waits_for_those_who_are_told() {
        let answers = Answers::new(1_000_000);
        let first = answers.take(answer(300_000)).expect("room");
        answers.wait_for_room(SMALL).await;
        answers.wait_for_room(200_000).await;
        let mut waits = std::pin::pin!(answers.wait_for_room(300_000));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(waits.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        drop(first);
        waits.await;
        assert_eq!(answers.held(), 0, "it takes none itself");
        assert!(answers.take(answer(300_000)).is_ok());
    }

    #[test]
    fn small_ones_are_not_counted_and_one_that_is_too_large_for_all_comes_alone() {
        let answers = Answers::new(1_000_000);
        let small: Vec<_> = (0..100).map(|_| answers.take(answer(SMALL)).expect("always")).collect();
        assert_eq!((answers.held(), small.len()), (0, 100));
        let large = answers.take(answer(3_000_000)).expect("alone");
        assert_eq!(answers.held(), 1_000_000);
        assert!(answers.take(answer(SMALL + 1)).is_err());
        drop(large);
        assert!(answers.take(answer(SMALL + 1)).is_ok());
    }
}
