//! What peers can make the hub tell in its own log.

use std::sync::{Arc, LazyLock};

use serde_json::json;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};

use crate::sonde::{enrolled, envelope, field_register, join, key};
use crate::support::{Bare, TestHub};

/// More than an agent may cause in a minute, even if a minute ends meanwhile.
const MANY: usize = 150;
/// What it may cause in two, with the words that more are counted.
const MOST: usize = 122;

/// What is logged on this thread, on which the whole hub of a test runs.
struct Log {
    file: NamedTempFile,
    _guard: DefaultGuard,
}

/// With one subscriber in the process, whichever thread comes first to a line decides for all whether it is told, by its own
/// default, and another test's thread has none. With two that are alive every thread is asked.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

impl Log {
    fn keep() -> Self {
        LazyLock::force(&SECOND);
        let file = NamedTempFile::new().expect("a file");
        let to = Arc::new(file.reopen().expect("opens"));
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(to).finish();
        Self { file, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines that say this.
    fn lines(&self, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file.path()).expect("UTF-8");
        text.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
    }

    #[track_caller]
    fn is_bounded(&self, what: &str) {
        let lines = self.lines(what);
        assert!((60..=MOST).contains(&lines.len()), "{} lines", lines.len());
        let counted = |line: &String| line.contains("further lines about it in this minute are only counted");
        assert!(lines.iter().any(counted), "{}", lines[0]);
    }
}

/// Sends what no WebSocket sends, and waits for the end of it.
async fn break_off(mut socket: Bare) {
    // A reserved bit.
    socket.0.get_mut().write_all(&[0xc1, 0x80, 0, 0, 0, 0]).await.expect("sends");
    assert_eq!(socket.closed().await, Some(1002));
}

#[tokio::test]
async fn a_kenny_agent_that_breaks_off_again_and_again_does_not_fill_the_log() {
    let log = Log::keep();
    let hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    for _ in 0..MANY {
        break_off(hub.connect("pc", key.clone()).await.socket).await;
    }
    log.is_bounded("closed an agent's connection");
    let other = hub.agent("other").await;
    break_off(other.socket).await;
    assert_eq!(log.lines("agent=other").len(), 1, "others have their own bound");
}

#[tokio::test]
async fn a_sonde_agent_that_breaks_off_again_and_again_does_not_fill_the_log() {
    let log = Log::keep();
    let hub = TestHub::start().await;
    let key = key(&enrolled(&hub, "web-1").await);
    for _ in 0..MANY {
        break_off(join(&hub, &key, &field_register("web-1")).await.socket).await;
    }
    log.is_bounded("closed an agent's connection");
}

#[tokio::test]
async fn odd_messages_of_a_sonde_agent_over_many_connections_do_not_fill_the_log() {
    let log = Log::keep();
    let hub = TestHub::start().await;
    let key = key(&enrolled(&hub, "web-1").await);
    for _ in 0..MANY / 30 {
        let mut agent = join(&hub, &key, &field_register("web-1")).await;
        for _ in 0..30 {
            agent.socket.send("not json").await;
            agent.socket.next().await.expect("an answer");
        }
    }
    log.is_bounded("rejected a message of an agent");
}

#[tokio::test]
async fn refusals_of_a_sonde_agent_do_not_fill_the_log() {
    let log = Log::keep();
    let hub = TestHub::start().await;
    let key = key(&enrolled(&hub, "web-1").await);
    for _ in 0..MANY {
        let mut socket = crate::sonde::knock(&hub, Some(&key), "").await.expect("upgrades");
        socket.send(envelope("agent.register", None, &json!(field_register("web-2"))).to_string()).await;
        assert_eq!(socket.closed().await, Some(4001));
    }
    log.is_bounded("refused a Sonde agent");
}

#[tokio::test]
async fn messages_into_a_room_that_there_is_not_do_not_fill_the_log() {
    let log = Log::keep();
    let hub = TestHub::with(&[("yonexus.frames_per_second", "1000")]).await;
    assert_eq!(hub.post("/api/rooms", json!({ "name": "lobby" })).await.status, 200);
    hub.rule("news", json!({ "room": { "room": "lobby" } })).await;
    assert_eq!(hub.delete("/api/rooms/lobby").await, 200);
    let mut client = hub.live("client-a").await;
    for _ in 0..MANY {
        client.send("news::hello").await;
    }
    client.settled().await;
    log.is_bounded("a rule posts into a room that does not exist");
}

#[tokio::test]
async fn a_connection_that_takes_the_place_of_an_open_one_is_told() {
    let log = Log::keep();
    let hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    let first = hub.connect("pc", key.clone()).await;
    assert_eq!(log.lines("two machines have the same key").len(), 0);
    let _second = hub.connect("pc", key).await;
    assert_eq!(log.lines("two machines have the same key").len(), 1);
    let both = hub.until("/api/journal?kind=auth&agent=pc", |page| page["records"][1].is_object()).await;
    let replaced: Vec<_> =
        both["records"].as_array().expect("a list").iter().map(|r| r["detail"]["replaced"].clone()).collect();
    assert_eq!(replaced, [serde_json::Value::Null, json!(true)]);
    drop(first);
}

#[tokio::test]
async fn a_sonde_connection_that_takes_the_place_of_an_open_one_is_told() {
    let log = Log::keep();
    let hub = TestHub::start().await;
    let first = enrolled(&hub, "web-1").await;
    assert_eq!(log.lines("two machines have the same key").len(), 0);
    let second = join(&hub, &key(&first), &field_register("web-1")).await;
    assert_eq!(log.lines("two machines have the same key").len(), 1);
    let path = format!("/api/journal?kind=auth&agent=sonde:{}", second.id);
    let both = hub.until(&path, |page| page["records"][1].is_object()).await;
    let replaced: Vec<_> =
        both["records"].as_array().expect("a list").iter().map(|r| r["detail"]["replaced"].clone()).collect();
    assert_eq!(replaced, [serde_json::Value::Null, json!(true)]);
}
