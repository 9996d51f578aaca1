//! Yonexus clients that pair through the hub's own doors, and prove themselves.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_socket::Connection;
use convoke_socket::drive::{Clock, Lost, Machine, Message, Stop, drive};
use convoke_socket::queue::Queue;
use convoke_yonexus::Now;
use convoke_yonexus::client::{ClientEvent, ClientSession, HEARTBEAT, Identity, Incoming as Said};
use hyper::Method;
use serde_json::json;
use tokio::net::TcpStream;

use super::RulesError;
use crate::http::{Client as Http, bearer};
use crate::roster::Roster;
use crate::ws::{self, Socket};

/// How long a step of a handshake may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where clients connect.
const DOOR: &str = "/yonexus";

/// A client that is paired.
#[derive(Clone, Debug)]
pub struct Paired {
    identity: Identity,
}

impl Paired {
    /// Who it is.
    pub fn identifier(&self) -> &str {
        &self.identity.identifier
    }
}

fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { wall: Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)), mono: since }
}

/// Pairs the first `count` of a roster: each is allowed, says hello, and is approved.
pub async fn pair(target: SocketAddr, token: &str, roster: &Roster, count: usize) -> Result<Vec<Paired>, RulesError> {
    let mut http = Http::new(target);
    let bearer = bearer(token)?;
    let mut paired = Vec::with_capacity(count);
    for index in 0..count {
        let identifier = roster.id(index).to_string();
        let body = Bytes::from(json!({ "identifier": identifier }).to_string());
        expect_ok(http.send(Method::POST, "/api/yonexus/clients", Some(&bearer), body).await?.0)?;
        let identity = Identity { identifier: identifier.clone(), key: roster.key(index), secret: None };
        let mut session = ClientSession::new(identity, HEARTBEAT);
        let mut socket = open(target).await?;
        socket.queue_text(&session.hello(now()).encode());
        wait_for(&mut socket, &mut session, |event| matches!(event, ClientEvent::CodeWanted { .. })).await?;
        let path = format!("/api/yonexus/pairings/{identifier}");
        let yes = Bytes::from_static(br#"{"approve":true}"#);
        expect_ok(http.send(Method::POST, &path, Some(&bearer), yes).await?.0)?;
        let event = wait_for(&mut socket, &mut session, |event| matches!(event, ClientEvent::Paired { .. })).await?;
        let ClientEvent::Paired { secret, .. } = event else { continue };
        paired.push(Paired { identity: identity_of(&session, secret) });
    }
    Ok(paired)
}

fn identity_of(session: &ClientSession, secret: SecretText) -> Identity {
    Identity { secret: Some(secret), ..session.identity().clone() }
}

fn expect_ok(status: hyper::StatusCode) -> Result<(), RulesError> {
    if status.is_success() { Ok(()) } else { Err(RulesError::Odd(format!("the hub answered {status}"))) }
}

/// Connects a paired client and proves it.
pub async fn enter(target: SocketAddr, client: &Paired) -> Result<Socket, RulesError> {
    let mut session = ClientSession::new(client.identity.clone(), HEARTBEAT);
    let mut socket = open(target).await?;
    socket.queue_text(&session.hello(now()).encode());
    wait_for(&mut socket, &mut session, |event| matches!(event, ClientEvent::AuthRequired)).await?;
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    let proof = session.authenticate(&random, now());
    let proof = proof.ok_or_else(|| RulesError::Odd("a paired client has no secret".into()))?;
    socket.queue_text(&proof.encode());
    wait_for(&mut socket, &mut session, |event| matches!(event, ClientEvent::Authenticated { .. })).await?;
    Ok(socket)
}

async fn open(target: SocketAddr) -> Result<Socket, RulesError> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    Ok(ws::open(stream, target, DOOR, None).await?)
}

/// Drives a client until what `fits` happens.
async fn wait_for(
    socket: &mut Socket,
    session: &mut ClientSession,
    fits: impl Fn(&ClientEvent) -> bool + Send,
) -> Result<ClientEvent, RulesError> {
    let mut client = Client { session, fits };
    let (queue, clock) = (Queue::default(), Clock::since(Instant::now()));
    let found = drive(socket, &mut client, &queue, clock);
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(found) => found,
        Err(_) => Err(RulesError::Odd("the hub did not answer in time".into())),
    }
}

/// A client's side of a handshake.
struct Client<'a, F> {
    session: &'a mut ClientSession,
    fits: F,
}

impl<F: Fn(&ClientEvent) -> bool + Send> Machine for Client<'_, F> {
    type Command = Stop;
    type End = Result<ClientEvent, RulesError>;

    async fn on_message(&mut self, message: Message, _: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        let Message::Text(text) = message else { return ControlFlow::Continue(()) };
        match self.session.on_text(&text, now()) {
            Said::Event(event) if (self.fits)(&event) => ControlFlow::Break(Ok(event)),
            Said::Event(event @ (ClientEvent::Rejected | ClientEvent::AuthFailed { .. })) => {
                ControlFlow::Break(Err(RulesError::Odd(format!("the hub refused a client: {event:?}"))))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        Err(lost.into())
    }
}
