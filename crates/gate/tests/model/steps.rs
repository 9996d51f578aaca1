//! What may happen, made from a seed.

use convoke_core::door::Door;
use convoke_core::grant::Role;

use crate::reference::{Ask, COMMANDS, Confirm, DENY, Model, Narrow, Stage, Token, Tool};

/// A small generator: the same steps for the same seed, on every machine.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % sides.max(1) as u64).unwrap_or_default()
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())])
    }
}

/// One step. Calls, tokens and agents by their place in the model.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Mint(Token),
    RevokeToken(usize),
    Enrol(usize),
    RevokeAgent(usize),
    Connect(usize),
    Disconnect(usize),
    Stall(usize, bool),
    ToggleConfirm(Confirm),
    ToggleDeny(&'static str),
    Place(Ask),
    Answer(usize, Option<&'static str>),
    AnswerLate,
    Cancel(usize),
    TakeBack(usize),
    Decide {
        by: usize,
        call: usize,
        yes: bool,
    },
    Advance {
        ms: i64,
    },
    Restart,
    /// A kill just after a yes: it was kept, and so far more of what follows from it.
    KilledAfterYes {
        call: usize,
        kept: AfterYes,
    },
}

/// How far an approved call had come when the gate was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AfterYes {
    Approved,
    Used,
    Started,
}

const MOST_TOKENS: usize = 14;

pub(crate) fn next(dice: &mut Dice, model: &Model) -> Step {
    let (agents, tokens) = (model.agents.len(), model.tokens.len());
    let which = |wanted: &[Stage]| -> Vec<usize> {
        (0..model.calls.len()).filter(|at| wanted.contains(&model.calls[*at].stage)).collect()
    };
    loop {
        let step = match dice.roll(100) {
            0..3 if tokens < MOST_TOKENS => Some(Step::Mint(token(dice, model))),
            // The first token is whoever runs the hub: it stays.
            3 => dice
                .pick(&(1..tokens).filter(|at| !model.tokens[*at].revoked).collect::<Vec<_>>())
                .map(Step::RevokeToken),
            4..6 => {
                let agent = dice.roll(agents);
                (!model.agents[agent].is_trusted || dice.one_in(4)).then_some(Step::Enrol(agent))
            }
            6 => {
                let agent = dice.roll(agents);
                (model.agents[agent].is_trusted && dice.one_in(2)).then_some(Step::RevokeAgent(agent))
            }
            7..15 => {
                let agent = dice.roll(agents);
                (!model.agents[agent].is_online || dice.one_in(10)).then_some(Step::Connect(agent))
            }
            15..17 => {
                let agent = dice.roll(agents);
                model.agents[agent].is_online.then_some(Step::Disconnect(agent))
            }
            17..22 => {
                let agent = dice.roll(agents);
                let (is_online, is_stalled) = (model.agents[agent].is_online, model.agents[agent].is_stalled);
                is_online.then_some(Step::Stall(agent, !is_stalled))
            }
            22..24 => dice.pick(&Confirm::ALL).map(Step::ToggleConfirm),
            24..28 => {
                // Sooner one that a call which waits would run into.
                let waiting = which(&[Stage::Waiting]);
                let meets = |rule: &&str| waiting.iter().any(|at| model.calls[*at].ask.command.contains(*rule));
                let met: Vec<_> = DENY.into_iter().filter(|rule| !model.deny.contains(rule)).filter(meets).collect();
                dice.pick(if met.is_empty() { &DENY } else { &met }).map(Step::ToggleDeny)
            }
            28..53 => Some(Step::Place(ask(dice, model))),
            53..61 => {
                let failure = dice.pick(&[None, None, Some("no_such_file")]).flatten();
                dice.pick(&which(&[Stage::Out])).map(|call| Step::Answer(call, failure))
            }
            61 => Some(Step::AnswerLate),
            62..65 => {
                let queued = dice.pick(&which(&[Stage::Queued]));
                let by = queued.map(|call| model.calls[call].ask.by).filter(|by| *by > 0);
                by.filter(|by| !model.tokens[*by].revoked).map(Step::RevokeToken)
            }
            65..69 => dice.pick(&which(&[Stage::Out, Stage::Queued])).map(Step::Cancel),
            69..71 => {
                let all: Vec<_> = (0..model.calls.len()).filter(|at| model.calls[*at].approval.is_some()).collect();
                let waiting = which(&[Stage::Waiting, Stage::Held]);
                let from = if dice.one_in(4) { all } else { waiting };
                dice.pick(&from).map(Step::TakeBack)
            }
            71..89 => {
                let all: Vec<_> = (0..model.calls.len())
                    .filter(|at| model.calls[*at].approval.is_some() && !model.calls[*at].is_forgotten)
                    .collect();
                let waiting = which(&[Stage::Waiting]);
                let from = if dice.one_in(5) { all } else { waiting };
                let call = dice.pick(&from);
                call.map(|call| Step::Decide {
                    by: caller(dice, model, |token| token.approves),
                    call,
                    yes: !dice.one_in(4),
                })
            }
            89..98 => {
                let ms = [1, 1_000, 10_000, 19_999, 30_000, 70_000, 299_999, 300_000];
                let ms = if dice.one_in(30) { Some(25 * 3_600_000) } else { dice.pick(&ms) };
                ms.map(|ms| Step::Advance { ms })
            }
            98 => {
                let held: Vec<_> = which(&[Stage::Held]).into_iter().map(|at| model.calls[at].ask.agent).collect();
                // Two that come back at once would do so in any order.
                let mut fit = which(&[Stage::Waiting]);
                fit.retain(|at| !held.contains(&model.calls[*at].ask.agent));
                fit.retain(|at| model.calls[*at].time_left(model.now) > REAL_TIMER_MS);
                if held_lapse_soon(model) {
                    fit.clear();
                }
                let kept = dice.pick(&[AfterYes::Approved, AfterYes::Used, AfterYes::Started]);
                dice.pick(&fit).zip(kept).map(|(call, kept)| Step::KilledAfterYes { call, kept })
            }
            _ => (dice.one_in(3) && !held_lapse_soon(model)).then_some(Step::Restart),
        };
        if let Some(step) = step {
            return step;
        }
    }
}

/// The timer of a call that waits for its agent runs in real time from a restart on: none may be about to end then.
const REAL_TIMER_MS: i64 = 60_000;

fn held_lapse_soon(model: &Model) -> bool {
    let soon = |left| 0 < left && left <= REAL_TIMER_MS;
    model.calls.iter().any(|call| call.stage == Stage::Held && soon(call.time_left(model.now)))
}

/// Mostly one that is in force and fit for it.
fn caller(dice: &mut Dice, model: &Model, is_fit: impl Fn(&Token) -> bool) -> usize {
    let all = 0..model.tokens.len();
    let fit = |at: &usize| model.tokens[*at].is_active(model.now) && is_fit(&model.tokens[*at]);
    let fit: Vec<_> = all.clone().filter(fit).collect();
    if dice.one_in(8) { dice.roll(all.len()) } else { dice.pick(&fit).unwrap_or_default() }
}

fn token(dice: &mut Dice, model: &Model) -> Token {
    let role = dice.pick(&[Role::Viewer, Role::Operator, Role::Operator, Role::Admin]).unwrap_or(Role::Viewer);
    let mut token = Token::new(format!("t{}", model.tokens.len()), role);
    token.owner = dice.pick(&[None, Some("ann"), Some("ben")]).flatten();
    token.approves = dice.one_in(2);
    token.expires = dice.pick(&[None, None, Some(20_000), Some(400_000)]).flatten().map(|ms: i64| model.now + ms);
    let mut narrow = Narrow::default();
    match dice.roll(10) {
        0 => narrow.lab = true,
        1 => narrow.no_change = true,
        2 => narrow.second_agent = true,
        3 => narrow.observe = true,
        4 => narrow.at_once = Some(1),
        5 => narrow.per_minute = Some(3),
        _ => {}
    }
    token.narrow = narrow;
    token
}

fn ask(dice: &mut Dice, model: &Model) -> Ask {
    Ask {
        by: caller(dice, model, |_| true),
        agent: dice.roll(model.agents.len()),
        tool: dice.pick(&Tool::ALL).unwrap_or(Tool::Look),
        command: if dice.one_in(2) { COMMANDS[0] } else { dice.pick(&COMMANDS).unwrap_or(COMMANDS[0]) },
        door: dice.pick(&[Door::Http, Door::Mcp, Door::Mcp, Door::Cli]).unwrap_or(Door::Http),
        timeout_ms: dice.pick(&[None, Some(20_000), Some(600_000)]).flatten(),
        key: dice.one_in(3).then(|| u8::try_from(dice.roll(2)).unwrap_or_default()),
    }
}
