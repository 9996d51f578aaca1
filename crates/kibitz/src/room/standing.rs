//! Agents that somebody outside vouches or pays for (contract, section 5): a standing policy admits whom an issuer vouches
//! for, and a room may ask agents for a credit. Both run out: who does not bring more in time is removed, and may come again.

use sha2::{Digest as _, Sha256};

use super::admit::{Identity, id};
use super::{Conn, Output, Peer, Room, SUBJECT, Stage, Via};
use crate::Now;
use crate::admission::Refused;
use crate::close;
use crate::credential::{
    Credit, CreditPolicy, IssuerPolicy, NotYet, REAP_LEEWAY_S, Workload, check_credit, check_workload, is_jwt,
};
use crate::frame::{Announce, FromRelay};
use crate::grant::{Grant, Kind};
use crate::key::Verifier;

/// Standing policies of one room.
pub const MAX_ISSUERS: usize = 16;

/// What somebody came with that runs out, in seconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct RunsOut {
    /// Who vouches for it, and until when.
    workload: Option<Workload>,
    /// The policy that takes that.
    policy: Option<[u8; 32]>,
    /// Until when it has paid.
    pub(super) credit: Option<i64>,
}

impl Room {
    /// The keys that it takes to decide are not known yet: the room looks again by itself.
    pub(super) fn ask_again(&mut self, conn: Conn, voice: Option<(bool, bool)>, announce: Announce) {
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.later = Some((voice, announce));
        }
    }

    /// Does what is due and needs the hub's word: looks again at who waits for keys, puts out whose pass is void and whose
    /// time has run out.
    pub fn check(&mut self, verifier: &dyn Verifier, now: Now) {
        self.check_passes(verifier, now);
        let fresh = self.peers.iter_mut().filter(|(_, peer)| peer.stage == Stage::Fresh);
        let again: Vec<_> = fresh.filter_map(|(conn, peer)| Some((*conn, peer.later.take()?))).collect();
        for (conn, (voice, announce)) in again {
            self.knock(conn, voice, announce, verifier, now);
        }
        self.reap(now);
    }

    /// Who an issuer vouches for, if one of the room's policies takes that.
    pub(super) fn vouched_for(
        &self,
        text: &str,
        peer: &Peer,
        guest: &str,
        said: Option<String>,
        verifier: &dyn Verifier,
        now: Now,
    ) -> Result<Identity, NotYet> {
        let (policy, workload) = self.workload(text, &peer.fingerprint, verifier, now)?;
        let room = &self.charter.name;
        let Workload { issuer, subject, .. } = &workload;
        Ok(Identity {
            // Several may come under one subject, as jobs do: each is told from the others by its own secret.
            id: id("workload", &[room, issuer, subject, guest]),
            credentials: vec![subject_name(issuer, subject)],
            name: said.or_else(|| policy.label.as_deref().and_then(super::admit::clean_name)),
            kind: Kind::Agent,
            via: Via::Issuer,
            is_host: false,
            base: policy.caps.clone().unwrap_or_else(|| Grant::default_of(Kind::Agent)),
            pass: None,
            runs_out: RunsOut { workload: Some(workload), policy: Some(digest(policy)), credit: None },
        })
    }

    fn workload(
        &self,
        text: &str,
        fingerprint: &str,
        verifier: &dyn Verifier,
        now: Now,
    ) -> Result<(&IssuerPolicy, Workload), NotYet> {
        let room = &self.charter.name;
        let mut why = NotYet::Refused(Refused::UnknownKey);
        for policy in &self.charter.issuers {
            match check_workload(text, policy, room, fingerprint, now.unix(), verifier) {
                Ok(workload) => return Ok((policy, workload)),
                Err(NotYet::Unknown) => why = NotYet::Unknown,
                Err(NotYet::Refused(_)) => {}
            }
        }
        Err(why)
    }

    /// Where agents must pay and no keys are listed, a credit lets them in, too.
    pub(super) fn paying(
        &self,
        announce: &Announce,
        kind: Kind,
        guest: &str,
        said: Option<String>,
        verifier: &dyn Verifier,
        now: Now,
    ) -> Result<Option<Identity>, NotYet> {
        let charter = &self.charter;
        let is_gate = !charter.open && charter.agent_keys.is_empty() && charter.issuers.is_empty();
        let (Some(policy), Some(text)) = (&charter.credits, announce.agent_credit.as_deref()) else {
            return Ok(None);
        };
        if !is_gate || kind == Kind::Human {
            return Ok(None);
        }
        let Credit { sub, .. } = check_credit(text, policy, &charter.name, now.unix(), verifier)?;
        Ok(Some(Identity {
            id: id("paying", &[&charter.name, &sub, guest]),
            credentials: vec![subject_name("", &sub)],
            name: said,
            kind: Kind::Agent,
            via: Via::Credit,
            is_host: false,
            base: Grant::default_of(Kind::Agent),
            pass: None,
            runs_out: RunsOut::default(),
        }))
    }

    /// Until when an agent has paid. `None`: it need not. Operators' agents are at home.
    pub(super) fn paid(
        &self,
        identity: &Identity,
        announce: &Announce,
        verifier: &dyn Verifier,
        now: Now,
    ) -> Result<Option<i64>, NotYet> {
        let Some(policy) = self.charter.credits.as_ref().filter(|_| pays(identity.kind, identity.via)) else {
            return Ok(None);
        };
        let text = announce.agent_credit.as_deref().ok_or(Refused::Malformed)?;
        Ok(Some(check_credit(text, policy, &self.charter.name, now.unix(), verifier)?.exp))
    }

    /// Somebody who is in announces itself again, and may bring more of what runs out.
    pub(super) fn renew(&mut self, conn: Conn, announce: &Announce, verifier: &dyn Verifier, now: Now) {
        let Some(peer) = self.peers.get(&conn) else { return };
        let mut runs_out = peer.runs_out.clone();
        if let (Some(before), Some(text)) = (&runs_out.workload, announce.jwt.as_deref().filter(|text| is_jwt(text)))
            && let Ok((_, after)) = self.workload(text, &peer.fingerprint, verifier, now)
            && (&after.issuer, &after.subject) == (&before.issuer, &before.subject)
        {
            runs_out.workload = Some(after);
        }
        if let (Some(policy), Some(text)) = (&self.charter.credits, announce.agent_credit.as_deref())
            && pays(peer.kind, peer.via)
            && let Ok(credit) = check_credit(text, policy, &self.charter.name, now.unix(), verifier)
        {
            runs_out.credit = Some(credit.exp);
        }
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.runs_out = runs_out;
        }
    }

    /// Removes whose time has run out. Nobody is kept out by this.
    fn reap(&mut self, now: Now) {
        let is_paid_for = self.charter.credits.is_some();
        let mut over = Vec::new();
        for (conn, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.stage != Stage::Fresh) {
            let is_over = |until: i64| now.unix() >= until.saturating_add(REAP_LEEWAY_S);
            let unpaid = is_paid_for && pays(peer.kind, peer.via) && {
                // Who was in before the room asked for credits, or is an agent since just now, has that long to bring one.
                is_over(*peer.runs_out.credit.get_or_insert_with(|| now.unix()))
            };
            if unpaid || peer.runs_out.workload.as_ref().is_some_and(|workload| is_over(workload.exp)) {
                over.push(*conn);
            }
        }
        for conn in over {
            let id = self.peers.get(&conn).map(|peer| peer.id.clone()).unwrap_or_default();
            self.note(&id, "lapsed", String::new(), now);
            self.put_out(conn, now);
        }
    }

    fn put_out(&mut self, conn: Conn, now: Now) {
        self.send(conn, &FromRelay::Lapsed);
        self.out.push(Output::Close(conn, close::UNVERIFIED));
        self.forget(conn, "left", now);
    }

    /// Puts other standing policies in force, and whether agents pay. Who came by a policy that is not among them any more
    /// is out at once.
    pub fn set_admission(&mut self, issuers: Vec<IssuerPolicy>, credits: Option<CreditPolicy>, now: Now) {
        self.charter.issuers = issuers;
        self.charter.credits = credits;
        let mut out = Vec::new();
        let there: Vec<[u8; 32]> = self.charter.issuers.iter().map(digest).collect();
        for (conn, peer) in self.peers.iter().filter(|(_, peer)| peer.via == Via::Issuer) {
            if !peer.runs_out.policy.is_some_and(|policy| there.contains(&policy)) {
                out.push(*conn);
            }
        }
        for conn in out {
            self.put_out(conn, now);
        }
        self.tell_roster(now);
    }
}

/// Whether somebody pays where agents do.
fn pays(kind: Kind, via: Via) -> bool {
    kind == Kind::Agent && via != Via::Operator
}

/// Tells a policy from others.
fn digest(policy: &IssuerPolicy) -> [u8; 32] {
    Sha256::digest(serde_json::to_string(policy).unwrap_or_default()).into()
}

/// What somebody is named by for whom an issuer vouches: their name there is not for everybody to read.
fn subject_name(issuer: &str, subject: &str) -> String {
    let digest = Sha256::new_with_prefix(issuer).chain_update([0]).chain_update(subject).finalize();
    format!("{SUBJECT}{}", hex::encode(digest))
}
