//! The actions of hosts and operators: grants, the lobby, the lock, kicking.

use super::admit::invite_names;
use super::{Charter, Conn, Event, MAX_GRANTS, Output, Room, Stage};
use crate::Now;
use crate::admission::{AgentKey, Invite};
use crate::close;
use crate::frame::{FromRelay, Lobby, Moderation};
use crate::grant::{Grant, Hold};
use crate::key::Verifier;

/// There is no such participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such participant in this room")]
pub struct NoSuch;

/// The decision about a waiting participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// They may come in; a kick is taken back.
    Admit,
    /// They may not.
    Deny,
}

impl Room {
    /// A host's command.
    pub(super) fn moderate(
        &mut self,
        conn: Conn,
        op: Moderation,
        target: Option<&str>,
        grant: Option<Grant>,
        now: Now,
    ) {
        let Some(peer) = self.peers.get(&conn) else { return };
        if !peer.is_host {
            return self.refuse(conn, op.name(), "host", "only a host of the room may do this", None);
        }
        let by = peer.id.clone();
        if op == Moderation::Grant {
            return self.grant_by(conn, &by, target.unwrap_or_default(), grant, now);
        }
        if self.is_full(op, target) {
            let words = "the room keeps as many of these as it may; take one back first";
            return self.refuse(conn, op.name(), "full", words, None);
        }
        if self.command(op, target, &by, now).is_err() {
            self.refuse(conn, op.name(), "unknown", "there is nobody of this id", None);
        }
    }

    /// Does what a host said, and records who.
    pub fn command(&mut self, op: Moderation, target: Option<&str>, by: &str, now: Now) -> Result<(), NoSuch> {
        let by = by.to_owned();
        match (op, target) {
            (Moderation::Admit, Some(target)) => self.decide(target, Decision::Admit, now),
            (Moderation::Deny, Some(target)) => self.decide(target, Decision::Deny, now),
            (Moderation::Kick, Some(target)) => self.kick(target, now),
            (Moderation::Pause, Some(target)) => self.set_hold(target, Some(Hold::Paused), now),
            (Moderation::Silence, Some(target)) => self.set_hold(target, Some(Hold::Silenced), now),
            (Moderation::Resume, Some(target)) => self.set_hold(target, None, now),
            (Moderation::Agent, Some(target)) => self.set_agent(target, now),
            (
                Moderation::Admit
                | Moderation::Deny
                | Moderation::Kick
                | Moderation::Pause
                | Moderation::Silence
                | Moderation::Resume
                | Moderation::Agent,
                None,
            )
            | (Moderation::Grant, _) => Err(NoSuch),
            (Moderation::Claim, _) => {
                self.host = Some(by.clone());
                self.tell_roster(now);
                Ok(())
            }
            (Moderation::LobbyOn, _) => {
                self.set_lobby(true, now);
                Ok(())
            }
            (Moderation::LobbyOff, _) => {
                self.set_lobby(false, now);
                Ok(())
            }
            (Moderation::Lock, _) => {
                self.set_locked(true, now);
                Ok(())
            }
            (Moderation::Unlock, _) => {
                self.set_locked(false, now);
                Ok(())
            }
            (Moderation::Reset, _) => {
                let all = self.inside.values().copied().collect();
                self.out.push(Output::Send(all, FromRelay::Reset.encode()));
                Ok(())
            }
        }?;
        self.did(op, target.unwrap_or_default(), by, None);
        Ok(())
    }

    /// A host sets what somebody may. Nobody sets it for themselves: who took it from a host meant it.
    fn grant_by(&mut self, conn: Conn, by: &str, target: &str, grant: Option<Grant>, now: Now) {
        if target == by {
            return self.refuse(conn, "grant", "self", "nobody changes their own grant", None);
        }
        let (grants, is_new) = (&self.charter.grants, !self.charter.grants.contains_key(target));
        if grant.is_some() && is_new && grants.len() >= MAX_GRANTS {
            return self.refuse(conn, "grant", "full", "the room keeps no more grants: reset others first", None);
        }
        // Without a disclosure: that is the participant's own to make.
        let grant = grant.map(|grant| Grant::of(grant.named()).until(grant.expires_at));
        let detail = super::show::in_words(grant.as_ref());
        if self.set_grant(target, grant, now).is_err() {
            return self.refuse(conn, "grant", "unknown", "there is nobody of this id", None);
        }
        self.did(Moderation::Grant, target, by.to_owned(), Some(detail));
    }

    /// Keeps and records what a host did.
    fn did(&mut self, op: Moderation, target: &str, by: String, detail: Option<String>) {
        self.out.push(Output::Changed);
        let event = Event {
            what: op.name(),
            participant: target.into(),
            name: String::new(),
            via: "host",
            by: Some(by),
            detail,
        };
        self.out.push(Output::Record(event));
    }

    /// Whether the room keeps as much of what this command adds as it may.
    fn is_full(&self, op: Moderation, target: Option<&str>) -> bool {
        let Charter { held, agents, .. } = &self.charter;
        let target = target.unwrap_or_default();
        match op {
            Moderation::Pause | Moderation::Silence => held.len() >= MAX_GRANTS && !held.contains_key(target),
            Moderation::Agent => agents.len() >= MAX_GRANTS && !agents.contains(target),
            _ => false,
        }
    }

    /// Turns the lobby on or off. Those who are in stay in; off lets in who waits.
    pub fn set_lobby(&mut self, on: bool, now: Now) {
        self.charter.lobby = on;
        self.admit_unsuspected(now);
        self.tell_roster(now);
    }

    /// Lets in who waits, where there is no lobby, but for those from networks of kicked guests.
    pub(super) fn admit_unsuspected(&mut self, now: Now) {
        if self.charter.lobby {
            return;
        }
        for conn in self.waiting() {
            let peer = &self.peers[&conn];
            if peer.via != super::Via::Open || !self.charter.is_suspect(peer.network, now) {
                self.enter(conn, now);
            }
        }
    }

    /// Lets nobody new in, or does again.
    pub fn set_locked(&mut self, locked: bool, now: Now) {
        self.charter.locked = locked;
        self.tell_roster(now);
    }

    fn waiting(&self) -> Vec<Conn> {
        let waits = self.peers.iter().filter(|(_, peer)| peer.stage == Stage::Waiting);
        waits.map(|(conn, _)| *conn).collect()
    }

    /// Lets in who waits, or turns them away. One who was kicked may come again once they were admitted.
    pub fn decide(&mut self, id: &str, decision: Decision, now: Now) -> Result<(), NoSuch> {
        let waiting: Vec<Conn> = self.waiting().into_iter().filter(|c| self.peers[c].id == id).collect();
        let was_blocked = self.charter.blocked.iter().any(|blocked| blocked == id);
        match decision {
            Decision::Admit => {
                if waiting.is_empty() && !was_blocked {
                    return Err(NoSuch);
                }
                self.charter.unblock(id);
                // Bounded like those whom a locked room knows; more of them just wait again.
                if self.approved.len() < super::MAX_SEEN {
                    self.approved.insert(id.to_owned());
                }
                self.note(id, "admitted", String::new(), now);
                for conn in waiting {
                    self.enter(conn, now);
                }
            }
            Decision::Deny => {
                if waiting.is_empty() {
                    return Err(NoSuch);
                }
                self.note(id, "denied", String::new(), now);
                self.desk.door_changed = true;
                for conn in waiting {
                    self.send(conn, &FromRelay::Lobby(Lobby::Denied));
                    self.out.push(Output::Close(conn, close::KICKED));
                    self.peers.remove(&conn);
                }
            }
        }
        Ok(())
    }

    /// Removes somebody, and keeps them out.
    pub fn kick(&mut self, id: &str, now: Now) -> Result<(), NoSuch> {
        if !self.knows(id) {
            return Err(NoSuch);
        }
        let mut credentials = self.credentials_of(id);
        if let Some(peer) = self.peers.values().find(|peer| peer.id == id) {
            credentials.extend(peer.media.iter().map(|media| format!("{}{media}", super::MEDIA)));
            // A guest who drops all of that is a new one, but for the network.
            if let Some(network) = peer.network.filter(|_| peer.via == super::Via::Open) {
                self.charter.suspect(network, now);
            }
        }
        self.charter.block(id, &credentials);
        self.approved.remove(id);
        self.note(id, "kicked", String::new(), now);
        self.close_blocked(now);
        Ok(())
    }

    /// What a participant came with, if that is known.
    pub fn credentials_of(&self, id: &str) -> Vec<String> {
        let here = self.peers.values().find(|peer| peer.id == id).map(|peer| &peer.credentials);
        here.or_else(|| self.came_with.get(id))
            .or_else(|| self.charter.credentials.get(id))
            .cloned()
            .unwrap_or_default()
    }

    /// Revokes an invite by its id: its holders are out, and nobody comes in with it.
    pub fn revoke_invite(&mut self, invite: &str, now: Now) {
        self.charter.block(&format!("{}{invite}", super::INVITE), &[]);
        self.close_blocked(now);
    }

    /// Whether somebody may come in with this invite, or pass, as far as it says.
    pub fn takes_invite(&self, text: &str, verifier: &dyn Verifier, now: Now) -> bool {
        let room = &self.charter.name;
        let invite = Invite::check(text, &self.charter.key, room, now.unix(), verifier);
        invite.is_ok_and(|invite| {
            let is_operators = invite.operator.as_ref().is_none_or(|of| verifier.operator(room, of).is_some());
            is_operators && !self.charter.is_blocked("", &invite_names(text))
        })
    }

    /// Closes the connections of those who are kept out.
    fn close_blocked(&mut self, now: Now) {
        let is_out =
            |peer: &super::Peer| peer.stage != Stage::Fresh && self.charter.is_blocked(&peer.id, &peer.credentials);
        let conns: Vec<Conn> = self.peers.iter().filter(|(_, peer)| is_out(peer)).map(|(conn, _)| *conn).collect();
        for conn in conns {
            self.send(conn, &FromRelay::Kick);
            self.out.push(Output::Close(conn, close::KICKED));
            self.forget(conn, "left", now);
        }
    }

    /// Whether this id is somebody: in, waiting, kicked, granted something, or the holder of a key.
    pub fn knows(&self, id: &str) -> bool {
        self.peers.values().any(|peer| peer.id == id && peer.stage != Stage::Fresh)
            || self.charter.grants.contains_key(id)
            || self.charter.blocked.iter().any(|blocked| blocked == id)
            || self.charter.held.contains_key(id)
            || self.charter.agents.contains(id)
            || self.key_holders().any(|(holder, _)| holder == id)
    }

    /// The agents that the room has keys of, by their ids.
    pub fn key_holders(&self) -> impl Iterator<Item = (String, &AgentKey)> {
        let name = &self.charter.name;
        self.charter.agent_keys.iter().map(|key| (super::admit::agent_id(name, &key.key.thumbprint()), key))
    }

    /// Sets what somebody may, or with `None` goes back to what they have by default. In force at once.
    pub fn set_grant(&mut self, id: &str, grant: Option<Grant>, now: Now) -> Result<(), NoSuch> {
        if !self.knows(id) {
            return Err(NoSuch);
        }
        let detail = super::show::in_words(grant.as_ref());
        let credentials = self.credentials_of(id);
        self.charter.set_grant(id, &credentials, grant.as_ref());
        self.note(id, "granted", detail, now);
        self.mind_floor(now);
        self.tell_roster(now);
        Ok(())
    }

    /// Puts another list of agent keys in force. Whose key is gone is out at once; whose caps changed has the new ones.
    pub fn set_keys(&mut self, keys: Vec<AgentKey>, now: Now) {
        self.charter.agent_keys = keys;
        let holders: std::collections::BTreeMap<String, Option<Grant>> =
            self.key_holders().map(|(id, key)| (id, key.caps.clone())).collect();
        let mut gone = Vec::new();
        for (conn, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.via == super::Via::Key) {
            match holders.get(&peer.id) {
                Some(caps) => {
                    peer.base = caps.clone().unwrap_or_else(|| Grant::default_of(peer.kind));
                }
                None if peer.stage == Stage::In => gone.push(*conn),
                None => {}
            }
        }
        for conn in gone {
            self.send(conn, &FromRelay::Kick);
            self.out.push(Output::Close(conn, close::UNVERIFIED));
            self.forget(conn, "left", now);
        }
        self.tell_roster(now);
    }
}
