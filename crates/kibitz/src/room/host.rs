//! What hosts are told beside everybody: who waits at the door, what everybody is granted, and the room's log.

use std::collections::BTreeMap;

use super::{AuditLine, Conn, Output, Room, Stage};
use crate::frame::{FromRelay, Knocker, LogLine};
use crate::grant::Grant;

/// What hosts are still to be told.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// Who waits, or what somebody is granted, may be different.
    pub(super) door_changed: bool,
    /// So many lines of the log are new.
    pub(super) fresh_lines: usize,
    /// Hosts that have just come and know nothing yet.
    pub(super) newcomers: Vec<Conn>,
    /// What everybody is granted, whether or not they are held back now.
    pub(super) grants: BTreeMap<String, Grant>,
    /// What hosts were told last.
    told: (Vec<Knocker>, BTreeMap<String, Grant>),
}

impl Room {
    /// Tells hosts what is new to them.
    pub(super) fn tell_hosts(&mut self) {
        let Desk { door_changed, fresh_lines, newcomers, grants, told } = std::mem::take(&mut self.desk);
        (self.desk.grants, self.desk.told) = (grants, told);
        let is_host = |conn: &Conn| self.peers.get(conn).is_some_and(|peer| peer.present && peer.is_host);
        let newcomers: Vec<Conn> = newcomers.into_iter().filter(is_host).collect();
        if !door_changed && fresh_lines == 0 && newcomers.is_empty() {
            return;
        }
        let others: Vec<Conn> =
            self.peers.keys().copied().filter(|conn| is_host(conn) && !newcomers.contains(conn)).collect();
        if door_changed {
            let now = (self.knockers(), self.desk.grants.clone());
            if now != self.desk.told {
                self.desk.told.clone_from(&now);
                let (waiting, grants) = now;
                self.tell(others.clone(), &FromRelay::Host { waiting, grants });
            }
        }
        if fresh_lines > 0 {
            let from = self.audit.len().saturating_sub(fresh_lines);
            let lines = self.audit.range(from..).map(written).collect();
            self.tell(others, &FromRelay::Log { lines });
        }
        if !newcomers.is_empty() {
            let lines = self.audit.iter().map(written).collect();
            let (waiting, grants) = self.desk.told.clone();
            self.tell(newcomers.clone(), &FromRelay::Host { waiting, grants });
            self.tell(newcomers, &FromRelay::Log { lines });
        }
    }

    fn tell(&mut self, hosts: Vec<Conn>, frame: &FromRelay) {
        if !hosts.is_empty() {
            self.out.push(Output::Send(hosts, frame.encode()));
        }
    }

    /// Who waits, each once however many connections they have.
    fn knockers(&self) -> Vec<Knocker> {
        let mut waiting: Vec<Knocker> = Vec::new();
        for peer in self.peers.values().filter(|peer| peer.stage == Stage::Waiting) {
            if waiting.iter().all(|one| one.id != peer.id) {
                let (id, name, kind) = (peer.id.clone(), peer.name.clone(), peer.kind.name().into());
                waiting.push(Knocker { id, name, kind });
            }
        }
        waiting
    }
}

fn written(line: &AuditLine) -> LogLine {
    LogLine {
        at: line.at.millis(),
        id: line.participant.clone(),
        name: line.name.clone(),
        kind: line.kind.into(),
        detail: line.detail.clone(),
    }
}
