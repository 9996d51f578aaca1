//! The gate as it runs: every call, whatever door it came through, goes through [`place`], in one order:
//! authorise → guard → confirm → record → dispatch → record. Nothing reaches a link any other way.

mod approve;
mod detach;
mod dispatch;
mod ending;
mod message;
mod owed;
mod recent;
mod recover;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use convoke_core::approval::{Approval, ApprovalState, Binding};
use convoke_core::call::{CallState, code};
use convoke_core::confirm::Facts;
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::gate::{self, Consent, Verdict};
use convoke_core::grant::Missing;
use convoke_core::guard::{Guard, Surface};
use convoke_core::id::{ApprovalId, CallId, PeerId, Protocol};
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_core::json;
use convoke_core::peer::Trust;
use convoke_core::redact;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use convoke_store::{CallRow, Reservation};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub use approve::{
    DecideError, check_reach, decide, decide_at_client, expire_due, take_back, view, withdraw, withdraw_of,
};
pub(crate) use dispatch::room_for_answer;
pub use dispatch::withdraw_unsent;
pub use owed::settle as settle_owed;
pub use recent::{Call, Done, MaxWaiting, NoRoom, Recent};
pub use recover::recover;
pub(crate) use recover::{INTERRUPTED, of_row};

pub(crate) use detach::Detach;

use crate::agents::Agent;
use crate::clock;
use crate::hub::Hub;
use crate::link::Failure;
use crate::operators::budget::{Limits, Place};
use crate::operators::{Caller, Token};
use crate::policy::InForce;

/// How long a call is remembered for its idempotency key or its approval.
pub const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Longest idempotency key.
pub const MAX_IDEMPOTENCY_KEY: usize = 128;
/// Said to a token that is at its own limit of calls at once.
const TOKEN_FULL: &str = "this token has reached its limit of calls at once; wait for one to end";
/// Said when the hub is at its limit.
const HUB_FULL: &str = "the hub has reached its limit of calls at once (calls under way); try again shortly";
/// Who asks, as Sonde agents are told, unless it is a runbook.
static BY_CALLER: LazyLock<Arc<str>> = LazyLock::new(|| "api".into());

/// What a caller asks for.
#[derive(Debug)]
pub struct Ask {
    /// Who.
    pub caller: Caller,
    /// Whom.
    pub agent: Arc<Agent>,
    /// What.
    pub tool: String,
    /// With what: a JSON object.
    pub args: Box<RawValue>,
    /// Bounds the whole call.
    pub timeout: Option<Duration>,
    /// Makes a repeated request harmless.
    pub idempotency_key: Option<String>,
}

/// What a caller is told at once.
#[derive(Debug)]
pub enum Placed {
    /// It is under way or done: wait on it.
    Running(Arc<Call>),
    /// A person must say yes first.
    Pending {
        /// The call.
        call: Arc<Call>,
        /// The approval.
        approval: ApprovalId,
        /// When it lapses.
        expires_at: Timestamp,
    },
}

/// Why a call was not placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The caller has no right to it.
    #[error(transparent)]
    Denied(Missing),
    /// The caller's token was revoked, or has lapsed, since the door let it in.
    #[error("this token is no longer valid; the call was not placed")]
    NotInForce,
    /// The same key was used for something else.
    #[error("this idempotency key was already used for another call")]
    KeyReused,
    /// Arguments that are no object.
    #[error("{0}")]
    BadArgs(String),
    /// The caller's own limit.
    #[error("{message}")]
    Limited {
        /// Which, in words.
        message: String,
        /// When to try again.
        retry_after_s: u32,
    },
    /// Too many calls under way or waiting.
    #[error("{0}")]
    Busy(&'static str),
    /// The store failed: nothing was sent.
    #[error("the call could not be recorded, so it was not sent: {0}")]
    Store(#[from] convoke_store::StoreError),
}

/// Everything about one call that the records and the dispatch need.
#[derive(Debug)]
struct Planned {
    call: Arc<Call>,
    token: Arc<Token>,
    door: Door,
    agent: Arc<Agent>,
    effect: Effect,
    /// As text: the parsed value, many times as large at worst, is let go once it has been decided on.
    args: Box<RawValue>,
    args_shown: Box<RawValue>,
    args_digest: String,
    timeout: Duration,
    /// Kept in the store as well: it has an approval or an idempotency key.
    kept: bool,
    approval: Option<ApprovalId>,
    /// `api`, or the runbook that asks.
    requested_by: Arc<str>,
}

/// Places a call: decides on it, and sets it going or asks a person.
pub async fn place(hub: &Hub, ask: Ask) -> Result<Placed, PlaceError> {
    place_for(hub, ask, Arc::clone(&BY_CALLER)).await
}

/// The same, for a runbook: Sonde agents are told who asks.
pub async fn place_for(hub: &Hub, ask: Ask, requested_by: Arc<str>) -> Result<Placed, PlaceError> {
    let mut go = match admit(hub, ask, requested_by, None).await? {
        Admitted::Go(go) => go,
        Admitted::Pending(placed) => return Ok(placed),
    };
    let (begun, has_begun) = oneshot::channel();
    let hub_task = hub.clone();
    hub.tasks.spawn(async move {
        let first = go.begin(&hub_task).await;
        let fresh = matches!(first, Ok(None));
        let call = Arc::clone(&go.planned.call);
        let _ = begun.send(first.map(|existing| existing.unwrap_or(Placed::Running(call))));
        if fresh {
            go.finish(&hub_task).await;
        }
    });
    has_begun.await.unwrap_or(Err(PlaceError::Busy("the hub is stopping")))
}

/// Places a call and runs it to its end in the caller's own task. A caller who goes away does not take it along, nor
/// the record of its outcome: then it goes on by itself.
pub async fn place_here(hub: &Hub, ask: Ask) -> Result<Placed, PlaceError> {
    let mut go = match admit(hub, ask, Arc::clone(&BY_CALLER), None).await? {
        Admitted::Go(go) => go,
        Admitted::Pending(placed) => return Ok(placed),
    };
    let hub_task = hub.clone();
    let run = async move {
        if let Some(existing) = go.begin(&hub_task).await? {
            return Ok(existing);
        }
        let call = Arc::clone(&go.planned.call);
        go.finish(&hub_task).await;
        Ok(Placed::Running(call))
    };
    Detach::new(&hub.tasks, run).await
}

/// The same for a caller who follows the call while it runs: it runs where the second part is awaited, and goes on by
/// itself when that is dropped. Without an idempotency key, so that nothing is kept before it is there.
///
/// `read` is what `ask.args` was written from, where the door has it: then the text is not read again.
pub async fn place_to_follow(
    hub: &Hub,
    ask: Ask,
    read: Option<serde_json::Value>,
) -> Result<(Placed, Option<Run>), PlaceError> {
    place_to_follow_for(hub, ask, read, Arc::clone(&BY_CALLER)).await
}

/// The same, for a runbook: Sonde agents are told who asks.
pub async fn place_to_follow_for(
    hub: &Hub,
    ask: Ask,
    read: Option<serde_json::Value>,
    requested_by: Arc<str>,
) -> Result<(Placed, Option<Run>), PlaceError> {
    let ask = Ask { idempotency_key: None, ..ask };
    let mut go = match admit(hub, ask, requested_by, read).await? {
        Admitted::Go(go) => go,
        Admitted::Pending(placed) => return Ok((placed, None)),
    };
    if let Some(existing) = go.begin(hub).await? {
        return Ok((existing, None));
    }
    let (call, hub_task) = (Arc::clone(&go.planned.call), hub.clone());
    let run = Detach::new(&hub.tasks, async move { go.finish(&hub_task).await });
    Ok((Placed::Running(call), Some(run)))
}

/// What runs a call to its end.
pub type Run = Detach<()>;

/// Held by whoever answers a caller that takes its calls along when it goes: dropped before the call has ended, it
/// cancels it.
#[derive(Debug)]
pub struct CancelUnlessDone(Option<Arc<Call>>);

impl CancelUnlessDone {
    /// From here on.
    pub fn new(call: &Arc<Call>) -> Self {
        Self(Some(Arc::clone(call)))
    }

    /// The caller was answered without it: it ends by itself.
    pub fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelUnlessDone {
    fn drop(&mut self) {
        if let Some(call) = self.0.as_ref().filter(|call| call.done().is_none()) {
            call.cancel();
        }
    }
}

/// What became of an [`Ask`] at the gate.
enum Admitted {
    /// It may run, or a deny rule ends it.
    Go(Box<Go>),
    /// It waits for a person.
    Pending(Placed),
}

/// What becomes of a call that waits for nobody.
enum Course {
    /// What the gate says.
    Decided(Verdict),
    /// A person would be asked, but its agent is revoked: no yes could bring it about.
    NoWay,
}

/// A call on its way.
struct Go {
    planned: Planned,
    course: Course,
    idempotency_key: Option<String>,
    /// Its places among the token's calls under way, and among the hub's.
    permits: (Place, OwnedSemaphorePermit),
}

impl Go {
    /// From here on it is known. If its idempotency key was used before, the call of that time.
    async fn begin(&mut self, hub: &Hub) -> Result<Option<Placed>, PlaceError> {
        if let Some(key) = self.idempotency_key.take() {
            self.planned.kept = true;
            let row = self.planned.row(Some(key), CallState::Running);
            return self.planned.keep(hub, row, None, None).await;
        }
        hub.calls.remember(&self.planned.call);
        Ok(None)
    }

    async fn finish(self: Box<Self>, hub: &Hub) {
        let Self { planned, course, permits, .. } = *self;
        dispatch::run(hub, planned, course).await;
        drop(permits);
    }
}

async fn admit(
    hub: &Hub,
    ask: Ask,
    requested_by: Arc<str>,
    read: Option<serde_json::Value>,
) -> Result<Admitted, PlaceError> {
    within_rate(hub, &ask.caller).await?;
    let (planned, value, idempotency_key) = plan(hub, ask, requested_by, read)?;
    let verdict = planned.decide(hub, &value, Consent::NotAsked).await;
    drop(value);
    let course = match verdict {
        // Many calls may be placed, one after another, for one request.
        _ if !planned.token.is_active(clock::now()) => {
            return Err(refuse(hub, &planned, PlaceError::NotInForce).await);
        }
        Verdict::Denied(missing) => return Err(refuse(hub, &planned, PlaceError::Denied(missing)).await),
        Verdict::Confirm { .. } if planned.agent.state().trust == Trust::Revoked => Course::NoWay,
        Verdict::Confirm { rule } => {
            // Once it is in the store it must be known here too, whether or not the caller is still there.
            let asking = ask_a_person(hub.clone(), planned, idempotency_key, rule);
            return Detach::new(&hub.tasks, asking).await.map(Admitted::Pending);
        }
        Verdict::Blocked(_) | Verdict::Allowed => Course::Decided(verdict),
    };
    let Some(place) = planned.token.enter(limits(hub, &planned.token).at_once) else {
        return Err(PlaceError::Limited { message: TOKEN_FULL.into(), retry_after_s: 1 });
    };
    let Some(permit) = hub.calls.try_start() else {
        return Err(PlaceError::Busy(HUB_FULL));
    };
    Ok(Admitted::Go(Box::new(Go { planned, course, idempotency_key, permits: (place, permit) })))
}

/// Records that a call is refused; answers why.
async fn refuse(hub: &Hub, planned: &Planned, why: PlaceError) -> PlaceError {
    let mut record = planned.record(clock::now(), Phase::Outcome);
    record.decision = Some(Decision::Denied);
    record.outcome = Some(code::DENIED.into());
    if let Err(unrecorded) = hub.store.append(record).await {
        return unrecorded.into();
    }
    hub.metrics.refused(planned.door.name(), "known");
    why
}

/// What a token may use: its scopes say, else the settings.
fn limits(hub: &Hub, token: &Token) -> Limits {
    let scopes = &token.grant.scopes;
    Limits {
        per_minute: scopes.calls_per_minute.unwrap_or(hub.limits.per_minute),
        at_once: scopes.concurrent_calls.unwrap_or(hub.limits.at_once),
    }
}

/// How many calls a token may have under way.
pub fn at_once(hub: &Hub, token: &Token) -> usize {
    match limits(hub, token).at_once {
        0 => usize::MAX,
        limit => limit as usize,
    }
}

/// Counts a call against its caller's minute. Before anything else: what is refused later costs a record, too.
async fn within_rate(hub: &Hub, caller: &Caller) -> Result<(), PlaceError> {
    let per_minute = limits(hub, &caller.token).per_minute;
    let Err(too_fast) = caller.token.budget.take(per_minute, clock::now()) else { return Ok(()) };
    hub.metrics.refused(caller.door.name(), "limited");
    if too_fast.tell {
        let mut record = Draft::new(clock::now(), Kind::Refusal)
            .detail(&serde_json::json!({ "what": "more calls than the token may place", "per_minute": per_minute }));
        record.who = Some(caller.token.name.clone());
        record.door = Some(caller.door);
        record.decision = Some(Decision::Denied);
        record.outcome = Some(code::LIMITED.into());
        hub.store.append(record).await?;
    }
    let message = format!("this token may place {per_minute} calls a minute and has used them");
    Err(PlaceError::Limited { message, retry_after_s: too_fast.retry_after_s })
}

fn plan(
    hub: &Hub,
    ask: Ask,
    requested_by: Arc<str>,
    read: Option<serde_json::Value>,
) -> Result<(Planned, serde_json::Value, Option<String>), PlaceError> {
    let Ask { caller, agent, tool, args, timeout, idempotency_key } = ask;
    // What is guarded, recorded and sent is written from the parsed value: with a key given twice, the guard and the
    // agent could otherwise each read a different one.
    let (value, args) = match read {
        Some(value) => (value, args),
        None => {
            let value: serde_json::Value = serde_json::from_str(args.get())
                .map_err(|why| PlaceError::BadArgs(format!("cannot read `args` as JSON: {why}")))?;
            let written =
                serde_json::value::to_raw_value(&value).map_err(|why| PlaceError::BadArgs(why.to_string()))?;
            (value, written)
        }
    };
    if !value.is_object() {
        return Err(PlaceError::BadArgs("`args` must be a JSON object".into()));
    }
    // The journal shows them within a record, and pages of records have to be read.
    if json::is_too_deep(args.get()) {
        return Err(PlaceError::BadArgs(format!("`args` may be nested at most {} levels deep", json::MAX_DEPTH)));
    }
    // What a kenny agent knows is named like this, and frames of other names would only come back as errors.
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if agent.id.protocol() == Protocol::Kenny && !tool.bytes().all(is_name) {
        let message = "`tool` of a kenny agent takes letters, digits, `_` and `-`, as in fs_list";
        return Err(PlaceError::BadArgs(message.into()));
    }
    // Nobody's probe is named so: it would wait for a person and then ask the agent for what it cannot know.
    if agent.id.protocol() == Protocol::Sonde && convoke_kenny::tools::find(&tool).is_some() {
        return Err(PlaceError::BadArgs(format!(
            "`{tool}` is not a probe, and {} is a Sonde agent; ask it with `probe`, as in system.disk.usage",
            agent.id
        )));
    }
    let effect = effect_of(hub, &agent, &tool);
    let least = convoke_kenny::tools::least_patience(&tool);
    let timeout = hub.deadlines.of(timeout, value.get("timeout_s"), least);
    let call = Call::new(CallId::new(clock::uuid()), caller.token.id, agent.id.clone(), tool, CallState::Running);
    let planned = Planned {
        args_shown: shown(&agent, &args),
        args_digest: hub.digest(args.get().as_bytes()),
        call: Arc::new(call),
        token: caller.token,
        door: caller.door,
        agent,
        effect,
        args,
        timeout,
        kept: false,
        approval: None,
        requested_by,
    };
    Ok((planned, value, idempotency_key))
}

async fn ask_a_person(
    hub: Hub,
    mut planned: Planned,
    idempotency_key: Option<String>,
    rule: String,
) -> Result<Placed, PlaceError> {
    let now = clock::now();
    let expires_at = now.after(hub.settings.seconds("approvals.ttl_s"));
    let approval = Approval {
        id: ApprovalId::new(clock::uuid()),
        call_id: planned.call.id,
        binding: planned.binding(),
        created_at: now,
        expires_at,
        state: ApprovalState::Pending,
    };
    hub.calls.try_wait_for(approval.id, planned.token.id, expires_at).map_err(|why| match why {
        NoRoom::Full => PlaceError::Busy("too many calls are waiting for a person"),
        NoRoom::Share => {
            let message =
                "this token has reached its limit of calls that wait for a person (approvals.max_waiting_per_token)";
            PlaceError::Limited { message: message.into(), retry_after_s: 30 }
        }
    })?;
    planned.kept = true;
    planned.approval = Some(approval.id);
    planned.call.set_state(CallState::Waiting);
    planned.call.set_approval(approval.id, expires_at);
    let mut record = planned.record(now, Phase::Intent);
    record.kind = Kind::Approval;
    record.phase = None;
    record.decision = Some(Decision::Pending);
    record.rule = Some(rule);
    let mut row = planned.row(idempotency_key, CallState::Waiting);
    // Who asked can still learn of its end, however long it waited.
    row.keep_until = expires_at.after(KEEP);
    let kept = planned.keep(&hub, row, Some(approval.clone()), Some(record)).await;
    if !matches!(kept, Ok(None)) {
        hub.calls.no_longer_waits(approval.id);
    }
    if let Some(existing) = kept? {
        return Ok(existing);
    }
    // Whoever revokes a token looks at what waits once it is out of force, and may have looked before this was there.
    if !planned.token.is_active(clock::now()) {
        approve::end_unwanted(&hub, &approval, &planned.row(None, CallState::Waiting)).await?;
        return Err(PlaceError::NotInForce);
    }
    Ok(Placed::Pending { call: planned.call, approval: approval.id, expires_at })
}

/// The same key again: the first call, whatever became of it — if it asked for the same thing.
async fn existing(hub: &Hub, planned: &Planned, row: CallRow) -> Result<Placed, PlaceError> {
    let same =
        row.target == planned.agent.id && row.tool == planned.call.tool && row.args_digest == planned.args_digest;
    if !same {
        return Err(PlaceError::KeyReused);
    }
    let call = of_row(hub, row).await?;
    match call.approval() {
        Some((approval, expires_at)) if call.state() == CallState::Waiting => {
            Ok(Placed::Pending { call, approval, expires_at })
        }
        _ => Ok(Placed::Running(call)),
    }
}

impl Planned {
    /// Keeps the call. If its idempotency key was used before, the call of that time. It is known here before it is
    /// kept: another request with the same key may find it in the store at once, and must find the one that runs.
    async fn keep(
        &self,
        hub: &Hub,
        row: CallRow,
        approval: Option<Approval>,
        record: Option<Draft>,
    ) -> Result<Option<Placed>, PlaceError> {
        hub.calls.remember(&self.call);
        let kept = hub.store.put_call(row, approval, record).await;
        if !matches!(kept, Ok(Reservation::Fresh)) {
            hub.calls.forget(self.call.id);
        }
        match kept? {
            Reservation::Fresh => Ok(None),
            Reservation::Existing(row) => existing(hub, self, *row).await.map(Some),
        }
    }

    /// Decides on it; `args` are its arguments.
    async fn decide(&self, hub: &Hub, args: &serde_json::Value, consent: Consent) -> Verdict {
        let policy = hub.policy.current();
        if self.agent.id.protocol() == Protocol::Yonexus {
            return message::decide(self, args, &policy, consent);
        }
        let surfaces: Vec<Surface<'_>> = surfaces(&self.agent, &self.call.tool, args);
        let tags = Arc::clone(&self.agent.state().tags);
        let facts = Facts {
            tool: &self.call.tool,
            effect: self.effect,
            agent: self.agent.id.as_str(),
            tags: &tags,
            caller: &self.token.name,
            door: self.door,
        };
        if Guard::is_long(&surfaces) {
            return self.decide_on_long(hub, policy, &surfaces, &facts, consent).await;
        }
        gate::decide(&self.token.grant, &policy.guard, &surfaces, &policy.confirm, &facts, consent)
    }

    /// The same where the guard takes its time.
    async fn decide_on_long(
        &self,
        hub: &Hub,
        mut policy: Arc<InForce>,
        surfaces: &[Surface<'_>],
        facts: &Facts<'_>,
        consent: Consent,
    ) -> Verdict {
        let grant = &self.token.grant;
        loop {
            // Who has no right to the call does not keep the guard busy.
            let hit = match grant.check_call(facts.effect, facts.tool, facts.agent, facts.tags) {
                Ok(()) => {
                    let what = [self.agent.id.protocol().name(), facts.tool, &self.args_digest].join(" ");
                    hub.policy.check_long(&policy, what, surfaces).await
                }
                Err(_) => None,
            };
            // Rules that came meanwhile hold for it, too.
            let current = hub.policy.current();
            if Arc::ptr_eq(&policy, &current) {
                return gate::decide_with(grant, || hit, &policy.confirm, facts, consent);
            }
            policy = current;
        }
    }

    fn binding(&self) -> Binding {
        Binding {
            caller: self.token.id,
            target: self.agent.id.clone(),
            tool: self.call.tool.clone(),
            args_digest: self.args_digest.clone(),
        }
    }

    fn row(&self, idempotency_key: Option<String>, state: CallState) -> CallRow {
        let now = clock::now();
        CallRow {
            id: self.call.id,
            caller: self.token.id,
            idempotency_key,
            target: self.agent.id.clone(),
            tool: self.call.tool.clone(),
            args_digest: self.args_digest.clone(),
            door: self.door,
            args: Some(SecretBytes::new(self.args.get().as_bytes())),
            timeout_ms: u64::try_from(self.timeout.as_millis()).ok(),
            state,
            outcome: None,
            created_at: now,
            keep_until: now.after(KEEP),
        }
    }

    /// A record of this call.
    fn record(&self, at: Timestamp, phase: Phase) -> Draft {
        let mut draft = Draft::new(at, Kind::Call);
        draft.phase = Some(phase);
        draft.who = Some(self.token.name.clone());
        draft.door = Some(self.door);
        draft.target = Some(self.agent.id.as_str().into());
        draft.tool = Some(self.call.tool.clone());
        draft.call_id = Some(self.call.id);
        draft.args = Some(self.args_shown.clone());
        draft.args_digest = Some(self.args_digest.clone());
        draft.decision = Some(if self.approval.is_some() { Decision::Confirmed } else { Decision::Allowed });
        draft.approval = self.approval;
        draft
    }
}

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// When nobody says.
    pub default: Duration,
    /// Added to the agent's own.
    pub grace: Duration,
    /// At most.
    pub max: Duration,
}

impl Deadlines {
    /// The caller's word bounds the whole call; else the agent's own time-out with some grace; else the default. Where the
    /// caller says nothing, it is `least` at least, which the tool needs.
    fn of(&self, asked: Option<Duration>, agents: Option<&serde_json::Value>, least: Duration) -> Duration {
        let agents = agents.and_then(serde_json::Value::as_f64).filter(|s| s.is_finite() && *s > 0.0);
        let chosen = match (asked, agents) {
            (Some(asked), _) => asked,
            (None, Some(seconds)) => {
                Duration::try_from_secs_f64(seconds).unwrap_or(self.max).saturating_add(self.grace).max(least)
            }
            (None, None) => self.default.max(least),
        };
        chosen.min(self.max)
    }
}

/// What a call does to the machine it reaches.
fn effect_of(hub: &Hub, agent: &Agent, tool: &str) -> Effect {
    match agent.id.protocol() {
        Protocol::Sonde => crate::sonde::effect_of(hub, agent, tool),
        Protocol::Yonexus => message::EFFECT,
        Protocol::Kenny => convoke_kenny::tools::effect_of(tool),
    }
}

/// The arguments as records show them.
fn shown(agent: &Agent, args: &RawValue) -> Box<RawValue> {
    if agent.id.protocol() == Protocol::Yonexus { message::shown(args) } else { redact::args(args) }
}

/// Whom a stored call goes to, if they are still there.
fn target(hub: &Hub, id: &PeerId) -> Option<Arc<Agent>> {
    match id.protocol() {
        // Clients are kept elsewhere; who of them is gone is told apart when the message is handed over.
        Protocol::Yonexus => Some(Agent::elsewhere(id.clone())),
        Protocol::Kenny | Protocol::Sonde => hub.agents.find(id.as_str()),
    }
}

/// What the guard looks at: the texts of a call that name commands or paths.
fn surfaces<'a>(agent: &Agent, tool: &str, args: &'a serde_json::Value) -> Vec<Surface<'a>> {
    use convoke_core::guard::AppliesTo;
    if agent.id.protocol() == Protocol::Sonde {
        let paths = ["path", "logPath"].into_iter().filter_map(|name| args.get(name)?.as_str());
        return paths.map(|text| Surface { group: AppliesTo::Path, text: text.into() }).collect();
    }
    let surfaces = convoke_kenny::tools::guard_surfaces(tool, args).into_iter();
    surfaces.filter_map(|(group, text)| Some(Surface { group: AppliesTo::parse(group.name())?, text })).collect()
}

/// What is shown when an agent is not there.
fn offline(agent: &Agent) -> Failure {
    let state = agent.state();
    let message = match (state.last_seen, state.since) {
        _ if state.trust == Trust::Revoked => {
            format!("agent {} is revoked; enrol it again before calling it", agent.id)
        }
        (Some(at), Some(since)) => format!("agent {} is offline since {since}; last seen {at}", agent.id),
        (Some(at), None) => format!("agent {} is offline; last seen {at}", agent.id),
        (None, _) => format!("agent {} has never connected", agent.id),
    };
    Failure::new(code::OFFLINE, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_callers_word_bounds_the_whole_call() {
        let s = Duration::from_secs;
        let deadlines = Deadlines { default: s(30), grace: s(5), max: s(3600) };
        let of = |asked, agents: Option<serde_json::Value>| deadlines.of(asked, agents.as_ref(), Duration::ZERO);
        assert_eq!(of(None, None), s(30));
        assert_eq!(of(None, Some(json!(60))), s(65));
        assert_eq!(of(Some(s(3)), Some(json!(60))), s(3));
        assert_eq!(of(None, Some(json!("soon"))), s(30));
        assert_eq!(of(None, Some(json!(-1))), s(30));
        assert_eq!(of(None, Some(json!(1e300))), s(3600));
    }

    #[test]
    fn what_takes_long_is_waited_for_unless_the_caller_says_otherwise() {
        let s = Duration::from_secs;
        let deadlines = Deadlines { default: s(30), grace: s(5), max: s(3600) };
        for (tool, least) in [("account_session_action", 120), ("agent_update", 120), ("fs_list", 30)] {
            let of = |asked, agents: Option<serde_json::Value>| {
                deadlines.of(asked, agents.as_ref(), convoke_kenny::tools::least_patience(tool))
            };
            assert_eq!(of(None, None), s(least), "{tool}");
            assert_eq!(of(None, Some(json!(300))), s(305), "{tool}");
            assert_eq!(of(Some(s(3)), None), s(3), "{tool}");
        }
    }
}
