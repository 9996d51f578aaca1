//! What goes wrong, and when: a plan that follows from the seed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::dice::Dice;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Packets from one part to another vanish.
    OneWay,
    /// Packets between two parts vanish.
    Cut,
    /// Some packets between two parts vanish.
    Loss,
    /// Packets between agents and a hub vanish.
    Agents,
    /// A hub stands still, and goes on.
    Pause,
    /// A hub is killed, and started again.
    Kill,
    /// PostgreSQL ends, and is started again.
    Postgres,
    /// NATS ends, and is started again.
    Nats,
    /// PostgreSQL's clock jumps, which is the one that leases go by.
    Clock,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::OneWay,
        Self::Cut,
        Self::Loss,
        Self::Agents,
        Self::Pause,
        Self::Kill,
        Self::Postgres,
        Self::Nats,
        Self::Clock,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::OneWay => "one-way",
            Self::Cut => "cut",
            Self::Loss => "loss",
            Self::Agents => "agents",
            Self::Pause => "pause",
            Self::Kill => "kill",
            Self::Postgres => "postgres",
            Self::Nats => "nats",
            Self::Clock => "clock",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("take {}", all.join(", "))
        })
    }
}

/// A part of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Hub(usize),
    Postgres,
    Nats,
    Agents,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(hub) => write!(f, "hub {}", hub + 1),
            Self::Postgres => f.write_str("PostgreSQL"),
            Self::Nats => f.write_str("NATS"),
            Self::Agents => f.write_str("the agents"),
        }
    }
}

/// Packets that vanish on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drops {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) back_too: bool,
    pub(super) percent: u8,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Drop(Drops),
    Pause(usize),
    Kill(usize),
    /// By SIGKILL, or by an immediate stop.
    Postgres {
        hard: bool,
    },
    Nats,
    Clock {
        seconds: i64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop(Drops { from, to, back_too, percent }) => {
                let (arrow, share) = (if *back_too { "↔" } else { "→" }, *percent);
                if share < 100 {
                    write!(f, "{share} % lost {from} {arrow} {to}")
                } else {
                    write!(f, "{from} {arrow} {to} cut")
                }
            }
            Self::Pause(hub) => write!(f, "hub {} paused", hub + 1),
            Self::Kill(hub) => write!(f, "hub {} killed", hub + 1),
            Self::Postgres { hard: true } => f.write_str("PostgreSQL killed"),
            Self::Postgres { hard: false } => f.write_str("PostgreSQL restarted"),
            Self::Nats => f.write_str("NATS killed"),
            Self::Clock { seconds } => write!(f, "PostgreSQL's clock moved by {seconds} s"),
        }
    }
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) fault: Fault,
}

/// Faults of these kinds over a time, as the seed has it. Each ends before the time does.
pub(super) fn plan(seed: u64, kinds: &[Kind], hubs: usize, lease: Duration, time: Duration) -> Vec<Planned> {
    let mut dice = Dice::new(seed, "faults");
    let mut plan: Vec<Planned> = Vec::new();
    let mut at = Duration::from_secs(1);
    while let Some(kind) = dice.pick(kinds) {
        let fault = fault(&mut dice, kind, hubs);
        // Shorter than a lease, or so long that others take over.
        let short = dice.between(Duration::from_millis(300), lease / 2);
        let long = dice.between(lease, lease * 2);
        let lasts = if dice.chance(50) { short } else { long };
        if at + lasts > time {
            break;
        }
        plan.push(Planned { at, lasts, fault });
        let pause = dice.between(Duration::from_secs(1), lease);
        // Now and then the next one comes before this one is over.
        at += if dice.chance(25) { lasts / 2 } else { lasts + pause };
    }
    plan
}

fn fault(dice: &mut Dice, kind: Kind, hubs: usize) -> Fault {
    let hub = dice.below(hubs);
    let other = match dice.below(if hubs > 1 { 3 } else { 2 }) {
        0 => Place::Postgres,
        1 => Place::Nats,
        _ => Place::Hub((hub + 1 + dice.below(hubs - 1)) % hubs),
    };
    let (mut from, mut to) = (Place::Hub(hub), other);
    if dice.chance(50) {
        (from, to) = (to, from);
    }
    match kind {
        Kind::OneWay => Fault::Drop(Drops { from, to, back_too: false, percent: 100 }),
        Kind::Cut => Fault::Drop(Drops { from, to, back_too: true, percent: 100 }),
        Kind::Loss => {
            let percent = 5 + u8::try_from(dice.below(36)).unwrap_or(0);
            Fault::Drop(Drops { from, to, back_too: true, percent })
        }
        Kind::Agents => {
            let (back_too, is_to_hub) = (dice.chance(50), dice.chance(50));
            let (from, to) =
                if is_to_hub { (Place::Agents, Place::Hub(hub)) } else { (Place::Hub(hub), Place::Agents) };
            Fault::Drop(Drops { from, to, back_too, percent: 100 })
        }
        Kind::Pause => Fault::Pause(hub),
        Kind::Kill => Fault::Kill(hub),
        Kind::Postgres => Fault::Postgres { hard: dice.chance(50) },
        Kind::Nats => Fault::Nats,
        Kind::Clock => {
            let seconds = [2, 10, 60][dice.below(3)] * if dice.chance(50) { 1 } else { -1 };
            Fault::Clock { seconds }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        let lease = Duration::from_secs(5);
        let make = |seed| plan(seed, &Kind::ALL, 3, lease, Duration::from_secs(120));
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        for seed in 0..50 {
            let plan = make(seed);
            assert!(plan.len() > 5, "{plan:?}");
            for planned in plan {
                assert!(planned.at + planned.lasts <= Duration::from_secs(120));
                if let Fault::Drop(Drops { from, to, percent, .. }) = planned.fault {
                    assert!(from != to && (1..=100).contains(&percent));
                }
            }
        }
        assert!(plan(1, &[], 3, lease, Duration::from_secs(60)).is_empty());
    }

    #[test]
    fn kinds_are_known_by_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("fire".parse::<Kind>().is_err());
    }
}
