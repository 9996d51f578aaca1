//! The library against a real hub.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use convoke_client::{Client, Config, Ended, Event, Pairing, Running, SendError, StateFile};
use convoke_core::secret::SecretText;
use convoke_hub::settings::{Settings, Sources};
use convoke_hub::{HubOptions, start};
use serde_json::{Value, json};

const TOKEN: &str = "cvk_test-operator-token";
const PATIENCE: Duration = Duration::from_secs(20);

struct Hub {
    running: Option<convoke_hub::Running>,
    http: String,
    dir: tempfile::TempDir,
}

impl Hub {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let running = run(&dir.path().join("data"), "127.0.0.1:0").await;
        Self { http: running.http.clone(), running: Some(running), dir }
    }

    async fn stop(&mut self) {
        self.running.take().expect("runs").stop().await.expect("stops");
    }

    async fn again(&mut self) {
        let address = self.http.trim_start_matches("http://").to_owned();
        self.running = Some(run(&self.dir.path().join("data"), &address).await);
    }

    fn ws(&self) -> String {
        format!("{}/yonexus", self.http.replace("http", "ws"))
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut request =
            client.request(method.parse().expect("a method"), format!("{}{path}", self.http)).bearer_auth(TOKEN);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let reply = request.send().await.expect("answers");
        assert!(reply.status().is_success(), "{path}: {}", reply.status());
        reply.json().await.expect("JSON")
    }

    async fn code(&self) -> String {
        let list = self.ask("GET", "/api/yonexus/pairings", None).await;
        list["pairings"][0]["pairing_code"].as_str().expect("a code").to_owned()
    }

    fn state(&self, id: &str) -> StateFile {
        StateFile::open_or_make(&self.dir.path().join(format!("{id}.json")), id).expect("a state")
    }

    /// A client that is paired and in.
    async fn live(&self, id: &str, client: impl FnOnce(&mut Client)) -> Running {
        self.ask("POST", "/api/yonexus/clients", Some(json!({ "identifier": id }))).await;
        let mut new = Client::new(Config { pairing: Pairing::Allowed, ..Config::new(&self.ws(), self.state(id)) });
        client(&mut new);
        let mut running = new.start().expect("free");
        until(&mut running, |event| matches!(event, Event::CodeWanted { .. })).await;
        running.handle.confirm(SecretText::new(self.code().await)).await;
        until(&mut running, |event| matches!(event, Event::Paired)).await;
        until(&mut running, |event| matches!(event, Event::Authenticated { .. })).await;
        running
    }
}

async fn run(data: &Path, listen: &str) -> convoke_hub::Running {
    let flags = vec![("hub.listen".to_owned(), listen.to_owned())];
    let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
    let options = HubOptions {
        data: data.to_owned(),
        settings,
        data_key: None,
        hub_seed: None,
        operator_token: Some(SecretText::new(TOKEN)),
    };
    start(options).await.expect("starts")
}

async fn until(running: &mut Running, fits: impl Fn(&Event) -> bool) -> Event {
    let found = async {
        loop {
            let event = running.events.recv().await.expect("the client goes on");
            if fits(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("in time")
}

#[tokio::test]
async fn processors_get_messages_and_senders_learn_what_became_of_theirs() {
    let hub = Hub::start().await;
    let (seen, messages) = mpsc::channel();
    let b = hub
        .live("b", |client| {
            client.on("chat", move |message| seen.send(message.content.to_owned()).expect("listens")).expect("free");
            assert!(client.on("chat", |_| {}).is_err());
            assert!(client.on("builtin", |_| {}).is_err());
        })
        .await;
    let rule = json!({ "rule": "chat", "target": { "clients": { "to": ["b"] } } });
    hub.ask("POST", "/api/rules", Some(rule)).await;
    let a = hub.live("a", |_| {}).await;
    for n in 0..50 {
        a.handle.send("chat", &n.to_string()).await.expect("taken");
    }
    let received: Vec<String> = (0..50).map(|_| messages.recv_timeout(PATIENCE).expect("in time")).collect();
    assert_eq!(received, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(matches!(a.handle.send("builtin", "x").await, Err(SendError::Rule(_))));
    assert_eq!(a.handle.send("chat", &"x".repeat(1024 * 1024)).await, Err(SendError::TooLarge));
    b.handle.stop().await;
    assert!(matches!(b.task.await, Ok(Ended::Stopped)));
    while hub.ask("GET", "/api/yonexus/clients/b", None).await["liveness"] != "offline" {
        tokio::task::yield_now().await;
    }
    let refused = a.handle.send("chat", "anyone?").await;
    assert!(matches!(&refused, Err(SendError::Refused { code, .. }) if code == "CLIENT_OFFLINE"), "{refused:?}");
    a.handle.send("nobody_registered_this", "x").await.expect("no match is no error");
}

#[tokio::test]
async fn a_client_comes_back_by_itself_and_its_state_is_on_disk() {
    let mut hub = Hub::start().await;
    let mut a = hub.live("a", |_| {}).await;
    let kept = StateFile::open(&hub.dir.path().join("a.json")).expect("opens");
    assert!(kept.is_paired() && kept.kept().last_auth.is_some());
    assert_eq!(kept.status().expect("told").state, "authenticated");
    assert!(kept.is_in_use());
    hub.stop().await;
    until(&mut a, |event| matches!(event, Event::Lost { again_in: Some(_), .. })).await;
    assert!(matches!(a.handle.send("x", "y").await, Err(SendError::NotConnected | SendError::Lost)));
    hub.again().await;
    until(&mut a, |event| matches!(event, Event::Authenticated { .. })).await;
    a.handle.stop().await;
    assert!(matches!(a.task.await, Ok(Ended::Stopped)));
    assert_eq!(kept.status().expect("told").state, "idle");
}

#[tokio::test]
async fn a_client_that_may_not_pair_ends_when_only_a_person_can_help() {
    let hub = Hub::start().await;
    let never = Client::new(Config::new(&hub.ws(), hub.state("never"))).start().expect("free");
    assert!(matches!(never.task.await, Ok(Ended::NeedsPairing(_))));
    let a = hub.live("a", |_| {}).await;
    a.handle.stop().await;
    let _ = a.task.await;
    hub.ask("DELETE", "/api/yonexus/clients/a", None).await;
    hub.ask("POST", "/api/yonexus/clients", Some(json!({ "identifier": "a" }))).await;
    let again = Client::new(Config::new(&hub.ws(), hub.state("a"))).start().expect("free");
    assert!(matches!(again.task.await, Ok(Ended::NeedsPairing(why)) if why.contains("pair again")));
    assert!(!hub.state("a").is_paired(), "a secret that is of no use is not kept");
    assert_eq!(hub.state("a").status().expect("told").state, "pairing_required");
}

#[tokio::test]
async fn an_address_where_nobody_is_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateFile::open_or_make(&dir.path().join("a.json"), "a").expect("a state");
    let config = Config { pairing: Pairing::Allowed, reconnect: false, ..Config::new("ws://127.0.0.1:9/x", state) };
    let running = Client::new(config).start().expect("free");
    assert!(matches!(running.task.await, Ok(Ended::Gone(why)) if why.contains("cannot reach the hub at")));
}
