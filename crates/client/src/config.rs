//! What a program sees of a client: its configuration, its processors, events, and a handle to send with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::secret::SecretText;
use convoke_socket::queue::{Item, Queue, Rank};
use convoke_yonexus::builtin::RePairReason;
use convoke_yonexus::client::{HEARTBEAT, State};
use convoke_yonexus::message::{BadRule, check_registered};
use convoke_yonexus::reason::{AdminNotification, AuthFailure, ErrorCode, PairFailure, Status as Liveness};
use convoke_yonexus::rules::{RegisterError, Rules};
use convoke_yonexus::{MAX_FRAME_AFTER, message::DELIMITER};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::run::{self, Ended};
use crate::state::{StateError, StateFile};

/// Events that may wait for the program; while it does not read them the connection is not read either.
const MAX_EVENTS: usize = 256;
/// Messages that may wait to be sent; beyond it senders wait.
const MAX_COMMANDS: usize = 256;

/// Whether a client pairs when the hub wants it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// It does: somebody will give it the code.
    Allowed,
    /// It does, whatever pairing it has. That one holds until there is the new one.
    Anew,
    /// It ends instead: nobody is there to carry a code.
    Refused,
}

/// How a client works.
#[derive(Debug)]
pub struct Config {
    /// The hub's WebSocket address.
    pub hub: String,
    /// What it keeps.
    pub state: StateFile,
    /// Between heartbeats.
    pub heartbeat: Duration,
    /// Whether it pairs when the hub wants it to.
    pub pairing: Pairing,
    /// Whether it tries again after a connection was lost or refused.
    pub reconnect: bool,
}

impl Config {
    /// The contract's heartbeat, no pairing, reconnecting.
    pub fn new(hub: &str, state: StateFile) -> Self {
        Self { hub: hub.into(), state, heartbeat: HEARTBEAT, pairing: Pairing::Refused, reconnect: true }
    }
}

/// A message from the hub.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The rule identifier.
    pub rule: &'a str,
    /// The content.
    pub content: &'a str,
}

/// What a rule does with a message.
pub(crate) struct Processor(pub(crate) Box<dyn FnMut(Message<'_>) + Send>);

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Processor(…)")
    }
}

/// A client that has not started.
#[derive(Debug)]
pub struct Client {
    config: Config,
    rules: Rules<std::sync::Mutex<Processor>>,
}

/// A client that runs.
#[derive(Debug)]
pub struct Running {
    /// To send with.
    pub handle: Handle,
    /// What happens. Messages that no processor takes are among it.
    pub events: mpsc::Receiver<Event>,
    /// How it ends.
    pub task: JoinHandle<Ended>,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The client moved to another state.
    State(State),
    /// A code is under way: hand it in with [`Handle::confirm`].
    CodeWanted {
        /// How long it lives.
        ttl_seconds: u64,
        /// Whether anybody has it.
        notification: AdminNotification,
    },
    /// The client is paired, and the secret is on disk.
    Paired,
    /// Pairing failed.
    PairFailed(PairFailure),
    /// The client is in.
    Authenticated {
        /// How far this machine's clock is ahead of the hub's, in seconds.
        clock_ahead_s: Option<i64>,
    },
    /// The proof was not accepted.
    AuthFailed {
        /// Why.
        reason: AuthFailure,
        /// In words.
        explanation: String,
    },
    /// The hub reset its trust.
    RePairRequired(RePairReason),
    /// The hub does not want this client.
    Rejected,
    /// Another client's liveness changed.
    Status {
        /// Whose.
        identifier: String,
        /// The new one.
        status: Liveness,
        /// Why.
        reason: Option<String>,
    },
    /// The hub is about to close.
    Notice(String),
    /// The hub said that something was wrong.
    ServerError {
        /// The code.
        code: String,
        /// In words.
        message: Option<String>,
    },
    /// A message that no processor took.
    Message {
        /// The rule identifier.
        rule: String,
        /// The content.
        content: String,
    },
    /// The hub sent what is no message.
    Malformed(String),
    /// The connection is gone.
    Lost {
        /// Why.
        why: String,
        /// When it is tried again.
        again_in: Option<Duration>,
    },
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No rule identifier.
    #[error("{0}")]
    Rule(BadRule),
    /// Larger than the hub takes.
    #[error("the message is larger than {MAX_FRAME_AFTER} bytes")]
    TooLarge,
    /// The client is not in.
    #[error("the client is not connected")]
    NotConnected,
    /// The connection was lost before the hub confirmed. It may or may not have the message.
    #[error("the connection was lost before the hub confirmed the message")]
    Lost,
    /// The hub said no.
    #[error("the hub rejected the message: {code}{}", .message.as_ref().map(|m| format!(": {m}")).unwrap_or_default())]
    Refused {
        /// The code.
        code: String,
        /// In words.
        message: Option<String>,
    },
}

impl SendError {
    pub(crate) fn refused(code: &Result<ErrorCode, String>, message: Option<&str>) -> Self {
        let code = code.as_ref().map_or_else(String::clone, |code| code.name().to_owned());
        Self::Refused { code, message: message.map(Into::into) }
    }
}

/// Sends, pairs and stops. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: Arc<Commands>,
}

/// Ends the client once there is no handle any more.
#[derive(Debug)]
struct Commands(Arc<Queue<Command>>);

impl Drop for Commands {
    fn drop(&mut self) {
        let _ = self.0.push(Command::Stop);
    }
}

#[derive(Debug)]
pub(crate) enum Command {
    Send { text: String, reply: oneshot::Sender<Result<(), SendError>> },
    Confirm(SecretText),
    Stop,
}

impl Item for Command {
    const MAX_MESSAGES: usize = MAX_COMMANDS;
    const MAX_BYTES: usize = MAX_COMMANDS * MAX_FRAME_AFTER;

    fn rank(&self) -> Rank {
        match self {
            Self::Send { .. } | Self::Confirm(_) => Rank::Message,
            Self::Stop => Rank::Hint,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Send { text, .. } => text.len(),
            Self::Confirm(_) | Self::Stop => 0,
        }
    }
}

impl Handle {
    /// Sends a message. Answers once the hub has worked through it: then it is with its receivers' connections, or on
    /// the hub's disk where its rule keeps messages.
    pub async fn send(&self, rule: &str, content: &str) -> Result<(), SendError> {
        check_registered(rule).map_err(SendError::Rule)?;
        if rule.len() + DELIMITER.len() + content.len() > MAX_FRAME_AFTER {
            return Err(SendError::TooLarge);
        }
        let (reply, answer) = oneshot::channel();
        let text = convoke_yonexus::message::encode(rule, content);
        self.commands.0.send(Command::Send { text, reply }).await.map_err(|_| SendError::NotConnected)?;
        answer.await.map_err(|_| SendError::Lost)?
    }

    /// Hands in the code that a person carried here.
    pub async fn confirm(&self, code: SecretText) {
        // A client that has ended needs no code.
        let _ = self.commands.0.send(Command::Confirm(code)).await;
    }

    /// Whether the client has ended.
    pub fn has_ended(&self) -> bool {
        self.commands.0.has_ended()
    }

    /// Ends the client.
    pub async fn stop(&self) {
        let _ = self.commands.0.send(Command::Stop).await;
    }
}

impl Client {
    /// A client that has not started.
    pub fn new(config: Config) -> Self {
        Self { config, rules: Rules::default() }
    }

    /// Registers a processor: exact match, in order of registration, and `builtin` is reserved. It runs on the
    /// connection's task; spawn a task for what takes long.
    pub fn on(
        &mut self,
        rule: &str,
        processor: impl FnMut(Message<'_>) + Send + 'static,
    ) -> Result<(), RegisterError> {
        self.rules.register(rule, std::sync::Mutex::new(Processor(Box::new(processor))))
    }

    /// Starts. The client is this process's from now on; it ends when its handle says so, or when only a person can
    /// help.
    pub fn start(self) -> Result<Running, StateError> {
        let (state, lock) = self.config.state.locked()?;
        let config = Config { state, ..self.config };
        let commands = Arc::new(Queue::default());
        let (outgoing, events) = mpsc::channel(MAX_EVENTS);
        let task = tokio::spawn(run::run(config, self.rules, Arc::clone(&commands), outgoing, lock));
        Ok(Running { handle: Handle { commands: Arc::new(Commands(commands)) }, events, task })
    }
}
