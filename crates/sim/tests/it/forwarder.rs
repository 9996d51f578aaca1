//! The forwarder's own doors.

use bytes::Bytes;
use convoke_sim::answer::Answer;
use convoke_sim::http::Client;
use hyper::{Method, StatusCode};

use crate::support;

#[tokio::test]
async fn answers_with_the_agents_own_frame() {
    let forwarder = support::forwarder().await;
    let _swarm = support::swarm(&forwarder, 1, Answer::AtOnce).await;
    let mut client = Client::new(forwarder.address());
    let body = Bytes::from_static(br#"{"tool":"fs_list","args":{"path":"/"}}"#);
    let (status, answer) = client.send(Method::POST, "/api/agents/sim-00001/call", None, body).await.unwrap();
    assert_eq!(status, StatusCode::OK);
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((&answer["type"], &answer["ok"]), (&"response".into(), &true.into()));
    assert_eq!(answer["result"], serde_json::json!({ "entries": [] }));
}

#[tokio::test]
async fn with_a_file_every_answer_is_in_it_before_it_is_given() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("answers");
    let forwarder = support::forwarder_with(Some(&file)).await;
    let _swarm = support::swarm(&forwarder, 3, Answer::AtOnce).await;
    let calls = (0..30).map(|n| {
        let (mut client, file) = (Client::new(forwarder.address()), file.clone());
        async move {
            let body = Bytes::from_static(br#"{"tool":"fs_list","args":{"path":"/"}}"#);
            let path = format!("/api/agents/sim-{:05}/call", n % 3 + 1);
            let (status, answer) = client.send(Method::POST, &path, None, body).await.unwrap();
            assert_eq!(status, StatusCode::OK);
            let written = std::fs::read_to_string(&file).unwrap();
            assert!(written.contains(std::str::from_utf8(&answer).unwrap()), "answered, and not written");
        }
    });
    futures_util::future::join_all(calls).await;
    // A call that comes to nothing holds up nobody.
    let mut client = Client::new(forwarder.address());
    let body = Bytes::from_static(b"[]");
    let (status, _) = client.send(Method::POST, "/api/agents/sim-00001/call", None, body).await.unwrap();
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    let body = Bytes::from_static(br#"{"tool":"fs_list","args":{"path":"/"}}"#);
    let (status, _) = client.send(Method::POST, "/api/agents/sim-00001/call", None, body).await.unwrap();
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_no_object_is_not_forwarded() {
    let forwarder = support::forwarder().await;
    let _swarm = support::swarm(&forwarder, 1, Answer::AtOnce).await;
    let mut client = Client::new(forwarder.address());
    let body = Bytes::from_static(b"[]");
    let (status, _) = client.send(Method::POST, "/api/agents/sim-00001/call", None, body).await.unwrap();
    assert_eq!(status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn counts_what_agents_do() {
    let forwarder = support::forwarder().await;
    let swarm = support::swarm(&forwarder, 3, Answer::AtOnce).await;
    swarm.push(7, None, false).await;
    let mut client = Client::new(forwarder.address());
    let page = loop {
        let (status, page) = client.send(Method::GET, "/metrics", None, Bytes::new()).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        let page = String::from_utf8(page.to_vec()).unwrap();
        if page.contains("convoke_snapshots_total 7\n") {
            break page;
        }
        tokio::task::yield_now().await;
    };
    assert!(page.contains("convoke_links 3\n") && page.contains("convoke_handshakes_total 3\n"), "{page}");
}
