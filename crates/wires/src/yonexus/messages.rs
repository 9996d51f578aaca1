//! Reading the inbox and sending to clients, for every door: each function takes the caller and checks what they may.

use convoke_api::yonexus::{MessagePage, MessageQuery, MessageView, RuleTest, SendMessage, Sent, Target, TestRule};
use convoke_core::effect::Effect;
use convoke_core::grant::Missing;
use convoke_core::id::{PeerId, TokenId};
use convoke_kibitz::grant::Capability;
use convoke_kibitz::room::{Person, Standing};
use convoke_store::{MessageFilter, MessageRow, PAGE_BYTES, StoreError};
use convoke_yonexus::MAX_FRAME_AFTER;
use convoke_yonexus::message::{self, BadRule};

use super::outbox;
use super::rules::{self, Action};
use crate::Wires;
use convoke_gate::agents::Agent;
use convoke_gate::calls::Ask;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// The name under which sending is allowed, recorded and narrowed: `scopes.tools` may name it.
pub const SEND: &str = "rule_send";
/// The name under which reading may be narrowed.
pub const READ: &str = "rule_messages";
/// The sender of what operators send, where a client's identifier would be.
pub const OPERATOR: &str = "hub";

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No rule identifier.
    #[error("`rule`: {0}")]
    Rule(BadRule),
    /// Larger than a client takes.
    #[error("the message is larger than {MAX_FRAME_AFTER} bytes")]
    TooLarge,
    /// To nobody, or to too many.
    #[error("`to` takes 1 to {} clients", rules::MAX_TO)]
    Recipients,
    /// Longer than a message may be kept.
    #[error("`keep_s` is at least 1 and at most {}", rules::MAX_KEEP_S)]
    Keep,
    /// No such client.
    #[error("client `{0}` does not exist")]
    Unknown(String),
    /// The caller may not.
    #[error("{missing}")]
    Forbidden {
        /// Whom it was for.
        target: String,
        /// What is missing.
        missing: Missing,
    },
}

/// Messages of the inbox that the caller may see.
pub async fn read(hub: &Wires, caller: &Caller, query: MessageQuery, limit: u32) -> Result<MessagePage, StoreError> {
    let filter = MessageFilter { rule: query.rule, after: query.after, limit };
    let rows = hub.store.messages(filter).await?;
    let is_full = rows.len() == limit as usize || rows.iter().map(MessageRow::bytes).sum::<usize>() >= PAGE_BYTES;
    let next = is_full.then(|| rows.last().map(|row| row.id)).flatten();
    let scopes = &caller.token.grant.scopes;
    let may = caller.token.grant.scopes.tools.as_ref().is_none_or(|t| convoke_core::glob::any_matches(t, READ));
    let visible = rows.into_iter().filter(|row| may && scopes.reaches::<String>(&peer(&row.sender), &[]));
    let view = |row: MessageRow| MessageView {
        id: row.id,
        at: row.at,
        rule: row.rule,
        sender: row.sender,
        content: row.content,
    };
    Ok(MessagePage { messages: visible.map(view).collect(), next })
}

/// The peer that a client is.
pub fn peer(identifier: &str) -> String {
    format!("yonexus:{identifier}")
}

/// A message to clients as a call for the gate, if it is one that can be sent at all.
pub fn ask(hub: &Wires, caller: &Caller, request: SendMessage) -> Result<Ask, SendError> {
    let SendMessage { rule, content, mut to, keep_s } = request;
    message::check_registered(&rule).map_err(SendError::Rule)?;
    if rule.len() + content.len() + message::DELIMITER.len() > MAX_FRAME_AFTER {
        return Err(SendError::TooLarge);
    }
    to.sort_unstable();
    to.dedup();
    if to.is_empty() || to.len() > rules::MAX_TO {
        return Err(SendError::Recipients);
    }
    if keep_s.is_some_and(|s| s == 0 || s > rules::MAX_KEEP_S) {
        return Err(SendError::Keep);
    }
    for name in &to {
        // Reach comes first: a token for some clients must not learn which others exist.
        let target = peer(name);
        let allowed = caller.token.grant.check_call::<String>(Effect::Interact, SEND, &target, &[]);
        allowed.map_err(|missing| SendError::Forbidden { target, missing })?;
        if hub.yonexus.clients.allowed(name).is_none() {
            return Err(SendError::Unknown(name.clone()));
        }
    }
    let unknown = || SendError::Unknown(to[0].clone());
    let first = PeerId::parse(&peer(&to[0])).map_err(|_| unknown())?;
    let request = SendMessage { rule, content, to, keep_s };
    let args = serde_json::value::to_raw_value(&request).map_err(|_| SendError::TooLarge)?;
    Ok(Ask {
        caller: caller.clone(),
        agent: Agent::elsewhere(first),
        tool: SEND.into(),
        args,
        timeout: None,
        idempotency_key: None,
        requested_by: None,
    })
}

/// Hands a message that passed the gate to those it is for. Who was removed since counts as offline: nothing is kept
/// for someone who may not come back. Nothing where the token was revoked before the message was kept.
pub async fn deliver(hub: &Wires, request: &SendMessage, by: TokenId) -> Result<Option<Sent>, StoreError> {
    let SendMessage { rule, content, to, keep_s } = request;
    let allowed = |name: &String| hub.yonexus.clients.allowed(name).is_some();
    let (to, mut gone): (Vec<_>, Vec<_>) = to.iter().cloned().partition(allowed);
    let mut sent = match keep_s {
        Some(keep_s) => {
            let row = rules::kept(rule, OPERATOR, content.clone(), *keep_s, false);
            let kept = outbox::keep(hub, row, to, Some(by)).await?;
            if kept.revoked {
                return Ok(None);
            }
            Sent { id: kept.id, sent: Vec::new(), kept: kept.taken, offline: kept.full }
        }
        None => live(hub, rule, content, to).await,
    };
    sent.offline.append(&mut gone);
    Ok(Some(sent))
}

/// All at once, so that many who are slow take no longer than one.
async fn live(hub: &Wires, rule: &str, content: &str, recipients: Vec<String>) -> Sent {
    let frame = rules::frame(hub, rule, content);
    let handed = recipients.iter().map(|name| rules::hand_to(hub, name, &frame, None));
    let reached = futures_util::future::join_all(handed).await;
    let (mut sent, mut offline) = (Vec::new(), Vec::new());
    for (name, reached) in recipients.into_iter().zip(reached) {
        if reached { sent.push(name) } else { offline.push(name) }
    }
    Sent { id: None, sent, kept: Vec::new(), offline }
}

/// The answer to the sender of a message that nobody got.
pub fn nobody(offline: &[String]) -> String {
    format!("{} did not get the message: offline, or the outbox is full", rules::names(offline))
}

/// What would become of a message. Nothing is sent.
pub fn test(hub: &Wires, rule: &str, test: &TestRule) -> RuleTest {
    let sender = test.from.as_deref().unwrap_or("client-a");
    let book = hub.yonexus.rules.current();
    let mut answer = RuleTest {
        matched: false,
        message: message::rewritten(rule, sender, &test.content),
        target: hub.yonexus.rules.list().into_iter().find(|r| r.rule == rule).map(|r| r.target),
        delivered: None,
        online: Vec::new(),
        offline: Vec::new(),
    };
    if let Some(Target::Webhook(to)) = &mut answer.target {
        to.secret = None;
    }
    match book.find(rule) {
        None => {}
        Some(Action::Clients(to)) => {
            answer.matched = true;
            let content = rules::shaped(to, sender, &test.content);
            answer.delivered = Some(match to.with_id {
                true => message::rewritten(rule, "ID", &content),
                false => message::encode(rule, &content),
            });
            for name in rules::recipients(hub, sender, to) {
                let clients = &hub.yonexus.clients;
                let here = clients.link(&name).is_some() || clients.is_elsewhere(&name).is_some();
                if here { answer.online.push(name) } else { answer.offline.push(name) }
            }
        }
        Some(Action::Room(room)) => {
            answer.matched = true;
            match hub.rooms.find(room) {
                Some(live) => {
                    let people = live.look(|live| live.people(crate::rooms::now(hub)));
                    let reads = |person: &&Person| {
                        let may = person.grant.allows(Capability::ReadChat, clock::now().millis().div_euclid(1000));
                        person.standing == Standing::Present && may
                    };
                    answer.online = people.iter().filter(reads).map(|person| person.name.clone()).collect();
                }
                None => answer.offline.push(format!("room {room} does not exist")),
            }
        }
        Some(_) => answer.matched = true,
    }
    answer
}
