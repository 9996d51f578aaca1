//! The Sonde agents that are known: by name, by key, by certificate; and the tokens that let one in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::effect::Effect;
use convoke_core::id::PeerId;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use convoke_sonde::attest::{Attestation, Change};
use convoke_sonde::manifest::Manifest;
use convoke_sonde::register::{Dialect, PackInfo, Register};
use convoke_store::{SondeAgentRow, SondeTokenRow};
use serde::{Deserialize, Serialize};

use super::ca::AgentKey;

/// Longest name that the hub puts into a sentence.
const MAX_LABEL: usize = 64;

/// An agent that answers probes, beside its entry among all agents: a Sonde agent, or a kenny agent that can.
#[derive(Debug)]
pub struct SondeAgent {
    /// Its id among all agents.
    pub id: PeerId,
    /// Its id on the wire: a UUID.
    pub wire_id: String,
    /// Its name.
    pub name: String,
    state: Arc<Mutex<SondeState>>,
}

/// What changes about it.
#[derive(Debug)]
pub struct SondeState {
    /// The hash of its API key. A machine that answers probes over another tunnel has none.
    pub key_hash: Option<TokenHash>,
    /// Its certificate's fingerprint.
    pub fingerprint: Option<[u8; 32]>,
    /// The key of its certificate.
    pub verifier: Option<Arc<AgentKey>>,
    /// Whether it made that key itself.
    pub own_key: bool,
    /// What it says.
    pub facts: Facts,
}

/// What an agent says about itself, and what was made of it. Kept as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// `linux x64`.
    pub os: String,
    /// The machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The agent's version.
    pub version: String,
    /// Which shape it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Its packs.
    pub packs: Vec<PackInfo>,
    /// Probes it announced by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Manifests of packs of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Manifest>,
    /// What it should say of itself.
    #[serde(skip_serializing_if = "Attestation::is_empty")]
    pub attested: Attestation,
    /// Whether `attested` is from the enrolment, before the agent ever ran.
    pub provisional: bool,
    /// What it says instead, until an operator accepts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Changed>,
    /// Whether it has ever named a request.
    pub names_requests: bool,
    /// Its certificate's public key, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

/// An attestation that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Since when.
    pub since: Timestamp,
    /// What differs.
    pub changes: Vec<Change>,
    /// All of it.
    pub now: Attestation,
}

impl SondeAgent {
    /// Its state. Never held across an await.
    pub fn state(&self) -> MutexGuard<'_, SondeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same in the name of a machine whose second tunnel it is.
    pub fn standing_for(&self, machine: &PeerId) -> Self {
        let name = machine.as_str().to_owned();
        Self { id: machine.clone(), wire_id: name.clone(), name, state: Arc::clone(&self.state) }
    }

    /// What it is called in the hub's own sentences: its name, if that is one word, and its id otherwise. An agent chooses
    /// its name, and a name may be a sentence, too.
    pub fn label(&self) -> &str {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-@:".contains(&b);
        let is_word = self.name.len() <= MAX_LABEL && self.name.bytes().all(plain);
        if is_word { &self.name } else { &self.wire_id }
    }

    /// Whether it decides by itself which files a probe may read. Ours do, and they alone make their own key.
    pub fn checks_paths(&self) -> bool {
        self.state().own_key
    }

    /// Whether it has loaded a pack.
    pub fn has_pack(&self, pack: &str) -> bool {
        self.state().facts.packs.iter().any(|p| p.name == pack)
    }

    /// Whether it can be asked for a probe, as far as it says.
    pub fn offers(&self, probe: &str) -> bool {
        self.has_pack(probe.split('.').next().unwrap_or_default())
            || self.state().facts.capabilities.iter().any(|name| name == probe)
    }

    /// Whether it certainly cannot be asked for a probe: one of a built-in pack that it has not loaded.
    pub fn lacks(&self, probe: &str) -> bool {
        super::packs::find(probe).is_some() && !self.offers(probe)
    }

    /// What a probe of it may do, as far as anyone says.
    pub fn effect_of(&self, probe: &str) -> Effect {
        let state = self.state();
        let own = state.facts.manifests.iter().find_map(|m| m.find(probe));
        own.map(|p| p.capability).or_else(|| super::packs::find(probe).map(|(_, p)| p.capability)).unwrap_or(
            // A pack that nobody described may do anything: it is asked for as if it did.
            Effect::Manage,
        )
    }
}

impl Facts {
    /// Takes over what a registration says.
    pub fn take(&mut self, register: &Register) {
        self.os.clone_from(&register.os);
        self.hostname.clone_from(&register.hostname);
        self.version.clone_from(&register.version);
        self.dialect = Some(register.dialect);
        self.packs.clone_from(&register.packs);
        self.capabilities.clone_from(&register.capabilities);
        self.manifests.clone_from(&register.manifests);
    }

    /// Compares what the agent attests now. True when the agent is not what it should be.
    pub fn attest(&mut self, register: &Register, enrolling: bool, at: Timestamp) -> bool {
        let now = &register.attestation;
        if enrolling || self.attested.is_empty() {
            self.attested = now.clone();
            self.provisional = enrolling;
            self.changed = None;
            return false;
        }
        let mut changes = now.changes_since(&self.attested, self.version != register.version);
        if self.provisional {
            // Enrolling writes the agent's configuration and may load other packs than running: that is no change.
            changes.retain(|c| !matches!(c.field.as_str(), "configHash" | "installedPacks"));
        }
        if changes.is_empty() {
            self.attested = now.clone();
            self.provisional = false;
            self.changed = None;
            return false;
        }
        let since = self.changed.as_ref().map_or(at, |c| c.since);
        self.changed = Some(Changed { since, changes, now: now.clone() });
        true
    }

    /// An operator accepts the agent as it is now. False when there is nothing to accept.
    pub fn accept(&mut self) -> bool {
        let Some(changed) = self.changed.take() else { return false };
        self.attested = changed.now;
        self.provisional = false;
        true
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Registry {
    known: RwLock<Known>,
    tokens: Mutex<HashMap<TokenHash, SondeTokenRow>>,
    /// How often someone with a token was refused; only of tokens that are known.
    refusals: Mutex<HashMap<TokenHash, u32>>,
}

/// What a token is called where people read: the beginning of its hash.
pub fn token_label(token: &TokenHash) -> String {
    format!("{}…", hex::encode(&token.0[..4]))
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<PeerId, Arc<SondeAgent>>,
    by_name: HashMap<String, Arc<SondeAgent>>,
    by_key: HashMap<TokenHash, Arc<SondeAgent>>,
    by_cert: HashMap<[u8; 32], Arc<SondeAgent>>,
}

/// Most enrolment tokens that are remembered; minting one more needs some to lapse.
pub const MAX_TOKENS: usize = 10_000;

impl Registry {
    /// Starts from what is stored.
    pub fn load(agents: Vec<SondeAgentRow>, tokens: Vec<SondeTokenRow>) -> Self {
        let registry = Self::default();
        for row in agents {
            registry.put(row);
        }
        registry.lock_tokens().extend(tokens.into_iter().map(|t| (t.hash, t)));
        registry
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_tokens(&self) -> MutexGuard<'_, HashMap<TokenHash, SondeTokenRow>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an agent in, in place of an older entry of the same id.
    pub fn put(&self, row: SondeAgentRow) -> Arc<SondeAgent> {
        let facts = facts_of(&row.facts);
        let key = facts.public_key.as_deref().and_then(|key| STANDARD.decode(key).ok());
        let wire_id = row.id.as_str().strip_prefix("sonde:").unwrap_or(row.id.as_str()).to_owned();
        let agent = Arc::new(SondeAgent {
            wire_id,
            id: row.id,
            name: row.name,
            state: Arc::new(Mutex::new(SondeState {
                key_hash: Some(row.key_hash),
                fingerprint: row.cert_fingerprint,
                verifier: key.map(AgentKey::new),
                own_key: row.own_key,
                facts,
            })),
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.forget(&agent.id);
        known.by_id.insert(agent.id.clone(), Arc::clone(&agent));
        known.by_name.insert(agent.name.clone(), Arc::clone(&agent));
        known.by_key.insert(row.key_hash, Arc::clone(&agent));
        if let Some(fingerprint) = row.cert_fingerprint {
            known.by_cert.insert(fingerprint, Arc::clone(&agent));
        }
        agent
    }

    /// Takes over what the store has of an agent that another hub changed. One that is the same agent still keeps its entry.
    pub fn follow(&self, row: SondeAgentRow) {
        let known = self.find(&row.id).filter(|known| {
            let state = known.state();
            known.name == row.name
                && state.key_hash == Some(row.key_hash)
                && state.fingerprint == row.cert_fingerprint
                && state.own_key == row.own_key
        });
        match known {
            Some(known) => known.state().facts = facts_of(&row.facts),
            None => drop(self.put(row)),
        }
    }

    /// Takes over the enrolment tokens that the store has.
    pub fn follow_tokens(&self, rows: Vec<SondeTokenRow>) {
        *self.lock_tokens() = rows.into_iter().map(|row| (row.hash, row)).collect();
    }

    /// Takes in a kenny agent that answers probes; `listed` is what it says that it has.
    pub fn put_machine(&self, id: &PeerId, about: &convoke_kenny::frame::Meta, listed: Option<Register>) {
        let mut facts = Facts::default();
        if let Some(register) = &listed {
            facts.take(register);
        }
        facts.os = [about.os.as_str(), about.arch.as_deref().unwrap_or_default()].join(" ").trim().to_owned();
        facts.hostname = Some(about.hostname.clone());
        facts.version.clone_from(&about.version);
        let state = SondeState { key_hash: None, fingerprint: None, verifier: None, own_key: false, facts };
        let name = id.as_str().to_owned();
        let agent = SondeAgent { wire_id: name.clone(), id: id.clone(), name, state: Arc::new(Mutex::new(state)) };
        self.known.write().unwrap_or_else(PoisonError::into_inner).by_id.insert(id.clone(), Arc::new(agent));
    }

    /// A kenny agent answers no probes any more.
    pub fn forget_machine(&self, id: &PeerId) {
        if self.find(id).is_some() {
            self.remove(id);
        }
    }

    /// An agent was removed.
    pub fn remove(&self, id: &PeerId) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).forget(id);
    }

    /// By its id among all agents.
    pub fn find(&self, id: &PeerId) -> Option<Arc<SondeAgent>> {
        self.read().by_id.get(id).cloned()
    }

    /// By its id, here or on the wire, or by its name. The id goes first: an agent that calls itself by another's id must
    /// not be asked in its place.
    pub fn named(&self, name_or_id: &str) -> Option<Arc<SondeAgent>> {
        let known = self.read();
        let by_id = known.by_id.get(format!("sonde:{name_or_id}").as_str()).or_else(|| known.by_id.get(name_or_id));
        by_id.or_else(|| known.by_name.get(name_or_id)).cloned()
    }

    /// Whose this name is.
    pub fn of_name(&self, name: &str) -> Option<Arc<SondeAgent>> {
        self.read().by_name.get(name).cloned()
    }

    /// Whether an agent has a name that a person would take for this one.
    pub fn has_alike(&self, name: &str) -> bool {
        let asked = folded(name);
        self.read().by_name.keys().any(|known| folded(known) == asked)
    }

    /// By its API key.
    pub fn of_key(&self, key: &TokenHash) -> Option<Arc<SondeAgent>> {
        self.read().by_key.get(key).cloned()
    }

    /// By its certificate.
    pub fn of_cert(&self, fingerprint: &[u8; 32]) -> Option<Arc<SondeAgent>> {
        self.read().by_cert.get(fingerprint).cloned()
    }

    /// All, by name.
    pub fn list(&self) -> Vec<Arc<SondeAgent>> {
        let mut all: Vec<_> = self.read().by_id.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Whether a token would still let someone in.
    pub fn token_is_live(&self, token: &TokenHash, now: Timestamp) -> bool {
        self.lock_tokens().get(token).is_some_and(|t| t.used_at.is_none() && now < t.expires_at)
    }

    /// Whether a token was minted for this very name.
    pub fn token_names(&self, token: &TokenHash, name: &str) -> bool {
        self.lock_tokens().get(token).is_some_and(|t| t.name.as_deref() == Some(name))
    }

    /// Takes a token in; false when there are too many. Lapsed ones go first.
    pub fn add_token(&self, token: SondeTokenRow, now: Timestamp) -> bool {
        let mut tokens = self.lock_tokens();
        if tokens.len() >= MAX_TOKENS {
            tokens.retain(|_, t| t.used_at.is_none() && now < t.expires_at);
        }
        let room = tokens.len() < MAX_TOKENS;
        if room {
            tokens.insert(token.hash, token);
        }
        room
    }

    /// A token could not be kept: it is none.
    pub fn drop_token(&self, token: &TokenHash) {
        self.lock_tokens().remove(token);
    }

    /// A token was used.
    pub fn token_used(&self, token: &TokenHash, at: Timestamp, by: &PeerId) {
        if let Some(token) = self.lock_tokens().get_mut(token) {
            token.used_at = Some(at);
            token.used_by = Some(by.clone());
        }
    }

    /// Someone with this token was refused; how often that makes.
    pub fn token_refused(&self, token: &TokenHash) -> u32 {
        let tokens = self.lock_tokens();
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.retain(|token, _| tokens.contains_key(token));
        let count = refusals.entry(*token).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// The tokens, newest first.
    pub fn tokens(&self) -> Vec<SondeTokenRow> {
        let mut all: Vec<_> = self.lock_tokens().values().cloned().collect();
        all.sort_by_key(|t| std::cmp::Reverse(t.created_at));
        all
    }
}

impl Known {
    fn forget(&mut self, id: &PeerId) {
        if let Some(old) = self.by_id.remove(id) {
            // A machine without a key has no name here, and another agent may have the name that is its id.
            let state = old.state();
            if let Some(key_hash) = &state.key_hash {
                self.by_name.remove(&old.name);
                self.by_key.remove(key_hash);
            }
            if let Some(fingerprint) = &state.fingerprint {
                self.by_cert.remove(fingerprint);
            }
        }
    }
}

/// What is kept of an agent.
fn facts_of(text: &str) -> Facts {
    let mut facts: Facts = serde_json::from_str(text).unwrap_or_default();
    // They may have been kept by a version that let more pass.
    facts.manifests.retain(|manifest| manifest.check().is_ok());
    facts
}

/// A name as a person reads it: whatever the case, the kind of dash and of white space, and what cannot be seen.
fn folded(name: &str) -> String {
    let seen = name.chars().filter(|c| !c.is_whitespace() && !c.is_control() && !is_invisible(*c));
    let plain = seen.map(|c| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' | '_' => '-',
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        other => other,
    });
    plain.flat_map(char::to_lowercase).collect()
}

const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_told() {
        for alike in ["WEB-1", "web-1 ", "web\u{2011}1", "web\u{2212}1", "w\u{200b}eb-1", "\u{ff37}eb-1", "web_1"] {
            assert_eq!(folded(alike), "web-1", "{alike:?}");
        }
        for other in ["web-2", "web1", "web-11"] {
            assert_ne!(folded(other), "web-1", "{other:?}");
        }
    }

    fn put(name: &str, facts: &str) -> Arc<SondeAgent> {
        let id = PeerId::parse("sonde:0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d").expect("an id");
        Registry::default().put(SondeAgentRow {
            id,
            name: name.into(),
            key_hash: TokenHash([0; 32]),
            cert_pem: None,
            cert_fingerprint: None,
            own_key: false,
            facts: facts.into(),
        })
    }

    #[test]
    fn a_manifest_that_was_kept_when_more_passed_describes_nothing() {
        let facts = |param: &str| {
            let probe = serde_json::json!({ "name": "look", "description": "d", "capability": "observe",
                "params": { param: { "type": "string" } } });
            let manifest =
                serde_json::json!({ "name": "own", "version": "1.0.0", "description": "d", "probes": [probe] });
            serde_json::json!({ "os": "linux", "version": "1", "manifests": [manifest] }).to_string()
        };
        assert_eq!(put("web-1", &facts("path")).effect_of("own.look"), Effect::Observe);
        assert_eq!(put("web-1", &facts("a\nb")).effect_of("own.look"), Effect::Manage);
    }

    #[test]
    fn a_name_that_is_a_sentence_stays_out_of_the_hubs() {
        assert_eq!(put("web-1.example", "{}").label(), "web-1.example");
        for name in ["gone. The hub: approved", "a\u{202e}b", &"x".repeat(65)] {
            assert_eq!(put(name, "{}").label(), "0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d", "{name}");
        }
    }
}
