//! A person's consent to one call: bound to caller, target, tool and the exact arguments, single-use, expiring, and
//! never given by who asked.

use serde::{Deserialize, Serialize};

use crate::id::{ApprovalId, CallId, PeerId, TokenId};
use crate::time::Timestamp;

/// What an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The caller.
    pub caller: TokenId,
    /// The target of the call.
    pub target: PeerId,
    /// The tool to call.
    pub tool: String,
    /// The keyed digest of the exact arguments.
    pub args_digest: String,
}

/// The state of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Nobody has said anything.
    Pending,
    /// Someone said yes; the call may go out once.
    Approved,
    /// Someone said no.
    Denied,
    /// Time ran out, or what it was asked for was gone before the call could go out.
    Expired,
    /// The call went out.
    Used,
}

impl ApprovalState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Used];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == text)
    }
}

/// One approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The call that waits on it.
    pub call_id: CallId,
    /// What it is bound to.
    pub binding: Binding,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// A rule asks for a second person: whoever asked, and whose they are, is not enough.
    pub second_person: bool,
    /// The present state.
    pub state: ApprovalState,
}

/// Why a decision or a use is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// The decider is the asker.
    #[error(
        "who asked for a call can never approve it; the owner of an assistant approves its calls signed in, on the page"
    )]
    OwnCall,
    /// The decider is the asker's owner, and has not shown just now that it is them.
    #[error("this needs your password or passkey again")]
    StepUp,
    /// Too late.
    #[error("this approval has expired")]
    Expired,
    /// Already decided or used.
    #[error("this approval is already {}", .0.name())]
    NotPending(ApprovalState),
    /// Used without having been given.
    #[error("this approval is {}, so the call cannot run", .0.name())]
    NotApproved(ApprovalState),
    /// Used for something else than it was given for.
    #[error("this approval was given for another call")]
    OtherCall,
    /// The call to be approved no longer exists.
    #[error("the call's arguments cannot be read back, so it cannot run; ask again")]
    Unreadable,
}

/// Who decides: a principal, and the person it belongs to. A token that belongs to nobody is a person of its own name.
#[derive(Clone, Copy, Debug)]
pub struct Decider<'a> {
    /// The token or user.
    pub token: TokenId,
    /// Whose it is.
    pub person: &'a str,
    /// What they have shown.
    pub shown: Shown,
}

/// What a decider has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A token, which programs have.
    Token,
    /// The cookie of a session in which a person is signed in.
    Session,
    /// In such a session, a password or passkey just now.
    StepUp,
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The person it belongs to.
    pub person: &'a str,
    /// An assistant asks, and not a person directly or with a token of theirs.
    pub is_assistant: bool,
}

impl Approval {
    /// A person decides. That the decider holds the `approve` right is the gate's business; that they are not the
    /// asker, nor anything of the asker's owner, is checked here, where nothing can go around it. The owner decides on what
    /// their assistant asks for, unless a rule asks for a second person: signed in, and for a yes with a step-up.
    pub fn decide(
        &mut self,
        by: Decider<'_>,
        asker: Asker<'_>,
        approve: bool,
        now: Timestamp,
    ) -> Result<(), ApprovalError> {
        if self.state != ApprovalState::Pending {
            return Err(ApprovalError::NotPending(self.state));
        }
        // First the clock: an expired approval must be marked so, whoever comes.
        self.expire(now)?;
        if by.token == self.binding.caller {
            return Err(ApprovalError::OwnCall);
        }
        if by.person == asker.person {
            if by.shown == Shown::Token || !asker.is_assistant || self.second_person {
                return Err(ApprovalError::OwnCall);
            }
            if approve && by.shown != Shown::StepUp {
                return Err(ApprovalError::StepUp);
            }
        }
        self.state = if approve { ApprovalState::Approved } else { ApprovalState::Denied };
        Ok(())
    }

    /// The person at the asker's own client decides. That this counts at all is a setting of the hub (off unless an
    /// operator turned it on), and that the answer came through the asker's client with the state that was sealed
    /// for it is checked before; `by` must be who asked, because it is their client that showed the question.
    pub fn decide_at_client(&mut self, by: TokenId, approve: bool, now: Timestamp) -> Result<(), ApprovalError> {
        if self.state != ApprovalState::Pending {
            return Err(ApprovalError::NotPending(self.state));
        }
        self.expire(now)?;
        if by != self.binding.caller {
            return Err(ApprovalError::OtherCall);
        }
        if self.second_person {
            return Err(ApprovalError::OwnCall);
        }
        self.state = if approve { ApprovalState::Approved } else { ApprovalState::Denied };
        Ok(())
    }

    /// The call goes out: once, in time, and only as it was asked for.
    pub fn consume(&mut self, binding: &Binding, now: Timestamp) -> Result<(), ApprovalError> {
        if self.state != ApprovalState::Approved {
            return Err(ApprovalError::NotApproved(self.state));
        }
        self.expire(now)?;
        if *binding != self.binding {
            return Err(ApprovalError::OtherCall);
        }
        self.state = ApprovalState::Used;
        Ok(())
    }

    /// Marks a pending or unused approval whose time has run out.
    pub fn expire(&mut self, now: Timestamp) -> Result<(), ApprovalError> {
        let open = matches!(self.state, ApprovalState::Pending | ApprovalState::Approved);
        if open && now >= self.expires_at {
            self.state = ApprovalState::Expired;
            return Err(ApprovalError::Expired);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const ASKER: TokenId = TokenId::new(Uuid::from_u128(1));
    const OTHER: TokenId = TokenId::new(Uuid::from_u128(2));

    const ASKER_ITSELF: Decider<'static> = Decider { token: ASKER, person: "asker", shown: Shown::Token };
    const SOMEBODY_ELSE: Decider<'static> = Decider { token: OTHER, person: "other", shown: Shown::Token };
    const BY_ASKER: Asker<'static> = Asker { person: "asker", is_assistant: false };

    fn pending() -> Approval {
        Approval {
            id: ApprovalId::new(Uuid::from_u128(3)),
            call_id: CallId::new(Uuid::from_u128(4)),
            binding: Binding {
                caller: ASKER,
                target: PeerId::kenny("pc").expect("valid"),
                tool: "shell_exec".into(),
                args_digest: "d".into(),
            },
            created_at: Timestamp::from_millis(0),
            expires_at: Timestamp::from_millis(100),
            second_person: false,
            state: ApprovalState::Pending,
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn who_asked_can_never_approve() {
        let mut approval = pending();
        assert_eq!(approval.decide(ASKER_ITSELF, BY_ASKER, true, at(1)), Err(ApprovalError::OwnCall));
        assert_eq!(approval.state, ApprovalState::Pending);
    }

    #[test]
    fn another_token_of_who_asked_cannot_approve_either() {
        let mut approval = pending();
        let same_person = Decider { token: OTHER, person: "alex", shown: Shown::Token };
        let alex = Asker { person: "alex", is_assistant: false };
        assert_eq!(approval.decide(same_person, alex, true, at(1)), Err(ApprovalError::OwnCall));
        let claude = Asker { person: "claude", is_assistant: false };
        approval.decide(same_person, claude, true, at(1)).expect("somebody else");
    }

    #[test]
    fn whose_yes_counts() {
        use ApprovalError::{OwnCall, StepUp};
        let own = |shown| Decider { token: OTHER, person: "alex", shown };
        for (is_assistant, second_person, shown, approve, expect) in [
            (true, false, Shown::StepUp, true, Ok(())),
            (true, false, Shown::Session, true, Err(StepUp)),
            (true, false, Shown::Session, false, Ok(())),
            (true, false, Shown::Token, true, Err(OwnCall)),
            (true, false, Shown::Token, false, Err(OwnCall)),
            (true, true, Shown::StepUp, true, Err(OwnCall)),
            (false, false, Shown::StepUp, true, Err(OwnCall)),
            (false, true, Shown::StepUp, true, Err(OwnCall)),
        ] {
            let asker = Asker { person: "alex", is_assistant };
            let pending = Approval { second_person, ..pending() };
            let told = (is_assistant, second_person, shown, approve);
            assert_eq!(pending.clone().decide(own(shown), asker, approve, at(1)), expect, "{told:?}");
            let other = Decider { person: "bert", ..own(Shown::Token) };
            assert_eq!(pending.clone().decide(other, asker, approve, at(1)), Ok(()), "{told:?}");
            let itself = Decider { token: ASKER, ..own(shown) };
            assert_eq!(pending.clone().decide(itself, asker, approve, at(1)), Err(OwnCall), "{told:?}");
        }
    }

    #[test]
    fn the_asker_at_its_own_client_is_no_second_person() {
        let mut approval = Approval { second_person: true, ..pending() };
        assert_eq!(approval.decide_at_client(ASKER, true, at(1)), Err(ApprovalError::OwnCall));
    }

    #[test]
    fn an_approval_is_used_once() {
        let mut approval = pending();
        let binding = approval.binding.clone();
        approval.decide(SOMEBODY_ELSE, BY_ASKER, true, at(1)).expect("in time");
        approval.consume(&binding, at(2)).expect("approved");
        assert_eq!(approval.consume(&binding, at(3)), Err(ApprovalError::NotApproved(ApprovalState::Used)));
    }

    #[test]
    fn a_client_answers_for_its_own_call_only_and_once() {
        let mut approval = pending();
        assert_eq!(approval.decide_at_client(OTHER, true, at(1)), Err(ApprovalError::OtherCall));
        assert_eq!(approval.clone().decide_at_client(ASKER, true, at(100)), Err(ApprovalError::Expired));
        approval.decide_at_client(ASKER, true, at(1)).expect("its own, in time");
        let again = approval.decide_at_client(ASKER, true, at(2));
        assert_eq!(again, Err(ApprovalError::NotPending(ApprovalState::Approved)));
    }

    #[test]
    fn another_call_cannot_use_it() {
        let mut approval = pending();
        approval.decide(SOMEBODY_ELSE, BY_ASKER, true, at(1)).expect("in time");
        let altered = Binding { args_digest: "e".into(), ..approval.binding.clone() };
        assert_eq!(approval.consume(&altered, at(2)), Err(ApprovalError::OtherCall));
    }

    #[test]
    fn time_runs_out_before_and_after_the_decision() {
        let mut late = pending();
        assert_eq!(late.decide(SOMEBODY_ELSE, BY_ASKER, true, at(100)), Err(ApprovalError::Expired));
        let mut unused = pending();
        let binding = unused.binding.clone();
        unused.decide(SOMEBODY_ELSE, BY_ASKER, true, at(99)).expect("in time");
        assert_eq!(unused.consume(&binding, at(100)), Err(ApprovalError::Expired));
    }

    proptest! {
        /// Whatever happens in whatever order, a use follows a yes of someone else, in time, and happens once.
        #[test]
        fn a_use_follows_a_yes_of_someone_else(
            steps in prop::collection::vec((0u8..3, any::<bool>(), any::<bool>(), 0i64..150), 0..25),
        ) {
            let mut approval = pending();
            let binding = approval.binding.clone();
            let (mut yes, mut uses) = (false, 0);
            for (what, own, approve, ms) in steps {
                match what {
                    0 => {
                        let by = if own { ASKER_ITSELF } else { SOMEBODY_ELSE };
                        if approval.decide(by, BY_ASKER, approve, at(ms)).is_ok() {
                            prop_assert!(!own && ms < 100);
                            yes = approve;
                        }
                    }
                    1 => if approval.consume(&binding, at(ms)).is_ok() {
                        prop_assert!(yes && ms < 100);
                        uses += 1;
                    },
                    _ => { let _ = approval.expire(at(ms)); }
                }
            }
            prop_assert!(uses <= 1);
        }
    }
}
