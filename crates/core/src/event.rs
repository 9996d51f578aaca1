//! What happens, as one typed stream: the page, MCP subscriptions, `convoke logs --follow` and other hubs live from it.
//!
//! An event says what changed and names it; whoever needs more reads it where it is kept. It never holds arguments,
//! results or secrets. [`Scope`] says who may see it, and a [`Cursor`] says how far a reader has come.

mod cursor;

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::approval::ApprovalState;
use crate::call::CallState;
use crate::health::Status;
use crate::id::{ApprovalId, CallId, PeerId, RunId, TokenId};
use crate::peer::{Liveness, Trust};
use crate::time::Timestamp;

pub use cursor::{Cursor, Position};

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An agent came, went, reported or was changed.
    Agent,
    /// A call waits, runs or has ended.
    Call,
    /// A person is asked, or the question has an answer.
    Approval,
    /// A client asks to be paired, or the request has an answer.
    Pairing,
    /// A paired client came, went or was changed.
    Client,
    /// A message reached the inbox.
    Message,
    /// A room was made or removed, somebody came or left, or a grant changed.
    Room,
    /// A deny rule, confirm rule or message rule changed.
    Policy,
    /// A user changed.
    User,
    /// A log line was kept.
    Log,
    /// A schedule changed or ran.
    Job,
    /// A probe or health rule found something.
    Finding,
    /// The hub started or stops.
    Hub,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Agent,
        Self::Call,
        Self::Approval,
        Self::Pairing,
        Self::Client,
        Self::Message,
        Self::Room,
        Self::Policy,
        Self::User,
        Self::Log,
        Self::Job,
        Self::Finding,
        Self::Hub,
    ];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Call => "call",
            Self::Approval => "approval",
            Self::Pairing => "pairing",
            Self::Client => "client",
            Self::Message => "message",
            Self::Room => "room",
            Self::Policy => "policy",
            Self::User => "user",
            Self::Log => "log",
            Self::Job => "job",
            Self::Finding => "finding",
            Self::Hub => "hub",
        }
    }

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One event. As JSON it is the object that readers get.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// About an agent.
    Agent(AgentEvent),
    /// About a call.
    Call(CallEvent),
    /// About an approval.
    Approval(ApprovalEvent),
    /// About a pairing.
    Pairing(PairingEvent),
    /// About a paired client.
    Client(ClientEvent),
    /// A message in the inbox.
    Message(MessageEvent),
    /// About a room.
    Room(RoomEvent),
    /// About a rule.
    Policy(PolicyEvent),
    /// About a user.
    User(UserEvent),
    /// A log line.
    Log(LogEvent),
    /// Something is not well.
    Finding(FindingEvent),
    /// About the hub itself.
    Hub(HubEvent),
}

/// What became of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentChange {
    /// It is connected now, or by a newer connection.
    Online,
    /// Its connection has ended.
    Offline,
    /// It sent telemetry.
    Telemetry,
    /// An operator changed its tags.
    Tags,
    /// It was invited, enrolled or revoked.
    Trust,
    /// What it attests differs from what was accepted, or an operator accepted it.
    Attestation,
    /// It was removed.
    Removed,
}

/// Something about an agent changed.
#[derive(Clone, Debug, Serialize)]
pub struct AgentEvent {
    /// Which.
    pub agent: PeerId,
    /// What became of it.
    pub change: AgentChange,
    /// Its tags before, where it may have lost some: whoever saw it by those sees that it is gone.
    #[serde(skip)]
    pub tags_before: Vec<String>,
}

/// A call has come to another state.
#[derive(Clone, Debug, Serialize)]
pub struct CallEvent {
    /// Which.
    pub call_id: CallId,
    /// Where it stands.
    pub state: CallState,
    /// Whom it goes to.
    pub target: PeerId,
    /// What is asked.
    pub tool: String,
    /// The name of the token that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The approval that it waits for or ran under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// `ok` or the error code, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The token that asked.
    #[serde(skip)]
    pub owner: TokenId,
}

/// An approval has come to another state.
#[derive(Clone, Debug, Serialize)]
pub struct ApprovalEvent {
    /// Which.
    pub id: ApprovalId,
    /// The call that waits on it.
    pub call_id: CallId,
    /// Where it stands.
    pub state: ApprovalState,
    /// Whom the call goes to.
    pub target: PeerId,
    /// What is asked.
    pub tool: String,
    /// The name of the token that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The name of the token that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The token that asked.
    #[serde(skip)]
    pub owner: TokenId,
    /// Everyone the call goes to: whoever sees others' approvals reaches all of them.
    #[serde(skip)]
    pub recipients: Vec<String>,
}

/// What became of a request to be paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PairingState {
    /// A client asks, or what is known of the request changed.
    Pending,
    /// An operator said yes; the client gets its secret when it comes.
    Approved,
    /// It is over: the client is paired, or was refused, or nobody answered in time.
    Ended,
}

/// A request to be paired has come to another state.
#[derive(Clone, Debug, Serialize)]
pub struct PairingEvent {
    /// Which client.
    pub identifier: String,
    /// Where the request stands.
    pub state: PairingState,
    /// The client as a peer.
    #[serde(skip)]
    pub peer: String,
}

/// Something about a client changed.
#[derive(Clone, Debug, Serialize)]
pub struct ClientEvent {
    /// The client as a peer.
    pub id: String,
    /// Which.
    pub identifier: String,
    /// Whether it is connected.
    pub liveness: Liveness,
    /// How far it is trusted.
    pub trust: Trust,
    /// It was taken off the allow-list.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// A message reached the inbox.
#[derive(Clone, Debug, Serialize)]
pub struct MessageEvent {
    /// Its place in the inbox.
    pub id: i64,
    /// Its rule.
    pub rule: String,
    /// The client that sent it.
    pub sender: String,
    /// The same as a peer.
    #[serde(skip)]
    pub peer: String,
    /// The tool that reads the inbox.
    #[serde(skip)]
    pub read_by: &'static str,
}

/// Something about a room changed.
#[derive(Clone, Debug, Serialize)]
pub struct RoomEvent {
    /// Its name.
    pub room: String,
    /// What happened, in the word that the journal has for it: `joined`, `left`, `granted`, `kicked`, `room made`, …
    pub what: String,
    /// To which participant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant: Option<String>,
    /// The room as a peer.
    #[serde(skip)]
    pub peer: String,
}

/// Which list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleList {
    /// Deny rules.
    Deny,
    /// Confirm rules.
    Confirm,
    /// Rules for messages of clients.
    Message,
    /// Time-boxed grants.
    Grant,
}

/// A rule was put or removed, and this is in force.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyEvent {
    /// Of which list.
    pub list: RuleList,
    /// Its id.
    pub rule: String,
    /// It is no longer there.
    pub removed: bool,
}

/// Something about a user changed.
#[derive(Clone, Debug, Serialize)]
pub struct UserEvent {
    /// Their name.
    pub user: String,
    /// What happened, in the word that the journal has for it: `added`, `changed`, `removed`, `signed in`, …
    pub what: String,
}

/// A log line, as `GET /api/logs` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct LogEvent {
    /// Its place among all lines.
    pub id: i64,
    /// When, as its source says.
    pub at: String,
    /// Which agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<PeerId>,
    /// `agent` or `hub`.
    pub source: String,
    /// How serious it is.
    pub level: String,
    /// The emitting module.
    pub target: String,
    /// The message.
    pub message: String,
    /// Structured fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Box<RawValue>>,
}

/// Where a finding comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSource {
    /// A section of a machine's health turned worse.
    Health,
    /// A runbook found it.
    Runbook,
}

/// Something is not well.
#[derive(Clone, Debug, Serialize)]
pub struct FindingEvent {
    /// Where.
    pub agent: PeerId,
    /// Who found it.
    pub source: FindingSource,
    /// The section, or the runbook.
    pub subject: String,
    /// How bad it is: `warn` or `crit`.
    pub status: Status,
    /// What it was before, of a section that was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Status>,
    /// The run that found it, of a runbook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When.
    pub at: Timestamp,
}

/// What the hub does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HubState {
    /// It has started.
    Started,
    /// It stops.
    Stopping,
}

/// The hub started or stops.
#[derive(Clone, Debug, Serialize)]
pub struct HubEvent {
    /// Which of the two.
    pub state: HubState,
    /// When.
    pub at: Timestamp,
}

/// Who may see an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Whoever may view the hub.
    Everyone,
    /// Whoever's reach is not narrowed to some agents: it is about no peer.
    Unnarrowed,
    /// Whoever reaches this peer, or reached it by the tags that it had before.
    Peer {
        /// Which.
        id: &'a str,
        /// Its tags before; empty if it lost none.
        tags_before: &'a [String],
    },
    /// Whoever may use the tool that reads the inbox and reaches this sender.
    Inbox {
        /// The sender.
        sender: &'a str,
        /// The tool.
        tool: &'a str,
    },
    /// The user, and who may change users.
    User {
        /// The user.
        name: &'a str,
    },
    /// The token that asked, and admins who reach the target.
    Call {
        /// The token that asked.
        owner: TokenId,
        /// The target.
        target: &'a str,
    },
    /// The token that asked, and approvers and admins who reach everyone the call goes to.
    Approval {
        /// The token that asked.
        owner: TokenId,
        /// The target.
        target: &'a str,
        /// Everyone the call goes to.
        recipients: &'a [String],
    },
}

impl Event {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Agent(_) => Kind::Agent,
            Self::Call(_) => Kind::Call,
            Self::Approval(_) => Kind::Approval,
            Self::Pairing(_) => Kind::Pairing,
            Self::Client(_) => Kind::Client,
            Self::Message(_) => Kind::Message,
            Self::Room(_) => Kind::Room,
            Self::Policy(_) => Kind::Policy,
            Self::User(_) => Kind::User,
            Self::Log(_) => Kind::Log,
            Self::Finding(_) => Kind::Finding,
            Self::Hub(_) => Kind::Hub,
        }
    }

    /// The name of its kind.
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Who may see it.
    pub fn scope(&self) -> Scope<'_> {
        let peer = |id| Scope::Peer { id, tags_before: &[] };
        match self {
            Self::Agent(event) => Scope::Peer { id: event.agent.as_str(), tags_before: &event.tags_before },
            Self::Call(event) => Scope::Call { owner: event.owner, target: event.target.as_str() },
            Self::Approval(event) => {
                Scope::Approval { owner: event.owner, target: event.target.as_str(), recipients: &event.recipients }
            }
            Self::Pairing(event) => peer(&event.peer),
            Self::Client(event) => peer(&event.id),
            Self::Message(event) => Scope::Inbox { sender: &event.peer, tool: event.read_by },
            Self::Room(event) => peer(&event.peer),
            Self::Policy(_) => Scope::Everyone,
            Self::User(event) => Scope::User { name: &event.user },
            Self::Log(event) => event.agent.as_ref().map_or(Scope::Unnarrowed, |agent| peer(agent.as_str())),
            Self::Finding(event) => peer(event.agent.as_str()),
            Self::Hub(_) => Scope::Unnarrowed,
        }
    }

    /// The JSON object that readers get.
    pub fn data(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".into())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_kind_has_one_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.name()), Some(kind));
        }
        assert_eq!(Kind::parse("agents"), None);
    }

    #[test]
    fn data_is_one_object_without_what_only_scopes_need() {
        let owner = TokenId::new(Uuid::from_u128(7));
        let event = Event::Call(CallEvent {
            call_id: CallId::new(Uuid::from_u128(1)),
            state: CallState::Done,
            target: "pc".parse().expect("an id"),
            tool: "fs_list".into(),
            caller: Some("ci".into()),
            approval: None,
            outcome: Some("ok".into()),
            duration_ms: Some(3),
            owner,
        });
        assert_eq!(event.name(), "call");
        assert_eq!(
            event.data(),
            r#"{"call_id":"00000000-0000-0000-0000-000000000001","state":"done","target":"pc","tool":"fs_list","caller":"ci","outcome":"ok","duration_ms":3}"#
        );
        assert_eq!(event.scope(), Scope::Call { owner, target: "pc" });
    }

    #[test]
    fn a_line_of_the_hub_alone_is_for_those_without_narrowed_reach() {
        let line = |agent: Option<&str>| {
            Event::Log(LogEvent {
                id: 1,
                at: String::new(),
                agent: agent.map(|id| id.parse().expect("an id")),
                source: "hub".into(),
                level: "info".into(),
                target: String::new(),
                message: "two\nlines".into(),
                fields: None,
            })
        };
        assert_eq!(line(None).scope(), Scope::Unnarrowed);
        assert_eq!(line(Some("pc")).scope(), Scope::Peer { id: "pc", tags_before: &[] });
        assert!(!line(None).data().contains('\n'), "a line break would end the field of a stream");
    }
}
