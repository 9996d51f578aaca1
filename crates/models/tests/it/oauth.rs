//! Signing in: a real callback port, a real browser's requests, a scripted account server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_models::oauth::{
    Login, LoginState, OAuthConfig, OAuthError, StoreError, TokenKeeper, TokenStore, Tokens,
};
use convoke_models::testkit::{Answer, Gate, Reply, ScriptedServer, Step};
use convoke_models::{
    Client, CredentialSource as _, Credentials, Http, Message, Provider, ProviderKind, Request, SecretText,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use url::Url;

const LONG: Duration = Duration::from_secs(60);

fn config(server: &ScriptedServer) -> OAuthConfig {
    OAuthConfig { base_url: server.url(), port: 0, ..OAuthConfig::default() }
}

fn jwt(claims: &serde_json::Value) -> String {
    format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn token_answer(access: &str, refresh: &str) -> Answer {
    let id = jwt(&json!({ "https://api.openai.com/auth": { "chatgpt_account_id": "acc-7" } }));
    Answer::json(
        200,
        &json!({ "access_token": access, "refresh_token": refresh, "id_token": id, "expires_in": 3600 }),
    )
}

fn query(address: &str, key: &str) -> String {
    let url = Url::parse(address).unwrap();
    url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned()).unwrap()
}

/// What a browser does with an address of the callback: gives the status line and the page.
async fn browse(login: &Login, path_and_query: &str) -> String {
    let uri = Url::parse(login.redirect_uri()).unwrap();
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", uri.port().unwrap())).await.unwrap();
    let request = format!("GET {path_and_query} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_browser_that_comes_back_signs_in() {
    let server = ScriptedServer::start().await;
    server.push(token_answer("access-1", "refresh-1"));
    let login = Login::start(Http::new(), config(&server), LONG).await.unwrap();
    let address = login.authorization_url();
    assert!(address.starts_with(&format!("{}/oauth/authorize?", server.url())), "{address}");
    for (key, value) in [
        ("response_type", "code"),
        ("code_challenge_method", "S256"),
        ("id_token_add_organizations", "true"),
        ("codex_cli_simplified_flow", "true"),
        ("originator", "kward"),
        ("redirect_uri", login.redirect_uri()),
        ("scope", "openid profile email offline_access api.connectors.read api.connectors.invoke"),
    ] {
        assert_eq!(query(address, key), value);
    }
    let state = query(address, "state");
    assert!(matches!(login.state(), LoginState::Pending));
    let page = browse(&login, &format!("/auth/callback?code=c%2B1&state={state}")).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let tokens = login.outcome().await.unwrap();
    assert_eq!(tokens.access_token.reveal(), "access-1");
    assert_eq!(tokens.account_id.as_deref(), Some("acc-7"));
    assert!(tokens.expires_at.is_some());
    let asked = &server.received()[0];
    assert_eq!(asked.path, "/oauth/token");
    let form: std::collections::HashMap<_, _> = url::form_urlencoded::parse(&asked.body).into_owned().collect();
    assert_eq!((form["grant_type"].as_str(), form["code"].as_str()), ("authorization_code", "c+1"));
    assert_eq!(form["redirect_uri"], login.redirect_uri());
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
    assert_eq!(challenge, query(address, "code_challenge"));
}

#[tokio::test]
async fn strangers_at_the_callback_change_nothing() {
    let server = ScriptedServer::start().await;
    server.push(token_answer("a", "r"));
    let login = Login::start(Http::new(), config(&server), LONG).await.unwrap();
    let state = query(login.authorization_url(), "state");
    for (visit, status) in [
        ("/favicon.ico", "404"),
        ("/auth/callback?code=evil&state=wrong", "400"),
        ("/auth/callback?error=access_denied", "400"),
        ("/auth/callback", "400"),
        ("/auth/callback?code=&state=", "400"),
    ] {
        let page = browse(&login, visit).await;
        assert!(page.starts_with(&format!("HTTP/1.1 {status}")), "{visit}: {page}");
        assert!(!page.contains("evil"), "nothing of the request comes back");
        assert!(matches!(login.state(), LoginState::Pending), "{visit}");
    }
    // One that says nothing holds nobody up.
    let port = Url::parse(login.redirect_uri()).unwrap().port().unwrap();
    let _silent = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    browse(&login, &format!("/auth/callback?code=c&state={state}")).await;
    login.outcome().await.unwrap();
    assert_eq!(server.received().len(), 1, "only the true code was exchanged");
}

#[tokio::test]
async fn a_refusal_at_the_account_fails_the_login() {
    let server = ScriptedServer::start().await;
    let login = Login::start(Http::new(), config(&server), LONG).await.unwrap();
    let state = query(login.authorization_url(), "state");
    browse(&login, &format!("/auth/callback?error=access_denied&error_description=Not+today&state={state}")).await;
    assert_eq!(login.outcome().await.unwrap_err().to_string(), "The sign-in was refused: Not today");
}

#[tokio::test]
async fn a_pasted_code_signs_in_and_a_wrong_one_can_be_pasted_again() {
    let server = ScriptedServer::start().await;
    let login = Login::start(Http::new(), config(&server), LONG).await.unwrap();
    let wrong = format!("{}?code=x&state=other", login.redirect_uri());
    assert_eq!(login.submit(&wrong).await.unwrap_err().to_string(), "OAuth state mismatch");
    server.push(Answer::json(400, &json!({ "error": "invalid_grant", "error_description": "bad code" })));
    assert_eq!(login.submit("mistyped").await.unwrap_err().to_string(), "The sign-in was refused: bad code");
    assert!(matches!(login.state(), LoginState::Pending));
    server.push(token_answer("a", "r"));
    assert_eq!(login.submit(" right ").await.unwrap().access_token.reveal(), "a");
    assert!(matches!(login.state(), LoginState::Completed(_)));
    assert_eq!(login.submit("again").await.unwrap_err().to_string(), "Login is not pending");
    login.outcome().await.unwrap();
}

#[tokio::test]
async fn time_and_cancellation_end_a_login_and_close_its_port() {
    let server = ScriptedServer::start().await;
    let login = Login::start(Http::new(), config(&server), Duration::from_millis(5)).await.unwrap();
    assert!(matches!(login.outcome().await.unwrap_err(), OAuthError::TimedOut(_)));
    let login = Login::start(Http::new(), config(&server), LONG).await.unwrap();
    login.cancel();
    assert!(matches!(login.outcome().await.unwrap_err(), OAuthError::Cancelled));
    let port = Url::parse(login.redirect_uri()).unwrap().port().unwrap();
    // The task that holds the port ends by itself.
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_replaced_by_a_free_one() {
    let server = ScriptedServer::start().await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let login = Login::start(Http::new(), OAuthConfig { port, ..config(&server) }, LONG).await.unwrap();
    assert_ne!(Url::parse(login.redirect_uri()).unwrap().port(), Some(port));
}

/// Tokens in memory.
#[derive(Debug, Default)]
struct Shelf(Mutex<Option<Tokens>>);

#[async_trait]
impl TokenStore for Shelf {
    async fn load(&self) -> Result<Option<Tokens>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn save(&self, tokens: &Tokens) -> Result<(), StoreError> {
        *self.0.lock().unwrap() = Some(tokens.clone());
        Ok(())
    }
}

fn shelf(expires_at: i64) -> Arc<Shelf> {
    let tokens = Tokens {
        access_token: SecretText::new("old-access"),
        refresh_token: Some(SecretText::new("old-refresh")),
        id_token: None,
        account_id: Some("acc-0".into()),
        expires_at: Some(expires_at),
    };
    Arc::new(Shelf(Mutex::new(Some(tokens))))
}

#[tokio::test]
async fn many_requests_make_one_renewal() {
    let server = ScriptedServer::start().await;
    let gate = Gate::new();
    let body = json!({ "access_token": "new-access", "refresh_token": "new-refresh", "expires_in": 3600 });
    let slow = Answer::stream(vec![Step::Wait(gate.clone()), Step::Send(body.to_string().into_bytes())]);
    server.push(slow);
    let store = shelf(0);
    let keeper = TokenKeeper::new(Http::new(), config(&server), store.clone());
    let all = (0..20).map(|_| {
        let keeper = keeper.clone();
        tokio::spawn(async move { keeper.tokens().await.unwrap().access_token.reveal().to_owned() })
    });
    let all: Vec<_> = all.collect();
    server.requests(1).await;
    gate.open();
    for one in all {
        assert_eq!(one.await.unwrap(), "new-access");
    }
    let asked = server.received();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].json()["refresh_token"], "old-refresh");
    assert_eq!(asked[0].json()["grant_type"], "refresh_token");
    let kept = store.load().await.unwrap().unwrap();
    assert_eq!(kept.refresh_token.unwrap().reveal(), "new-refresh");
    assert_eq!(kept.account_id.as_deref(), Some("acc-0"), "what the answer leaves out stays");
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_lose_the_new_tokens() {
    let server = ScriptedServer::start().await;
    let gate = Gate::new();
    let body = json!({ "access_token": "new-access", "refresh_token": "new-refresh", "expires_in": 3600 });
    server.push(Answer::stream(vec![Step::Wait(gate.clone()), Step::Send(body.to_string().into_bytes())]));
    let store = shelf(0);
    let keeper = TokenKeeper::new(Http::new(), config(&server), store.clone());
    tokio::select! {
        _ = keeper.tokens() => panic!("the gate is closed"),
        _ = server.requests(1) => {}
    }
    gate.open();
    assert_eq!(keeper.tokens().await.unwrap().access_token.reveal(), "new-access");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn an_expired_login_says_so_and_an_unreachable_server_keeps_it() {
    let server = ScriptedServer::start().await;
    let store = shelf(0);
    let keeper = TokenKeeper::new(Http::new(), config(&server), store.clone());
    server.push(Answer::json(502, &json!({})));
    assert!(matches!(keeper.tokens().await.unwrap_err(), OAuthError::Network(_)));
    server.push(Answer::json(400, &json!({ "error": "invalid_grant", "error_description": "revoked" })));
    let words = keeper.current().await.unwrap_err().to_string();
    assert_eq!(words, "The OpenAI login has expired (revoked). Sign in again.");
    assert!(store.load().await.unwrap().is_some(), "the store is its owner's");
    let nobody = TokenKeeper::new(Http::new(), config(&server), Arc::new(Shelf::default()));
    assert!(nobody.current().await.unwrap_err().to_string().starts_with("No OpenAI OAuth login found"));
}

#[tokio::test]
async fn a_token_that_a_provider_refuses_is_renewed_once() {
    let server = ScriptedServer::start().await;
    server.route("/oauth/token", token_answer("new-access", "new-refresh"));
    server.push(Answer::error(401, "token_expired", "expired"));
    server.push(Reply::text("welcome back").answer(ProviderKind::Codex));
    let keeper = TokenKeeper::new(Http::new(), config(&server), shelf(i64::MAX / 2));
    let client = Client::new(Http::new(), Provider::at(ProviderKind::Codex, &server.url()), Arc::new(keeper));
    let request = Request { model: "m".into(), messages: vec![Message::user("hi")], ..Request::default() };
    let done = client.stream(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap();
    assert_eq!((done.text.as_str(), done.attempts), ("welcome back", 1));
    let bearers: Vec<_> =
        server.received().iter().map(|asked| asked.header("authorization").map(str::to_owned)).collect();
    assert_eq!(bearers, [Some("Bearer old-access".into()), None, Some("Bearer new-access".into())]);
    // A second refusal is the end of it.
    server.push(Answer::error(401, "token_expired", "expired"));
    server.push(Answer::error(401, "token_expired", "expired"));
    let failure = client.stream(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(failure.error.code(), "unauthorised");
}

#[test]
fn tokens_do_not_print() {
    let store = shelf(0);
    let shown = format!("{store:?} {:?}", Credentials::ApiKey(SecretText::new("old-access")));
    assert!(!shown.contains("old-"), "{shown}");
}
