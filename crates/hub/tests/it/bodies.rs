//! Bodies that come slowly, or from nobody.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{TOKEN, TestHub};

/// A request whose head was taken and whose body has not come.
struct Begun {
    socket: BufReader<TcpStream>,
    body: String,
}

/// Sends a head and waits until the hub asks for the body.
async fn begin(hub: &TestHub, path: &str, token: &str, body: &Value) -> Begun {
    let address = hub.http.strip_prefix("http://").expect("plain HTTP");
    let mut socket = BufReader::new(TcpStream::connect(address).await.expect("connects"));
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.expect("writes");
    let mut line = String::new();
    socket.read_line(&mut line).await.expect("reads");
    assert!(line.starts_with("HTTP/1.1 100 "), "{line}");
    socket.read_line(&mut line).await.expect("reads");
    Begun { socket, body }
}

impl Begun {
    /// Sends the body and tells the answer's status.
    async fn finish(mut self) -> String {
        self.socket.write_all(self.body.as_bytes()).await.expect("writes");
        let mut answer = String::new();
        self.socket.read_to_string(&mut answer).await.expect("reads");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn who_loses_the_token_while_the_body_comes_begins_nothing() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let minted = hub.post("/api/tokens", json!({ "name": "stolen", "role": "admin" })).await.body;
    let stolen = minted["token"].as_str().expect("a token");
    let call = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    let through_mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "fs_list", "arguments": { "agent": "pc", "path": "/" } } });
    let begun = [
        begin(&hub, "/api/tokens", stolen, &json!({ "name": "again", "role": "admin" })).await,
        begin(&hub, "/api/agents/pc/call", stolen, &call).await,
        begin(&hub, "/mcp", stolen, &through_mcp).await,
    ];
    let path = format!("/api/tokens/{}", minted["id"].as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    for request in begun {
        assert_eq!(request.finish().await, "401");
    }
    let listed = hub.get("/api/tokens").await.body;
    assert!(!listed.to_string().contains("again"), "{listed}");
    assert_eq!(hub.journal("kind=call").await, Vec::<Value>::new());
    // What the agent is asked next is what somebody else asks.
    let asked = async {
        let request = agent.request().await;
        assert_eq!(request.tool, "diag_processes");
        agent.answer(&request.id, json!({ "processes": [] })).await;
    };
    let (reply, ()) = tokio::join!(hub.post("/api/agents/pc/call", json!({ "tool": "diag_processes" })), asked);
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn who_gives_up_their_own_token_is_told_that_it_is_done() {
    let hub = TestHub::start().await;
    let minted = hub.post("/api/tokens", json!({ "name": "own", "role": "admin" })).await.body;
    let (id, own) = (minted["id"].as_str().expect("an id"), minted["token"].as_str().expect("a token"));
    let path = format!("/api/tokens/{id}");
    assert_eq!(hub.request("DELETE", &path, Some(own), None).await.status, 200);
    assert_eq!(hub.request("GET", "/api/agents", Some(own), None).await.status, 401);
}

#[tokio::test]
async fn little_is_taken_from_who_has_not_shown_who_they_are() {
    let hub = TestHub::start().await;
    let (small, large) = ("x".repeat(15 << 10), "x".repeat(17 << 10));
    let enrol = async |key: &str| {
        let body = json!({ "token": "wrong", "public_key": key });
        hub.request("POST", "/api/agents/pc/enroll", None, Some(body)).await
    };
    assert_eq!(enrol(&small).await.status, 400, "it is no key");
    let refused = enrol(&large).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (413, &json!("too_large")), "{refused:?}");
    // Whoever is known may send more.
    let rule = json!({ "id": "r", "applies_to": "path", "pattern": "x", "reason": large });
    assert_eq!(hub.post("/api/policy/rules", rule).await.status, 400, "not too large to be read");
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_not_asked_for_and_the_end_of_the_connection_is_told() {
    let hub = TestHub::start().await;
    let address = hub.http.strip_prefix("http://").expect("plain HTTP");
    for path in ["/mcp", "/api/tokens"] {
        for expect in ["expect: 100-continue\r\n", ""] {
            let mut socket = TcpStream::connect(address).await.expect("connects");
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n{expect}\
                 content-type: application/json\r\ncontent-length: 99999999\r\n\r\n"
            );
            socket.write_all(head.as_bytes()).await.expect("writes");
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.expect("reads");
            let answer = answer.to_ascii_lowercase();
            assert!(answer.starts_with("http/1.1 413 "), "{path}: {answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{path}: {answer}");
            assert!(answer.contains("too_large"), "{path}: {answer}");
        }
    }
}

#[tokio::test]
async fn who_sends_too_much_unasked_is_still_told_why() {
    let hub = TestHub::start().await;
    for _ in 0..20 {
        let request = hub.http_client.post(format!("{}/mcp", hub.http)).bearer_auth(TOKEN);
        let request = request.header("content-type", "application/json").body(vec![b' '; 8 << 20]);
        let reply = request.send().await.expect("is told");
        assert_eq!(reply.status().as_u16(), 413);
    }
}

#[tokio::test]
async fn who_looks_for_an_answer_only_when_everything_is_sent_finds_one() {
    let hub = TestHub::start().await;
    let address = hub.http.strip_prefix("http://").expect("plain HTTP");
    // More than may be sent, and little enough for a slow machine to read in the time that is taken for it.
    let body = vec![b' '; 3 << 20];
    for framing in [format!("content-length: {}", body.len()), "transfer-encoding: chunked".into()] {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Else all of it would fit into what the kernel takes, whether anyone reads it or not.
        socket.set_send_buffer_size(64 << 10).expect("is set");
        let mut socket = socket.connect(address.parse().expect("an address")).await.expect("connects");
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\n{framing}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.expect("writes");
        if framing.contains("chunked") {
            socket.write_all(format!("{:x}\r\n", body.len()).as_bytes()).await.expect("writes");
        }
        socket.write_all(&body).await.expect("all of it is taken");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("reads");
        assert!(answer.starts_with("HTTP/1.1 413 "), "{framing}: {answer}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let hub = TestHub::start().await;
    for (body, said) in [
        (
            json!({ "name": "x", "role": "viewer", "scopes": { "agents": ["pc", 7] } }),
            "invalid body: `scopes.agents[1]`: ",
        ),
        (json!({ "name": "x", "role": "nobody" }), "invalid body: `role`: "),
        (json!({ "name": "x" }), "invalid body: missing field `role`"),
    ] {
        let refused = hub.post("/api/tokens", body).await;
        let message = refused.body["error"]["message"].as_str().unwrap_or_default();
        assert!(refused.status == 400 && message.contains(said), "{refused:?}");
    }
}

#[tokio::test]
async fn a_call_with_a_field_that_does_not_exist_is_not_made() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    for odd in ["idempotencyKey", "timeout", "arg"] {
        let refused = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list", "args": {}, (odd): 1 })).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body["error"]["message"].as_str().is_some_and(|m| m.contains(odd)), "{refused:?}");
    }
    assert!(hub.journal("kind=call").await.is_empty());
}
