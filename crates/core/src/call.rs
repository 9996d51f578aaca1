//! A call: one peer asks another for something by name. It ends in exactly one outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a call that did not succeed ended. What an agent may answer is open (newer agents have codes of their own),
/// so a code is text; the constants are the ones the hub itself gives.
pub mod code {
    /// The peer has no link.
    pub const OFFLINE: &str = "offline";
    /// No answer within the deadline.
    pub const TIMEOUT: &str = "timeout";
    /// The link ended before the answer.
    pub const DISCONNECTED: &str = "disconnected";
    /// The answer was over the frame limit.
    pub const TOO_LARGE: &str = "too_large";
    /// The link's outbound queue or table of calls is full.
    pub const BUSY: &str = "busy";
    /// A deny rule of the guard.
    pub const BLOCKED: &str = "blocked";
    /// Remote control is switched off at the endpoint.
    pub const DISABLED: &str = "disabled";
    /// The caller has used up their calls a minute, or has too many under way.
    pub const LIMITED: &str = "limited";
    /// The caller has no right to this call.
    pub const DENIED: &str = "denied";
    /// A person said no.
    pub const REJECTED: &str = "rejected";
    /// Nobody said yes in time.
    pub const EXPIRED: &str = "expired";
    /// The hub stopped before it learned the outcome: the peer may have finished or not.
    pub const INTERRUPTED: &str = "interrupted";
    /// The caller stopped waiting.
    pub const CANCELLED: &str = "cancelled";
    /// Something that should not happen; the hub's log has more.
    pub const INTERNAL: &str = "internal";
    /// An agent gave a code that cannot stand as one; its own words follow in the message.
    pub const AGENT_ERROR: &str = "agent_error";

    /// Codes that only the hub gives. Agents also give the hub's other codes (`timeout`, `blocked`, …).
    pub const HUBS_OWN: [&str; 11] =
        ["ok", OFFLINE, DISCONNECTED, TOO_LARGE, BUSY, LIMITED, DENIED, REJECTED, EXPIRED, INTERRUPTED, CANCELLED];
    /// Codes of the HTTP API for requests that are not calls or have not ended. An agent's answer may not use them.
    const OF_THE_DOORS: [&str; 17] = [
        "agent_required",
        "bad_request",
        "bad_state",
        "conflict",
        "done",
        "failed",
        "forbidden",
        "no_agent",
        "not_sent",
        "old_key",
        "own_call",
        "pending",
        "running",
        "store",
        "throttled",
        "unauthorized",
        "waiting",
    ];
    /// Longest code of an agent.
    const MAX_LEN: usize = 40;

    /// The code that an agent's own stands under. Codes that nobody here has heard of pass; what is no code, or one of
    /// the hub's words, does not: an agent must not say that a call succeeded or that a person said no.
    pub fn of_agent(given: &str) -> &str {
        let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let is_one = !given.is_empty() && given.len() <= MAX_LEN && given.bytes().all(letters);
        let is_taken = HUBS_OWN.contains(&given) || OF_THE_DOORS.contains(&given);
        if is_one && !is_taken { given } else { AGENT_ERROR }
    }
}

/// The state of a call, as `GET /api/calls/{id}` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallState {
    /// Waits for a person.
    Waiting,
    /// On its way or with the peer.
    Running,
    /// Has its outcome.
    Done,
}

impl CallState {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Running, Self::Done];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == text)
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call's progress. The first outcome is the outcome; whatever comes later is late and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress(CallState);

/// A step that the call's state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a call that is {0} cannot do that")]
pub struct BadStep(pub CallState);

impl Progress {
    /// A call that a person must confirm first.
    pub const fn waiting() -> Self {
        Self(CallState::Waiting)
    }

    /// A call that goes out at once.
    pub const fn running() -> Self {
        Self(CallState::Running)
    }

    /// The present state.
    pub const fn state(self) -> CallState {
        self.0
    }

    /// The confirmation is there: it goes out. Once.
    pub const fn start(&mut self) -> Result<(), BadStep> {
        match self.0 {
            CallState::Waiting => {
                self.0 = CallState::Running;
                Ok(())
            }
            state => Err(BadStep(state)),
        }
    }

    /// It has an outcome. True for the first one only.
    pub const fn finish(&mut self) -> bool {
        let first = !matches!(self.0, CallState::Done);
        self.0 = CallState::Done;
        first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_agent_cannot_choose_the_hubs_words() {
        for passes in ["timeout", "not_found", "blocked", "paused", "brand_new", "e2big"] {
            assert_eq!(code::of_agent(passes), passes);
        }
        let long = "x".repeat(41);
        for other in [
            "ok",
            "forbidden",
            "waiting",
            "own_call",
            "rejected",
            "denied",
            "offline",
            "expired",
            "too_large",
            "",
            "Ok",
            "no way",
            &long,
        ] {
            assert_eq!(code::of_agent(other), code::AGENT_ERROR, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_order_of_events_yields_one_outcome_and_at_most_one_start(
            waiting in any::<bool>(),
            finishes in prop::collection::vec(any::<bool>(), 1..20),
        ) {
            let mut call = if waiting { Progress::waiting() } else { Progress::running() };
            let (mut outcomes, mut starts) = (0, 0);
            for finish in finishes {
                if finish {
                    outcomes += u32::from(call.finish());
                } else {
                    starts += u32::from(call.start().is_ok());
                }
            }
            prop_assert!(outcomes <= 1 && starts <= 1);
            prop_assert_eq!(outcomes == 1, call.state() == CallState::Done);
            prop_assert!(waiting || starts == 0);
        }
    }
}
