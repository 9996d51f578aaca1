//! Simulated Sonde agents in one process: they enrol with tokens, plain or over mutual TLS with keys of their own, come
//! back with the API keys they were given, and answer every probe at once. They run the real
//! [`AgentSession`](convoke_sonde::agent::AgentSession).

mod link;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_core::secret::SecretText;
use convoke_socket::drive::Lost;
use futures_util::{StreamExt as _, TryStreamExt as _};
use hyper::Method;
use serde::Deserialize;
use tokio::task::JoinHandle;

use crate::control::{Command, MAX_COUNT, Reply};
use crate::http::{Client, HttpError, bearer};
use crate::swarm::Report;
use crate::ws::UpgradeError;

/// Most connections being made at once.
const CONCURRENCY: usize = 32;
/// How long one agent may take to be let in.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why an agent is not there.
#[derive(Debug, thiserror::Error)]
pub enum SondeError {
    /// A socket, or the file of keys.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The upgrade to a WebSocket.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// The hub ended the connection.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The HTTP API.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Keys, certificates, TLS.
    #[error("{0}")]
    Tls(String),
    /// The hub said no, or something else than expected.
    #[error("{0}")]
    Odd(String),
}

/// Where the agents go, and what they bring.
#[derive(Debug)]
pub struct FleetConfig {
    /// The hub.
    pub target: SocketAddr,
    /// Its listener for mutual TLS, and the certificate of its authority.
    pub tls: Option<(SocketAddr, PathBuf)>,
    /// The operator's token, for enrolment tokens.
    pub operator_token: Option<String>,
    /// Where names and API keys are kept between processes.
    pub keys: PathBuf,
}

/// The agents. They leave when it is dropped.
#[derive(Debug)]
pub struct Fleet {
    config: FleetConfig,
    counters: Arc<Counters>,
    enrolled: Vec<(String, String)>,
    tokens: Vec<SecretText>,
    own_keys: Rc<[tls::OwnKey]>,
    over_tls: usize,
    live: Vec<JoinHandle<()>>,
    turn: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    connected: AtomicU64,
    handshakes: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
    answered: AtomicU64,
}

impl Fleet {
    /// Nobody is connected yet; who enrolled before is known.
    pub fn new(config: FleetConfig) -> Result<Self, SondeError> {
        let enrolled = match std::fs::read(&config.keys) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|why| SondeError::Odd(why.to_string()))?,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(why) => return Err(why.into()),
        };
        Ok(Self {
            config,
            counters: Arc::default(),
            enrolled,
            tokens: Vec::new(),
            own_keys: Rc::new([]),
            over_tls: 0,
            live: Vec::new(),
            turn: 0,
        })
    }

    /// The name of an agent.
    pub fn name(index: usize) -> String {
        format!("sim-{index}")
    }

    /// Does what a line says. The runtime must be one for local tasks.
    pub async fn obey(&mut self, line: &str) -> Reply {
        let began = Instant::now();
        let count = |n: u64| usize::try_from(n.min(MAX_COUNT)).unwrap_or(usize::MAX);
        let done = match serde_json::from_str::<Command>(line) {
            Ok(Command::Tokens { count: n }) => self.mint(count(n)).await,
            Ok(Command::Enrol { tls }) => self.enrol(tls).await,
            Ok(Command::Resize { agents }) => self.resize(count(agents)).await,
            Ok(Command::Reconnect { count: n }) => self.reconnect(count(n)).await,
            Ok(Command::Report) => Ok(()),
            Ok(Command::Push { .. }) => Err(SondeError::Odd("Sonde agents push nothing".into())),
            Err(why) => Err(SondeError::Odd(format!("not a command: {why}"))),
        };
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Reply { report: self.report(), took_ms, problem: done.err().map(|why| why.to_string()) }
    }

    fn report(&self) -> Report {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            connected: of(&self.counters.connected),
            handshakes: of(&self.counters.handshakes),
            refused: of(&self.counters.refused),
            lost: of(&self.counters.lost),
            answered: of(&self.counters.answered),
            ..Report::default()
        }
    }

    /// Mints tokens, and makes the keys of agents that make their own: neither is what an enrolment costs the hub.
    async fn mint(&mut self, count: usize) -> Result<(), SondeError> {
        #[derive(Deserialize)]
        struct Minted {
            token: String,
        }
        let token = self
            .config
            .operator_token
            .as_deref()
            .ok_or_else(|| SondeError::Odd("set CONVOKE_TOKEN to the token of an admin".into()))?;
        let operator = bearer(token)?;
        let mut client = Client::new(self.config.target);
        for _ in 0..count {
            let answer =
                client.send(Method::POST, "/api/v1/enrollment-tokens", Some(&operator), Bytes::new()).await?;
            let minted: Minted = serde_json::from_slice(&answer.1).map_err(|_| {
                SondeError::Odd(format!("cannot read the answer with the enrolment token: {}", answer.0))
            })?;
            self.tokens.push(SecretText::new(&minted.token));
        }
        if self.own_keys.is_empty() && self.config.tls.is_some() {
            self.own_keys = tls::own_keys()?.into();
        }
        Ok(())
    }

    /// One agent for each token.
    async fn enrol(&mut self, over_tls: bool) -> Result<(), SondeError> {
        let tokens = std::mem::take(&mut self.tokens);
        // Names of agents that come back count from 0; the others' are of no further use.
        let first = if over_tls { self.over_tls } else { self.enrolled.len() };
        if over_tls {
            self.over_tls += tokens.len();
        }
        let dialler = match (&self.config.tls, over_tls) {
            (Some((address, ca)), true) => Some(tls::Dialler::new(*address, ca)?),
            (None, true) => return Err(SondeError::Odd("there is no listener for mutual TLS".into())),
            (_, false) => None,
        };
        let (target, dialler, keys) = (self.config.target, dialler.as_ref(), &self.own_keys);
        let enrolments = tokens.iter().enumerate().map(|(n, token)| async move {
            let index = first + n;
            let enrolling = async {
                match dialler {
                    Some(dialler) => {
                        let key = &keys[index % keys.len()];
                        let name = format!("tls-{index}");
                        let key =
                            link::enrol(dialler.dial().await?, dialler.address, &name, token, Some(key)).await?;
                        Ok((name, key))
                    }
                    None => {
                        let name = Self::name(index);
                        let key = link::enrol(link::dial(target).await?, target, &name, token, None).await?;
                        Ok((name, key))
                    }
                }
            };
            in_time(enrolling).await
        });
        let enrolled: Vec<(String, String)> =
            futures_util::stream::iter(enrolments).buffered(CONCURRENCY).try_collect().await?;
        self.counters.handshakes.fetch_add(enrolled.len() as u64, Ordering::Relaxed);
        if !over_tls {
            self.enrolled.extend(enrolled);
            let text = serde_json::to_vec(&self.enrolled).map_err(|why| SondeError::Odd(why.to_string()))?;
            std::fs::write(&self.config.keys, text)?;
        }
        Ok(())
    }

    /// Connects agents that enrolled, or lets some leave.
    async fn resize(&mut self, count: usize) -> Result<(), SondeError> {
        if count > self.enrolled.len() {
            return Err(SondeError::Odd(format!("only {} agents enrolled", self.enrolled.len())));
        }
        for gone in self.live.drain(count.min(self.live.len())..) {
            gone.abort();
            let _ = gone.await;
        }
        let missing = self.live.len()..count;
        let connecting = missing.map(|index| self.connect(index));
        let mut connected: Vec<_> =
            futures_util::stream::iter(connecting).buffered(CONCURRENCY).try_collect().await?;
        self.live.append(&mut connected);
        Ok(())
    }

    async fn connect(&self, index: usize) -> Result<JoinHandle<()>, SondeError> {
        let (name, key) = &self.enrolled[index];
        match in_time(link::enter(self.config.target, name, key, &self.counters)).await {
            Ok(live) => {
                self.counters.handshakes.fetch_add(1, Ordering::Relaxed);
                Ok(tokio::task::spawn_local(live.serve()))
            }
            Err(why) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                Err(why)
            }
        }
    }

    /// Reconnects agents in turn: what a registration costs, with its connection and upgrade.
    async fn reconnect(&mut self, count: usize) -> Result<(), SondeError> {
        if self.live.is_empty() {
            return Err(SondeError::Odd("nobody is connected".into()));
        }
        let mut left = count;
        while left > 0 {
            let batch = left.min(CONCURRENCY).min(self.live.len());
            let places: Vec<usize> = (0..batch).map(|n| (self.turn + n) % self.live.len()).collect();
            self.turn = (self.turn + batch) % self.live.len();
            // The newer connection takes the older's place, as after a network that broke.
            let connected: Vec<_> =
                futures_util::future::try_join_all(places.iter().map(|p| self.connect(*p))).await?;
            for (place, link) in places.into_iter().zip(connected) {
                let _ = std::mem::replace(&mut self.live[place], link).await;
            }
            left -= batch;
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.live.iter().for_each(JoinHandle::abort);
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, SondeError>>) -> Result<T, SondeError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(SondeError::Odd("the hub did not answer in time".into())),
    }
}
