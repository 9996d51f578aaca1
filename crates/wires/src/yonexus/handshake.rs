//! A connection before its proof: `hello`, pairing, `auth_request`.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::journal::Kind;
use convoke_core::peer::{Liveness, Trust};
use convoke_core::secret::SecretText;
use convoke_socket::drive::{Lost, Machine, Message, drive};
use convoke_store::{Lossy, StoreError};
use convoke_yonexus::answer::{self, Answer};
use convoke_yonexus::builtin::{AuthRequest, Builtin, Hello};
use convoke_yonexus::close::{self, Close};
use convoke_yonexus::code::PairingCode;
use convoke_yonexus::reason::{AuthFailure, ErrorCode, PairFailure, Status};
use convoke_yonexus::record::{AuthRefusal, Greeting, HelloOutcome, HelloRefusal, Notification};
use convoke_yonexus::server::{Event, Output, ServerSession};
use convoke_yonexus::{PROTOCOL_VERSION, close as closes};
use ed25519_dalek::VerifyingKey;
use serde_json::json;

use super::clients::{Client, Keep};
use super::link::{AtClient, ClientLink, Out};
use super::pairing::{fingerprint, fresh_secret, record};
use super::serve::{broken, failed};
use super::{live, notify, now};
use crate::Wires;
use crate::ws::{Connection, Socket};
use convoke_gate::clock;
use convoke_gate::cluster::ClusterError;
use convoke_gate::cluster::follow::LinkFacts;

/// How a handshake ends without a client: what to tell the peer, if it is still there.
type Ended = Option<Close>;

struct Handshake<'a> {
    hub: &'a Wires,
    session: &'a mut ServerSession,
    link: &'a Arc<ClientLink>,
    address: IpAddr,
    client: Option<Arc<Client>>,
    /// Whether something that it showed was wrong.
    has_failed: bool,
}

/// What a frame led to.
enum Step {
    Say(Answer),
    In(Vec<Builtin>, Arc<Client>),
}

/// Runs until the client is in, or the connection ends.
pub(super) async fn run(
    hub: &Wires,
    socket: &mut Socket,
    session: &mut ServerSession,
    link: &Arc<ClientLink>,
    address: IpAddr,
) -> Result<Arc<Client>, Ended> {
    let mut handshake = Handshake { hub, session, link, address, client: None, has_failed: false };
    let stop = async {
        hub.stopping.cancelled().await;
        let _ = link.push(Out::Close(Vec::new(), closes::SHUTTING_DOWN));
        std::future::pending().await
    };
    tokio::select! {
        entered = drive(socket, &mut handshake, &link.queue, hub.clock()) => entered,
        never = stop => never,
    }
}

impl Machine for Handshake<'_> {
    type Command = Out;
    type End = Result<Arc<Client>, Ended>;

    fn deadline(&mut self, now: Duration, _: &Connection) -> Duration {
        self.session.next_deadline().unwrap_or(now)
    }

    async fn on_message(
        &mut self,
        message: Message,
        _: Duration,
        connection: &mut Connection,
    ) -> ControlFlow<Self::End> {
        let event = match &message {
            Message::Text(text) => self.session.on_text(text, now(self.hub)),
            Message::Binary(_) => self.session.on_binary(now(self.hub)),
            // A stranger's message is small, and never skipped.
            Message::Pong(_) | Message::Skipped(_) => return ControlFlow::Continue(()),
        };
        self.on_event(event, connection).await
    }

    async fn on_command(&mut self, out: Out, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        match out {
            Out::Text(text) => connection.queue_text(&text),
            Out::Paired(text) => {
                self.session.paired(now(self.hub));
                connection.queue_text(&text);
            }
            Out::Frame(frame) => connection.queue_framed(&frame),
            Out::Outbox => {}
            Out::Close(frames, close) => {
                frames.iter().for_each(|frame| connection.queue_text(frame));
                return ControlFlow::Break(Err(Some(close)));
            }
        }
        ControlFlow::Continue(())
    }

    async fn on_time(&mut self, _: Duration, connection: &mut Connection) -> ControlFlow<Self::End> {
        let Some(Output::Close(frames, close)) = self.session.on_tick(now(self.hub)) else {
            return ControlFlow::Continue(());
        };
        frames.iter().for_each(|frame| connection.queue_text(&frame.encode()));
        ControlFlow::Break(Err(Some(close)))
    }

    async fn on_lost(&mut self, lost: Lost, connection: &mut Connection) -> Self::End {
        let Lost::Broken(error) = lost else { return Err(None) };
        failed(self.hub, self.address);
        let (text, close) = broken(error, self.hub);
        text.into_iter().for_each(|text| connection.queue_text(&text));
        Err(Some(close))
    }
}

impl Handshake<'_> {
    /// The connection speaks for its client at every hub from now on. False when a newer one does.
    async fn stand(&self, client: &Client) -> Result<bool, ClusterError> {
        let coming = self.hub.coming(&client.peer()).await?;
        self.link.set_id(coming.id());
        let holder = Arc::new(AtClient(Arc::clone(self.link)));
        let held = coming.stand(self.hub, holder, LinkFacts::default).await?;
        let stands = held.is_some();
        self.link.hold(held);
        Ok(stands)
    }

    /// Something that it showed was wrong.
    fn fail(&mut self) {
        self.has_failed = true;
        failed(self.hub, self.address);
    }

    async fn on_event(
        &mut self,
        event: Event<'_>,
        connection: &mut Connection,
    ) -> ControlFlow<Result<Arc<Client>, Ended>> {
        self.has_failed = false;
        let step = match event {
            Event::Hello { request_id, hello, key } => self.hello(request_id, hello, key).await,
            Event::PairConfirm { request_id, code, key } => self.confirm(request_id, code, key).await,
            Event::AuthRequest { request_id, request } => self.authenticate(request_id, &request).await,
            Event::Reply(frame) => Step::Say(Answer::one(frame)),
            Event::Close(frames, close) => {
                self.fail();
                Step::Say(Answer { frames, close: Some(close) })
            }
            Event::Dropped(_) | Event::Heartbeat { .. } | Event::Rule(_) | Event::Ignored => {
                return ControlFlow::Continue(());
            }
        };
        let (frames, end) = match step {
            Step::Say(Answer { frames, close }) => (frames, close.map(|close| Err(Some(close)))),
            Step::In(frames, client) => (frames, Some(Ok(client))),
        };
        frames.iter().for_each(|frame| connection.queue_text(&frame.encode()));
        // Who is wrong too often is left; who is right never is, whatever others do at the same address.
        let is_over = self.has_failed && self.hub.yonexus.throttle.blocked_for(self.address, clock::now()).is_some();
        let end = end.or_else(|| is_over.then_some(Err(Some(closes::REJECTED))));
        end.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }

    async fn hello(&mut self, request_id: Option<String>, hello: Hello, key: Option<VerifyingKey>) -> Step {
        let at = now(self.hub);
        let identifier = hello.identifier.as_str();
        if hello.protocol_version != PROTOCOL_VERSION {
            self.fail();
            return Step::Say(answer::unsupported_version(identifier, request_id, at));
        }
        // Whoever is not on the allow-list looks the same as who was revoked, and costs the same.
        let trusted = |client: &Arc<Client>| client.state().record.trust != Trust::Revoked;
        let is_paired = |client: Arc<Client>| client.state().record.trust == Trust::Trusted;
        if !self.hub.yonexus.clients.allowed(identifier).is_some_and(is_paired) {
            // It may have been paired at another hub a moment ago.
            self.hub.catch_up().await;
        }
        let Some(client) = self.hub.yonexus.clients.allowed(identifier).filter(trusted) else {
            self.fail();
            return Step::Say(answer::refused_hello(identifier, HelloRefusal::NotAllowed, request_id, at));
        };
        let greeting = Greeting { key: key.as_ref(), has_secret: hello.has_secret };
        match self.greet(&client, greeting, request_id.clone()).await {
            Ok((outcome, frames)) => {
                if let HelloOutcome::Rejected(_) = outcome {
                    self.fail();
                } else if outcome != HelloOutcome::NoKey {
                    let left = client.state().record.pairing.as_ref().map(|p| p.expires_at.since(at.wall));
                    let until = left.filter(|_| outcome != HelloOutcome::AuthRequired);
                    self.session.greeted(identifier, key, until, at);
                    self.client = Some(Arc::clone(&client));
                }
                if outcome == HelloOutcome::Started && !self.hub.yonexus.notifiers.only_inbox() {
                    notify::begin(self.hub, &client);
                }
                let rejected = matches!(outcome, HelloOutcome::Rejected(_));
                Step::Say(Answer { frames, close: rejected.then_some(closes::REJECTED) })
            }
            Err(why) => {
                tracing::error!(client = identifier, %why, "cannot store a pairing");
                let failed = answer::pair_failed(identifier, PairFailure::InternalError, request_id, at);
                Step::Say(Answer::one(failed))
            }
        }
    }

    /// Decides on a `hello` and makes its answer, with what must be kept kept.
    async fn greet(
        &self,
        client: &Arc<Client>,
        greeting: Greeting<'_>,
        request_id: Option<String>,
    ) -> Result<(HelloOutcome, Vec<Builtin>), StoreError> {
        let (hub, at) = (self.hub, now(self.hub));
        let ttl = hub.settings.yonexus.pairing_ttl_s;
        let room = hub.yonexus.clients.pairing_count() < hub.settings.yonexus.max_pairings;
        let only_inbox = hub.yonexus.notifiers.only_inbox();
        let (link, address) = (self.link, self.address);
        let work = |change: &mut super::clients::Change| {
            let fresh = || room.then(|| PairingCode::new(&clock::random()));
            let outcome = change.record.hello(greeting, at, ttl, fresh);
            // A `hello` proves nothing: whoever has read the public key on the way could otherwise take the place of the
            // client that waits, and be given its secret.
            let is_held =
                change.pairing.link.as_ref().is_some_and(|held| !Arc::ptr_eq(held, link) && !held.queue.has_ended());
            let waits = matches!(outcome, HelloOutcome::Started | HelloOutcome::Waiting | HelloOutcome::Approved);
            if waits && !is_held {
                change.pairing.link = Some(Arc::clone(link));
            }
            let mut keep = Keep::No;
            if outcome == HelloOutcome::Started {
                change.pairing.address = Some(address);
                change.pairing.notified = String::new();
                let mut detail = json!({ "what": "started", "address": address.to_string() });
                if let Some(pairing) = change.record.pairing.as_mut() {
                    detail["fingerprint"] = json!(fingerprint(&pairing.key));
                    if only_inbox {
                        pairing.notification = Notification::Sent;
                        change.pairing.notified = "inbox".into();
                    }
                }
                keep = Keep::Yes(Some(record(client, Kind::Pairing, &detail, None)));
            }
            let mut frames = answer::hello(&change.record, outcome, request_id.clone(), at).frames;
            if let (HelloOutcome::Approved, Some(key)) = (outcome, greeting.key)
                && change.record.complete(key, fresh_secret(), at)
            {
                frames.extend(answer::pair_success(&change.record, request_id, at));
                let detail = json!({ "what": "paired", "fingerprint": fingerprint(key) });
                keep = Keep::Yes(Some(record(client, Kind::Pairing, &detail, Some("ok"))));
            }
            ((outcome, frames), keep)
        };
        hub.yonexus.clients.change(hub, client, work).await
    }

    async fn confirm(&mut self, request_id: Option<String>, code: SecretText, key: Option<VerifyingKey>) -> Step {
        let (hub, at) = (self.hub, now(self.hub));
        let Some(client) = self.client.clone() else { return Step::Say(Answer { frames: Vec::new(), close: None }) };
        let refuse =
            |reason| Step::Say(Answer::one(answer::pair_failed(&client.identifier, reason, request_id.clone(), at)));
        let Some(key) = key.filter(|_| client.state().is_allowed()) else {
            return refuse(PairFailure::IdentifierNotAllowed);
        };
        let address = self.address;
        let work = |change: &mut super::clients::Change| {
            let wrong = change.record.pairing.as_ref().map_or(0, |p| p.wrong);
            let outcome = change.record.confirm(&code, &key, fresh_secret(), at);
            let counted = change.record.pairing.as_ref().map(|p| p.wrong) != Some(wrong);
            let detail = |what: &str| json!({ "what": what, "fingerprint": fingerprint(&key), "address": address.to_string() });
            let keep = match outcome {
                Ok(()) => Keep::Yes(Some(record(&client, Kind::Pairing, &detail("paired"), Some("ok")))),
                Err(reason @ PairFailure::InvalidCode) if counted => {
                    let draft = record(&client, Kind::Pairing, &detail("wrong code"), Some(reason.name()));
                    Keep::Always(Some(draft))
                }
                Err(_) => Keep::No,
            };
            let success = answer::pair_success(&change.record, request_id.clone(), at);
            (outcome.map(|()| success), keep)
        };
        match hub.yonexus.clients.change(hub, &client, work).await {
            Ok(Ok(success)) => {
                self.session.paired(at);
                Step::Say(Answer { frames: success.into_iter().collect(), close: None })
            }
            Ok(Err(reason)) => {
                if reason == PairFailure::InvalidCode {
                    self.fail();
                }
                refuse(reason)
            }
            Err(why) => {
                tracing::error!(client = %client.identifier, %why, "cannot store a pairing");
                refuse(PairFailure::InternalError)
            }
        }
    }

    async fn authenticate(&mut self, request_id: Option<String>, request: &AuthRequest) -> Step {
        let (hub, at) = (self.hub, now(self.hub));
        let Some(client) = self.client.clone() else { return Step::Say(Answer { frames: Vec::new(), close: None }) };
        let identifier = &*client.identifier;
        let say = |refusal| {
            let frames = answer::auth_failed(identifier, refusal, request_id.clone(), at);
            Step::Say(Answer { frames, close: None })
        };
        // 1. and 2.: still on the allow-list, still known.
        if hub.yonexus.clients.allowed(identifier).is_none() {
            self.fail();
            let reason = AuthFailure::UnknownIdentifier;
            return say(AuthRefusal { reason, reset: None, proven: false });
        }
        let detail = |what: &str| json!({ "what": what, "address": self.address.to_string() });
        let work = |change: &mut super::clients::Change| {
            let outcome = change.record.authenticate(request, at);
            let keep = match &outcome {
                Ok(accepted) if accepted.rotated() => {
                    let mut body = detail("key rotated");
                    body["fingerprint"] = json!(change.record.key.as_ref().map(fingerprint));
                    Keep::Yes(Some(record(&client, Kind::Trust, &body, Some("ok"))))
                }
                Err(refusal) if refusal.reset.is_some() => {
                    let draft = record(&client, Kind::Trust, &detail("trust reset"), Some(refusal.reason.name()));
                    Keep::Always(Some(draft))
                }
                _ => Keep::No,
            };
            (outcome, keep)
        };
        let outcome = match hub.yonexus.clients.change(hub, &client, work).await {
            Ok(outcome) => outcome,
            Err(why) => {
                tracing::error!(client = identifier, %why, "cannot store a change of trust");
                let message = "the hub could not store this; try again";
                let error = Builtin::error(request_id, at.unix(), ErrorCode::InternalError, message);
                return Step::Say(Answer::one(error));
            }
        };
        match outcome {
            Ok(accepted) => {
                let refused = match self.stand(&client).await {
                    Ok(true) => None,
                    Ok(false) => Some("a newer connection of this client is there"),
                    Err(why) => {
                        tracing::warn!(client = identifier, %why, "cannot let a client in now");
                        Some("the hub cannot reach its database or bus; try again")
                    }
                };
                if let Some(message) = refused {
                    let error = Builtin::error(request_id, at.unix(), ErrorCode::InternalError, message);
                    return Step::Say(Answer::one(error));
                }
                let Ok(old) = hub.yonexus.clients.linked(&client, self.link, self.address, at.wall) else {
                    let reason = AuthFailure::NotPaired;
                    return say(AuthRefusal { reason, reset: None, proven: true });
                };
                if let Some(old) = old {
                    let notice = answer::disconnect_notice(identifier, "replaced", at).encode();
                    let _ = old.push(Out::Close(vec![notice], close::REPLACED));
                }
                self.session.accept(&accepted, at);
                hub.yonexus.metrics.authentications.inc();
                let seen = Lossy::ClientSeen {
                    identifier: identifier.to_owned(),
                    liveness: Liveness::Online,
                    at: at.wall,
                    authenticated: true,
                };
                let entered = record(&client, Kind::Auth, &detail("authenticated"), Some("ok"));
                for item in [Lossy::Record(entered), seen] {
                    if let Err(why) = hub.store.enqueue(item).await {
                        tracing::error!(%why, "cannot record a connection");
                    }
                }
                live::tell_watchers(hub, identifier, Status::Online, None);
                Step::In(vec![answer::auth_success(identifier, request_id, at)], Arc::clone(&client))
            }
            Err(refusal) => {
                if let Some(condition) = refusal.reset {
                    // A session that the old secret opened does not outlive it.
                    let frames = answer::auth_failed(identifier, refusal, None, at);
                    let last = frames.last().map(Builtin::encode).into_iter().collect();
                    hub.yonexus.clients.close_link(&client, last, close::REVOKED);
                    tracing::warn!(client = identifier, %condition, "trust was reset; the client must pair again");
                }
                if refusal.proven {
                    hub.note(record(&client, Kind::Auth, &detail("refused"), Some(refusal.reason.name()))).await;
                } else {
                    self.fail();
                }
                say(refusal)
            }
        }
    }
}

impl Drop for Handshake<'_> {
    /// Whoever waits for a code and leaves is shown as not connected; the pairing itself stays.
    fn drop(&mut self) {
        let Some(client) = &self.client else { return };
        let mut state = client.state();
        if state.pairing.link.as_ref().is_some_and(|link| Arc::ptr_eq(link, self.link)) {
            state.pairing.link = None;
        }
        drop(state);
    }
}
