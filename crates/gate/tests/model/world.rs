//! The real gate on a real store, with peers that answer what the test says.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoke_core::approval::ApprovalState;
use convoke_core::effect::Effect;
use convoke_core::grant::Scopes;
use convoke_core::guard::{AppliesTo, Surface};
use convoke_core::id::{ApprovalId, CallId, PeerId, Protocol, TokenId};
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::peer::TrustEvent;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use convoke_gate::agents::{Agent, Agents};
use convoke_gate::calls::{self, Adapter, Adapters, Call, Outgoing};
use convoke_gate::hub::{Hub, HubInit};
use convoke_gate::link::{Answer, Close, Command, Failure, Link, Request};
use convoke_gate::operators::{Caller, Operators};
use convoke_gate::policy::Policy;
use convoke_gate::settings::{Settings, Sources};
use convoke_gate::{clock, part};
use convoke_store::{ApprovalMove, EnrolOutcome, EnrolToken, OpenOptions, SqlStore, Store, TokenRow};
use ed25519_dalek::SigningKey;
use futures_util::FutureExt as _;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::reference::{APPROVAL_MS, RUNNING_ALL, Token, Tool, WAITING_ALL, WAITING_ONE};
use crate::steps::AfterYes;

/// Peers whose tools are named for their effect. What a call would run stands in `command`.
#[derive(Debug)]
struct TestAdapter;

#[async_trait]
impl Adapter for TestAdapter {
    fn effect(&self, _: &Hub, _: &Agent, tool: &str) -> Effect {
        Tool::ALL.into_iter().find(|known| known.name() == tool).map_or(Effect::Manage, Tool::effect)
    }

    fn surfaces<'a>(&self, _: &str, args: &'a Value) -> Vec<Surface<'a>> {
        let text = args["command"].as_str().unwrap_or_default();
        vec![Surface { group: AppliesTo::Posix, text: text.into() }]
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        call.through_link(hub, call.timeout).await
    }
}

/// The far end of a link.
#[derive(Debug)]
struct End {
    agent: usize,
    link: Arc<Link>,
    is_stalled: bool,
    out: HashMap<CallId, Request>,
}

/// A call as the test got it from the gate.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) id: CallId,
    pub(crate) approval: Option<ApprovalId>,
    pub(crate) call: Option<Arc<Call>>,
}

/// A call that came to a peer.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: CallId,
    pub(crate) agent: usize,
    pub(crate) tool: String,
    pub(crate) args: String,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Arc<dyn Store>,
    key: SigningKey,
    pub(crate) hub: Hub,
    ends: Vec<End>,
    /// Where answers would go that nobody waits for.
    late: Vec<oneshot::Sender<Answer>>,
    pub(crate) calls: Vec<Placed>,
    pub(crate) tokens: Vec<TokenId>,
    lapsed_at: Timestamp,
}

pub(crate) fn peer(agent: usize) -> PeerId {
    PeerId::kenny(&format!("pc-{}", agent + 1)).expect("a test id")
}

fn record(kind: Kind) -> Draft {
    Draft::new(clock::now(), kind)
}

async fn gate(store: &Arc<dyn Store>, key: &SigningKey, data: &std::path::Path) -> Hub {
    let flags = [
        ("approvals.ttl_s", usize::try_from(APPROVAL_MS / 1_000).expect("small")),
        ("approvals.max_waiting", WAITING_ALL),
        ("approvals.max_waiting_per_token", WAITING_ONE),
        ("hub.max_concurrent_calls", RUNNING_ALL),
    ];
    let flags = flags.map(|(name, value)| (name.to_owned(), value.to_string())).to_vec();
    let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
    let hub = Hub::new(HubInit {
        settings,
        store: Arc::clone(store),
        data: data.to_owned(),
        key: key.clone(),
        digest_key: SecretBytes::new([7; 32]),
        agents: Agents::load(store.agents().await.expect("reads"), |_| convoke_gate::agents::Facts::default()),
        operators: Operators::load(store.tokens().await.expect("reads")),
        policy: Policy::new(store.deny_rules().await.expect("reads"), store.confirm_rules().await.expect("reads")),
        adapters: Adapters::default().with(Protocol::Kenny, TestAdapter),
        parts: part::Parts::default(),
        cluster: None,
        listen: (Ipv4Addr::LOCALHOST, 1).into(),
        tls: false,
    });
    calls::recover(&hub).await.expect("recovers");
    hub
}

impl World {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
        let key = store.hub_key().clone();
        let store: Arc<dyn Store> = Arc::new(store);
        let hub = gate(&store, &key, dir.path()).await;
        let (ends, late, calls, tokens) = Default::default();
        Self { dir, store, key, hub, ends, late, calls, tokens, lapsed_at: clock::now() }
    }

    /// A gate after the one that was killed: its tasks are gone, and so is what it had in memory.
    pub(crate) async fn start_again(&mut self) {
        self.ends.clear();
        for placed in &mut self.calls {
            placed.call = None;
        }
        self.hub = gate(&self.store, &self.key, self.dir.path()).await;
        self.lapsed_at = clock::now();
        for placed in &mut self.calls {
            placed.call = match self.store.call(placed.id).await.expect("reads") {
                Some(row) => Some(calls::of_row(&self.hub, row).await.expect("reads")),
                None => None,
            };
        }
    }

    /// Keeps a yes, and what follows from it up to a point, as a gate does that is killed there.
    pub(crate) async fn keep_yes(&self, call: usize, kept: AfterYes) {
        let placed = &self.calls[call];
        let id = placed.approval.expect("it waits");
        let about = |decision, outcome: Option<&'static str>| Draft {
            call_id: Some(placed.id),
            decision,
            outcome: outcome.map(Into::into),
            ..record(Kind::Approval)
        };
        let steps = [
            (ApprovalState::Pending, ApprovalState::Approved, about(Some(Decision::Confirmed), None)),
            (ApprovalState::Approved, ApprovalState::Used, about(None, Some("used"))),
        ];
        for (from, to, record) in steps.into_iter().take(if kept == AfterYes::Approved { 1 } else { 2 }) {
            let moved = ApprovalMove { id, from, to, decided_by: None, record };
            assert!(self.store.move_approval(moved).await.expect("kept"));
        }
        if kept == AfterYes::Started {
            self.store.start_call(placed.id).await.expect("kept");
        }
    }

    pub(crate) fn caller(&self, token: usize, door: convoke_core::door::Door) -> Caller {
        let token = self.hub.operators.find(self.tokens[token]).expect("a token of this test");
        Caller::with_token(token, door, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    pub(crate) async fn mint(&mut self, token: &Token) {
        let narrow = token.narrow;
        let list = |text: &str| vec![text.to_owned()];
        let row = TokenRow {
            id: TokenId::new(clock::uuid()),
            name: token.name.clone(),
            owner: token.owner.map(Into::into),
            hash: SecretText::new(&token.name).hash(),
            role: token.role,
            scopes: Scopes {
                effects: narrow.observe.then(|| vec![Effect::Observe]),
                tools: narrow.no_change.then(|| vec!["look".into(), "to*".into()]),
                agents: narrow.second_agent.then(|| list("pc-2")),
                tags: narrow.lab.then(|| list("lab")),
                doors: None,
                approve: token.approves.then_some(true),
                calls_per_minute: narrow.per_minute,
                concurrent_calls: narrow.at_once,
            },
            created_at: clock::now(),
            expires_at: token.expires.map(Timestamp::from_millis),
            revoked_at: None,
            last_used: None,
        };
        self.tokens.push(row.id);
        self.store.put_token(row.clone(), record(Kind::Token)).await.expect("kept");
        self.hub.operators.add(row);
    }

    /// As the route does it.
    pub(crate) async fn revoke_token(&self, by: &Caller, token: usize) {
        let id = self.tokens[token];
        let _turn = self.hub.operators.revoking.lock().await;
        assert!(self.store.revoke_token(id, clock::now(), record(Kind::Token)).await.expect("kept"));
        self.hub.operators.revoke(id);
        calls::withdraw_unsent(&self.hub, id);
        calls::withdraw_of(&self.hub, by, id).await.expect("withdrawn");
    }

    /// Invites the agent and binds a new key, as the routes do it.
    pub(crate) async fn enrol(&self, agent: usize, tags: &[String]) {
        let (hub, id) = (&self.hub, peer(agent));
        let known = hub.agents.find_or_add(&id);
        let secret = clock::token("t_").hash();
        let token = EnrolToken {
            agent: id.clone(),
            hash: secret,
            expires_at: clock::now().after(Duration::from_secs(60)),
            replaces_key: true,
        };
        let _turn = hub.agents.turn(id.as_str()).await;
        let invited = known.state().trust.after(TrustEvent::Invited);
        self.store.mint_enrol_token(token, invited, clock::now(), record(Kind::Enrol)).await.expect("kept");
        known.state().trust = invited;
        let key = SigningKey::from_bytes(&clock::random()).verifying_key();
        let bound = self.store.enrol(&id, &secret, key.to_bytes(), clock::now(), record(Kind::Enrol)).await;
        assert_eq!(bound.expect("kept"), EnrolOutcome::Bound);
        if !tags.is_empty() {
            self.store.set_tags(&id, tags, record(Kind::Trust)).await.expect("kept");
            known.state().tags = tags.into();
        }
        let is_outdated = {
            let mut state = known.state();
            state.trust = convoke_core::peer::Trust::Trusted;
            state.enrolled_at = Some(clock::now());
            state.public_key.replace(Arc::new(key)).is_some()
        };
        if is_outdated {
            hub.agents.close_link(&known, Close::Revoked);
        }
        hub.events.agent(&id, convoke_core::event::AgentChange::Trust);
    }

    /// As the route does it.
    pub(crate) async fn revoke_agent(&self, by: &Caller, agent: usize) {
        let (hub, id) = (&self.hub, peer(agent));
        let known = hub.agents.find(id.as_str()).expect("enrolled");
        let _turn = hub.agents.turn(id.as_str()).await;
        {
            let mut state = known.state();
            state.trust = convoke_core::peer::Trust::Revoked;
            state.public_key = None;
        }
        hub.agents.close_link(&known, Close::Revoked);
        let trust = convoke_core::peer::Trust::Revoked;
        assert!(self.store.set_trust(&id, trust, true, record(Kind::Trust)).await.expect("kept"));
        hub.events.agent(&id, convoke_core::event::AgentChange::Trust);
        calls::withdraw(hub, by, &id, "the agent was revoked").await.expect("withdrawn");
    }

    /// Whether the agent was let in.
    pub(crate) fn connect(&mut self, agent: usize) -> bool {
        let (agents, id) = (&self.hub.agents, peer(agent));
        let known = agents.find(id.as_str()).expect("enrolled");
        let link = Link::new(agents.next_link());
        let is_trusted = |state: &convoke_gate::agents::AgentState| state.trust == convoke_core::peer::Trust::Trusted;
        let is_in = agents.linked(&known, &link, |_| {}, is_trusted);
        if is_in {
            self.ends.push(End { agent, link, is_stalled: false, out: HashMap::new() });
            self.hub.events.agent(&id, convoke_core::event::AgentChange::Trust);
        }
        is_in
    }

    /// The connection breaks.
    pub(crate) fn disconnect(&mut self, agent: usize) {
        for end in self.ends.extract_if(.., |end| end.agent == agent) {
            self.hub.agents.ended(&self.hub.agents.find(peer(agent).as_str()).expect("enrolled"), end.link.id, None);
            end.link.queue().end();
        }
    }

    pub(crate) fn stall(&mut self, agent: usize, stalled: bool) {
        self.ends.iter_mut().filter(|end| end.agent == agent).for_each(|end| end.is_stalled = stalled);
    }

    pub(crate) fn is_out(&self, id: CallId) -> bool {
        self.ends.iter().any(|end| end.out.contains_key(&id))
    }

    pub(crate) fn is_queued(&self, id: CallId) -> bool {
        self.ends.iter().any(|end| end.link.holds(id))
    }

    /// The agent answers.
    pub(crate) fn answer(&mut self, id: CallId, failure: Option<&str>) {
        let request = self.ends.iter_mut().find_map(|end| end.out.remove(&id)).expect("it is with an agent");
        let answer = match failure {
            None => Ok(RawValue::from_string("{\"said\":\"yes\"}".into()).expect("JSON").into()),
            Some(code) => Err(Failure::of_peer(code, "no")),
        };
        let _ = request.reply.send(answer);
    }

    /// Agents answer what they were asked and nobody waits for any more.
    pub(crate) fn answer_late(&mut self) {
        for reply in self.late.drain(..) {
            let _ = reply.send(Err(Failure::of_peer("late", "too late")));
        }
    }

    /// Moves the clock, and does what the hub does by it.
    pub(crate) async fn advance(&mut self, by: Duration) -> Vec<Arrival> {
        clock::set_for_tests(clock::now().after(by));
        let now = self.hub.mono();
        for end in &mut self.ends {
            for (_, request) in end.out.extract_if(|_, request| request.deadline <= now) {
                let _ = request.reply.send(Err(Failure::new("timeout", "no answer in time")));
            }
            end.link
                .queue()
                .take_overdue(now)
                .into_iter()
                .for_each(|call| call.fail(Failure::new("timeout", "not sent in time")));
        }
        // Who waited hears of it before the next second's work, as it would.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        for token in self.hub.operators.lapsed(self.lapsed_at, clock::now()) {
            calls::withdraw_unsent(&self.hub, token);
        }
        self.lapsed_at = clock::now();
        calls::expire_due(&self.hub).await;
        calls::settle_owed(&self.hub).await;
        self.drive()
    }

    /// The peers take what their links have for them.
    pub(crate) fn drive(&mut self) -> Vec<Arrival> {
        let now = self.hub.mono();
        let mut arrived = Vec::new();
        let mut ended = Vec::new();
        for end in &mut self.ends {
            while let Some(Some(command)) = end.link.queue().next(!end.is_stalled, now).now_or_never() {
                match command {
                    Command::Call(request) => {
                        arrived.push(Arrival {
                            id: request.id,
                            agent: end.agent,
                            tool: request.tool.clone(),
                            args: request.args.get().to_owned(),
                        });
                        end.out.insert(request.id, request);
                    }
                    Command::Forget(id) => self.late.extend(end.out.remove(&id).map(|request| request.reply)),
                    Command::Withdraw(..) | Command::Send(_) | Command::PolicyChanged => {}
                    Command::Close(_) => {
                        ended.push(end.link.id);
                        break;
                    }
                }
            }
        }
        for end in self.ends.extract_if(.., |end| ended.contains(&end.link.id)) {
            let known = self.hub.agents.find(peer(end.agent).as_str()).expect("enrolled");
            self.hub.agents.ended(&known, end.link.id, None);
            end.link.queue().end();
        }
        arrived
    }
}
