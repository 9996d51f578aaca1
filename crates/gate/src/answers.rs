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
/// How often a large answer is in memory while its caller is answered: as it came, and as it goes out.
const COPIES: usize = 2;
/// How long an answer waits for memory, and with it the connection that it came on: callers who read make some quickly.
const PATIENCE: Duration = Duration::from_secs(3);
/// Large answers that are read at once: as values they take many times as much.
const READ_AT_ONCE: usize = 2;

/// The memory that answers may take.
#[derive(Debug)]
pub struct Answers {
    memory: Arc<Semaphore>,
    limit: u32,
    reading: Semaphore,
}

impl Answers {
    /// At most so many bytes.
    pub fn new(limit: usize) -> Self {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        Self { memory: Arc::new(Semaphore::new(limit as usize)), limit, reading: Semaphore::new(READ_AT_ONCE) }
    }

    /// Reserves memory for an answer of this size, if it is free.
    pub fn reserve(&self, size: usize) -> Option<Reserved> {
        if size <= SMALL {
            return Some(Reserved(None));
        }
        Arc::clone(&self.memory).try_acquire_many_owned(self.counted(size)).ok().map(|held| Reserved(Some(held)))
    }

    /// The same once it is free, in turn, if that does not take too long.
    pub async fn reserve_in_time(&self, size: usize) -> Option<Reserved> {
        let permit = Arc::clone(&self.memory).acquire_many_owned(self.counted(size));
        let held = tokio::time::timeout(PATIENCE, permit).await.ok()?.ok()?;
        Some(Reserved(Some(held)))
    }

    /// One that is larger than the limit takes all of it.
    fn counted(&self, size: usize) -> u32 {
        u32::try_from(size.saturating_mul(COPIES)).unwrap_or(u32::MAX).min(self.limit)
    }

    /// Bytes in use, or set aside for an answer that waits for memory.
    pub fn held(&self) -> usize {
        self.limit as usize - self.memory.available_permits()
    }

    /// Waits for one's turn to read a large answer.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.reading.acquire().await.ok()
    }
}

/// Memory reserved for an answer until its last holder drops it; a small one reserves none.
#[derive(Debug)]
pub struct Reserved(Option<OwnedSemaphorePermit>);

/// What a machine answered.
#[derive(Clone, Debug)]
pub struct AnswerText(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    text: Box<RawValue>,
    held: Option<OwnedSemaphorePermit>,
}

impl AnswerText {
    /// With the memory reserved for it.
    pub fn new(text: Box<RawValue>, Reserved(held): Reserved) -> Self {
        Self(Arc::new(Kept { text, held }))
    }

    /// Whether it is to be counted, and is not yet.
    pub fn needs_memory(&self) -> bool {
        self.0.held.is_none() && self.get().len() > SMALL
    }

    /// The same with memory reserved for it.
    pub fn with(self, reserved: Reserved) -> Self {
        let text = Arc::try_unwrap(self.0).map_or_else(|shared| shared.text.clone(), |alone| alone.text);
        Self::new(text, reserved)
    }

    /// A body in which this stands: while it goes out, its memory is not given to others.
    pub fn in_body(&self, body: String) -> Bytes {
        struct Body(String, #[expect(dead_code, reason = "held, not read")] AnswerText);
        impl AsRef<[u8]> for Body {
            fn as_ref(&self) -> &[u8] {
                self.0.as_bytes()
            }
        }
        if self.0.held.is_none() { body.into() } else { Bytes::from_owner(Body(body, self.clone())) }
    }
}

impl Deref for AnswerText {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        &self.0.text
    }
}

impl From<Box<RawValue>> for AnswerText {
    fn from(text: Box<RawValue>) -> Self {
        Self(Arc::new(Kept { text, held: None }))
    }
}

impl Serialize for AnswerText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AnswerText {
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

    fn take(answers: &Answers, size: usize) -> Option<AnswerText> {
        answers.reserve(size).map(|room| AnswerText::new(answer(size), room))
    }

    #[test]
    fn what_is_held_is_given_back_with_the_last_who_has_it() {
        let answers = Answers::new(1_000_000);
        let first = take(&answers, 300_000).expect("room");
        assert_eq!(answers.held(), 600_000);
        assert!(take(&answers, 300_000).is_none(), "no room for its copies");
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
        let first = take(&answers, 300_000).expect("room");
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let answers = Arc::clone(&answers);
            waiting.spawn(async move { answers.reserve_in_time(300_000).await.is_some() });
        }
        tokio::task::yield_now().await;
        assert!(answers.reserve(100_000).is_none(), "nobody goes before who waits");
        drop(first);
        assert_eq!(waiting.join_all().await, [true; 5]);
        assert_eq!(answers.held(), 0);
    }

    #[test]
    fn one_that_has_its_room_needs_no_more_and_one_that_is_shared_gets_a_copy() {
        let answers = Answers::new(1_000_000);
        assert!(!take(&answers, 400_000).expect("room").needs_memory());
        let shared = AnswerText::from(answer(400_000));
        assert!(shared.needs_memory() && !AnswerText::from(answer(SMALL)).needs_memory());
        let counted = shared.clone().with(answers.reserve(400_000).expect("room"));
        assert!(!counted.needs_memory() && shared.needs_memory());
        assert_eq!((counted.get() == shared.get(), answers.held()), (true, 800_000));
        drop(counted);
        assert_eq!(answers.held(), 0);
    }

    #[test]
    fn small_ones_are_not_counted_and_one_that_is_too_large_for_all_comes_alone() {
        let answers = Answers::new(1_000_000);
        let small: Vec<_> = (0..100).map(|_| take(&answers, SMALL).expect("always")).collect();
        assert_eq!((answers.held(), small.len()), (0, 100));
        let large = take(&answers, 3_000_000).expect("alone");
        assert_eq!(answers.held(), 1_000_000);
        assert!(take(&answers, SMALL + 1).is_none());
        drop(large);
        assert!(take(&answers, SMALL + 1).is_some());
    }
}
