//! The reference: what the gate should do, in plain structs. It knows rules by name and shares no code with the gate's
//! own decision; of the crates it uses only the names of states.

use convoke_core::approval::ApprovalState;
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::grant::Role;
use convoke_core::journal::{Decision, Kind, Phase};

/// The limits that the gate under test is started with.
pub(crate) const WAITING_ALL: usize = 5;
pub(crate) const WAITING_ONE: usize = 3;
pub(crate) const RUNNING_ALL: usize = 5;
pub(crate) const APPROVAL_MS: i64 = 300_000;
pub(crate) const DEFAULT_TIMEOUT_MS: i64 = 30_000;
const KEEP_MS: i64 = 24 * 3_600_000;

/// What narrows a token. Each is one scope of the gate's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Narrow {
    /// Only agents with the tag `lab`.
    pub(crate) lab: bool,
    /// Only the tools `look` and `touch`.
    pub(crate) no_change: bool,
    /// Only the agent `pc-2`.
    pub(crate) second_agent: bool,
    /// Only `observe`.
    pub(crate) observe: bool,
    pub(crate) at_once: Option<u32>,
    pub(crate) per_minute: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) owner: Option<&'static str>,
    pub(crate) role: Role,
    pub(crate) narrow: Narrow,
    pub(crate) approves: bool,
    pub(crate) expires: Option<i64>,
    pub(crate) revoked: bool,
    /// How far the minute's allowance is used, and when that was so.
    used_us: i64,
    used_at: i64,
}

impl Token {
    pub(crate) fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            owner: None,
            role,
            narrow: Narrow::default(),
            approves: false,
            expires: None,
            revoked: false,
            used_us: 0,
            used_at: 0,
        }
    }

    pub(crate) fn is_active(&self, now: i64) -> bool {
        !self.revoked && self.expires.is_none_or(|at| now < at)
    }

    fn person(&self) -> &str {
        self.owner.unwrap_or(&self.name)
    }

    fn scopes_hold(&self, tool: Tool) -> bool {
        !(self.narrow.no_change && tool == Tool::Change || self.narrow.observe && tool != Tool::Look)
    }

    fn reaches(&self, agent: usize, is_lab: bool) -> bool {
        (!self.narrow.lab || is_lab) && (!self.narrow.second_agent || agent == 1)
    }

    fn may_call(&self, tool: Tool, agent: usize, is_lab: bool) -> bool {
        (self.role > Role::Viewer || tool == Tool::Look) && self.scopes_hold(tool) && self.reaches(agent, is_lab)
    }

    /// A bucket of a minute's calls, refilled evenly.
    fn take(&mut self, now: i64) -> bool {
        let Some(per_minute) = self.narrow.per_minute else { return true };
        let each = 60_000_000 / i64::from(per_minute);
        let used = (self.used_us - (now - self.used_at) * 1_000).max(0);
        let fits = used + each <= 60_000_000;
        (self.used_us, self.used_at) = (if fits { used + each } else { used }, now);
        fits
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) is_lab: bool,
    pub(crate) is_trusted: bool,
    pub(crate) has_key: bool,
    pub(crate) is_online: bool,
    /// Its link takes nothing now: calls wait in the queue.
    pub(crate) is_stalled: bool,
    enrolled_at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Look,
    Touch,
    Change,
}

impl Tool {
    pub(crate) const ALL: [Self; 3] = [Self::Look, Self::Touch, Self::Change];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Touch => "touch",
            Self::Change => "change",
        }
    }

    pub(crate) const fn effect(self) -> Effect {
        match self {
            Self::Look => Effect::Observe,
            Self::Touch => Effect::Interact,
            Self::Change => Effect::Manage,
        }
    }
}

/// The confirm rules that may be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirm {
    /// What a hub starts with: touch and change over MCP.
    Mcp,
    /// Changes of agents with the tag `lab`.
    Lab,
    /// The tool `touch`.
    Touch,
    /// Tokens whose name begins with `t`.
    Callers,
}

impl Confirm {
    pub(crate) const ALL: [Self; 4] = [Self::Mcp, Self::Lab, Self::Touch, Self::Callers];

    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Mcp => "mcp-needs-a-person",
            Self::Lab => "lab-changes",
            Self::Touch => "every-touch",
            Self::Callers => "callers",
        }
    }
}

/// The deny rules that may be in force: each refuses the command of its name.
pub(crate) const DENY: [&str; 2] = ["frobnicate", "zap"];
pub(crate) const COMMANDS: [&str; 4] = ["status", "frobnicate", "zap", "zap frobnicate"];

#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) by: usize,
    pub(crate) agent: usize,
    pub(crate) tool: Tool,
    pub(crate) command: &'static str,
    pub(crate) door: Door,
    pub(crate) timeout_ms: Option<i64>,
    pub(crate) key: Option<u8>,
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Runs(usize),
    Pending(usize),
    Denied,
    NotInForce,
    KeyReused,
    Limited,
    Busy,
}

/// What who decides is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Approved,
    Denied,
    /// A token that is out of force, which the door stops.
    AtTheDoor,
    /// No right to approve anything.
    NoRight,
    OutOfReach,
    Own,
    Expired,
    NotPending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// For a person.
    Waiting,
    /// Approved, and for its agent after a restart.
    Held,
    /// In the queue of a link.
    Queued,
    /// With the agent.
    Out,
    Done(&'static str),
    /// It only looked, nobody kept it, and the gate was killed.
    Lost,
}

/// One record of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    pub(crate) phase: Option<Phase>,
    pub(crate) decision: Option<Decision>,
    pub(crate) rule: Option<String>,
    pub(crate) outcome: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) ask: Ask,
    pub(crate) stage: Stage,
    pub(crate) approval: Option<ApprovalState>,
    pub(crate) records: Vec<Record>,
    created: i64,
    lapses: i64,
    deadline: i64,
    keep_until: i64,
    has_intent: bool,
    /// Another call took its key after its time: the store has it no more.
    pub(crate) is_forgotten: bool,
}

impl Call {
    pub(crate) const fn is_kept(&self) -> bool {
        (self.ask.key.is_some() || self.approval.is_some()) && !self.is_forgotten
    }

    /// Until its approval lapses.
    pub(crate) const fn time_left(&self, now: i64) -> i64 {
        self.lapses - now
    }

    const fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::Queued | Stage::Out)
    }

    const fn decision(&self) -> Decision {
        if self.approval.is_some() { Decision::Confirmed } else { Decision::Allowed }
    }

    fn write(&mut self, kind: Kind, phase: Option<Phase>, decision: Option<Decision>, outcome: Option<&str>) {
        self.records.push(Record { kind, phase, decision, rule: None, outcome: outcome.map(Into::into) });
    }

    fn end(&mut self, outcome: &'static str, decision: Option<Decision>) {
        self.write(Kind::Call, Some(Phase::Outcome), decision, Some(outcome));
        self.stage = Stage::Done(outcome);
    }

    /// Ends by itself, as it was let through.
    fn finish(&mut self, outcome: &'static str) {
        self.end(outcome, Some(self.decision()));
    }

    /// Ends with its approval, without having gone out.
    fn end_approval(&mut self, to: ApprovalState, said: Decision, outcome: &'static str, decision: Decision) {
        self.write(Kind::Approval, None, Some(said), None);
        self.approval = Some(to);
        self.end(outcome, Some(decision));
    }

    fn withdraw(&mut self, outcome: &'static str) {
        self.end_approval(ApprovalState::Denied, Decision::Rejected, outcome, Decision::Rejected);
    }
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: i64,
    pub(crate) tokens: Vec<Token>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) confirm: Vec<Confirm>,
    pub(crate) deny: Vec<&'static str>,
    pub(crate) calls: Vec<Call>,
    /// Records of calls that nobody was given.
    pub(crate) refused: usize,
}

impl Model {
    pub(crate) fn new(now: i64, agents: usize) -> Self {
        let agent = |n| Agent {
            is_lab: n == 0,
            is_trusted: false,
            has_key: false,
            is_online: false,
            is_stalled: false,
            enrolled_at: 0,
        };
        Self {
            now,
            tokens: Vec::new(),
            agents: (0..agents).map(agent).collect(),
            confirm: vec![Confirm::Mcp],
            deny: Vec::new(),
            calls: Vec::new(),
            refused: 0,
        }
    }

    fn each(&mut self, which: impl Fn(&Call) -> bool) -> impl Iterator<Item = &mut Call> {
        self.calls.iter_mut().filter(move |call| which(call))
    }

    fn rule_for(&self, ask: &Ask) -> Option<Confirm> {
        let is_lab = self.agents[ask.agent].is_lab;
        self.confirm.iter().copied().find(|rule| match rule {
            Confirm::Mcp => ask.door == Door::Mcp && ask.tool != Tool::Look,
            Confirm::Lab => is_lab && ask.tool == Tool::Change,
            Confirm::Touch => ask.tool == Tool::Touch,
            Confirm::Callers => self.tokens[ask.by].name.starts_with('t'),
        })
    }

    fn denied_by(&self, ask: &Ask) -> Option<&'static str> {
        self.deny.iter().copied().find(|rule| ask.command.contains(rule))
    }

    fn has_right(&self, ask: &Ask) -> bool {
        self.tokens[ask.by].may_call(ask.tool, ask.agent, self.agents[ask.agent].is_lab)
    }

    /// Why there is no place for one more call under way.
    fn no_place(&self, by: usize) -> Option<&'static str> {
        let under_way = self.calls.iter().filter(|call| call.is_under_way());
        let own = under_way.clone().filter(|call| call.ask.by == by).count();
        if self.tokens[by].narrow.at_once.is_some_and(|most| own >= most as usize) {
            return Some("limited");
        }
        (under_way.count() >= RUNNING_ALL).then_some("busy")
    }

    /// The call that has this key: the answer for who asks again.
    fn known(&self, ask: &Ask) -> Option<Told> {
        let found = self.with_key_of(ask)?;
        let call = &self.calls[found];
        if call.keep_until <= self.now && matches!(call.stage, Stage::Done(_)) {
            return None;
        }
        let asked = &call.ask;
        if (asked.agent, asked.tool, asked.command) != (ask.agent, ask.tool, ask.command) {
            return Some(Told::KeyReused);
        }
        Some(if call.stage == Stage::Waiting { Told::Pending(found) } else { Told::Runs(found) })
    }

    fn with_key_of(&self, ask: &Ask) -> Option<usize> {
        let key = ask.key?;
        self.calls.iter().position(|call| !call.is_forgotten && call.ask.by == ask.by && call.ask.key == Some(key))
    }

    fn add(&mut self, ask: Ask, approval: Option<ApprovalState>) -> usize {
        if let Some(older) = self.with_key_of(&ask) {
            self.calls[older].is_forgotten = true;
        }
        let lapses = self.now + APPROVAL_MS;
        let kept_from = if approval.is_some() { lapses } else { self.now };
        self.calls.push(Call {
            ask,
            stage: Stage::Waiting,
            approval,
            records: Vec::new(),
            created: self.now,
            lapses,
            deadline: 0,
            keep_until: kept_from + KEEP_MS,
            has_intent: false,
            is_forgotten: false,
        });
        self.calls.len() - 1
    }

    pub(crate) fn place(&mut self, ask: Ask) -> Told {
        let now = self.now;
        if !self.tokens[ask.by].take(now) {
            return Told::Limited;
        }
        let refused = if !self.tokens[ask.by].is_active(now) {
            Some(Told::NotInForce)
        } else if !self.has_right(&ask) {
            Some(Told::Denied)
        } else {
            None
        };
        if let Some(told) = refused {
            self.refused += 1;
            return told;
        }
        let denied_by = self.denied_by(&ask);
        let rule = self.rule_for(&ask).filter(|_| denied_by.is_none());
        let is_revoked = !self.agents[ask.agent].is_trusted;
        if let Some(told) = self.known(&ask) {
            return told;
        }
        if let Some(rule) = rule.filter(|_| !is_revoked) {
            let waiting = self.calls.iter().filter(|call| call.stage == Stage::Waiting);
            if waiting.clone().filter(|call| call.ask.by == ask.by).count() >= WAITING_ONE {
                return Told::Limited;
            }
            if waiting.count() >= WAITING_ALL {
                return Told::Busy;
            }
            let at = self.add(ask, Some(ApprovalState::Pending));
            let call = &mut self.calls[at];
            call.write(Kind::Approval, None, Some(Decision::Pending), None);
            call.records[0].rule = Some(rule.id().into());
            return Told::Pending(at);
        }
        match self.no_place(ask.by) {
            Some("limited") => return Told::Limited,
            Some(_) => return Told::Busy,
            None => {}
        }
        let at = self.add(ask, None);
        if rule.is_some() {
            // A person would be asked, but nobody can reach a revoked agent.
            self.calls[at].end("offline", Some(Decision::Denied));
        } else {
            self.run(at);
        }
        Told::Runs(at)
    }

    /// A call that has its rights and, where one was needed, its yes.
    fn run(&mut self, at: usize) {
        let denied_by = self.denied_by(&self.calls[at].ask);
        let now = self.now;
        let call = &mut self.calls[at];
        let agent = &self.agents[call.ask.agent];
        if let Some(rule) = denied_by {
            call.end("blocked", Some(Decision::Blocked));
            if let Some(last) = call.records.last_mut() {
                last.rule = Some(rule.into());
            }
            return;
        }
        if !agent.is_online {
            return call.finish("offline");
        }
        if call.ask.tool != Tool::Look || call.approval.is_some() {
            call.has_intent = true;
            call.write(Kind::Call, Some(Phase::Intent), Some(call.decision()), None);
        }
        call.deadline = now + call.ask.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        call.stage = if agent.is_stalled { Stage::Queued } else { Stage::Out };
    }

    /// A call with a yes: looked at again with what is in force now.
    fn run_approved(&mut self, at: usize) {
        let now = self.now;
        let no_place = self.no_place(self.calls[at].ask.by);
        let call = &mut self.calls[at];
        let fail = |call: &mut Call, outcome, decision| {
            call.end_approval(ApprovalState::Expired, Decision::Expired, outcome, decision);
        };
        if !self.tokens[call.ask.by].is_active(now) {
            return fail(call, "denied", Decision::Denied);
        }
        if self.agents[call.ask.agent].enrolled_at > call.created {
            return fail(call, "denied", Decision::Denied);
        }
        if now >= call.lapses {
            return fail(call, "expired", Decision::Expired);
        }
        call.write(Kind::Approval, None, None, Some("used"));
        call.approval = Some(ApprovalState::Used);
        match no_place {
            Some(outcome) => call.finish(outcome),
            None => self.run(at),
        }
    }

    pub(crate) fn decide(&mut self, by: usize, at: usize, yes: bool) -> Decided {
        let (now, who) = (self.now, &self.tokens[by]);
        let call = &mut self.calls[at];
        if !who.is_active(now) {
            return Decided::AtTheDoor;
        }
        if !who.approves {
            return Decided::NoRight;
        }
        if !who.reaches(call.ask.agent, self.agents[call.ask.agent].is_lab) || !who.scopes_hold(call.ask.tool) {
            return Decided::OutOfReach;
        }
        let refuse = |call: &mut Call, told| {
            call.write(Kind::Approval, None, Some(Decision::Denied), Some("denied"));
            told
        };
        // Another was first: nobody is refused, and nothing is recorded.
        if call.approval != Some(ApprovalState::Pending) {
            return Decided::NotPending;
        }
        if now >= call.lapses {
            self.lapse(at);
            return Decided::Expired;
        }
        if by == call.ask.by || who.person() == self.tokens[call.ask.by].person() {
            return refuse(call, Decided::Own);
        }
        if !yes {
            call.end_approval(ApprovalState::Denied, Decision::Rejected, "rejected", Decision::Rejected);
            return Decided::Denied;
        }
        call.write(Kind::Approval, None, Some(Decision::Confirmed), None);
        self.run_approved(at);
        Decided::Approved
    }

    fn lapse(&mut self, at: usize) {
        self.calls[at].end_approval(ApprovalState::Expired, Decision::Expired, "expired", Decision::Expired);
    }

    /// Whether who asked could take it back.
    pub(crate) fn take_back(&mut self, at: usize) -> bool {
        let waits = matches!(self.calls[at].stage, Stage::Waiting | Stage::Held);
        if waits {
            self.calls[at].withdraw("cancelled");
        }
        waits
    }

    pub(crate) fn answer(&mut self, at: usize, outcome: &'static str) {
        self.calls[at].finish(outcome);
    }

    pub(crate) fn revoke_token(&mut self, token: usize) {
        self.tokens[token].revoked = true;
        self.withdraw_unsent(token);
        let waits = |call: &Call| call.ask.by == token && matches!(call.stage, Stage::Waiting | Stage::Held);
        self.each(waits).for_each(|call| call.withdraw("denied"));
    }

    fn withdraw_unsent(&mut self, token: usize) {
        let unsent = |call: &Call| call.ask.by == token && call.stage == Stage::Queued;
        self.each(unsent).for_each(|call| call.finish("denied"));
    }

    pub(crate) fn enrol(&mut self, agent: usize) {
        let had_key = std::mem::replace(&mut self.agents[agent].has_key, true);
        (self.agents[agent].is_trusted, self.agents[agent].enrolled_at) = (true, self.now);
        if had_key {
            self.disconnect(agent);
        }
    }

    pub(crate) fn connect(&mut self, agent: usize) -> bool {
        if !self.agents[agent].is_trusted {
            return false;
        }
        // A newer link takes an older one's place.
        self.disconnect(agent);
        self.agents[agent].is_online = true;
        for at in 0..self.calls.len() {
            if self.calls[at].stage == Stage::Held && self.calls[at].ask.agent == agent {
                self.run_approved(at);
            }
        }
        true
    }

    pub(crate) fn disconnect(&mut self, agent: usize) {
        (self.agents[agent].is_online, self.agents[agent].is_stalled) = (false, false);
        self.each(|call| call.ask.agent == agent && call.is_under_way()).for_each(|call| call.finish("disconnected"));
    }

    pub(crate) fn revoke_agent(&mut self, agent: usize) {
        self.disconnect(agent);
        (self.agents[agent].is_trusted, self.agents[agent].has_key) = (false, false);
        let waits = |call: &Call| call.ask.agent == agent && matches!(call.stage, Stage::Waiting | Stage::Held);
        self.each(waits).for_each(|call| call.withdraw("denied"));
    }

    pub(crate) fn stall(&mut self, agent: usize, stalled: bool) {
        self.agents[agent].is_stalled = stalled;
        if !stalled {
            self.each(|call| call.ask.agent == agent && call.stage == Stage::Queued)
                .for_each(|call| call.stage = Stage::Out);
        }
    }

    pub(crate) fn advance(&mut self, by: i64) {
        let before = self.now;
        self.now += by;
        let now = self.now;
        // What hangs gives up first; then comes what the hub does every second.
        self.each(|call| call.is_under_way() && call.deadline <= now).for_each(|call| call.finish("timeout"));
        for token in 0..self.tokens.len() {
            if self.tokens[token].expires.is_some_and(|at| before < at && at <= now) {
                self.withdraw_unsent(token);
            }
        }
        for at in 0..self.calls.len() {
            if self.calls[at].stage == Stage::Waiting && now >= self.calls[at].lapses {
                self.lapse(at);
            }
        }
    }

    /// What was kept of a yes when the gate was killed just after it. What had been used is given back.
    pub(crate) fn killed_after_yes(&mut self, at: usize, is_used: bool) {
        let call = &mut self.calls[at];
        call.write(Kind::Approval, None, Some(Decision::Confirmed), None);
        if is_used {
            call.write(Kind::Approval, None, None, Some("used"));
            call.write(Kind::Approval, None, None, Some("approved"));
        }
        call.approval = Some(ApprovalState::Approved);
        call.stage = Stage::Held;
    }

    /// The gate is killed and another starts on the same store.
    pub(crate) fn restart(&mut self) {
        for token in &mut self.tokens {
            token.used_us = 0;
        }
        for agent in &mut self.agents {
            (agent.is_online, agent.is_stalled) = (false, false);
        }
        for call in self.each(Call::is_under_way) {
            if call.has_intent {
                call.finish("interrupted");
            } else if call.is_kept() {
                call.end("interrupted", None);
            } else {
                call.stage = Stage::Lost;
            }
        }
        for at in 0..self.calls.len() {
            if self.calls[at].stage == Stage::Held && self.calls[at].time_left(self.now) <= 0 {
                self.run_approved(at);
            }
        }
    }
}
