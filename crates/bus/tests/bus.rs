//! What every bus must do, on both.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_bus::{Bus, BusError, InProcess, Nats, Subject};

const PATIENCE: Duration = Duration::from_secs(20);

fn subject(text: &str) -> Subject {
    Subject::parse(text).expect("a subject")
}

/// A bus as two hubs see it.
type Pair = (Arc<dyn Bus>, Arc<dyn Bus>);

async fn a_request_is_answered((a, b): Pair) {
    let link = Subject::of_link("sonde:0-1.x", 7);
    let mut requests = b.subscribe(&link).await.expect("subscribes");
    let answering = tokio::spawn(async move {
        let message = requests.next().await.expect("a message");
        assert_eq!(&message.body[..], b"ping");
        message.reply.expect("somebody asked").send(Bytes::from_static(b"pong")).await.expect("sends");
    });
    let answer = a.request(&link, Bytes::from_static(b"ping"), PATIENCE).await;
    assert_eq!(answer.expect("an answer"), "pong");
    answering.await.expect("no panic");
}

async fn nobody_there_is_known_at_once((a, b): Pair) {
    let link = Subject::of_link("pc", 1);
    // Short: what is asked while the subscription ends may still reach it, and is never answered.
    let ask = async || a.request(&link, Bytes::new(), Duration::from_millis(200)).await;
    let begun = Instant::now();
    assert_eq!(a.request(&link, Bytes::new(), PATIENCE).await, Err(BusError::NoResponders));
    let subscription = b.subscribe(&link).await.expect("subscribes");
    drop(subscription);
    // The end is not waited for by who drops it.
    while ask().await != Err(BusError::NoResponders) {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(begun.elapsed() < PATIENCE);
}

async fn an_answer_that_does_not_come_is_not_waited_for_for_ever((a, b): Pair) {
    let slow = subject("slow");
    let mut requests = b.subscribe(&slow).await.expect("subscribes");
    let answer = a.request(&slow, Bytes::new(), Duration::from_millis(50)).await;
    assert_eq!(answer, Err(BusError::TimedOut));
    let late = requests.next().await.expect("a message").reply.expect("somebody asked");
    late.send(Bytes::new()).await.expect("nobody minds");
}

async fn what_is_published_reaches_all_who_are_there((a, b): Pair) {
    let (feed, other) = (subject("convoke.feed"), subject("convoke.other"));
    a.publish(&feed, Bytes::from_static(b"nobody hears this")).await.expect("no error");
    let mut first = a.subscribe(&feed).await.expect("subscribes");
    let mut second = b.subscribe(&feed).await.expect("subscribes");
    let mut elsewhere = b.subscribe(&other).await.expect("subscribes");
    for n in 0..100_u8 {
        a.publish(&feed, Bytes::from(vec![n])).await.expect("publishes");
    }
    for subscription in [&mut first, &mut second] {
        for n in 0..100_u8 {
            let message = subscription.next().await.expect("a message");
            assert_eq!((&message.body[..], message.reply.is_none()), (&[n][..], true), "in order");
        }
    }
    a.publish(&other, Bytes::from_static(b"x")).await.expect("publishes");
    assert_eq!(elsewhere.next().await.expect("a message").body, "x", "and nothing of the other subject");
}

async fn what_is_too_large_is_refused((a, b): Pair) {
    let feed = subject("convoke.feed");
    let mut all = b.subscribe(&feed).await.expect("subscribes");
    let most = a.most_bytes();
    let refused = a.publish(&feed, Bytes::from(vec![0; most + 1])).await;
    assert_eq!(refused, Err(BusError::TooLarge { bytes: most + 1, most }));
    let refused = a.request(&feed, Bytes::from(vec![0; most + 1]), PATIENCE).await;
    assert_eq!(refused, Err(BusError::TooLarge { bytes: most + 1, most }));
    a.publish(&feed, Bytes::from(vec![1; most])).await.expect("fits");
    assert_eq!(all.next().await.expect("a message").body.len(), most);
    assert!(a.is_reachable() && b.is_reachable());
}

macro_rules! suite {
    ($pair:expr) => {
        a_request_is_answered($pair).await;
        nobody_there_is_known_at_once($pair).await;
        an_answer_that_does_not_come_is_not_waited_for_for_ever($pair).await;
        what_is_published_reaches_all_who_are_there($pair).await;
        what_is_too_large_is_refused($pair).await;
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_in_process() {
    let pair = || {
        let bus = InProcess::default();
        (Arc::new(bus.clone()) as Arc<dyn Bus>, Arc::new(bus) as Arc<dyn Bus>)
    };
    suite!(pair());
}

/// A server of Debian's package.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// None where it is not installed.
    fn start(port: u16) -> Option<Self> {
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        Some(Self { child, port })
    }

    async fn connect(&self) -> Nats {
        let begun = Instant::now();
        loop {
            match Nats::connect(&format!("nats://127.0.0.1:{}", self.port)).await {
                Ok(nats) => return nats,
                Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|taken| taken.local_addr()).expect("a free port").port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_over_nats() {
    let Some(server) = Server::start(free_port()) else {
        convoke_testing::skip("nats-server is not installed: `cargo xtask setup`");
        return;
    };
    let (a, b) = (server.connect().await, server.connect().await);
    let pair = || (Arc::new(a.clone()) as Arc<dyn Bus>, Arc::new(b.clone()) as Arc<dyn Bus>);
    suite!(pair());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_finds_its_subscribers_again() {
    let Some(server) = Server::start(free_port()) else {
        convoke_testing::skip("nats-server is not installed: `cargo xtask setup`");
        return;
    };
    let (a, b) = (server.connect().await, server.connect().await);
    let link = Subject::of_link("pc", 1);
    let mut requests = b.subscribe(&link).await.expect("subscribes");
    let answering = tokio::spawn(async move {
        while let Some(message) = requests.next().await {
            if let Some(reply) = message.reply {
                let _ = reply.send(Bytes::from_static(b"here")).await;
            }
        }
    });
    assert_eq!(a.request(&link, Bytes::new(), PATIENCE).await.expect("an answer"), "here");
    let port = server.port;
    drop(server);
    let begun = Instant::now();
    while a.is_reachable() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    let _server = Server::start(port).expect("starts again");
    loop {
        match a.request(&link, Bytes::new(), Duration::from_secs(1)).await {
            Ok(answer) => break assert_eq!(answer, "here"),
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
        }
    }
    answering.abort();
}

#[test]
fn a_subject_has_no_wildcards() {
    for bad in ["", "a.", ".a", "a..b", "a.*", "a.>", "a b", "a\n"] {
        assert!(Subject::parse(bad).is_none(), "{bad:?}");
    }
    let (one, other) = (Subject::of_link("a.1", 2), Subject::of_link("a", 12));
    assert_ne!(one, other);
    assert!(Subject::parse(one.as_str()).is_some());
}
