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
/// How long an answer waits for room, and with it the connection that it came on: callers who read make some quickly.
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
    pub fn take(&self, told: Told) -> Result<Told, Told> {
        if !told.needs_room() {
            return Ok(told);
        }
        match Arc::clone(&self.room).try_acquire_many_owned(self.room_for(&told)) {
            Ok(room) => Ok(told.with(room)),
            Err(_) => Err(told),
        }
    }

    /// The same once there is room, in turn, if that does not take too long.
    pub async fn take_in_time(&self, told: Told) -> Result<Told, Told> {
        let room = Arc::clone(&self.room).acquire_many_owned(self.room_for(&told));
        match tokio::time::timeout(PATIENCE, room).await {
            Ok(Ok(room)) => Ok(told.with(room)),
            _ => Err(told),
        }
    }

    /// One that is larger than all there is has it for itself.
    fn room_for(&self, told: &Told) -> u32 {
        u32::try_from(told.get().len().saturating_mul(COPIES)).unwrap_or(u32::MAX).min(self.limit)
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
    /// Whether it is to be counted, and is not yet.
    fn needs_room(&self) -> bool {
        self.0.held.is_none() && self.get().len() > SMALL
    }

    fn with(self, room: OwnedSemaphorePermit) -> Self {
        let text = Arc::try_unwrap(self.0).map_or_else(|shared| shared.text.clone(), |alone| alone.text);
        Self(Arc::new(Kept { text, held: Some(room) }))
    }

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

    fn answer(size: usize) -> Told {
        RawValue::from_string(format!("\"{}\"", "x".repeat(size - 2))).expect("JSON").into()
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
    async fn those_who_find_no_room_get_it_one_after_another() {
        let answers = Arc::new(Answers::new(1_000_000));
        let first = answers.take(answer(300_000)).expect("room");
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let answers = Arc::clone(&answers);
            waiting.spawn(async move { answers.take_in_time(answer(300_000)).await.map(drop).is_ok() });
        }
        tokio::task::yield_now().await;
        assert!(answers.take(answer(100_000)).is_err(), "nobody goes before who waits");
        drop(first);
        assert_eq!(waiting.join_all().await, [true; 5]);
        assert_eq!(answers.held(), 0);
    }

    #[test]
    fn one_that_has_its_room_needs_no_more() {
        let answers = Answers::new(1_000_000);
        let told = answers.take(answer(400_000)).expect("room");
        let again = answers.take(told.clone()).expect("it has it");
        assert_eq!(answers.held(), 800_000);
        drop((told, again));
        assert_eq!(answers.held(), 0);
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
