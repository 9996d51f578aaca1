//! The stream of events: a bounded ring in memory that every reader reads at its own pace.
//!
//! An event is published once it is committed and in force. Publishing never waits: the ring drops its oldest events, and a
//! reader that has not come so far is told that it missed some.

mod publish;
mod visible;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_core::event::{Cursor, Event, Position};
use convoke_core::id::{HubId, TokenId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::visible::is_visible;
use crate::clock;

/// Most events in memory.
const MAX_EVENTS: usize = 16_384;
/// Most bytes of them, about.
const MAX_BYTES: usize = 4 << 20;

/// One event with its place.
#[derive(Debug)]
pub struct Published {
    /// Its place among the events of this start, from 1 on.
    pub seq: u64,
    /// The event.
    pub event: Event,
    /// Its JSON object.
    pub data: String,
}

impl Published {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + 2 * self.data.len()
    }
}

/// The stream.
#[derive(Debug)]
pub struct Events {
    hub: HubId,
    epoch: u64,
    ring: Mutex<Ring>,
    /// The last place, for those who wait for more.
    last: watch::Sender<u64>,
    streams: Streams,
    max_streams: usize,
    max_streams_per_token: usize,
}

/// The streams that tokens read: how many of each, and what ends them.
type Streams = Arc<Mutex<HashMap<TokenId, (usize, CancellationToken)>>>;

#[derive(Debug)]
struct Ring {
    events: VecDeque<Arc<Published>>,
    bytes: usize,
    last: u64,
    max_events: usize,
    max_bytes: usize,
}

impl Ring {
    fn push(&mut self, event: Event) -> u64 {
        self.last += 1;
        let data = event.data();
        let published = Arc::new(Published { seq: self.last, event, data });
        self.bytes += published.bytes();
        self.events.push_back(published);
        while self.events.len() > self.max_events || self.bytes > self.max_bytes {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.bytes();
        }
        self.last
    }

    /// The first place after which everything is still here.
    fn begin(&self) -> u64 {
        self.last - self.events.len() as u64
    }

    fn after(&self, seq: u64) -> Option<&Arc<Published>> {
        let index = usize::try_from(seq.checked_sub(self.begin())?).ok()?;
        self.events.get(index)
    }
}

/// Some events are no longer there: the reader looks at everything anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed;

/// Why a token gets no further stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStream {
    /// The token reads as many as it may.
    OfToken,
    /// All tokens together do.
    OfHub,
}

/// A stream that somebody reads; it counts until it is dropped.
#[derive(Debug)]
pub struct Stream {
    token: TokenId,
    streams: Streams,
    ended: CancellationToken,
}

impl Stream {
    /// Resolves once the token is revoked.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = streams.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.token);
            }
        }
    }
}

impl Events {
    /// The stream of a hub that starts now.
    pub fn new(hub: HubId, max_streams: usize, max_streams_per_token: usize) -> Self {
        let millis = u64::try_from(clock::now().millis()).unwrap_or_default();
        // Two starts within one moment differ, too.
        let epoch = millis << 16 | u64::from(u16::from_le_bytes(clock::random()));
        let ring = Ring { events: VecDeque::new(), bytes: 0, last: 0, max_events: MAX_EVENTS, max_bytes: MAX_BYTES };
        Self {
            hub,
            epoch,
            ring: Mutex::new(ring),
            last: watch::Sender::new(0),
            streams: Arc::default(),
            max_streams,
            max_streams_per_token,
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what has happened: it is committed and in force by now.
    pub fn publish(&self, event: Event) {
        let last = self.ring().push(event);
        // Of two that publish at once, either may be here first.
        self.last.send_if_modified(|known| std::mem::replace(known, last.max(*known)) < last);
    }

    /// Reads from now on.
    pub fn subscribe(&self) -> Subscription {
        let last = self.last.subscribe();
        Subscription { seq: self.ring().last, last }
    }

    /// Reads on after a cursor. Nothing where it is of another hub or another start, or what follows it is gone.
    pub fn subscribe_after(&self, cursor: &Cursor) -> Option<Subscription> {
        let Position { epoch, seq } = cursor.position(self.hub)?;
        let last = self.last.subscribe();
        let ring = self.ring();
        (epoch == self.epoch && (ring.begin()..=ring.last).contains(&seq)).then_some(Subscription { seq, last })
    }

    /// The cursor of who has read up to this place.
    pub fn cursor(&self, seq: u64) -> Cursor {
        Cursor::at(self.hub, Position { epoch: self.epoch, seq })
    }

    /// Counts one more stream of a token.
    pub fn stream(&self, token: TokenId) -> Result<Stream, NoStream> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.get(&token).is_some_and(|(count, _)| *count >= self.max_streams_per_token) {
            return Err(NoStream::OfToken);
        }
        if streams.values().map(|(count, _)| count).sum::<usize>() >= self.max_streams {
            return Err(NoStream::OfHub);
        }
        let (count, ended) = streams.entry(token).or_default();
        *count += 1;
        Ok(Stream { token, streams: Arc::clone(&self.streams), ended: ended.clone() })
    }

    /// How many streams are open.
    pub fn streams(&self) -> usize {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).values().map(|(count, _)| count).sum()
    }

    /// A token is revoked, or a user's session ends: its streams end at once.
    pub fn end_streams(&self, token: TokenId) {
        if let Some((_, ended)) = self.streams.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&token) {
            // A user whose one session ends has others: what they open from now on goes on.
            std::mem::take(ended).cancel();
        }
    }
}

/// A place in the stream from which somebody reads on.
#[derive(Debug)]
pub struct Subscription {
    /// The last event that was read.
    seq: u64,
    last: watch::Receiver<u64>,
}

impl Subscription {
    /// The place of the last event that was read.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The next event, if there is one by now. A reader that missed some goes on from now.
    pub fn try_next(&mut self, events: &Events) -> Option<Result<Arc<Published>, Missed>> {
        let ring = events.ring();
        if self.seq == ring.last {
            return None;
        }
        let Some(next) = ring.after(self.seq) else {
            self.seq = ring.last;
            return Some(Err(Missed));
        };
        self.seq = next.seq;
        Some(Ok(Arc::clone(next)))
    }

    /// Resolves once there may be more than what was read.
    pub async fn more(&mut self) {
        let seq = self.seq;
        if self.last.wait_for(|last| *last > seq).await.is_err() {
            // The hub is gone, and nothing will come any more.
            std::future::pending::<()>().await;
        }
    }

    /// The next event. Whoever stops waiting misses nothing.
    pub async fn next(&mut self, events: &Events) -> Result<Arc<Published>, Missed> {
        loop {
            if let Some(next) = self.try_next(events) {
                return next;
            }
            self.more().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use convoke_core::event::{PolicyEvent, RuleList};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn events(max_events: usize, max_bytes: usize) -> Events {
        let events = Events::new(HubId::new(Uuid::from_u128(1)), 3, 2);
        events.ring().max_events = max_events;
        events.ring().max_bytes = max_bytes;
        events
    }

    fn event(n: u64) -> Event {
        Event::Policy(PolicyEvent { list: RuleList::Deny, rule: n.to_string(), removed: false })
    }

    fn number(published: &Published) -> u64 {
        let Event::Policy(event) = &published.event else { panic!("another event: {published:?}") };
        event.rule.parse().expect("a number")
    }

    #[tokio::test]
    async fn who_waits_hears_and_who_comes_back_goes_on() {
        let events = events(10, 1 << 20);
        let mut reader = events.subscribe();
        let (heard, ()) = tokio::join!(reader.next(&events), async { events.publish(event(1)) });
        assert_eq!(heard.map(|heard| number(&heard)), Ok(1));
        let cursor = events.cursor(reader.seq());
        drop(reader);
        events.publish(event(2));
        let text = cursor.to_string();
        let mut reader = events.subscribe_after(&Cursor::parse(&text).expect("a cursor")).expect("it is all there");
        assert_eq!(reader.next(&events).await.map(|heard| number(&heard)), Ok(2));
        let more = tokio::time::timeout(Duration::from_millis(5), reader.next(&events)).await;
        assert!(more.is_err(), "each once: {more:?}");
    }

    #[test]
    fn a_cursor_of_another_hub_or_start_or_time_is_not_taken() {
        let events = events(2, 1 << 20);
        (1..=5).for_each(|n| events.publish(event(n)));
        let at = |seq| events.subscribe_after(&events.cursor(seq)).is_some();
        assert_eq!([0, 2, 3, 5, 6].map(at), [false, false, true, true, false]);
        let elsewhere = Cursor::at(HubId::new(Uuid::from_u128(2)), Position { epoch: events.epoch, seq: 5 });
        assert!(events.subscribe_after(&elsewhere).is_none());
        let before = Cursor::at(events.hub, Position { epoch: events.epoch - 1, seq: 5 });
        assert!(events.subscribe_after(&before).is_none());
    }

    #[test]
    fn streams_are_counted_by_token_and_in_all() {
        let events = events(2, 100);
        let token = |n| TokenId::new(Uuid::from_u128(n));
        let first = events.stream(token(1)).expect("a place");
        let _second = events.stream(token(1)).expect("a place");
        assert_eq!(events.stream(token(1)).err(), Some(NoStream::OfToken));
        let _third = events.stream(token(2)).expect("a place");
        assert_eq!(events.stream(token(2)).err(), Some(NoStream::OfHub));
        drop(first);
        assert!(events.stream(token(2)).is_ok());
    }

    proptest! {
        /// Whatever is published and whenever a reader reads: it gets every event once and in order, unless it is told
        /// that it missed some.
        #[test]
        fn there_is_no_gap_without_word_of_it(
            steps in proptest::collection::vec((0..6_u64, 0..3_usize, 0..4_usize, any::<bool>()), 1..60),
            max_events in 1..12_usize,
            kib in 1..4_usize,
        ) {
            let events = events(max_events, kib * 1024);
            let mut published = 0;
            let mut readers: Vec<(Subscription, u64)> = (0..3).map(|_| (events.subscribe(), 0)).collect();
            for (count, who, reads, comes_back) in steps {
                for _ in 0..count {
                    published += 1;
                    events.publish(event(published));
                }
                let (reader, seen) = &mut readers[who];
                if comes_back {
                    match events.subscribe_after(&events.cursor(reader.seq())) {
                        Some(again) => *reader = again,
                        None => {
                            *reader = events.subscribe();
                            *seen = published;
                        }
                    }
                }
                for _ in 0..reads {
                    match reader.try_next(&events) {
                        None => prop_assert_eq!(*seen, published),
                        Some(Ok(heard)) => {
                            prop_assert_eq!((heard.seq, number(&heard)), (*seen + 1, *seen + 1));
                            *seen += 1;
                        }
                        Some(Err(Missed)) => {
                            prop_assert!(*seen < published);
                            *seen = published;
                        }
                    }
                }
                let ring = events.ring();
                prop_assert!(ring.events.len() <= max_events && ring.bytes <= kib * 1024);
                prop_assert_eq!(ring.bytes, ring.events.iter().map(|event| event.bytes()).sum::<usize>());
            }
        }
    }
}
