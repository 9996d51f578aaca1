//! A link: a live, authenticated connection to a peer. A bounded outbound queue and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::id::{CallId, LinkId};
use convoke_core::time::Timestamp;
use convoke_socket::queue::{Item, Queue, Rank};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::answers::AnswerText;

pub use convoke_socket::queue::Refused;

/// Most commands that wait on one link.
pub const MAX_QUEUED: usize = 2048;
/// Most bytes that wait on one link.
pub const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;

/// What a peer answered, or why it did not.
pub type Answer = Result<AnswerText, Failure>;

/// Why a call did not succeed: the peer's own words or the hub's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// Whether these are the peer's words.
    pub by_peer: bool,
}

impl Failure {
    /// A failure in the hub's words.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), by_peer: false }
    }

    /// A failure in the peer's own words, or in words that quote it.
    pub fn of_peer(given: &str, message: impl Into<String>) -> Self {
        let code = code::of_agent(given);
        let message = message.into();
        let message = if code == given { message } else { format!("{given}: {message}") };
        Self { by_peer: true, ..Self::new(code, message) }
    }
}

/// What a link is asked to do.
#[derive(Debug)]
pub enum Command {
    /// Send a call and deliver its answer.
    Call(Request),
    /// Nobody waits for this call any longer: its answer will be late.
    Forget(CallId),
    /// Do not send this call if it is still held back; fail it with this reason.
    Withdraw(CallId, Failure),
    /// Send a frame.
    Send(String),
    /// The deny rules changed: send those this peer understands.
    PolicyChanged,
    /// Close the connection.
    Close(Close),
}

/// A call on its way to a peer. The protocol's own side makes a frame of it when it goes out.
#[derive(Debug)]
pub struct Request {
    /// The call: also the request's id.
    pub id: CallId,
    /// Which tool or probe.
    pub tool: String,
    /// With what: a JSON object.
    pub args: Box<RawValue>,
    /// `api` or a runbook's id.
    pub requested_by: Arc<str>,
    /// The only folders below which files may be read for it.
    pub below: Option<Vec<String>>,
    /// The timeout in the request, for protocols that have one.
    pub timeout: Duration,
    /// When to give up, on the hub's own clock.
    pub deadline: Duration,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Answer>,
}

/// Why the hub closes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// A newer connection of the same peer.
    Replaced,
    /// An operator revoked or removed the peer, or its key changed.
    Revoked,
    /// The hub stops.
    Stopping,
}

/// The hub's end of a connection.
#[derive(Debug)]
pub struct Link {
    /// Which connection.
    pub id: LinkId,
    queue: Queue<Command>,
    /// When its last frame came, in milliseconds; 0 before the first.
    heard: AtomicI64,
}

impl Link {
    /// A new link.
    pub fn new(id: LinkId) -> Arc<Self> {
        Arc::new(Self { id, queue: Queue::default(), heard: AtomicI64::new(0) })
    }

    /// A frame came.
    pub fn heard(&self, at: Timestamp) {
        self.heard.store(at.millis(), Relaxed);
    }

    /// When its last frame came.
    pub fn last_heard(&self) -> Option<Timestamp> {
        Some(self.heard.load(Relaxed)).filter(|at| *at > 0).map(Timestamp::from_millis)
    }

    /// What the connection is asked to do.
    pub const fn queue(&self) -> &Queue<Command> {
        &self.queue
    }

    /// Takes a command. A call that is forgotten or withdrawn before it was sent is not sent.
    pub fn push(&self, command: Command) -> Result<(), Refused> {
        let unsent = match &command {
            Command::Forget(id) | Command::Withdraw(id, _) => self.queue.take(|waiting| waiting.call() == Some(*id)),
            _ => None,
        };
        match (command, unsent) {
            (Command::Withdraw(_, why), Some(unsent)) => unsent.fail(why),
            (_, Some(unsent)) => {
                unsent.fail(Failure::new(code::CANCELLED, "the caller stopped waiting before the call was sent"));
            }
            (command, None) => return self.queue.push(command),
        }
        Ok(())
    }

    /// Whether a call waits here.
    pub fn holds(&self, id: CallId) -> bool {
        self.queue.holds(|waiting| waiting.call() == Some(id))
    }

    /// How many commands wait.
    pub fn depth(&self) -> usize {
        self.queue.depth()
    }
}

impl Item for Command {
    const MAX_MESSAGES: usize = MAX_QUEUED;
    const MAX_BYTES: usize = MAX_QUEUED_BYTES;

    fn rank(&self) -> Rank {
        match self {
            Self::Close(_) => Rank::First,
            // Nobody tells of a changed policy a second time; it is read when it is sent, so one stands for all.
            Self::PolicyChanged => Rank::Hint,
            Self::Forget(_) | Self::Withdraw(..) => Rank::Notice,
            Self::Call(_) | Self::Send(_) => Rank::Message,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Call(request) => request.args.get().len(),
            Self::Send(frame) => frame.len(),
            Self::Forget(_) | Self::Withdraw(..) | Self::PolicyChanged | Self::Close(_) => 0,
        }
    }

    fn deadline(&self) -> Option<Duration> {
        match self {
            Self::Call(request) => Some(request.deadline),
            Self::Forget(_) | Self::Withdraw(..) | Self::Send(_) | Self::PolicyChanged | Self::Close(_) => None,
        }
    }
}

impl Command {
    /// Which call it is.
    const fn call(&self) -> Option<CallId> {
        match self {
            Self::Call(request) => Some(request.id),
            _ => None,
        }
    }

    /// Whether it was to be given up by now.
    pub fn is_overdue(&self, now: Duration) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// It will not be sent: tells whoever waits for its answer.
    pub fn fail(self, why: Failure) {
        match self {
            Self::Call(request) => drop(request.reply.send(Err(why))),
            Self::Forget(_) | Self::Withdraw(..) | Self::Send(_) | Self::PolicyChanged | Self::Close(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_full_queue_refuses_but_still_takes_a_close() {
        let link = Link::new(LinkId(1));
        for _ in 0..MAX_QUEUED {
            link.push(Command::Send("x".into())).expect("room");
        }
        assert_eq!(link.push(Command::Send("x".into())), Err(Refused::Full));
        link.push(Command::Close(Close::Revoked)).expect("always taken");
        assert!(matches!(link.queue().pop(), Some(Command::Close(Close::Revoked))), "and comes first");
    }

    #[test]
    fn a_change_of_the_policy_is_always_taken_and_waits_once() {
        let link = Link::new(LinkId(1));
        for _ in 0..MAX_QUEUED {
            link.push(Command::Send("x".into())).expect("room");
        }
        for _ in 0..3 {
            link.push(Command::PolicyChanged).expect("always taken");
        }
        assert_eq!(link.depth(), MAX_QUEUED + 1);
        while !matches!(link.queue().pop(), Some(Command::PolicyChanged)) {}
        link.push(Command::PolicyChanged).expect("and again");
        assert!(matches!(link.queue().pop(), Some(Command::PolicyChanged)));
    }

    fn call(bytes: usize, deadline_s: u64) -> Command {
        waited_for(bytes, deadline_s).0
    }

    fn waited_for(bytes: usize, deadline_s: u64) -> (Command, CallId, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        let id = CallId::new(crate::clock::uuid());
        let request = Request {
            id,
            tool: "system.uptime".into(),
            args: RawValue::from_string(format!("\"{}\"", "x".repeat(bytes.max(2) - 2))).expect("JSON"),
            requested_by: "api".into(),
            below: None,
            timeout: Duration::from_secs(1),
            deadline: Duration::from_secs(deadline_s),
            reply,
        };
        (Command::Call(request), id, answer)
    }

    #[test]
    fn a_call_that_is_given_up_before_it_went_out_does_not_go_out() {
        let link = Link::new(LinkId(1));
        let ((first, id, _), second) = (waited_for(MAX_QUEUED_BYTES - 5, 10), call(2, 20));
        link.push(first).expect("room");
        link.push(second).expect("room");
        link.push(Command::Forget(id)).expect("always taken");
        assert_eq!(link.depth(), 1);
        link.push(call(MAX_QUEUED_BYTES - 5, 40)).expect("its bytes are free again");
        link.push(Command::Forget(id)).expect("what is under way is told to the connection");
        assert_eq!(link.depth(), 3);
    }

    #[test]
    fn a_call_that_waits_is_withdrawn_and_its_caller_told_why() {
        let link = Link::new(LinkId(1));
        let (waiting, id, mut answer) = waited_for(2, 1);
        link.push(waiting).expect("room");
        let why = Failure::new(code::DENIED, "revoked");
        link.push(Command::Withdraw(id, why.clone())).expect("always taken");
        assert_eq!((answer.try_recv().expect("told").unwrap_err(), link.depth()), (why.clone(), 0));
        link.push(Command::Withdraw(id, why)).expect("what is under way is told to the connection");
        assert_eq!(link.depth(), 1);
    }

    #[test]
    fn what_is_taken_back_comes_before_calls_without_room_and_takes_nobodys_place() {
        let link = Link::new(LinkId(1));
        let under_way = || CallId::new(crate::clock::uuid());
        let next = |may_send| link.queue().next(may_send, Duration::ZERO).now_or_never().flatten();
        for _ in 0..MAX_QUEUED {
            link.push(Command::Withdraw(under_way(), Failure::new(code::DENIED, "revoked"))).expect("always taken");
        }
        link.push(call(2, 30)).expect("what is taken back is no call that waits");
        link.push(Command::Forget(under_way())).expect("always taken");
        for _ in 0..MAX_QUEUED {
            assert!(matches!(next(false), Some(Command::Withdraw(..))));
        }
        link.push(Command::Close(Close::Revoked)).expect("always taken");
        assert!(matches!(next(false), Some(Command::Close(Close::Revoked))));
        assert!(matches!(next(false), Some(Command::Forget(_))));
        assert!(next(false).is_none(), "a call waits for room");
        assert!(matches!(next(true), Some(Command::Call(_))));
        assert_eq!(link.depth(), 0);
    }
}
