//! One tunnel: from the first byte to the last. Drives [`AgentSession`] over a socket.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession, AgentTick, EndReason};
use convoke_kenny::frame::{self, Meta, RemoteControl};
use convoke_kenny::policy::{FEATURE_BELOW, FEATURE_POSIX, PolicyRule, ShellPolicy};
use convoke_kenny::tools::{FEATURE_FILES, FEATURE_PROBES};
use convoke_socket::drive::{Clock, HIGH_WATER, Lost, Machine, Message, drive};
use convoke_socket::queue::Queue;
use convoke_socket::{Connection, SocketError, UpgradeError};
use ed25519_dalek::SigningKey;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::calls::{Calls, Out, Reply, Request};
use crate::config::Identity;
use crate::fit::UNTOLD_LIMIT;
use crate::logs::Forward;
use crate::net::{DialError, Dialler, Socket, open_websocket};
use crate::policy::Policy;
use crate::settings::Settings;
use crate::telemetry::{Links, VERSION};

/// Largest message before the hub has proved itself.
const STRANGER_LIMIT: usize = 16 * 1024;
/// Largest message after: twice what our own hub sends as a rule.
const HUB_LIMIT: usize = 16 * 1024 * 1024;
/// The header by which a hub of ours says how large a frame may be. Others say nothing.
const MAX_FRAME_HEADER: &str = "convoke-max-frame";
/// Log lines that go out at once.
const LOG_BATCH: usize = 64;
/// How long a hub has to answer when we doubt that it is still there.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);
/// The close code of a hub that does not let an agent in.
const UNAUTHORIZED: u16 = 4401;
/// The close code of a hub that stops, and of one that has a newer tunnel of the same agent.
const GOING_AWAY: u16 = 1001;
/// What this agent can do beyond its protocol version.
const FEATURES: &[&str] = if cfg!(windows) {
    &[FEATURE_POSIX, "remote_control", FEATURE_BELOW, FEATURE_FILES]
} else {
    &[FEATURE_POSIX, "shell_exec", "remote_control", FEATURE_BELOW, FEATURE_FILES]
};

/// What every tunnel of an agent shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
    pub(crate) dialler: Dialler,
    pub(crate) policy: Policy,
    pub(crate) calls: Arc<Calls>,
    pub(crate) logs: Forward,
    pub(crate) links: Links,
    pub(crate) epoch: StdInstant,
}

/// Why there is no tunnel, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No WebSocket.
    #[error("the server refuses a tunnel: {0}")]
    Upgrade(#[from] UpgradeError),
    /// No WebSocket in time.
    #[error("the server did not open a tunnel in time")]
    UpgradeTimedOut,
    /// The hub did not prove itself.
    #[error("{0}")]
    Distrust(EndReason),
    /// The hub does not let this agent in.
    #[error("the hub refuses this agent (4401): its key is not enrolled under this id, or was revoked")]
    Refused,
    /// The hub closed the tunnel.
    #[error("the hub closed the tunnel{}", closed(*.0))]
    Closed(Option<u16>),
    /// The socket broke.
    #[error("the tunnel broke: {0}")]
    Broken(#[from] SocketError),
    /// Nothing was heard for too long.
    #[error("{0}")]
    Silent(EndReason),
    /// No randomness.
    #[error("the system's random source failed: {0}")]
    Randomness(getrandom::Error),
}

/// What a close code tells, in brackets.
fn closed(code: Option<u16>) -> String {
    match code {
        // Both are a hub's going away to the one who is left behind; which of them, a person will know.
        Some(GOING_AWAY) => {
            format!(" ({GOING_AWAY}): it is stopping, or another agent has connected with this one's id and key")
        }
        Some(code) => format!(" ({code})"),
        None => String::new(),
    }
}

/// How a tunnel ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The agent stops.
    Stopped,
    /// An update is in place and has been answered for.
    Restart,
    /// It was lost, after an authenticated life.
    Lost(LinkError, Duration),
}

/// A tunnel whose hub has proved itself.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    socket: Socket,
    tunnel: Tunnel<'a>,
}

#[derive(Debug)]
struct Tunnel<'a> {
    shared: &'a Shared,
    session: AgentSession,
    reply: Reply,
    confirmed: bool,
    began: Instant,
    /// By when the hub must be heard.
    probe: Option<Duration>,
}

/// Connects and lets the hub prove itself. Anything but a valid challenge ends it here, without an `auth`.
pub(crate) async fn open<'a>(
    shared: &'a Shared,
    key: &SigningKey,
    switch: RemoteControl,
) -> Result<Link<'a>, LinkError> {
    let door = shared.identity.hub.door();
    let stream = shared.dialler.dial(door).await?;
    let upgrade = open_websocket(stream, door, STRANGER_LIMIT, "");
    let (mut socket, response) =
        tokio::time::timeout(shared.dialler.patience, upgrade).await.map_err(|_| LinkError::UpgradeTimedOut)??;

    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(LinkError::Randomness)?;
    let mut config = AgentConfig::new(shared.identity.id.clone(), shared.identity.hub_key);
    config.challenge_timeout = shared.settings.seconds("challenge_timeout_s");
    config.heartbeat = shared.settings.seconds("heartbeat_s");
    let mut session = AgentSession::new(config, key.clone(), nonce, shared.epoch.elapsed());
    socket.queue_text(&session.register_frame(&meta(switch, shared.calls.has_probes())));
    let queue = Arc::new(Queue::default());
    let auth =
        drive(&mut socket, &mut Handshake { session: &mut session }, &queue, Clock::since(shared.epoch)).await?;
    socket.queue_text(&auth);
    socket.set_limit(HUB_LIMIT);
    let limit = match shared.settings.number("max_frame_bytes") {
        0 => response.header(MAX_FRAME_HEADER).and_then(|value| value.parse().ok()).unwrap_or(UNTOLD_LIMIT),
        set => set,
    };
    let is_ours = response.header(MAX_FRAME_HEADER).is_some();
    let (reply, began) = (Reply { queue, limit, is_ours }, Instant::now());
    let tunnel = Tunnel { shared, session, reply, confirmed: false, began, probe: None };
    Ok(Link { socket, tunnel })
}

/// Waits for the hub's proof.
struct Handshake<'a> {
    session: &'a mut AgentSession,
}

impl Machine for Handshake<'_> {
    type Command = Out;
    /// The `auth` frame that answers the hub's challenge.
    type End = Result<String, LinkError>;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(&mut self, message: Message, now: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        ControlFlow::Break(match message {
            Message::Text(text) => match self.session.on_text(&text, now) {
                AgentEvent::Auth(frame) => Ok(frame),
                AgentEvent::End(why) => Err(LinkError::Distrust(why)),
                _ => Err(LinkError::Distrust(EndReason::NotChallenge)),
            },
            Message::Binary(_) => Err(LinkError::Distrust(EndReason::NotChallenge)),
            Message::Pong(_) | Message::Skipped(_) => return ControlFlow::Continue(()),
        })
    }

    async fn on_time(&mut self, now: Duration, _: &mut Connection) -> ControlFlow<Self::End> {
        match self.session.on_tick(now) {
            AgentTick::End(why) => ControlFlow::Break(Err(LinkError::Distrust(why))),
            AgentTick::Wait | AgentTick::Send(_) => ControlFlow::Continue(()),
        }
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        Err(match lost.into() {
            LinkError::Closed(Some(UNAUTHORIZED)) => LinkError::Refused,
            why => why,
        })
    }
}

impl From<Lost> for LinkError {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Closed(code, _) => Self::Closed(code),
            Lost::Broken(error) => Self::Broken(error.into()),
            Lost::Gone(error) => Self::Broken(error),
        }
    }
}

fn meta(switch: RemoteControl, has_probes: bool) -> Meta {
    let os = match std::env::consts::OS {
        os @ ("windows" | "linux" | "macos") => os,
        // The contract knows three; whatever else we are built for is nearest to this one.
        _ => "linux",
    };
    Meta {
        hostname: hostname(),
        os: os.to_owned(),
        version: VERSION.to_owned(),
        arch: Some(std::env::consts::ARCH.to_owned()),
        channel: None,
        features: FEATURES.iter().chain(has_probes.then_some(&FEATURE_PROBES)).map(|name| (*name).into()).collect(),
        remote_control: Some(switch),
    }
}

fn hostname() -> String {
    #[cfg(unix)]
    let name = nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned());
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").ok();
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

impl Link<'_> {
    /// Lives until something ends it. `on_confirmed` hears when the hub has let us in.
    pub(crate) async fn run(self, stop: &CancellationToken, on_confirmed: impl FnMut() + Send) -> Ended {
        let Self { mut socket, tunnel } = self;
        let (shared, queue) = (tunnel.shared, Arc::clone(&tunnel.reply.queue));
        let feed = async {
            loop {
                tokio::select! {
                    () = shared.logs.news() => { let _ = queue.push(Out::Logs); }
                    () = stop.cancelled() => {
                        let _ = queue.push(Out::Stop);
                        return std::future::pending().await;
                    }
                }
            }
        };
        let mut live = Live { tunnel, on_confirmed };
        let ended = tokio::select! {
            ended = drive(&mut socket, &mut live, &queue, Clock::since(shared.epoch)) => ended,
            never = feed => never,
        };
        shared.links.down();
        // An update may be in place whose answer was not sent: nobody else restarts into it, and it would stand in the
        // way of all others. Who has an answer after this learns that the tunnel is gone.
        let owes_restart = queue.end().iter().any(|out| matches!(out, Out::Farewell(_)));
        match ended {
            Ended::Stopped | Ended::Restart => {
                socket.close(1000, "").await;
                ended
            }
            Ended::Lost(..) if owes_restart => Ended::Restart,
            Ended::Lost(..) => ended,
        }
    }
}

/// A tunnel while it lives.
struct Live<'a, F> {
    tunnel: Tunnel<'a>,
    on_confirmed: F,
}

impl<F: FnMut() + Send> Live<'_, F> {
    /// Looks whether the hub has let us in by now.
    fn look(&mut self, connection: &mut Connection) {
        let tunnel = &mut self.tunnel;
        if !tunnel.confirmed && tunnel.session.is_confirmed() {
            tunnel.confirmed = true;
            tunnel.shared.links.up(tunnel.reply.clone());
            (self.on_confirmed)();
            tunnel.send_logs(connection);
        }
    }
}

impl<F: FnMut() + Send> Machine for Live<'_, F> {
    type Command = Out;
    type End = Ended;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        let beat = self.tunnel.session.next_deadline().unwrap_or(now);
        self.tunnel.probe.map_or(beat, |probe| probe.min(beat))
    }

    async fn on_message(
        &mut self,
        message: Message,
        now: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        self.tunnel.probe = None;
        match message {
            Message::Text(text) => {
                if let Some(error) = self.tunnel.on_text(&text, now, connection).await {
                    return ControlFlow::Break(self.tunnel.lost(error));
                }
            }
            Message::Binary(bytes) => {
                tracing::warn!(bytes = bytes.len(), "the hub sent a binary message; frames are text");
            }
            Message::Pong(_) | Message::Skipped(_) => {}
        }
        self.look(connection);
        ControlFlow::Continue(())
    }

    fn on_ping(&mut self, _: &mut Connection) -> ControlFlow<Self::End> {
        self.tunnel.probe = None;
        ControlFlow::Continue(())
    }

    async fn on_command(&mut self, out: Out, now: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        match out {
            Out::Frame(frame) => connection.queue_text(&frame),
            Out::Farewell(frame) => {
                connection.queue_text(&frame);
                return ControlFlow::Break(Ended::Restart);
            }
            Out::Probe => {
                connection.queue_text(&frame::ping());
                self.tunnel.probe = Some(now + PROBE_PATIENCE);
            }
            Out::Logs if self.tunnel.confirmed => self.tunnel.send_logs(connection),
            Out::Logs => {}
            Out::Stop => return ControlFlow::Break(Ended::Stopped),
        }
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, now: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        if self.tunnel.probe.is_some_and(|probe| probe <= now) {
            return ControlFlow::Break(self.tunnel.lost(LinkError::Silent(EndReason::Silent)));
        }
        match self.tunnel.session.on_tick(now) {
            AgentTick::Wait => {}
            AgentTick::Send(frame) => connection.queue_text(&frame),
            AgentTick::End(why) => return ControlFlow::Break(self.tunnel.lost(LinkError::Silent(why))),
        }
        self.look(connection);
        ControlFlow::Continue(())
    }

    async fn on_lost(&mut self, lost: Lost, _: &mut Connection) -> Self::End {
        self.tunnel.lost(lost.into())
    }
}

impl Tunnel<'_> {
    fn lost(&self, why: LinkError) -> Ended {
        let why = match why {
            // Before it has let us in, the end of the tunnel is how a hub says no; not all of them give the code.
            LinkError::Closed(Some(UNAUTHORIZED)) => LinkError::Refused,
            other => other,
        };
        let life = if self.confirmed { self.began.elapsed() } else { Duration::ZERO };
        Ended::Lost(why, life)
    }

    fn send_logs(&mut self, connection: &mut Connection) {
        while connection.backlog() < HIGH_WATER {
            let frames = self.shared.logs.take(self.shared.identity.id.as_str(), LOG_BATCH);
            if frames.is_empty() {
                return;
            }
            for frame in frames {
                connection.queue_text(&frame);
            }
        }
        // The rest is looked at when there is room.
        self.shared.logs.remind();
    }

    async fn on_text(&mut self, text: &str, now: Duration, connection: &mut Connection) -> Option<LinkError> {
        match self.session.on_text(text, now) {
            AgentEvent::Request { id, tool, args, below } => {
                let request = Request { id, tool: tool.into_owned(), args: args.into_owned(), below };
                self.shared.calls.start(request, self.reply.clone());
            }
            AgentEvent::Policy { rules, skipped, shell } => self.on_policy(rules, skipped, shell).await,
            AgentEvent::Reply(frame) | AgentEvent::Auth(frame) => connection.queue_text(&frame),
            AgentEvent::Alive => {}
            AgentEvent::Dropped(why) => tracing::warn!(%why, "dropped a frame of the hub"),
            AgentEvent::End(why) => return Some(LinkError::Silent(why)),
        }
        None
    }

    /// Waits until the rules are in force: a request that came after them must meet them.
    async fn on_policy(&mut self, rules: Vec<PolicyRule>, skipped: usize, shell: Option<ShellPolicy>) {
        let guard = Arc::clone(&self.shared.policy.guard);
        let count = rules.len();
        let set = move || {
            let of_shell = shell.map(|shell| guard.set_shell(&shell)).unwrap_or_default();
            (guard.set_rules(&rules), of_shell)
        };
        let (refused, of_shell) = tokio::task::spawn_blocking(set).await.unwrap_or_default();
        for (rule, why) in &of_shell {
            tracing::warn!(rule, %why, "ignoring a shell policy rule that cannot be used; it allows nothing");
        }
        for (rule, why) in &refused {
            tracing::warn!(rule, %why, "skipping a deny rule of the operators that cannot be used");
        }
        if skipped > 0 {
            tracing::warn!(skipped, "skipping deny rules of the operators that are not understood");
        }
        tracing::debug!(rules = count - refused.len(), "the operators' deny rules are in force");
    }
}
