//! Large answers: the hub holds so much of them, and no more, whoever does not read.

use futures_util::SinkExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::{PATIENCE, TOKEN, TestAgent, TestHub};

/// More than the buffers of a narrow connection hold.
const SIZE: usize = 7_000_000;
/// What it takes as it came and as it goes out.
const HELD: usize = 2 * (SIZE + r#"{"content":""}"#.len());

async fn answer(agent: &mut TestAgent) {
    let request = agent.request().await;
    agent.answer(&request.id, json!({ "content": "x".repeat(SIZE) })).await;
}

#[tokio::test]
async fn answers_that_nobody_reads_take_no_more_room_than_there_is() {
    // For one.
    let hub = TestHub::with(&[("calls.max_answer_bytes_held", "16777216")]).await;
    let mut agent = hub.agent("pc").await;
    let mut idle = hub.narrow_stream().await;
    let body = json!({ "tool": "fs_read", "args": { "path": "/x" } }).to_string();
    let head = format!(
        "POST /api/agents/pc/call HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        hub.hub().listen,
        body.len()
    );
    idle.write_all(format!("{head}{body}").as_bytes()).await.expect("is sent");
    answer(&mut agent).await;
    let mut first = vec![0; 1024];
    idle.read_exact(&mut first).await.expect("the answer begins");
    assert_eq!(hub.hub().answers.held(), HELD, "and the rest waits for its reader");

    let call = hub.post("/api/agents/pc/call", json!({ "tool": "fs_read", "args": { "path": "/x" } }));
    let (refused, ()) = tokio::join!(call, answer(&mut agent));
    assert_eq!(refused.body["error"]["code"], "busy", "{refused:?}");
    let message = refused.body["error"]["message"].as_str().expect("a sentence");
    assert!(message.contains("max_answer_bytes_held") && message.contains("machine answered"), "{message}");
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!(records.last().expect("a record")["outcome"], "busy", "{records:?}");

    // What is small finds room at any time.
    let call = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list", "args": { "path": "/" } }));
    let small = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "entries": [] })).await;
    };
    assert_eq!(tokio::join!(call, small).0.body["ok"], true);

    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, idle.read_to_end(&mut rest)).await.expect("in time").expect("is read");
    assert!(rest.len() > SIZE - 1024 && rest.ends_with(b"}"));
    // It is remembered for whoever asks again, and gives way to what nobody has heard yet.
    for _ in 0..2 {
        let call = hub.post("/api/agents/pc/call", json!({ "tool": "fs_read", "args": { "path": "/x" } }));
        let (told, ()) = tokio::join!(call, answer(&mut agent));
        assert_eq!(told.body["result"]["content"].as_str().map(str::len), Some(SIZE));
    }
    assert_eq!(hub.hub().answers.held(), HELD);
}

#[tokio::test]
async fn answers_that_come_at_once_take_turns() {
    // For less than one.
    let hub = TestHub::with(&[("hub.max_bytes_arriving", "1048576")]).await;
    let (mut slow, mut other) = (hub.agent("slow").await, hub.agent("other").await);
    let ask = |agent: &str| {
        let path = format!("/api/agents/{agent}/call");
        let hub = &hub;
        async move { hub.post(&path, json!({ "tool": "fs_read", "args": { "path": "/x" } })).await }
    };
    let turns = async {
        let request = slow.request().await;
        let content = "x".repeat(SIZE);
        let frame = json!({ "type": "response", "id": request.id, "ok": true, "result": { "content": content } });
        let (start, rest) = (frame.to_string().into_bytes(), SIZE / 2);
        let piece =
            |bytes: &[u8], kind, is_last| Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(kind), is_last));
        slow.socket.0.send(piece(&start[..rest], Data::Text, false)).await.expect("is sent");
        let receive_budget = &convoke_wires::Wires::of(hub.hub()).receive_budget;
        while receive_budget.held() == 0 {
            tokio::task::yield_now().await;
        }
        // All of it can be sent only if it is read.
        let behind = tokio::spawn(async move {
            answer(&mut other).await;
            other
        });
        while receive_budget.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        // What is small goes by.
        let mut third = hub.agent("third").await;
        let small = async {
            let request = third.request().await;
            third.answer(&request.id, json!({ "entries": [] })).await;
        };
        assert_eq!(tokio::join!(ask("third"), small).0.body["ok"], true);
        assert_eq!(receive_budget.waiting(), 1);
        slow.socket.0.send(piece(&start[rest..], Data::Continue, true)).await.expect("is sent");
        behind.await.expect("is sent");
    };
    let all = async { tokio::join!(ask("slow"), ask("other"), turns) };
    let (first, second, ()) = tokio::time::timeout(PATIENCE, all).await.expect("in time");
    for told in [first, second] {
        assert_eq!(told.body["result"]["content"].as_str().map(str::len), Some(SIZE));
    }
    let given_back = async {
        while convoke_wires::Wires::of(hub.hub()).receive_budget.held() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, given_back).await.expect("in time");
}
