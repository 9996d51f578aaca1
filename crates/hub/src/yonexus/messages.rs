//! Reading the inbox and sending to clients, for every door: each function takes the caller and checks what they may.

use convoke_api::yonexus::{MessagePage, MessageQuery, MessageView, RuleTest, SendMessage, Sent, Target, TestRule};
use convoke_core::effect::Effect;
use convoke_core::grant::Missing;
use convoke_core::id::CallId;
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_store::{MessageFilter, StoreError};
use convoke_yonexus::MAX_FRAME_AFTER;
use convoke_yonexus::message::{self, BadRule};
use serde_json::json;

use super::outbox;
use super::rules::{self, Action};
use crate::clock;
use crate::hub::Hub;
use crate::operators::Caller;

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
    #[error("the message is over the limit of {MAX_FRAME_AFTER} bytes")]
    TooLarge,
    /// To nobody, or to too many.
    #[error("`to` takes 1 to {} clients", rules::MAX_TO)]
    Recipients,
    /// Longer than a message may be kept.
    #[error("`keep_s` is at least 1 and at most {}", rules::MAX_KEEP_S)]
    Keep,
    /// No such client.
    #[error("there is no client `{0}`")]
    Unknown(String),
    /// The caller may not.
    #[error("{missing}")]
    Forbidden {
        /// Whom it was for.
        target: String,
        /// What is missing.
        missing: Missing,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Messages of the inbox that the caller may see.
pub async fn read(hub: &Hub, caller: &Caller, query: MessageQuery, limit: u32) -> Result<MessagePage, StoreError> {
    let filter = MessageFilter { rule: query.rule, after: query.after, limit };
    let rows = hub.store.messages(filter).await?;
    let next = (rows.len() == limit as usize).then(|| rows.last().map(|row| row.id)).flatten();
    let scopes = &caller.token.grant.scopes;
    let may = caller.token.grant.scopes.tools.as_ref().is_none_or(|t| convoke_core::glob::any_matches(t, READ));
    let visible =
        rows.into_iter().filter(|row| may && scopes.reaches::<String>(&format!("yonexus:{}", row.sender), &[]));
    let view = |row: convoke_store::MessageRow| MessageView {
        id: row.id,
        at: row.at,
        rule: row.rule,
        sender: row.sender,
        content: row.content,
    };
    Ok(MessagePage { messages: visible.map(view).collect(), next })
}

/// Sends a message to clients. It is recorded before this answers.
pub async fn send(hub: &Hub, caller: &Caller, request: &SendMessage) -> Result<Sent, SendError> {
    let SendMessage { rule, content, to, keep_s } = request;
    message::check_registered(rule).map_err(SendError::Rule)?;
    if rule.len() + content.len() + message::DELIMITER.len() > MAX_FRAME_AFTER {
        return Err(SendError::TooLarge);
    }
    let mut recipients = to.clone();
    recipients.sort_unstable();
    recipients.dedup();
    if recipients.is_empty() || recipients.len() > rules::MAX_TO {
        return Err(SendError::Recipients);
    }
    if keep_s.is_some_and(|s| s == 0 || s > rules::MAX_KEEP_S) {
        return Err(SendError::Keep);
    }
    for name in &recipients {
        let target = format!("yonexus:{name}");
        // Reach comes first: a token for some clients must not learn which others exist.
        let allowed = caller.token.grant.check_call::<String>(Effect::Interact, SEND, &target, &[]);
        allowed.map_err(|missing| SendError::Forbidden { target, missing })?;
        if hub.yonexus.clients.allowed(name).is_none() {
            return Err(SendError::Unknown(name.clone()));
        }
    }
    let sent = match keep_s {
        Some(keep_s) => {
            let row = rules::kept(rule, OPERATOR, content.clone(), *keep_s, false);
            let kept = outbox::keep(hub, row, recipients.clone()).await?;
            Sent { id: kept.id, sent: Vec::new(), kept: kept.taken, offline: kept.full }
        }
        None => live(hub, rule, content, &recipients).await,
    };
    hub.store.append(record(hub, caller, request, &recipients, &sent)).await?;
    Ok(sent)
}

async fn live(hub: &Hub, rule: &str, content: &str, recipients: &[String]) -> Sent {
    let frame = rules::frame(hub, rule, content);
    let (mut sent, mut offline) = (Vec::new(), Vec::new());
    for name in recipients {
        let reached = match hub.yonexus.clients.link(name) {
            Some(link) => rules::hand(hub, &link, &frame, None).await,
            None => false,
        };
        if reached { sent.push(name.clone()) } else { offline.push(name.clone()) }
    }
    Sent { id: None, sent, kept: Vec::new(), offline }
}

fn record(hub: &Hub, caller: &Caller, request: &SendMessage, to: &[String], sent: &Sent) -> Draft {
    let reached = sent.offline.is_empty();
    let mut draft = Draft::new(clock::now(), Kind::Call).detail(&json!({
        "rule": request.rule,
        "to": to.iter().take(32).collect::<Vec<_>>(),
        "recipients": to.len(),
        "offline": sent.offline.len(),
        "id": sent.id,
    }));
    draft.phase = Some(Phase::Outcome);
    draft.who = Some(caller.token.name.clone());
    draft.door = Some(caller.door);
    draft.target = to.first().map(|name| format!("yonexus:{name}"));
    draft.tool = Some(SEND.into());
    draft.call_id = Some(CallId::new(clock::uuid()));
    draft.args_digest = Some(hub.digest(request.content.as_bytes()));
    draft.decision = Some(Decision::Allowed);
    draft.outcome = Some(if reached { "ok" } else { "offline" }.into());
    draft
}

/// What would become of a message. Nothing is sent.
pub fn test(hub: &Hub, rule: &str, test: &TestRule) -> RuleTest {
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
                let here = hub.yonexus.clients.link(&name).is_some();
                if here { answer.online.push(name) } else { answer.offline.push(name) }
            }
        }
        Some(_) => answer.matched = true,
    }
    answer
}
