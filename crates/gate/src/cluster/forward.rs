//! Calls to peers that another hub holds. This hub has authorised and recorded the call, and records its outcome; the other one
//! sends it and answers once.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use convoke_bus::{BusError, Subject};
use convoke_core::call::code;
use convoke_core::id::{CallId, PeerId};
use convoke_core::lease::{Next, after_no_responders};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Cluster;
use crate::agents::Agent;
use crate::answers::AnswerText;
use crate::calls::adapter::offline;
use crate::calls::{Call, cancelled, not_any_more, reserve_memory};
use crate::clock;
use crate::hub::Hub;
use crate::link::{Answer, Failure, Refused};
use crate::operators::Token;

/// How much longer than the other hub this one waits: its word on the deadline comes first.
const GRACE: Duration = Duration::from_secs(2);
/// What is left of the bus's limit for the envelope.
const ENVELOPE: usize = 1_024;

/// What one hub sends to a link that another holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToLink {
    /// Send this call and answer with what came back.
    Call {
        /// The call: also the request's id.
        id: CallId,
        /// Which tool or probe.
        tool: String,
        /// With what: a JSON object.
        args: Box<RawValue>,
        /// `api` or a runbook's id.
        requested_by: String,
        /// The only folders below which files may be read for it.
        below: Option<Vec<String>>,
        /// The timeout in the request, for protocols that have one.
        timeout: Duration,
        /// When to give up.
        left: Duration,
    },
    /// Nobody waits for this call any longer.
    Forget {
        /// Which.
        id: CallId,
    },
    /// Do not send this call if it is still held back.
    Withdraw {
        /// Which.
        id: CallId,
    },
    /// Something waits in the outbox.
    Outbox {
        /// Which message, for the record of it.
        id: CallId,
    },
    /// Send this frame, in base64; answered with whether it was taken.
    Frame {
        /// Which.
        id: CallId,
        /// The frame.
        frame: String,
    },
    /// The message is at the other hub, under a link that is good once.
    Parcel {
        /// Which call it is about.
        id: CallId,
        /// Where.
        parcel: Parcel,
    },
}

/// Something that is too large for the bus.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// The address of the hub that has it.
    pub at: String,
    /// Its name, which nobody can guess.
    pub name: String,
    /// How large it is.
    pub size: usize,
}

impl ToLink {
    /// Which call it is about.
    pub const fn id(&self) -> CallId {
        match self {
            Self::Call { id, .. }
            | Self::Forget { id }
            | Self::Withdraw { id }
            | Self::Outbox { id }
            | Self::Frame { id, .. }
            | Self::Parcel { id, .. } => *id,
        }
    }
}

/// What the holder of a link answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
    /// The peer's answer.
    Ok {
        /// It.
        result: Box<RawValue>,
    },
    /// Why there is none.
    Failed {
        /// The code.
        code: String,
        /// A sentence.
        message: String,
        /// Whether these are the peer's words.
        by_peer: bool,
    },
    /// The link has ended: it was not sent.
    Gone,
    /// The link takes nothing more now: it was not sent.
    Full,
    /// The answer is at the other hub, under a link that is good once.
    Parcel(Parcel),
}

impl Answered {
    pub(super) fn of(answer: Answer) -> Self {
        match answer {
            Ok(text) => Self::Ok { result: (*text).to_owned() },
            Err(Failure { code, message, by_peer }) => Self::Failed { code, message, by_peer },
        }
    }

    /// What a link says that does not take something.
    pub fn not_taken(refused: Refused) -> Self {
        match refused {
            Refused::Ended => Self::Gone,
            Refused::Full => Self::Full,
        }
    }

    /// It was taken.
    pub fn taken() -> Self {
        Self::Ok { result: RawValue::NULL.to_owned() }
    }
}

/// What an answer is sealed for: the link and the call.
pub(super) fn answer_subject(link: &Subject, id: CallId) -> Subject {
    let words = format!("{}.answer.{id}", link.as_str());
    Subject::parse(&words).expect("a subject, and an id of hexadecimal digits and dashes, are words")
}

/// An answer as it goes over the bus; a large one is left here to be fetched.
pub(super) fn packed(hub: &Hub, cluster: &Cluster, subject: &Subject, answer: &Answered) -> Option<Bytes> {
    let body = serde_json::to_vec(answer).ok()?;
    let body = if body.len() + ENVELOPE > cluster.bus.most_bytes() {
        serde_json::to_vec(&Answered::Parcel(cluster.parcels.leave(hub, cluster, body)?)).ok()?
    } else {
        body
    };
    cluster.envelope.seal(subject, &body).ok()
}

/// A call on its way to another hub.
#[derive(Debug)]
pub struct Forward<'a> {
    /// The call.
    pub call: &'a Call,
    /// Whom it goes to.
    pub target: &'a Arc<Agent>,
    /// Whose token asked.
    pub token: &'a Token,
    /// The message for the link.
    pub message: ToLink,
    /// How long it may take.
    pub timeout: Duration,
}

/// What became of a message to a link elsewhere.
enum Fate {
    Answered(Answered),
    /// Nobody holds a link of the peer: it was not sent.
    Offline,
    /// It cannot have been sent.
    NotSent(String),
    /// It may have been sent, and nobody knows what came of it.
    Lost(String),
}

/// Sends a call to the hub that holds its target's link, and waits for the answer.
pub async fn call(hub: &Hub, forward: Forward<'_>) -> Answer {
    let Forward { call, target, token, message, timeout } = forward;
    let Some(cluster) = hub.cluster.clone() else { return Err(offline(target)) };
    let Some(remote) = target.state().remote() else { return Err(offline(target)) };
    if !cluster.may_act() {
        return Err(Hub::no_lease());
    }
    let id = call.id;
    let epoch = remote.epoch;
    let sending = send(hub, &cluster, &target.id, epoch, &message, timeout + GRACE);
    // The other hub knows nothing of tokens; a revocation from now on finds the call under way and takes it back.
    if !token.is_active(clock::now()) {
        return Err(not_any_more());
    }
    let sent = tokio::select! {
        biased;
        sent = sending => sent,
        () = call.cancelled() => {
            tell(&cluster, &target.id, epoch, &ToLink::Forget { id }).await;
            return Err(cancelled());
        }
    };
    match sent {
        Fate::Answered(Answered::Ok { result }) => {
            let reserved = reserve_memory(hub, result.get().len()).await?;
            Ok(AnswerText::new(result, reserved))
        }
        Fate::Answered(Answered::Failed { code, message, by_peer }) => Err(Failure { code, message, by_peer }),
        Fate::Answered(Answered::Full) => {
            let message = format!("agent {} takes no more calls now: its queue is full", target.id);
            Err(Failure::new(code::BUSY, message))
        }
        Fate::Answered(Answered::Gone) | Fate::Offline => Err(offline(target)),
        Fate::Answered(Answered::Parcel(_)) => Err(Failure::new(code::INTERNAL, "an answer was not fetched")),
        Fate::NotSent(why) => Err(Failure::new(code::OFFLINE, format!("the call was not sent: {why}"))),
        Fate::Lost(why) => {
            let message = format!(
                "the answer was lost on its way from the hub that has the connection of agent {} ({why}); the agent may have \
                 finished",
                target.id
            );
            Err(Failure::new(code::INTERRUPTED, message))
        }
    }
}

/// Sends a message to a peer's link, wherever it is, and waits for the answer. On no responders the row is read again: what
/// nobody took may be sent to a newer link.
async fn send(
    hub: &Hub,
    cluster: &Cluster,
    peer: &PeerId,
    mut epoch: u64,
    message: &ToLink,
    patience: Duration,
) -> Fate {
    let Ok(mut body) = serde_json::to_vec(message) else { return Fate::NotSent("it cannot be written".into()) };
    if body.len() + ENVELOPE > cluster.bus.most_bytes() {
        let Some(parcel) = cluster.parcels.leave(hub, cluster, body) else {
            return Fate::NotSent("too many large messages wait for other hubs".into());
        };
        body = serde_json::to_vec(&ToLink::Parcel { id: message.id(), parcel }).unwrap_or_default();
    }
    loop {
        if !cluster.bus.is_reachable() {
            return Fate::NotSent("this hub cannot reach the bus (bus.url)".into());
        }
        let subject = Subject::of_link(peer.as_str(), epoch);
        let sealed = match cluster.envelope.seal(&subject, &body) {
            Ok(sealed) => sealed,
            Err(why) => return Fate::NotSent(why.to_string()),
        };
        match cluster.bus.request(&subject, sealed, patience).await {
            Ok(answer) => return opened(cluster, &answer_subject(&subject, message.id()), &answer).await,
            Err(BusError::NoResponders) => {}
            Err(why @ BusError::TooLarge { .. }) => return Fate::NotSent(why.to_string()),
            Err(why) => return Fate::Lost(why.to_string()),
        }
        let standing = match hub.store.links(Some(vec![peer.as_str().to_owned()])).await {
            Ok(links) => links.into_iter().find(|link| link.is_live).map(|link| link.epoch),
            Err(why) => return Fate::NotSent(why.to_string()),
        };
        match after_no_responders(epoch, standing) {
            Next::Offline => return Fate::Offline,
            Next::Resend(newer) => epoch = newer,
        }
    }
}

async fn opened(cluster: &Cluster, subject: &Subject, sealed: &[u8]) -> Fate {
    let Some((_, body)) = cluster.open(subject, sealed) else {
        return Fate::Lost("what came was not sealed by a hub of this cluster".into());
    };
    match serde_json::from_slice(&body) {
        Ok(Answered::Parcel(parcel)) => match super::parcels::fetch(cluster, &parcel).await {
            Ok(body) => match serde_json::from_slice(&body) {
                Ok(answered) => Fate::Answered(answered),
                Err(_) => Fate::Lost("it cannot be read".into()),
            },
            Err(why) => Fate::Lost(why),
        },
        Ok(answered) => Fate::Answered(answered),
        Err(_) => Fate::Lost("it cannot be read".into()),
    }
}

/// Sends a message to a peer's link that nobody waits for.
async fn tell(cluster: &Cluster, peer: &PeerId, epoch: u64, message: &ToLink) {
    if let Ok(body) = serde_json::to_vec(message) {
        cluster.publish(&Subject::of_link(peer.as_str(), epoch), &body).await;
    }
}

/// Takes back a call that has not gone out at the hub that holds its target's link.
pub fn withdraw(hub: &Hub, target: &Arc<Agent>, id: CallId) {
    let (Some(cluster), Some(remote)) = (hub.cluster.clone(), target.state().remote()) else { return };
    let peer = target.id.clone();
    tokio::spawn(async move { tell(&cluster, &peer, remote.epoch, &ToLink::Withdraw { id }).await });
}

/// Tells a client that another hub holds that something waits for it.
pub fn outbox(hub: &Hub, peer: &PeerId, epoch: u64) {
    let Some(cluster) = hub.cluster.clone() else { return };
    let (peer, id) = (peer.clone(), CallId::new(clock::uuid()));
    tokio::spawn(async move { tell(&cluster, &peer, epoch, &ToLink::Outbox { id }).await });
}

/// Sends a frame to a peer that another hub holds. False when it was not taken.
pub async fn frame(hub: &Hub, peer: &PeerId, epoch: u64, frame: &[u8]) -> bool {
    let Some(cluster) = hub.cluster.clone().filter(|cluster| cluster.may_act()) else { return false };
    let message = ToLink::Frame { id: CallId::new(clock::uuid()), frame: STANDARD.encode(frame) };
    let sent = send(hub, &cluster, peer, epoch, &message, GRACE).await;
    matches!(sent, Fate::Answered(Answered::Ok { .. }))
}
