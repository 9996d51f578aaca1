//! Results for a short while: the same probe with the same parameters on the same agent is asked once, however many ask
//! at the same moment. Looked at only after the gate has said yes to the very caller, so nobody sees through it what
//! they could not have asked for.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::id::PeerId;
use tokio::sync::OnceCell;

use super::live::PROBE_TIMEOUT;
use convoke_gate::link::{Answer, Failure};

/// Most results kept; the oldest go first.
const MAX_ENTRIES: usize = 4096;
/// Most bytes of results kept.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Whom.
    pub agent: PeerId,
    /// What.
    pub probe: String,
    /// With what: parameters in a fixed order.
    pub params: String,
    /// Whether for a caller who may read only below certain folders: an agent answers others more.
    pub limited: bool,
}

#[derive(Debug, Default)]
pub struct Cache {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    slots: HashMap<Question, Slot>,
    order: VecDeque<(Duration, Question)>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Slot {
    since: Duration,
    bytes: usize,
    cell: Arc<OnceCell<Answer>>,
}

impl Cache {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer that is there or under way, or a new one. Only successes are kept. A caller who stops waiting, or whose
    /// time is over, stops for itself alone: whoever waits for the same answer asks in its place, one at a time.
    pub async fn get<F>(&self, question: Question, now: Duration, life: Duration, ask: impl FnOnce() -> F) -> Answer
    where
        F: Future<Output = Asked>,
    {
        let slot = self.inner().slot(&question, now, life);
        let asking = || async {
            match ask().await {
                Asked { answer: Err(failure), in_time } if is_askers_own(&failure, in_time) => Err(failure),
                Asked { answer, .. } => Ok(answer),
            }
        };
        let answer = slot.cell.get_or_try_init(asking).await?.clone();
        self.inner().settle(&question, &slot, &answer);
        answer
    }

    /// How many results and bytes are kept.
    pub fn size(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.slots.len(), inner.bytes)
    }
}

/// An answer, and whether it came in time.
#[derive(Debug)]
pub struct Asked {
    /// The answer.
    pub answer: Answer,
    /// Whether it came before the asker's time was over.
    pub in_time: bool,
}

/// Who asked gave up, or may not ask any more, or had no more time, which an agent may be the first to say: that says
/// nothing to the others.
fn is_askers_own(failure: &Failure, in_time: bool) -> bool {
    let code = failure.code.as_str();
    match failure.by_peer {
        false => [code::CANCELLED, code::DENIED, code::TIMEOUT].contains(&code),
        true => code == PROBE_TIMEOUT && !in_time,
    }
}

impl Inner {
    fn slot(&mut self, question: &Question, now: Duration, life: Duration) -> Slot {
        // Everything that is too old goes now, not when it happens to be asked for again.
        while let Some((since, _)) = self.order.front()
            && (now.saturating_sub(*since) >= life || self.slots.len() >= MAX_ENTRIES || self.bytes > MAX_BYTES)
        {
            let Some((since, oldest)) = self.order.pop_front() else { break };
            if self.slots.get(&oldest).is_some_and(|slot| slot.since == since) {
                self.drop_slot(&oldest);
            }
        }
        if let Some(slot) = self.slots.get(question) {
            return slot.clone();
        }
        let slot = Slot { since: now, bytes: 0, cell: Arc::default() };
        self.slots.insert(question.clone(), slot.clone());
        self.order.push_back((now, question.clone()));
        slot
    }

    fn settle(&mut self, question: &Question, asked: &Slot, answer: &Answer) {
        let Some(slot) = self.slots.get_mut(question).filter(|slot| Arc::ptr_eq(&slot.cell, &asked.cell)) else {
            return;
        };
        match answer {
            Ok(result) if slot.bytes == 0 => {
                slot.bytes = result.get().len();
                self.bytes += slot.bytes;
            }
            Ok(_) => {}
            Err(_) => self.drop_slot(question),
        }
    }

    fn drop_slot(&mut self, question: &Question) {
        if let Some(slot) = self.slots.remove(question) {
            self.bytes -= slot.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::value::RawValue;

    use super::*;

    const LIFE: Duration = Duration::from_secs(10);

    fn question(n: usize) -> Question {
        let agent = PeerId::parse("sonde:7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11").expect("an id");
        Question { agent, probe: "system.disk.usage".into(), params: format!("{{\"n\":{n}}}"), limited: false }
    }

    fn came(answer: Answer, in_time: bool) -> Asked {
        Asked { answer, in_time }
    }

    async fn ask(cache: &Cache, n: usize, at: u64, asked: &AtomicUsize, good: bool) -> Answer {
        cache
            .get(question(n), Duration::from_secs(at), LIFE, || async {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                let answer = RawValue::from_string("{}".into()).expect("JSON");
                came(if good { Ok(answer.into()) } else { Err(Failure::new("x", "y")) }, true)
            })
            .await
    }

    #[tokio::test]
    async fn many_who_ask_at_once_ask_once() {
        let (cache, asked) = (Cache::default(), AtomicUsize::new(0));
        let (a, b, c) = tokio::join!(
            ask(&cache, 1, 0, &asked, true),
            ask(&cache, 1, 0, &asked, true),
            ask(&cache, 2, 0, &asked, true)
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        ask(&cache, 1, 9, &asked, true).await.expect("kept");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        ask(&cache, 1, 10, &asked, true).await.expect("asked again");
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert_eq!(cache.size(), (1, 2), "the other has gone by itself");
    }

    #[tokio::test]
    async fn failures_are_not_kept() {
        let (cache, asked) = (Cache::default(), AtomicUsize::new(0));
        ask(&cache, 1, 0, &asked, false).await.expect_err("fails");
        ask(&cache, 1, 0, &asked, true).await.expect("asked again");
        assert_eq!((asked.load(Ordering::Relaxed), cache.size()), (2, (1, 2)));
    }

    #[tokio::test]
    async fn who_stops_waiting_takes_nobody_along() {
        let here = |code| Failure::new(code, "stopped, its token was revoked, or its time is over");
        let there = Failure::of_peer(PROBE_TIMEOUT, "took too long");
        for (own, in_time) in
            [(here(code::CANCELLED), true), (here(code::DENIED), true), (here(code::TIMEOUT), true), (there, false)]
        {
            let (cache, count, own) = (Cache::default(), AtomicUsize::new(0), &own);
            let stopped = cache.get(question(1), Duration::ZERO, LIFE, || async move {
                tokio::task::yield_now().await;
                came(Err(own.clone()), in_time)
            });
            let (stopped, other) = tokio::join!(stopped, ask(&cache, 1, 0, &count, true));
            assert_eq!(stopped.expect_err("stopped").code, own.code);
            other.expect("asked in its place");
            assert_eq!((count.load(Ordering::Relaxed), cache.size()), (1, (1, 2)));
        }
    }

    #[tokio::test]
    async fn what_an_agent_gave_up_by_itself_is_told_to_all() {
        let (cache, count) = (Cache::default(), AtomicUsize::new(0));
        let first = cache.get(question(1), Duration::ZERO, LIFE, || async {
            tokio::task::yield_now().await;
            came(Err(Failure::of_peer(PROBE_TIMEOUT, "took too long")), true)
        });
        let (first, other) = tokio::join!(first, ask(&cache, 1, 0, &count, true));
        assert_eq!(first.expect_err("fails").code, other.expect_err("fails too").code);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let (cache, asked) = (Cache::default(), AtomicUsize::new(0));
        for n in 0..MAX_ENTRIES + 50 {
            ask(&cache, n, 0, &asked, true).await.expect("asks");
        }
        assert!(cache.size().0 <= MAX_ENTRIES);
    }
}
