//! Two endpoints joined without a socket, with a clock of the test's own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use convoke_kibitz::mesh::pack::Value;
use convoke_rtc::{Config, Endpoint, Event, LinkId};

struct Pair {
    ends: [(Endpoint, SocketAddr); 2],
    now: Instant,
    heard: [Vec<Event>; 2],
    /// Another address of the first.
    second: SocketAddr,
}

impl Pair {
    fn new(lite: [bool; 2]) -> Self {
        let end = |n: u16, lite: bool| {
            let address: SocketAddr = ([10, 0, 0, 1], 4_000 + n).into();
            let config = Config { address, lite, links: (4, 4) };
            (Endpoint::new(config).expect("an endpoint"), address)
        };
        let second = ([10, 0, 0, 1], 4_002).into();
        Self {
            ends: [end(0, lite[0]), end(1, lite[1])],
            now: Instant::now(),
            heard: [Vec::new(), Vec::new()],
            second,
        }
    }

    /// Passes on what there is until both wait.
    fn settle(&mut self) {
        loop {
            let mut idle = true;
            for n in 0..2 {
                let other = 1 - n;
                let to = self.ends[other].1;
                while let Some(datagram) = self.ends[n].0.next_datagram() {
                    idle = false;
                    if datagram.to == to || datagram.to == self.second {
                        self.ends[other].0.on_datagram(datagram.from, datagram.to, &datagram.bytes, self.now);
                    }
                }
                while let Some(event) = self.ends[n].0.next_event() {
                    idle = false;
                    match event {
                        Event::Signal(message) => self.ends[other].0.on_signal(&message, self.now),
                        event => self.heard[n].push(event),
                    }
                }
            }
            if idle {
                return;
            }
        }
    }

    fn run(&mut self, seconds: u64, until: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + Duration::from_secs(seconds);
        self.settle();
        while !until(self) && self.now < end {
            let due = self.ends.iter().filter_map(|(end, _)| end.due()).min().unwrap_or(end);
            self.now = due.max(self.now + Duration::from_millis(1)).min(end);
            for (end, _) in &mut self.ends {
                end.on_time(self.now);
            }
            self.settle();
        }
        until(self)
    }

    fn open(&self, n: usize) -> Option<(LinkId, String)> {
        self.heard[n].iter().find_map(|event| match event {
            Event::Open { link, fingerprint, .. } => Some((*link, fingerprint.clone())),
            _ => None,
        })
    }

    fn values(&self, n: usize) -> Vec<&Value> {
        let value = |event: &'_ Event| matches!(event, Event::Message(..));
        self.heard[n]
            .iter()
            .filter(|e| value(e))
            .filter_map(|e| if let Event::Message(_, v) = e { Some(v) } else { None })
            .collect()
    }
}

#[test]
fn two_ends_connect_show_their_certificates_and_talk_in_messages_of_any_size() {
    for lite in [[false, true], [false, false]] {
        let mut pair = Pair::new(lite);
        pair.ends[0].0.dial("a", "b", pair.now).expect("dials");
        assert!(pair.run(10, |pair| pair.open(0).is_some() && pair.open(1).is_some()), "{lite:?}");
        let ((ours, shown), (theirs, shown_back)) = (pair.open(0).expect("open"), pair.open(1).expect("open"));
        assert_eq!(
            (shown.as_str(), shown_back.as_str()),
            (pair.ends[1].0.fingerprint(), pair.ends[0].0.fingerprint())
        );
        let large = Value::Text("x".repeat(300_000));
        assert!(pair.ends[0].0.send(ours, &large, pair.now));
        assert!(pair.ends[1].0.send(theirs, &Value::Int(7), pair.now));
        assert!(pair.run(10, |pair| !pair.values(0).is_empty() && !pair.values(1).is_empty()));
        assert!(pair.values(0) == [&Value::Int(7)] && pair.values(1) == [&large]);
        pair.ends[1].0.close(theirs, pair.now);
        let gone = |pair: &Pair, n: usize| pair.heard[n].iter().any(|event| matches!(event, Event::Closed { .. }));
        assert!(pair.run(10, |pair| gone(pair, 0) && gone(pair, 1)), "a goodbye ends both ends");
    }
}

#[test]
fn two_connections_between_the_same_two_have_a_socket_each() {
    let mut pair = Pair::new([false, true]);
    let second = pair.second;
    pair.ends[0].0.dial("a", "presence", pair.now).expect("dials");
    pair.ends[0].0.dial_from(second, "a", "content", pair.now).expect("dials");
    let count = |pair: &Pair, n: usize| pair.heard[n].iter().filter(|e| matches!(e, Event::Open { .. })).count();
    assert!(pair.run(10, |pair| count(pair, 0) == 2 && count(pair, 1) == 2));
    let links =
        pair.heard[0].iter().filter_map(|e| if let Event::Open { link, .. } = e { Some(*link) } else { None });
    for (n, link) in links.collect::<Vec<_>>().into_iter().enumerate() {
        assert!(pair.ends[0].0.send(link, &Value::Int(n as i64), pair.now));
    }
    assert!(pair.run(10, |pair| pair.values(1).len() == 2));
}

#[test]
fn what_nobody_answers_is_given_up() {
    let mut pair = Pair::new([false, true]);
    pair.ends[0].0.dial("a", "b", pair.now).expect("dials");
    // The offer is lost.
    while pair.ends[0].0.next_event().is_some() {}
    assert!(pair.run(30, |pair| matches!(pair.heard[0].as_slice(), [Event::Closed { .. }])));
    for n in 0..4 {
        pair.ends[0].0.dial("a", &n.to_string(), pair.now).expect("dials");
    }
    assert!(pair.ends[0].0.dial("a", "more", pair.now).is_none(), "there is a most");
}
