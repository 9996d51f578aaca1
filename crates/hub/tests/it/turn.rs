//! Credentials for TURN: who gets them, and that a real coturn takes them.

use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::{PATIENCE, Reply, TOKEN, TestHub};

const SECRET: &str = "a-secret-shared-with-coturn";

async fn ask(hub: &TestHub, room: &str, bearer: Option<&str>) -> Reply {
    hub.request("GET", &format!("/api/turn?room={room}"), bearer, None).await
}

#[tokio::test]
async fn who_may_enter_a_room_gets_credentials_and_nobody_else() {
    let settings =
        [("rooms.turn_url", "turn:turn.example:3478,turns:turn.example:5349"), ("rooms.turn_secret", SECRET)];
    let hub = TestHub::with(&settings).await;
    let made = hub.post("/api/rooms", json!({ "name": "lab" })).await.body;
    hub.post("/api/rooms", json!({ "name": "den", "open": true })).await;
    let invite = made["host_invite"].as_str().expect("an invite").to_owned();

    let given = ask(&hub, "lab", Some(TOKEN)).await;
    assert_eq!(given.status, 200, "{given:?}");
    let server = &given.body["iceServers"][0];
    assert_eq!(server["urls"], json!(["turn:turn.example:3478", "turns:turn.example:5349"]));
    let (until, name) = server["username"].as_str().and_then(|user| user.split_once(':')).expect("until:name");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let left = until.parse::<u64>().expect("seconds") - now;
    assert!((595..=600).contains(&left) && name == "lab", "{server}");
    assert_eq!(hub.request("GET", "/api/turn", Some(TOKEN), None).await.status, 200, "an operator names no room");

    assert_eq!(ask(&hub, "lab", Some(&invite)).await.status, 200);
    assert_eq!(ask(&hub, "den", Some(&invite)).await.status, 401, "an invite to another room");
    assert_eq!(ask(&hub, "lab", None).await.status, 401);
    assert_eq!(ask(&hub, "nowhere", None).await.status, 401);
    assert_eq!(ask(&hub, "lab", Some("cvk_wrong")).await.status, 401);
    let distant = hub.token("distant", "admin", json!({ "agents": ["elsewhere"] })).await;
    assert_eq!(ask(&hub, "lab", Some(&distant)).await.status, 403);
    assert_eq!(hub.delete(&format!("/api/rooms/lab/invites/{invite}")).await, 200);
    assert_eq!(ask(&hub, "lab", Some(&invite)).await.status, 401, "a revoked invite");

    let mut given = 0;
    let refused = loop {
        let reply = ask(&hub, "den", None).await;
        if reply.status != 200 {
            break reply;
        }
        given += 1;
    };
    assert_eq!((given, refused.status), (20, 429), "{refused:?}");
    assert_eq!(ask(&hub, "den", Some(TOKEN)).await.status, 200, "others at this address have a good token");
}

#[tokio::test]
async fn a_hub_without_a_turn_server_names_none() {
    let hub = TestHub::start().await;
    hub.post("/api/rooms", json!({ "name": "den", "open": true })).await;
    assert_eq!(ask(&hub, "den", None).await.body, json!({ "iceServers": [] }));
}

/// A coturn of this test's own.
async fn coturn(data: &std::path::Path) -> Option<(Child, u16)> {
    // It takes no port 0.
    let port = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a port").port();
    let mut command = Command::new("turnserver");
    command.args(["-n", "-v", "--use-auth-secret", "--realm=convoke.test", "--no-tls", "--no-dtls", "--no-cli"]);
    command.args(["--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", "--allow-loopback-peers"]);
    command.args(["--log-file=stdout", "--simple-log"]);
    command.arg(format!("--static-auth-secret={SECRET}")).arg(format!("--listening-port={port}"));
    command.arg(format!("--pidfile={}", data.join("turn.pid").display()));
    command.arg(format!("--db={}", data.join("turn.db").display()));
    let mut server = match command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn() {
        Ok(server) => server,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return None,
        Err(why) => panic!("cannot start turnserver: {why}"),
    };
    let mut lines = BufReader::new(server.stdout.take().expect("is piped")).lines();
    let opened = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if line.contains("UDP listener opened") {
                return;
            }
        }
        panic!("turnserver ended");
    };
    tokio::time::timeout(PATIENCE, opened).await.expect("it listens");
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some((server, port))
}

#[tokio::test]
async fn a_real_turn_server_takes_the_credentials_and_no_others() {
    let data = tempfile::tempdir().expect("a directory");
    let Some((server, port)) = coturn(data.path()).await else {
        return convoke_testing::skip("coturn is not installed: `cargo xtask setup`");
    };
    let url = format!("turn:127.0.0.1:{port}");
    let hub = TestHub::with(&[("rooms.turn_url", &url), ("rooms.turn_secret", SECRET)]).await;
    hub.post("/api/rooms", json!({ "name": "den", "open": true })).await;
    let given = ask(&hub, "den", None).await.body["iceServers"][0].clone();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (user, password) = (text(&given["username"]), text(&given["credential"]));
    let relays = async |user: &str, password: &str| {
        // It waits for half a minute for a datagram that a busy machine dropped.
        for _ in 0..5 {
            let mut client = Command::new("turnutils_uclient");
            client.args(["-y", "-c", "-n", "2", "-m", "1", "-p", &port.to_string(), "-u", user, "-w", password]);
            let run = client.arg("127.0.0.1").stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).status();
            if let Ok(ended) = tokio::time::timeout(Duration::from_secs(20), run).await {
                return ended.expect("it runs").success();
            }
        }
        panic!("turnutils_uclient does not end");
    };
    assert!(relays(&user, &password).await, "what was given");
    assert!(!relays(&user, "wrong").await, "another password");
    let later = user.replacen(char::is_numeric, "9", 1);
    assert!(!relays(&later, &password).await, "a longer time");
    drop(server);
}
