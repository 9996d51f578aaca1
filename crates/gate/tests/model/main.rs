//! The gate beside a model of itself: the same steps, made from a seed, go to the real gate (a real store, real links,
//! a clock that the test moves) and to plain structs that say what should come of them. After each step both are
//! compared: what the caller was told, where every call stands and how it ended, every approval, what reached a peer.
//! At the end the journal must hold, for every call, exactly the records that the model expects, in their order.
//!
//! Whatever the model says, these hold for what reaches a peer: at most once, after its intent where it needs one, not
//! after its token's end, not at a revoked agent.
//!
//! A failure names its seed. `CONVOKE_MODEL_SEED=17` runs that seed alone and prints its steps;
//! `CONVOKE_MODEL_SEEDS=500` and `CONVOKE_MODEL_STEPS=1000` run more.
//!
//! What the model leaves out:
//! - Two steps at once: each step is over before the next one begins, so races are not explored.
//! - A kill in the middle of a step, but for three points just after a yes; a store that fails; and the timers for both:
//!   a call that waits for its agent after a restart lapses when the agent comes or at the next restart, not by itself.
//! - Two calls that wait for one agent after a restart: they would go out in any order.
//! - The doors and the wires: authentication, routes and their rights, frames, sockets, memory for large answers. What
//!   a route does around the gate (revoke, enrol, remove a rule) is done here in the same order by hand.
//! - Long texts, the built-in deny rules, patterns in scopes, several recipients, changed tags, removed agents.
//! - Records of other kinds than calls and approvals, and the texts of messages.

mod reference;
mod steps;
mod world;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use convoke_core::approval::{ApprovalError, ApprovalState};
use convoke_core::call::CallState;
use convoke_core::confirm::ConfirmRule;
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::grant::Role;
use convoke_core::guard::{AppliesTo, Rule};
use convoke_core::id::CallId;
use convoke_core::journal::{Draft, Expected, Kind, Phase};
use convoke_core::time::Timestamp;
use convoke_gate::calls::{self, DecideError, PlaceError};
use convoke_gate::clock;
use convoke_store::{JournalFilter, audit};
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

use reference::{Ask, Confirm, Decided, Model, Stage, Token, Told, Tool};
use steps::{AfterYes, Dice, Step};
use world::{Arrival, Placed, World, peer};

const START_MS: i64 = 1_780_000_000_000;
const AGENTS: usize = 3;
/// After how many of the store's turns a step that differs from the model counts as different: what follows from one
/// step is written in far fewer.
const MAX_TURNS: usize = 100;

#[test]
fn the_gate_does_what_the_model_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("CONVOKE_MODEL_STEPS").unwrap_or(120);
    if let Some(seed) = number("CONVOKE_MODEL_SEED") {
        return run(seed, steps, true);
    }
    for seed in 0..number("CONVOKE_MODEL_SEEDS").unwrap_or(24) {
        let ended = std::panic::catch_unwind(|| run(seed, steps, false));
        if let Err(why) = ended {
            eprintln!("the gate and the model differ at seed {seed}: CONVOKE_MODEL_SEED={seed} shows the steps");
            std::panic::resume_unwind(why);
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn run(seed: u64, steps: u64, is_shown: bool) {
    clock::set_for_tests(Timestamp::from_millis(START_MS));
    let mut dice = Dice::new(seed + 1);
    let mut life = runtime();
    let mut pair = life.block_on(Pair::new());
    for n in 0..steps {
        let step = steps::next(&mut dice, &pair.model);
        if is_shown {
            eprintln!("{n}: {step:?}");
        }
        if matches!(step, Step::Restart | Step::KilledAfterYes { .. }) {
            // Its tasks go with the runtime, as they would with the process.
            std::mem::replace(&mut life, runtime()).shutdown_background();
            pair.model.restart();
            if let Step::KilledAfterYes { call, kept } = step {
                life.block_on(pair.world.keep_yes(call, kept));
                pair.model.killed_after_yes(call, kept > AfterYes::Approved);
            }
            life.block_on(pair.world.start_again());
        } else {
            life.block_on(pair.step(&step));
        }
        life.block_on(pair.settle(&step));
    }
    life.block_on(pair.end());
    life.block_on(pair.check_journal());
}

/// The gate and its model.
struct Pair {
    model: Model,
    world: World,
    arrived: HashSet<CallId>,
}

impl Pair {
    async fn new() -> Self {
        let mut pair =
            Self { model: Model::new(START_MS, AGENTS), world: World::new().await, arrived: HashSet::new() };
        let mut root = Token::new("root", Role::Admin);
        root.approves = true;
        // Whose tokens others are: a token of that name is that person.
        let mut ann = Token::new("ann", Role::Operator);
        ann.approves = true;
        let mut of_ann = Token::new("t2", Role::Operator);
        of_ann.owner = Some("ann");
        for token in [root, ann, of_ann] {
            pair.step(&Step::Mint(token)).await;
        }
        for agent in 0..AGENTS {
            let tags = if pair.model.agents[agent].is_lab { vec!["lab".to_owned()] } else { Vec::new() };
            pair.world.enrol(agent, &tags).await;
            pair.model.enrol(agent);
            pair.step(&Step::Connect(agent)).await;
        }
        pair
    }

    async fn step(&mut self, step: &Step) {
        let Self { model, world, .. } = self;
        let root = || world.caller(0, Door::Http);
        match step {
            Step::Mint(token) => {
                world.mint(token).await;
                model.tokens.push(token.clone());
            }
            Step::RevokeToken(token) => {
                world.revoke_token(&root(), *token).await;
                model.revoke_token(*token);
            }
            Step::Enrol(agent) => {
                world.enrol(*agent, &[]).await;
                model.enrol(*agent);
            }
            Step::RevokeAgent(agent) => {
                world.revoke_agent(&root(), *agent).await;
                model.revoke_agent(*agent);
            }
            Step::Connect(agent) => {
                let is_in = world.connect(*agent);
                assert_eq!(is_in, model.connect(*agent), "whether {} is let in", peer(*agent));
            }
            Step::Disconnect(agent) => {
                world.disconnect(*agent);
                model.disconnect(*agent);
            }
            Step::Stall(agent, stalled) => {
                world.stall(*agent, *stalled);
                model.stall(*agent, *stalled);
            }
            Step::ToggleConfirm(rule) => toggle_confirm(model, world, *rule).await,
            Step::ToggleDeny(rule) => toggle_deny(model, world, rule).await,
            Step::Place(ask) => self.place(ask).await,
            Step::Answer(call, failure) => {
                world.answer(world.calls[*call].id, *failure);
                model.answer(*call, failure.unwrap_or("ok"));
            }
            Step::AnswerLate => world.answer_late(),
            Step::Cancel(call) => {
                world.calls[*call].call.as_ref().expect("it runs").cancel();
                model.answer(*call, "cancelled");
            }
            Step::TakeBack(call) => {
                let by = world.caller(model.calls[*call].ask.by, Door::Http);
                let approval = world.calls[*call].approval.expect("it has one");
                let was_waiting = calls::take_back(&world.hub, &by, approval).await.expect("kept");
                assert_eq!(was_waiting, model.take_back(*call), "whether it could be taken back");
            }
            Step::Decide { by, call, yes } => {
                let expected = model.decide(*by, *call, *yes);
                let told = decide(world, *by, *call, *yes).await;
                assert_eq!(told, expected, "what who decides is told");
            }
            Step::Advance { ms } => {
                let by = Duration::from_millis(ms.unsigned_abs());
                let arrived = world.advance(by).await;
                model.advance(*ms);
                self.arrive(arrived).await;
            }
            Step::Restart | Step::KilledAfterYes { .. } => unreachable!("a restart takes the runtime along"),
        }
    }

    async fn place(&mut self, ask: &Ask) {
        let Self { model, world, .. } = self;
        let args = serde_json::json!({ "command": ask.command }).to_string();
        let asked = calls::Ask {
            caller: world.caller(ask.by, ask.door),
            agent: world.hub.agents.find(peer(ask.agent).as_str()).expect("enrolled"),
            tool: ask.tool.name().into(),
            args: RawValue::from_string(args).expect("JSON"),
            timeout: ask.timeout_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())),
            idempotency_key: ask.key.map(|key| format!("key-{key}")),
            requested_by: None,
        };
        let placed = calls::place(&world.hub, asked).await;
        let expected = model.place(ask.clone());
        let mut known = |call: std::sync::Arc<calls::Call>, approval| {
            let found = world.calls.iter().position(|placed| placed.id == call.id);
            found.unwrap_or_else(|| {
                world.calls.push(Placed { id: call.id, approval, call: Some(call) });
                world.calls.len() - 1
            })
        };
        let told = match placed {
            Ok(calls::Placed::Running(call)) => Told::Runs(known(call, None)),
            Ok(calls::Placed::Pending { call, approval, expires_at }) => {
                assert!(clock::now() < expires_at, "a person has time");
                Told::Pending(known(call, Some(approval)))
            }
            Err(PlaceError::Denied(_)) => Told::Denied,
            Err(PlaceError::NotInForce) => Told::NotInForce,
            Err(PlaceError::KeyReused) => Told::KeyReused,
            Err(PlaceError::Limited { .. }) => Told::Limited,
            Err(PlaceError::Busy(_)) => Told::Busy,
            Err(other) => panic!("the call was not placed: {other}"),
        };
        assert_eq!(told, expected, "what the caller is told");
    }

    /// What reached peers: each call once, after its intent, from a token in force, at a trusted agent.
    async fn arrive(&mut self, arrived: Vec<Arrival>) {
        for Arrival { id, agent, tool, args } in arrived {
            assert!(self.arrived.insert(id), "a call goes out once");
            let at = self.world.calls.iter().position(|placed| placed.id == id).expect("a call of this test");
            let call = &self.model.calls[at];
            assert_eq!((agent, tool.as_str()), (call.ask.agent, call.ask.tool.name()), "as it was asked for");
            assert_eq!(args, format!("{{\"command\":\"{}\"}}", call.ask.command), "as it was asked for");
            assert!(self.model.agents[agent].is_trusted, "no call reaches a revoked agent");
            assert!(self.model.tokens[call.ask.by].is_active(self.model.now), "nor one whose token is out of force");
            if call.ask.tool != Tool::Look || call.approval.is_some() {
                let records = records(&self.world, Some(id)).await;
                assert!(records.iter().any(|record| record.phase == Some(Phase::Intent)), "its intent comes first");
            }
        }
    }

    /// Waits until the gate stands where the model does.
    async fn settle(&mut self, step: &Step) {
        for turn in 0.. {
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            let arrived = self.world.drive();
            self.arrive(arrived).await;
            let differences = self.differences().await;
            if differences.is_empty() {
                return;
            }
            assert!(turn < MAX_TURNS, "after {step:?}:\n{}", differences.join("\n"));
            // It changes nothing, and is over when all that was to be written before it is: a slow disk is waited for.
            let nothing = self.world.store.delete_deny_rule("no-such-rule", Draft::new(clock::now(), Kind::Policy));
            assert!(!nothing.await.expect("the store answers"));
        }
    }

    async fn differences(&self) -> Vec<String> {
        let Self { model, world, .. } = self;
        let kept = world.store.approvals(None, None, 10_000).await.expect("reads");
        let approvals: HashMap<_, ApprovalState> = kept.iter().map(|(a, _)| (a.id, a.state)).collect();
        let mut found = Vec::new();
        for (at, (call, placed)) in model.calls.iter().zip(&world.calls).enumerate() {
            let stage = stage(world, placed);
            // What was in memory alone is gone after a restart.
            let is_seen = placed.call.is_some();
            if is_seen && stage != Some(call.stage) {
                found.push(format!("call {at} is {stage:?} and should be {:?}", call.stage));
            }
            if !is_seen && call.is_kept() {
                found.push(format!("call {at} is not kept"));
            }
            let state = placed.approval.and_then(|id| approvals.get(&id)).copied();
            if !call.is_forgotten && state != call.approval {
                found.push(format!("the approval of call {at} is {state:?} and should be {:?}", call.approval));
            }
        }
        found
    }

    /// Everything comes to its end.
    async fn end(&mut self) {
        for at in 0..self.model.calls.len() {
            if matches!(self.model.calls[at].stage, Stage::Held) {
                self.step(&Step::TakeBack(at)).await;
            }
        }
        for agent in 0..AGENTS {
            self.step(&Step::Disconnect(agent)).await;
        }
        let last = Step::Advance { ms: reference::APPROVAL_MS };
        self.step(&last).await;
        self.settle(&last).await;
    }

    async fn check_journal(&self) {
        let Self { model, world, .. } = self;
        let mut by_call: HashMap<CallId, Vec<Draft>> = HashMap::new();
        for record in records(world, None).await {
            if let Some(id) = record.call_id {
                by_call.entry(id).or_default().push(record);
            }
        }
        for (at, (call, placed)) in model.calls.iter().zip(&world.calls).enumerate() {
            let written = by_call.remove(&placed.id).unwrap_or_default();
            let outcomes = written.iter().filter(|record| record.phase == Some(Phase::Outcome)).count();
            let expected = usize::from(call.stage != Stage::Lost);
            assert_eq!(outcomes, expected, "how many outcomes call {at} has: {call:?}");
            for record in written.iter().filter(|record| record.kind == Kind::Call) {
                assert_eq!(record.who.as_deref(), Some(&*model.tokens[call.ask.by].name), "who asked for call {at}");
                assert_eq!(record.target.as_deref(), Some(peer(call.ask.agent).as_str()), "whom call {at} was for");
            }
            let written: Vec<_> = written.into_iter().map(shown).collect();
            assert_eq!(written, call.records, "the records of call {at}");
        }
        // What is left was refused before anybody was given a call.
        let refusal = |record: &Draft| record.outcome.as_deref() == Some("denied") && record.phase.is_some();
        assert!(by_call.values().all(|of_one| of_one.len() == 1 && of_one.iter().all(refusal)), "{by_call:?}");
        assert_eq!(by_call.len(), model.refused, "how many were refused");
        world.store.checkpoint(clock::now()).await.expect("signed");
        let verdict = audit::verify_dir(world.dir.path(), Expected::default()).expect("reads");
        assert!(verdict.is_good(), "{verdict:?}");
        world.store.close().await.expect("closed");
    }
}

fn stage(world: &World, placed: &Placed) -> Option<Stage> {
    let call = placed.call.as_ref()?;
    Some(match call.state() {
        CallState::Waiting => Stage::Waiting,
        CallState::Done => Stage::Done(known_outcome(&call.done()?.outcome)),
        CallState::Running if world.is_out(placed.id) => Stage::Out,
        CallState::Running if world.is_queued(placed.id) => Stage::Queued,
        CallState::Running => Stage::Held,
    })
}

fn known_outcome(outcome: &str) -> &'static str {
    let all = [
        "ok",
        "offline",
        "timeout",
        "disconnected",
        "busy",
        "blocked",
        "limited",
        "denied",
        "rejected",
        "expired",
        "interrupted",
        "cancelled",
        "internal",
        "no_such_file",
    ];
    all.into_iter().find(|known| *known == outcome).unwrap_or("another outcome")
}

fn shown(record: Draft) -> reference::Record {
    let Draft { kind, phase, decision, rule, outcome, .. } = record;
    reference::Record { kind, phase, decision, rule, outcome: outcome.map(Into::into) }
}

async fn records(world: &World, call_id: Option<CallId>) -> Vec<Draft> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let filter = JournalFilter { after, limit: 1_000, call_id, ..JournalFilter::default() };
        let page = world.store.journal(filter).await.expect("reads");
        let Some(last) = page.last() else { return found };
        after = Some(last.seq);
        found.extend(page.iter().map(|row| serde_json::from_str::<Draft>(row.json.get()).expect("a record")));
    }
}

async fn decide(world: &World, by: usize, call: usize, yes: bool) -> Decided {
    let caller = world.caller(by, Door::Http);
    if !caller.token.is_active(clock::now()) {
        return Decided::AtTheDoor;
    }
    let approval = world.calls[call].approval.expect("it has one");
    match calls::decide(&world.hub, &caller, approval, yes, None).await {
        Ok((ApprovalState::Approved, _)) => Decided::Approved,
        Ok((ApprovalState::Denied, _)) => Decided::Denied,
        Err(DecideError::NoRight(_)) => Decided::NoRight,
        Err(DecideError::OutOfReach(_)) => Decided::OutOfReach,
        Err(DecideError::Refused(ApprovalError::OwnCall)) => Decided::Own,
        Err(DecideError::Refused(ApprovalError::Expired)) => Decided::Expired,
        Err(DecideError::Refused(ApprovalError::NotPending(_))) => Decided::NotPending,
        other => panic!("an answer that nobody expects: {other:?}"),
    }
}

async fn toggle_confirm(model: &mut Model, world: &World, rule: Confirm) {
    let (store, record) = (&world.store, Draft::new(clock::now(), Kind::Policy));
    let _turn = world.hub.policy.turn().await;
    if let Some(at) = model.confirm.iter().position(|known| *known == rule) {
        model.confirm.remove(at);
        assert!(store.delete_confirm_rule(rule.id(), record).await.expect("kept"));
    } else {
        model.confirm.push(rule);
        let list = |text: &str| Some(vec![text.to_owned()]);
        let made = match rule {
            Confirm::Mcp => ConfirmRule::default_rule(),
            Confirm::Lab => {
                ConfirmRule { tags: list("lab"), effects: Some(vec![Effect::Manage]), ..ConfirmRule::default() }
            }
            Confirm::Touch => ConfirmRule { tools: list("touch"), ..ConfirmRule::default() },
            Confirm::Callers => ConfirmRule { callers: list("t*"), ..ConfirmRule::default() },
        };
        store.put_confirm_rule(&ConfirmRule { id: rule.id().into(), ..made }, record).await.expect("kept");
    }
    world.hub.policy.set_confirm(store.confirm_rules().await.expect("reads"));
}

async fn toggle_deny(model: &mut Model, world: &World, rule: &'static str) {
    let (store, record) = (&world.store, Draft::new(clock::now(), Kind::Policy));
    let _turn = world.hub.policy.turn().await;
    if let Some(at) = model.deny.iter().position(|known| *known == rule) {
        model.deny.remove(at);
        assert!(store.delete_deny_rule(rule, record).await.expect("kept"));
    } else {
        model.deny.push(rule);
        let (id, pattern) = (rule.to_owned(), rule.to_owned());
        let made = Rule { id, applies_to: AppliesTo::Posix, pattern, reason: "a test's".into() };
        store.put_deny_rule(&made, record).await.expect("kept");
    }
    world.hub.policy.set_deny(store.deny_rules().await.expect("reads"));
}
