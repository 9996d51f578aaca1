//! Who asks: callers at every hub, who write down what they asked and what they were told, and somebody who withdraws
//! tokens and agents meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::dice::Dice;
use super::fleet::Clock;
use super::history::{Answer, Attempt, CallNumber, Effect, Log, Withdrawal, Withdrawn};
use super::{ClusterError, Config, TOKEN};
use crate::http::{self, Client, HttpError};
use crate::roster::Roster;

/// How long a caller waits for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The time-out of a call, and of one that only finds out whether an agent is reachable, in seconds.
const TIMEOUT_S: f64 = 6.0;
const LOOK_TIMEOUT_S: f64 = 2.0;
/// How often a call that was not answered is asked for again.
const REPEATS: usize = 3;
/// The pause of whoever withdraws something and is not answered.
const AGAIN: Duration = Duration::from_millis(500);

/// What all who ask have in common.
#[derive(Debug)]
pub(super) struct World {
    pub(super) hubs: Vec<SocketAddr>,
    pub(super) roster: Roster,
    /// Agents that are never revoked; those behind them are.
    pub(super) agents: usize,
    pub(super) spare: usize,
    pub(super) seed: u64,
    pub(super) pause: Duration,
    pub(super) log: Arc<Log>,
    pub(super) clock: Clock,
    next_call: AtomicU64,
    /// The token that is never revoked, and the one that will be.
    operator: HeaderValue,
    lent: Mutex<Option<(u64, HeaderValue)>>,
    spared: AtomicU64,
    stopped: AtomicBool,
}

impl World {
    pub(super) fn new(
        config: &Config,
        hubs: Vec<SocketAddr>,
        log: Arc<Log>,
        clock: Clock,
    ) -> Result<Self, ClusterError> {
        Ok(Self {
            hubs,
            roster: config.roster(),
            agents: config.agents,
            spare: config.spare(),
            seed: config.seed,
            pause: config.pause,
            log,
            clock,
            next_call: AtomicU64::new(1),
            operator: http::bearer(TOKEN)?,
            lent: Mutex::default(),
            spared: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// Everybody finishes what they are at, and asks no more.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn lent(&self) -> Option<(u64, HeaderValue)> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks a hub to do something that is no call.
    pub(super) async fn ask(
        &self,
        hub: usize,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Option<(StatusCode, Value)> {
        let mut client = Client::new(self.hubs[hub]);
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let asked = client.send(method, path, Some(&self.operator), body);
        let (status, answer) = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
        Some((status, serde_json::from_slice(&answer).unwrap_or_default()))
    }
}

/// Starts the callers, so many at each hub, and those who withdraw.
pub(super) fn start(world: &Arc<World>, callers: usize) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for hub in 0..world.hubs.len() {
        for number in 0..callers {
            let dice = Dice::new(world.seed, &format!("caller {hub} {number}"));
            all.spawn(Caller::new(Arc::clone(world), hub, dice).run());
        }
    }
    all.spawn(withdraw_tokens(Arc::clone(world)));
    all.spawn(withdraw_agents(Arc::clone(world)));
    all
}

/// Calls one agent through one hub; whether it said `ok`.
pub(super) async fn call_once(world: &Arc<World>, hub: usize, agent: usize) -> bool {
    let mut caller = Caller::new(Arc::clone(world), hub, Dice::new(0, "once"));
    caller.timeout_s = LOOK_TIMEOUT_S;
    let call = world.next_call.fetch_add(1, Ordering::Relaxed);
    matches!(caller.attempt(call, agent, Effect::Observe, (0, world.operator.clone()), None).await, Answer::Ok { .. })
}

struct Caller {
    world: Arc<World>,
    hub: usize,
    clients: Vec<Client>,
    timeout_s: f64,
    dice: Dice,
}

impl Caller {
    fn new(world: Arc<World>, hub: usize, dice: Dice) -> Self {
        let clients = world.hubs.iter().map(|hub| Client::new(*hub)).collect();
        Self { world, hub, clients, timeout_s: TIMEOUT_S, dice }
    }

    async fn run(mut self) {
        while !self.world.is_stopped() {
            let pause = self.dice.between(Duration::ZERO, self.world.pause * 2);
            tokio::time::sleep(pause).await;
            self.call().await;
        }
    }

    async fn call(&mut self) {
        let world = Arc::clone(&self.world);
        let call = world.next_call.fetch_add(1, Ordering::Relaxed);
        let agent = match world.spared.load(Ordering::Relaxed) as usize {
            // The one that is revoked next, or was revoked last, is asked more often than the others.
            next if self.dice.chance(10) && next < world.spare => {
                world.agents + next.saturating_sub(self.dice.below(2))
            }
            _ => self.dice.below(world.agents),
        };
        let effect = if self.dice.chance(40) { Effect::Manage } else { Effect::Observe };
        let lent = world.lent().filter(|_| self.dice.chance(25));
        let token = lent.unwrap_or_else(|| (0, world.operator.clone()));
        let key = self.dice.chance(30).then(|| format!("call {call}"));
        let mut answer = self.attempt(call, agent, effect, token.clone(), key.as_deref()).await;
        // With a key, whoever was not answered may ask again, anywhere.
        let own = self.hub;
        for _ in 0..REPEATS {
            if key.is_none() || !matches!(answer, Answer::Lost(_)) || world.is_stopped() {
                break;
            }
            tokio::time::sleep(AGAIN).await;
            self.hub = self.dice.below(world.hubs.len());
            answer = self.attempt(call, agent, effect, token.clone(), key.as_deref()).await;
        }
        self.hub = own;
        if !matches!(answer, Answer::Ok { .. } | Answer::Failed { .. }) {
            // A hub that refuses would otherwise be asked as fast as it can.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn attempt(
        &mut self,
        call: CallNumber,
        agent: usize,
        effect: Effect,
        (token, bearer): (u64, HeaderValue),
        key: Option<&str>,
    ) -> Answer {
        let world = Arc::clone(&self.world);
        let mut body = json!({ "tool": effect.tool(), "args": effect.args(call), "timeout_s": self.timeout_s });
        if let Some(key) = key {
            body["idempotency_key"] = key.into();
        }
        let path = format!("/api/agents/{}/call", world.roster.id(agent));
        let began = world.clock.now();
        let sent = self.clients[self.hub].send(Method::POST, &path, Some(&bearer), body.to_string().into());
        let answer = match tokio::time::timeout(PATIENCE, sent).await {
            Ok(Ok((status, body))) => read(status, &body),
            Ok(Err(why)) => Answer::Lost(said(&why)),
            Err(_) => Answer::Lost("no answer in time".into()),
        };
        let ended = world.clock.now();
        let hub = self.hub;
        let attempt = Attempt { call, hub, agent, token, began, ended, answer: answer.clone() };
        world.log.write(|history| history.attempts.push(attempt));
        answer
    }
}

fn said(why: &HttpError) -> String {
    match why {
        HttpError::Connect(_) => "no connection".into(),
        other => other.to_string(),
    }
}

fn read(status: StatusCode, body: &[u8]) -> Answer {
    #[derive(Deserialize)]
    struct Reply {
        ok: bool,
        call_id: String,
        #[serde(default)]
        result: Outcome,
        error: Option<Code>,
    }
    #[derive(Default, Deserialize)]
    struct Outcome {
        call: Option<CallNumber>,
        agent: Option<usize>,
    }
    #[derive(Deserialize)]
    struct Code {
        code: String,
    }
    #[derive(Deserialize)]
    struct Refusal {
        error: Code,
    }
    if status == StatusCode::OK {
        return match serde_json::from_slice(body) {
            Ok(Reply { ok: true, call_id, result: Outcome { call, agent }, .. }) => {
                Answer::Ok { call_id, call, agent }
            }
            Ok(Reply { call_id, error, .. }) => {
                Answer::Failed { call_id, code: error.map_or_else(|| "none".into(), |error| error.code) }
            }
            Err(why) => Answer::Lost(format!("an answer that cannot be read: {why}")),
        };
    }
    let code = serde_json::from_slice(body).map_or_else(|_| "none".into(), |refusal: Refusal| refusal.error.code);
    Answer::Refused { status: status.as_u16(), code }
}

/// Lends a token for a while and revokes it, over and over, each at a hub that the seed picks.
async fn withdraw_tokens(world: Arc<World>) {
    let mut dice = Dice::new(world.seed, "tokens");
    for number in 1_u64.. {
        let hub = dice.below(world.hubs.len());
        let body = json!({ "name": format!("lent {number}"), "role": "operator" });
        let made = world.ask(hub, Method::POST, "/api/tokens", &body).await;
        let made = made.filter(|(status, _)| status.is_success()).map(|(_, answer)| answer);
        let named = made.as_ref().and_then(|made| Some((made["id"].as_str()?, made["token"].as_str()?)));
        if let Some((id, bearer)) = named.and_then(|(id, token)| Some((id, http::bearer(token).ok()?))) {
            let lend = |value| *world.lent.lock().unwrap_or_else(PoisonError::into_inner) = value;
            lend(Some((number, bearer)));
            tokio::time::sleep(dice.between(Duration::from_secs(1), Duration::from_secs(4))).await;
            withdraw(&world, &mut dice, Withdrawn::Token(number), Method::DELETE, &format!("/api/tokens/{id}")).await;
            // It goes on being used for a while: that is the point.
            tokio::time::sleep(dice.between(Duration::from_secs(1), Duration::from_secs(3))).await;
            lend(None);
        }
        if world.is_stopped() {
            break;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Revokes one spare agent after the other.
async fn withdraw_agents(world: Arc<World>) {
    let mut dice = Dice::new(world.seed, "agents");
    for spare in 0..world.spare {
        tokio::time::sleep(dice.between(Duration::from_secs(3), Duration::from_secs(8))).await;
        if world.is_stopped() {
            break;
        }
        let agent = world.agents + spare;
        let path = format!("/api/agents/{}/revoke", world.roster.id(agent));
        withdraw(&world, &mut dice, Withdrawn::Agent(agent), Method::POST, &path).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.spared.store(spare as u64 + 1, Ordering::Relaxed);
    }
}

/// Asks one hub after the other, until one says that it is done.
async fn withdraw(world: &World, dice: &mut Dice, what: Withdrawn, method: Method, path: &str) {
    while !world.is_stopped() {
        let hub = dice.below(world.hubs.len());
        match world.ask(hub, method.clone(), path, &Value::Null).await {
            Some((StatusCode::OK, answer)) if answer["stored"] != false => {
                let acknowledged = world.clock.now();
                world.log.write(|history| history.withdrawals.push(Withdrawal { what, hub, acknowledged }));
                return;
            }
            // It was withdrawn by a request whose answer was lost; nobody has said that it is in force everywhere.
            Some((StatusCode::CONFLICT | StatusCode::NOT_FOUND, _)) => return,
            _ => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_the_api_gives_them() {
        let ok = read(StatusCode::OK, br#"{"ok":true,"result":{"call":7,"agent":2},"call_id":"c","duration_ms":1}"#);
        assert_eq!(ok, Answer::Ok { call_id: "c".into(), call: Some(7), agent: Some(2) });
        let failed = read(StatusCode::OK, br#"{"ok":false,"error":{"code":"offline","message":"m"},"call_id":"c"}"#);
        assert_eq!(failed, Answer::Failed { call_id: "c".into(), code: "offline".into() });
        let refused = read(StatusCode::SERVICE_UNAVAILABLE, br#"{"error":{"code":"store","message":"m"}}"#);
        assert_eq!(refused, Answer::Refused { status: 503, code: "store".into() });
        assert!(matches!(read(StatusCode::OK, b"{"), Answer::Lost(_)));
    }
}
