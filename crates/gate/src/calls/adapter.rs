//! What a protocol gives the gate: which tools a peer has, what they do, what of the arguments the guard must see, and
//! how a request goes out. The gate decides, records and answers; an adapter decides nothing after it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoke_core::confirm::ConfirmRule;
use convoke_core::effect::Effect;
use convoke_core::grant::Role;
use convoke_core::guard::{Hit, Surface};
use convoke_core::id::{PeerId, Protocol};
use convoke_core::redact;
use convoke_core::time::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{Call, dispatch};
use crate::agents::Agent;
use crate::cluster::forward::{self, Forward, ToLink};
use crate::hub::Hub;
use crate::link::{Answer, Command, Failure, Refused, Request};
use crate::operators::Token;
use convoke_core::call::code;

/// One protocol, as the gate sees it.
#[async_trait]
pub trait Adapter: Send + Sync + fmt::Debug {
    /// Refuses a tool that no peer of this protocol can have, in words for the caller.
    fn check(&self, target: &Agent, tool: &str) -> Result<(), String> {
        let _ = (target, tool);
        Ok(())
    }

    /// Why the peer could not do this, whoever asked for it: an unknown tool, arguments that do not fit, another system. Asked
    /// before a person is, in words for the caller.
    fn check_possible(&self, hub: &Hub, target: &Agent, tool: &str, args: &Value) -> Result<(), String> {
        let _ = (hub, target, tool, args);
        Ok(())
    }

    /// What a call of this tool does to the peer.
    fn effect(&self, hub: &Hub, target: &Agent, tool: &str) -> Effect;

    /// The shortest time-out that makes sense where the caller names none.
    fn least_timeout(&self, tool: &str) -> Duration {
        let _ = tool;
        Duration::ZERO
    }

    /// The texts of a call that name commands or paths: what deny rules look at.
    fn surfaces<'a>(&self, tool: &str, args: &'a Value) -> Vec<Surface<'a>> {
        let _ = (tool, args);
        Vec::new()
    }

    /// The files whose contents the call shows, by the names that its caller gives. Empty when it shows facts only, or
    /// when the peer itself sees to it that only logs are read.
    fn contents(&self, hub: &Hub, target: &Agent, tool: &str, args: &Value) -> Vec<String> {
        let _ = (hub, target, tool, args);
        Vec::new()
    }

    /// A refusal by the protocol's own state, which counts like a deny rule.
    fn restriction(&self, hub: &Hub, target: &Agent, tool: &str, args: &Value) -> Option<Hit> {
        let _ = (hub, target, tool, args);
        None
    }

    /// Of the confirm rules those that hold for this protocol's calls.
    fn rules<'r>(&self, rules: &'r [ConfirmRule]) -> Cow<'r, [ConfirmRule]> {
        Cow::Borrowed(rules)
    }

    /// Everyone the call reaches. The strictest verdict for any of them holds.
    fn recipients(&self, target: &Agent, args: &Value) -> Vec<Recipient> {
        let _ = args;
        vec![Recipient { id: target.id.as_str().to_owned(), tags: Arc::clone(&target.state().tags) }]
    }

    /// The arguments as records show them: without secrets.
    fn shown(&self, args: &RawValue) -> Box<RawValue> {
        redact::args(args)
    }

    /// The target of a call that was kept, if it is still known.
    fn target(&self, hub: &Hub, id: &PeerId) -> Option<Arc<Agent>> {
        hub.agents.find(id.as_str())
    }

    /// When the recipients were admitted: an approval from before holds for another machine of that name.
    fn admitted_at(&self, hub: &Hub, target: &Agent, args: &Value) -> Option<Timestamp> {
        let _ = (hub, args);
        target.state().enrolled_at
    }

    /// Whether a call could go out now. Asked before the intent is recorded, so that an offline peer leaves none.
    fn check_online(&self, hub: &Hub, target: &Agent, tool: &str) -> Result<(), Failure> {
        let _ = (hub, tool);
        if target.state().is_online() { Ok(()) } else { Err(offline(target)) }
    }

    /// Sends the call and waits for its answer.
    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer;

    /// What the outcome's record says beside the outcome.
    fn detail(&self, result: &RawValue) -> Option<Value> {
        let _ = result;
        None
    }
}

/// The adapters, by protocol.
#[derive(Clone, Debug, Default)]
pub struct Adapters(Vec<(Protocol, Arc<dyn Adapter>)>);

impl Adapters {
    /// Adds a protocol's adapter.
    #[must_use]
    pub fn with(mut self, protocol: Protocol, adapter: impl Adapter + 'static) -> Self {
        self.0.push((protocol, Arc::new(adapter)));
        self
    }

    /// The adapter for a peer.
    pub fn of(&self, peer: &PeerId) -> Arc<dyn Adapter> {
        let protocol = peer.protocol();
        let found = self.0.iter().find(|(of, _)| *of == protocol).map(|(_, adapter)| Arc::clone(adapter));
        found.unwrap_or_else(|| Arc::new(NoAdapter))
    }
}

/// Stands in for a protocol that this hub does not speak: nothing can be sent to its peers.
#[derive(Debug)]
struct NoAdapter;

#[async_trait]
impl Adapter for NoAdapter {
    fn effect(&self, _: &Hub, _: &Agent, _: &str) -> Effect {
        Effect::Manage
    }

    async fn send(&self, _: &Hub, call: &Outgoing<'_>) -> Answer {
        Err(offline(call.target))
    }
}

/// A peer that a call reaches, as rights and confirm rules see it.
#[derive(Clone, Debug)]
pub struct Recipient {
    /// Its id.
    pub id: String,
    /// Its tags.
    pub tags: Arc<[String]>,
}

/// A call that the gate let through and recorded where it must.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The call.
    pub call: &'a Arc<Call>,
    /// Whom it goes to.
    pub target: &'a Arc<Agent>,
    /// With what: the text of a JSON object, its keys in a fixed order.
    pub args: &'a RawValue,
    /// How long it may take.
    pub timeout: Duration,
    /// What it does.
    pub effect: Effect,
    /// Whose token asked.
    pub token: &'a Arc<Token>,
    /// `api`, or the runbook that asks: Sonde agents are told.
    pub requested_by: &'a Arc<str>,
}

impl Outgoing<'_> {
    /// Hands the call to the peer's link and waits for the answer, at most for `timeout`.
    pub async fn through_link(&self, hub: &Hub, timeout: Duration) -> Answer {
        self.through_link_as(hub, timeout, self.call.tool.clone(), self.args.to_owned()).await
    }

    /// The same, where the protocol has the call's tool and arguments in another shape.
    pub async fn through_link_as(&self, hub: &Hub, timeout: Duration, tool: String, args: Box<RawValue>) -> Answer {
        // The hub has looked at the name; where it leads only the peer can see.
        let below = (self.token.grant.role == Role::Viewer).then(|| hub.settings.policy.viewer_paths.clone());
        let id = self.call.id;
        let Some(link) = self.target.link() else {
            let requested_by = self.requested_by.to_string();
            let message = ToLink::Call { id, tool, args, requested_by, below, timeout, left: timeout };
            let Self { call, target, token, .. } = *self;
            return forward::call(hub, Forward { call, target, token, message, timeout }).await;
        };
        let (reply, mut answer) = oneshot::channel();
        let request = Request {
            id,
            tool,
            args,
            requested_by: Arc::clone(self.requested_by),
            below,
            timeout,
            deadline: hub.mono() + timeout,
            reply,
        };
        link.push(Command::Call(request)).map_err(|refused| match refused {
            Refused::Ended => offline(self.target),
            Refused::Full => {
                let message = format!("agent {} takes no more calls now: its queue is full", self.target.id);
                Failure::new(code::BUSY, message)
            }
        })?;
        // Looked at when it is in the queue: a revocation from now on finds it there.
        if !self.token.is_active(crate::clock::now()) {
            let _ = link.push(Command::Withdraw(id, dispatch::not_any_more()));
        }
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = self.call.cancelled() => {
                // The protocols cannot call a request back: a later answer is recorded as late.
                let _ = link.push(Command::Forget(id));
                // The answer may have come at the last moment.
                return answer.try_recv().unwrap_or_else(|_| Err(dispatch::cancelled()));
            }
        };
        // The link drops the waiter when it ends.
        answer.unwrap_or_else(|_| {
            let message = format!("agent {} disconnected during the call", self.target.id);
            Err(Failure::new(code::DISCONNECTED, message))
        })
    }
}

/// Why a call to a peer without a link fails.
pub fn offline(target: &Agent) -> Failure {
    use convoke_core::peer::Trust;
    let (id, state) = (&target.id, target.state());
    // Whoever called it by its name should find that in the answer.
    let id = state.name.as_ref().map_or_else(|| id.to_string(), |name| format!("{name} ({id})"));
    let message = match (state.last_seen, state.since) {
        _ if state.trust == Trust::Revoked => {
            format!("agent {id} is revoked: it must be enrolled anew before it can be called")
        }
        (Some(at), Some(since)) => format!("agent {id} is offline since {since}; last seen {at}"),
        (Some(at), None) => format!("agent {id} is offline; last seen {at}"),
        (None, _) => format!("agent {id} has never connected"),
    };
    Failure::new(code::OFFLINE, message)
}
