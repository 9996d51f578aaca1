//! A link: a live, authenticated connection to a peer. A bounded outbound queue and nothing else.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use convoke_core::call::code;
use convoke_core::id::{CallId, LinkId};
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::answers::AnswerText;

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
    /// This call must not go out, should it still be held back; whoever waits for it is told why.
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
    /// What the peer is told, where its protocol has a word for it.
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
    queue: Mutex<Queue>,
    /// When its last frame came, in milliseconds; 0 before the first.
    heard: AtomicI64,
}

#[derive(Debug, Default)]
struct Queue {
    commands: VecDeque<Command>,
    /// What concerns calls that are not among the commands any more: at most a few for each call under way. It takes no
    /// room and nobody's place, and is handed out before the commands, so that it does not stay.
    taken_back: VecDeque<Command>,
    bytes: usize,
    /// One of the commands says that the policy changed.
    policy_changed: bool,
    ended: bool,
    /// The connection's task, while it waits for a command.
    waiting: Option<Waker>,
}

impl Queue {
    /// Whether the next command is a close: it comes before all others.
    fn ends(&self) -> bool {
        matches!(self.commands.front(), Some(Command::Close(_)))
    }

    fn pop_taken_back(&mut self) -> Option<Command> {
        let command = self.taken_back.pop_front()?;
        if self.taken_back.is_empty() {
            self.taken_back = VecDeque::new();
        }
        Some(command)
    }

    fn pop(&mut self) -> Option<Command> {
        if !self.ends()
            && let Some(command) = self.pop_taken_back()
        {
            return Some(command);
        }
        let command = self.commands.pop_front()?;
        self.bytes -= command.size();
        self.policy_changed &= !matches!(command, Command::PolicyChanged);
        if self.commands.is_empty() {
            // An idle link holds no memory for its queue.
            self.commands = VecDeque::new();
        }
        Some(command)
    }

    /// Where a call waits.
    fn place(&self, wanted: CallId) -> Option<usize> {
        self.commands.iter().position(|command| match command {
            Command::Call(request) => request.id == wanted,
            _ => false,
        })
    }

    /// Takes a call out from among those that wait.
    fn take_call(&mut self, wanted: CallId) -> Option<Command> {
        let call = self.commands.remove(self.place(wanted)?)?;
        self.bytes -= call.size();
        Some(call)
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.commands.iter().filter_map(Command::deadline).min()
    }
}

/// A command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection has ended.
    Ended,
    /// The queue is full.
    Full,
}

impl Link {
    /// A new link.
    pub fn new(id: LinkId) -> Arc<Self> {
        Arc::new(Self { id, queue: Mutex::default(), heard: AtomicI64::new(0) })
    }

    /// A frame came.
    pub fn heard(&self, at: Timestamp) {
        self.heard.store(at.millis(), Relaxed);
    }

    /// When its last frame came.
    pub fn last_heard(&self) -> Option<Timestamp> {
        Some(self.heard.load(Relaxed)).filter(|at| *at > 0).map(Timestamp::from_millis)
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        // A panic while holding it leaves a queue that is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command. A close is always taken: it must get through when the queue is full. So must a change of the
    /// policy, which nobody tells a second time; one that waits stands for all, since it is read when it is sent.
    pub fn push(&self, command: Command) -> Result<(), Refused> {
        let mut queue = self.queue();
        if queue.ended {
            return Err(Refused::Ended);
        }
        let size = command.size();
        match command {
            Command::Close(_) => queue.commands.push_front(command),
            // What has not gone out yet need not: nobody waits for it any more.
            Command::Forget(id) if let Some(unsent) = queue.take_call(id) => {
                drop(queue);
                unsent.fail(Failure::new(code::CANCELLED, "the caller stopped waiting before the call was sent"));
                return Ok(());
            }
            Command::Withdraw(id, why) if let Some(unsent) = queue.take_call(id) => {
                drop(queue);
                unsent.fail(why);
                return Ok(());
            }
            Command::Forget(_) | Command::Withdraw(..) => queue.taken_back.push_back(command),
            Command::PolicyChanged if queue.policy_changed => return Ok(()),
            Command::PolicyChanged => {
                queue.policy_changed = true;
                queue.commands.push_back(command);
            }
            _ if queue.commands.len() >= MAX_QUEUED || queue.bytes + size > MAX_QUEUED_BYTES => {
                return Err(Refused::Full);
            }
            _ => queue.commands.push_back(command),
        }
        queue.bytes += size;
        let waiting = queue.waiting.take();
        drop(queue);
        if let Some(waker) = waiting {
            waker.wake();
        }
        Ok(())
    }

    /// Waits for the next command. Without room for what others would have sent, waits for the end and for what is taken
    /// back alone, and for a call that must be given up before `due`: then there is no command, and it is
    /// [`Link::take_overdue`] that gives it. For one task, the connection's. Cancel-safe: a command is taken in the same poll
    /// that returns it.
    pub async fn next(&self, has_room: bool, due: Duration) -> Option<Command> {
        poll_fn(|cx| {
            let mut queue = self.queue();
            let sends_nothing = queue.ends() || !queue.taken_back.is_empty();
            if (has_room || sends_nothing)
                && let Some(command) = queue.pop()
            {
                return Poll::Ready(Some(command));
            }
            if !has_room && queue.next_deadline().is_some_and(|deadline| deadline < due) {
                return Poll::Ready(None);
            }
            // The same task waits again and again: its waker need not be made anew.
            if !queue.waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                queue.waiting = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// The next command, if there is one.
    pub fn pop(&self) -> Option<Command> {
        self.queue().pop()
    }

    /// The next [`Command::Forget`] or [`Command::Withdraw`], if there is one: for who is about to send what was held back.
    pub fn pop_taken_back(&self) -> Option<Command> {
        self.queue().pop_taken_back()
    }

    /// When the first of the calls that wait is to be given up.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.queue().next_deadline()
    }

    /// The calls that wait and whose time is over: they are no longer to be sent.
    pub fn take_overdue(&self, now: Duration) -> Vec<Command> {
        let mut queue = self.queue();
        if queue.next_deadline().is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        let (overdue, rest): (Vec<_>, Vec<_>) = queue.commands.drain(..).partition(|command| command.is_overdue(now));
        queue.commands = VecDeque::from(rest);
        queue.bytes -= overdue.iter().map(Command::size).sum::<usize>();
        overdue
    }

    /// The connection has ended: nothing is taken any more. Returns what was left.
    pub fn end(&self) -> VecDeque<Command> {
        let mut queue = self.queue();
        queue.ended = true;
        queue.bytes = 0;
        queue.waiting = None;
        queue.taken_back = VecDeque::new();
        std::mem::take(&mut queue.commands)
    }

    /// Whether a call waits here.
    pub fn holds(&self, id: CallId) -> bool {
        self.queue().place(id).is_some()
    }

    /// How many commands wait.
    pub fn depth(&self) -> usize {
        let queue = self.queue();
        queue.commands.len() + queue.taken_back.len()
    }
}

impl Command {
    /// When to give up.
    const fn deadline(&self) -> Option<Duration> {
        match self {
            Self::Call(request) => Some(request.deadline),
            Self::Forget(_) | Self::Withdraw(..) | Self::Send(_) | Self::PolicyChanged | Self::Close(_) => None,
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

    fn size(&self) -> usize {
        match self {
            Self::Call(request) => request.args.get().len(),
            Self::Send(frame) => frame.len(),
            Self::Forget(_) | Self::Withdraw(..) | Self::PolicyChanged | Self::Close(_) => 0,
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
        assert!(matches!(link.pop(), Some(Command::Close(Close::Revoked))), "and comes first");
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
        while !matches!(link.pop(), Some(Command::PolicyChanged)) {}
        link.push(Command::PolicyChanged).expect("and again");
        assert!(matches!(link.pop(), Some(Command::PolicyChanged)));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let link = Link::new(LinkId(1));
        link.push(Command::Send("x".repeat(MAX_QUEUED_BYTES))).expect("fits");
        assert_eq!(link.push(Command::Send("x".into())), Err(Refused::Full));
        link.pop();
        link.push(Command::Send("x".into())).expect("room again");
    }

    #[test]
    fn an_ended_link_takes_nothing_and_gives_back_what_waited() {
        let link = Link::new(LinkId(1));
        link.push(Command::PolicyChanged).expect("room");
        assert_eq!(link.end().len(), 1);
        assert_eq!(link.push(Command::PolicyChanged), Err(Refused::Ended));
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
            timeout: Duration::from_secs(1),
            deadline: Duration::from_secs(deadline_s),
            reply,
        };
        (Command::Call(request), id, answer)
    }

    #[test]
    fn only_what_is_overdue_is_taken_out_of_the_middle() {
        let link = Link::new(LinkId(1));
        for command in [call(2, 30), call(MAX_QUEUED_BYTES - 5, 10), Command::Send("x".into()), call(2, 20)] {
            link.push(command).expect("room");
        }
        let s = Duration::from_secs;
        assert_eq!((link.next_deadline(), link.take_overdue(s(9)).len(), link.depth()), (Some(s(10)), 0, 4));
        assert_eq!((link.take_overdue(s(10)).len(), link.next_deadline()), (1, Some(s(20))));
        link.push(call(MAX_QUEUED_BYTES - 5, 40)).expect("its bytes are free again");
        let left: Vec<_> = std::iter::from_fn(|| link.pop()).map(|c| c.deadline().map(|d| d.as_secs())).collect();
        assert_eq!(left, [Some(30), None, Some(20), Some(40)]);
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

    #[tokio::test]
    async fn without_room_only_an_earlier_deadline_and_the_end_are_seen() {
        let link = Link::new(LinkId(1));
        let waiting = tokio::spawn({
            let link = Arc::clone(&link);
            async move { (link.next(false, Duration::from_secs(10)).await.is_none(), link.depth()) }
        });
        for later in [call(2, 30), call(2, 10), call(2, 9)] {
            assert!(!waiting.is_finished());
            link.push(later).expect("room");
            tokio::task::yield_now().await;
        }
        assert_eq!(waiting.await.expect("no panic"), (true, 3), "nothing is taken");
        link.push(Command::Close(Close::Revoked)).expect("always taken");
        assert!(matches!(link.next(false, Duration::ZERO).await, Some(Command::Close(Close::Revoked))));
    }

    #[test]
    fn what_is_taken_back_comes_before_calls_without_room_and_takes_nobodys_place() {
        let link = Link::new(LinkId(1));
        let under_way = || CallId::new(crate::clock::uuid());
        let next = |has_room| link.next(has_room, Duration::ZERO).now_or_never().flatten();
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

    #[tokio::test]
    async fn waiting_sees_what_is_pushed_later() {
        let link = Link::new(LinkId(1));
        let waiting = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.next(true, Duration::MAX).await }
        });
        link.push(Command::PolicyChanged).expect("room");
        assert!(matches!(waiting.await, Ok(Some(Command::PolicyChanged))));
    }
}
