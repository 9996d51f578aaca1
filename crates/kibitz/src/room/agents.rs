//! How agents behave: what they say that they are doing, how a host holds them back, and the floor, which one of them has
//! at a time. Who is an agent, the authority says.

use std::time::Duration;

use super::{Charter, Conn, Peer, Room};
use crate::Now;
use crate::grant::{Capability, Grant, Hold, Kind};

/// What an agent may say that it is doing.
pub const STATES: [&str; 4] = ["listening", "thinking", "speaking", "working"];
/// How long an agent has the floor.
pub const FLOOR_FOR: Duration = Duration::from_secs(30);
/// Agents that wait for the floor.
const MAX_QUEUE: usize = 16;

/// The floor: while an agent has it, no other agent is heard. People always are.
#[derive(Debug, Default)]
pub(super) struct Floor {
    /// Who has it, and until when.
    holder: Option<(String, Duration)>,
    queue: std::collections::VecDeque<String>,
}

impl Floor {
    /// Who has it.
    pub(super) fn holder(&self) -> Option<&str> {
        self.holder.as_ref().map(|(id, _)| id.as_str())
    }
}

impl Charter {
    /// How a participant is held back.
    pub fn hold_of(&self, id: &str, credentials: &[String]) -> Option<Hold> {
        let of_credentials = || credentials.iter().find_map(|name| self.held.get(name));
        self.held.get(id).or_else(of_credentials).copied()
    }

    /// Holds a participant back, and whoever comes with the same credentials, or lets them go on.
    pub fn set_hold(&mut self, id: &str, credentials: &[String], hold: Option<Hold>) {
        for name in self.names(id, credentials) {
            match hold {
                Some(hold) => drop(self.held.insert(name, hold)),
                None => drop(self.held.remove(&name)),
            }
        }
        if hold.is_some() {
            self.remember(id, credentials);
        }
        self.tidy();
    }

    /// Whether somebody said that this is an agent.
    pub fn is_agent(&self, id: &str, credentials: &[String]) -> bool {
        self.agents.contains(id) || credentials.iter().any(|name| self.agents.contains(name))
    }

    /// From now on a participant is an agent, and so is whoever comes with the same credentials.
    pub fn set_agent(&mut self, id: &str, credentials: &[String]) {
        let names = self.names(id, credentials);
        self.agents.extend(names);
        self.remember(id, credentials);
    }
}

impl Room {
    /// What somebody gave a participant, whether or not it is held back now.
    pub(super) fn own_grant(&self, peer: &Peer, now: Now) -> Grant {
        let grant = self.charter.granted(&peer.id, &peer.credentials).unwrap_or(&peer.base);
        let (backend, egress) = &peer.disclosed;
        grant.at(now.unix()).disclosing(backend.as_deref(), *egress)
    }

    /// The grant in force, with the disclosure.
    pub(super) fn grant_of(&self, peer: &Peer, now: Now) -> Grant {
        let grant = self.own_grant(peer, now);
        match self.charter.hold_of(&peer.id, &peer.credentials) {
            Some(hold) => hold.of(grant),
            None => grant,
        }
    }

    /// Whether another agent has the floor.
    pub(super) fn is_hushed(&self, peer: &Peer) -> bool {
        peer.kind == Kind::Agent && self.floor.holder().is_some_and(|holder| holder != peer.id)
    }

    /// The grant in force, without what the floor takes from those who do not have it: what receivers go by.
    pub(super) fn heard_grant(&self, peer: &Peer, now: Now) -> Grant {
        let grant = self.grant_of(peer, now);
        if self.is_hushed(peer) { grant.without(&[Capability::SendChat, Capability::Speak]) } else { grant }
    }

    /// Holds a participant back, or lets them go on. In force at once; what they are granted stays.
    pub fn set_hold(&mut self, id: &str, hold: Option<Hold>, now: Now) -> Result<(), super::NoSuch> {
        if !self.knows(id) {
            return Err(super::NoSuch);
        }
        let credentials = self.credentials_of(id);
        self.charter.set_hold(id, &credentials, hold);
        self.note(id, hold.map_or("resumed", Hold::name), String::new(), now);
        self.mind_floor(now);
        self.tell_roster(now);
        Ok(())
    }

    /// Somebody is an agent from now on, whatever they say of themselves.
    pub fn set_agent(&mut self, id: &str, now: Now) -> Result<(), super::NoSuch> {
        if !self.knows(id) {
            return Err(super::NoSuch);
        }
        let credentials = self.credentials_of(id);
        self.charter.set_agent(id, &credentials);
        for peer in self.peers.values_mut() {
            if self.charter.is_agent(&peer.id, &peer.credentials) {
                super::admit::become_agent(peer);
            }
        }
        self.note(id, "agent", String::new(), now);
        self.tell_roster(now);
        Ok(())
    }

    /// An agent asks for the floor, or gives it back.
    pub(super) fn ask_floor(&mut self, conn: Conn, on: bool, now: Now) {
        let Some(peer) = self.peers.get(&conn) else { return };
        let id = peer.id.clone();
        if !on {
            self.floor.queue.retain(|waits| *waits != id);
            if self.floor.holder() == Some(&id) {
                self.floor.holder = None;
                self.mind_floor(now);
            }
            return;
        }
        if !peer.present {
            let words = "announce yourself first (`voice` with `on`): nobody speaks unseen";
            return self.refuse(conn, "floor", "absent", words, None);
        }
        if peer.kind == Kind::Human {
            return self.refuse(conn, "floor", "human", "people need no floor: it is for agents", None);
        }
        if !self.grant_of(peer, now).allows(Capability::SendChat, now.unix()) {
            let words = "this participant's grant does not include `send-chat`";
            return self.refuse(conn, "floor", Capability::SendChat.name(), words, None);
        }
        let until = now.mono.saturating_add(FLOOR_FOR);
        let Floor { holder, queue } = &mut self.floor;
        match holder {
            Some((holder, till)) if *holder == id => {
                // Who asks again keeps it while nobody else wants it.
                if queue.is_empty() {
                    *till = until;
                }
            }
            _ if queue.contains(&id) => {}
            _ if queue.len() >= MAX_QUEUE => {
                self.refuse(conn, "floor", "full", "too many agents wait for the floor", None);
            }
            _ => {
                queue.push_back(id);
                self.mind_floor(now);
            }
        }
    }

    /// Passes the floor on when its holder is gone, held back, or had it for long enough.
    pub(super) fn mind_floor(&mut self, now: Now) {
        let may = |room: &Self, id: &str| {
            let peer = room.inside.get(id).and_then(|conn| room.peers.get(conn)).filter(|peer| peer.present);
            peer.is_some_and(|peer| room.grant_of(peer, now).allows(Capability::SendChat, now.unix()))
        };
        if self.floor.holder.is_none() && self.floor.queue.is_empty() {
            return;
        }
        let before = self.floor.holder().map(str::to_owned);
        let keeps = |(id, until): &(String, Duration)| now.mono < *until && may(self, id);
        if !self.floor.holder.as_ref().is_some_and(keeps) {
            self.floor.holder = None;
            while let Some(next) = self.floor.queue.pop_front() {
                if may(self, &next) {
                    self.floor.holder = Some((next, now.mono.saturating_add(FLOOR_FOR)));
                    break;
                }
            }
        }
        if self.floor.holder() != before.as_deref() {
            self.tell_roster(now);
        }
    }
}
