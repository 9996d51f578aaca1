//! A model of hubs that share a database: they are paused, cut off, killed and fenced while one peer connects here and there
//! and calls go to it. What decides is the code beside this file.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const HUBS: usize = 3;
const LENGTH: i64 = 60;

fn ms(n: i64) -> Duration {
    Duration::from_millis(u64::try_from(n).expect("no time before the start"))
}

#[test]
fn a_lease_is_used_for_two_thirds_of_its_length_from_before_it_was_asked_for() {
    let lease = Lease::granted(ms(1_000), ms(9_000));
    assert!(lease.may_act(ms(1_000)) && lease.may_act(ms(6_999)));
    assert!(!lease.may_act(ms(7_000)));
    assert!(!may_be_fenced(10_001, 10_000) && may_be_fenced(10_000, 10_000));
}

#[derive(Clone, Debug)]
enum Step {
    Tick(i64),
    /// A hub asks for its lease, the database grants it, the hub hears of it. Each may come late, or not.
    Ask(usize),
    Grant(usize),
    Hear(usize),
    Fence(usize),
    Restart(usize),
    /// The peer comes to a hub, which takes an epoch and subscribes; later it commits the link.
    Connect(usize),
    Commit(usize),
    Disconnect(usize),
    /// A hub reads which link stands, and closes its own where that is another.
    Read(usize),
    Call(usize),
}

#[derive(Debug, Default)]
struct HubModel {
    /// How far its own clock is ahead.
    offset: i64,
    instance: u64,
    lease: Option<Lease>,
    asked_at: Option<i64>,
    granted_at: Option<i64>,
    coming: Option<u64>,
    held: Option<u64>,
    /// The link that it last read.
    known: Option<u64>,
}

#[derive(Debug, Default)]
struct Row {
    instance: u64,
    until: i64,
}

#[derive(Debug, Default)]
struct World {
    now: i64,
    next: u64,
    rows: [Row; HUBS],
    link: Option<(u64, usize)>,
    hubs: [HubModel; HUBS],
}

impl World {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn acts(&self, h: usize) -> bool {
        let hub = &self.hubs[h];
        hub.lease.is_some_and(|lease| lease.may_act(ms(self.now + hub.offset)))
    }

    /// The link that stands, of a hub whose lease lives.
    fn standing(&self) -> Option<u64> {
        self.link.filter(|(_, h)| self.rows[*h].until > self.now).map(|(epoch, _)| epoch)
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Tick(n) => self.now += n,
            Step::Ask(h) => {
                let at = self.now + self.hubs[h].offset;
                let hub = &mut self.hubs[h];
                hub.asked_at.get_or_insert(at);
            }
            Step::Grant(h) => {
                if let Some(asked_at) = self.hubs[h].asked_at.take()
                    && self.hubs[h].instance == self.rows[h].instance
                    && self.hubs[h].instance > 0
                {
                    self.rows[h].until = self.now + LENGTH;
                    self.hubs[h].granted_at = Some(asked_at);
                }
            }
            Step::Hear(h) => {
                if let Some(at) = self.hubs[h].granted_at.take() {
                    self.hubs[h].lease = Some(Lease::granted(ms(at), ms(LENGTH)));
                }
            }
            Step::Fence(h) => {
                if may_be_fenced(self.rows[h].until, self.now) {
                    self.rows[h] = Row { instance: self.next(), until: 0 };
                    self.link = self.link.filter(|(_, holder)| *holder != h);
                }
            }
            Step::Restart(h) => {
                if may_be_fenced(self.rows[h].until, self.now) {
                    let instance = self.next();
                    let at = self.now + self.hubs[h].offset;
                    self.rows[h] = Row { instance, until: self.now + LENGTH };
                    self.link = self.link.filter(|(_, holder)| *holder != h);
                    let lease = Some(Lease::granted(ms(at), ms(LENGTH)));
                    self.hubs[h] = HubModel { offset: self.hubs[h].offset, instance, lease, ..HubModel::default() };
                }
            }
            Step::Connect(h) => {
                if self.acts(h) {
                    self.hubs[h].coming = Some(self.next());
                }
            }
            Step::Commit(h) => {
                // The transaction holds the hub's own row: of one that was fenced it comes to nothing.
                if let Some(epoch) = self.hubs[h].coming.take()
                    && self.hubs[h].instance == self.rows[h].instance
                    && link_wins(self.link.map(|(epoch, _)| epoch), epoch)
                {
                    self.link = Some((epoch, h));
                    self.hubs[h].held = Some(epoch);
                }
            }
            Step::Disconnect(h) => {
                if let Some(held) = self.hubs[h].held.take() {
                    self.link = self.link.filter(|(epoch, _)| *epoch != held);
                }
            }
            Step::Read(h) => {
                let (standing, row) = (self.standing(), self.link.map(|(epoch, _)| epoch));
                let hub = &mut self.hubs[h];
                hub.known = standing;
                hub.held = hub.held.filter(|held| !link_is_replaced(*held, row));
            }
            Step::Call(h) => self.call(h)?,
        }
        self.check()
    }

    /// A call goes to the link that the hub knows of, and on from there.
    fn call(&self, from: usize) -> Result<(), TestCaseError> {
        if !self.acts(from) {
            return Ok(());
        }
        let (mut taken, mut tried) = (0, 0);
        let mut to = self.hubs[from].known;
        while let Some(epoch) = to.take() {
            prop_assert!(epoch > tried, "it goes on to newer links only");
            tried = epoch;
            // A paused hub is still subscribed: it takes the call, and sends it only under its lease.
            if let Some(holder) = (0..HUBS).find(|h| self.hubs[*h].held == Some(epoch)) {
                taken += 1;
                if self.acts(holder) {
                    prop_assert_eq!(self.hubs[holder].instance, self.rows[holder].instance, "a fenced hub sends");
                }
            } else if let Next::Resend(next) = after_no_responders(epoch, self.standing()) {
                to = Some(next);
            }
        }
        prop_assert!(taken <= 1, "a call was taken twice");
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (h, hub) in self.hubs.iter().enumerate() {
            if self.acts(h) {
                prop_assert_eq!(hub.instance, self.rows[h].instance, "hub {} acts after it was fenced", h);
                prop_assert!(self.rows[h].until > self.now, "hub {} acts after its lease", h);
            }
        }
        Ok(())
    }

    /// All hubs that live read once more.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for h in 0..HUBS {
            self.step(&Step::Read(h))?;
        }
        let holders: Vec<_> = (0..HUBS).filter(|h| self.hubs[*h].held.is_some() && self.acts(*h)).collect();
        for h in holders {
            let is_standing =
                self.link.is_some_and(|(epoch, holder)| holder == h && Some(epoch) == self.hubs[h].held);
            prop_assert!(is_standing, "hub {} holds a link that does not stand", h);
        }
        Ok(())
    }
}

fn step() -> impl Strategy<Value = Step> {
    let hub = 0..HUBS;
    prop_oneof![
        3 => (1..LENGTH / 2).prop_map(Step::Tick),
        3 => hub.clone().prop_map(Step::Ask),
        3 => hub.clone().prop_map(Step::Grant),
        3 => hub.clone().prop_map(Step::Hear),
        1 => hub.clone().prop_map(Step::Fence),
        2 => hub.clone().prop_map(Step::Restart),
        3 => hub.clone().prop_map(Step::Connect),
        3 => hub.clone().prop_map(Step::Commit),
        1 => hub.clone().prop_map(Step::Disconnect),
        2 => hub.clone().prop_map(Step::Read),
        3 => hub.prop_map(Step::Call),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Nobody acts once it may be taken for gone, a call is taken at most once, and the newest link stands.
    #[test]
    fn hubs_keep_to_their_leases_and_epochs(
        offsets in proptest::array::uniform3(0..1_000_i64),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut world = World::default();
        for (hub, offset) in world.hubs.iter_mut().zip(offsets) {
            hub.offset = offset;
        }
        for h in 0..HUBS {
            world.step(&Step::Restart(h))?;
        }
        for step in &steps {
            world.step(step)?;
        }
        world.settle()?;
    }
}
