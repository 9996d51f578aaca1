//! What is kept of a room, also over a restart of the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::MAX_BLOCKED;
use crate::Now;
use crate::admission::AgentKey;
use crate::credential::{CreditPolicy, IssuerPolicy};
use crate::grant::{Grant, Hold};
use crate::key::PublicKey;

/// Seconds for which guests of a kicked guest's network wait for a host.
const SUSPECT_FOR: i64 = 3_600;

/// How content travels in a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Through the hub.
    #[default]
    Relay,
    /// Directly between participants, over WebRTC.
    Mesh,
}

impl Transport {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Mesh => "mesh",
        }
    }

    /// The one of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Relay, Self::Mesh].into_iter().find(|transport| transport.name() == text)
    }
}

/// What is kept of a room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charter {
    /// Its name.
    pub name: String,
    /// How content travels.
    #[serde(default)]
    pub transport: Transport,
    /// Whether anybody may come in.
    #[serde(default)]
    pub open: bool,
    /// Whether a host decides about guests.
    #[serde(default)]
    pub lobby: bool,
    /// Whether nobody new is let in.
    #[serde(default)]
    pub locked: bool,
    /// The key under which its invites verify.
    pub key: PublicKey,
    /// The agents' keys.
    #[serde(default)]
    pub agent_keys: Vec<AgentKey>,
    /// The keys of hosts: commands that they signed are followed on the mesh.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_keys: Vec<PublicKey>,
    /// What of the fleet is posted into it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub posts: BTreeSet<Topic>,
    /// Grants that differ from the default, by participant.
    #[serde(default)]
    pub grants: BTreeMap<String, Grant>,
    /// The kicked participants, the credentials that they came with, and the invites that were revoked.
    #[serde(default)]
    pub blocked: Vec<String>,
    /// The credentials of those who were kicked or granted something: with another secret of their own they are another
    /// participant, and still whoever holds that invite or token.
    #[serde(default)]
    pub credentials: BTreeMap<String, Vec<String>>,
    /// Those whom a host paused or silenced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, Hold>,
    /// Those who are agents because a host said so.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub agents: BTreeSet<String>,
    /// Standing policies: agents for whom one of these issuers vouches come in without a step for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerPolicy>,
    /// What agents pay with, if they must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<CreditPolicy>,
    /// Networks from which a guest was kicked, and until when (Unix seconds) guests from there wait for a host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suspects: BTreeMap<IpAddr, i64>,
}

/// Something of the fleet that can be posted into a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// What probes and health rules find.
    Findings,
    /// Calls that wait for a person, and what they said.
    Approvals,
    /// Agents that go offline and come back.
    Offline,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 3] = [Self::Findings, Self::Approvals, Self::Offline];

    /// As it is spelled.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Findings => "findings",
            Self::Approvals => "approvals",
            Self::Offline => "offline",
        }
    }

    /// The topic of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == text)
    }
}

impl Charter {
    /// Keeps out a participant, and whoever comes with the same credentials.
    pub fn block(&mut self, id: &str, credentials: &[String]) {
        for name in std::iter::once(id).chain(credentials.iter().map(String::as_str)) {
            if self.blocked.iter().any(|blocked| blocked == name) {
                continue;
            }
            if self.blocked.len() >= MAX_BLOCKED {
                self.blocked.remove(0);
            }
            self.blocked.push(name.to_owned());
        }
        self.remember(id, credentials);
    }

    /// Lets a participant in again, with what they came with.
    pub fn unblock(&mut self, id: &str) {
        let credentials = self.credentials.get(id).cloned().unwrap_or_default();
        self.blocked.retain(|blocked| blocked != id && !credentials.contains(blocked));
        self.tidy();
    }

    /// Sets what a participant may, and whoever comes with the same credentials; with `None` what they have by default.
    pub fn set_grant(&mut self, id: &str, credentials: &[String], grant: Option<&Grant>) {
        for name in self.names(id, credentials) {
            match grant {
                Some(grant) => drop(self.grants.insert(name, grant.clone())),
                None => drop(self.grants.remove(&name)),
            }
        }
        if grant.is_some() {
            self.remember(id, credentials);
        }
        self.tidy();
    }

    /// Keeps guests from this network waiting for a host.
    pub(super) fn suspect(&mut self, network: IpAddr, now: Now) {
        self.suspects.retain(|_, until| *until > now.unix());
        if self.suspects.len() < MAX_BLOCKED {
            self.suspects.insert(network, now.unix() + SUSPECT_FOR);
        }
    }

    /// Whether a guest from this network waits for a host.
    pub(super) fn is_suspect(&self, network: Option<IpAddr>, now: Now) -> bool {
        network.and_then(|network| self.suspects.get(&network)).is_some_and(|until| *until > now.unix())
    }

    /// Whether whoever had this media peer was kicked.
    pub fn is_media_blocked(&self, media: &str) -> bool {
        self.blocked.iter().any(|blocked| blocked.strip_prefix(MEDIA) == Some(media))
    }

    /// Whether any of these is kept out.
    pub fn is_blocked(&self, id: &str, credentials: &[String]) -> bool {
        self.blocked.iter().any(|blocked| blocked == id || credentials.contains(blocked))
    }

    /// The grant that somebody gave a participant, or whoever comes with the same credentials.
    pub fn granted(&self, id: &str, credentials: &[String]) -> Option<&Grant> {
        let of_credentials = || credentials.iter().find_map(|name| self.grants.get(name));
        self.grants.get(id).or_else(of_credentials)
    }

    /// A participant with everything that they are known to come with.
    pub(super) fn names(&self, id: &str, credentials: &[String]) -> BTreeSet<String> {
        let known = self.credentials.get(id).into_iter().flatten();
        std::iter::once(id).chain(credentials.iter().chain(known).map(String::as_str)).map(str::to_owned).collect()
    }

    pub(super) fn remember(&mut self, id: &str, credentials: &[String]) {
        if !credentials.is_empty() {
            self.credentials.insert(id.to_owned(), credentials.to_vec());
        }
    }

    /// Forgets the credentials of those of whom nothing is kept any more.
    pub(super) fn tidy(&mut self) {
        let Self { credentials, grants, blocked, held, agents, .. } = self;
        let is_kept = |id: &String| {
            grants.contains_key(id) || blocked.contains(id) || held.contains_key(id) || agents.contains(id)
        };
        credentials.retain(|id, _| is_kept(id));
    }
}

/// Whether this names a credential, and no participant.
pub(crate) fn is_credential(name: &str) -> bool {
    [INVITE, TOKEN, SUBJECT, CERTIFICATE, MEDIA].iter().any(|prefix| name.starts_with(prefix))
}

/// What the name of an invite begins with, wherever it is blocked or granted something.
pub(super) const INVITE: &str = "invite:";
/// The same for an operator's token.
pub(super) const TOKEN: &str = "token:";
/// The same for whom an issuer vouches for.
pub(super) const SUBJECT: &str = "subject:";
/// The same for the certificate of a guest on the mesh.
pub(super) const CERTIFICATE: &str = "certificate:";
/// The same for a media peer. It only keeps out: its name is no proof of who somebody is, and brings no grant.
pub(super) const MEDIA: &str = "media:";
