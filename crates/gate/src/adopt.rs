//! The agent that runs beside the hub: enrolled without a person, since whoever runs the hub owns this machine as well.
//! The same token, the same binding and the same records as any other enrolment, only nobody has to carry the token.

use std::sync::Arc;

use convoke_core::door::Door;
use convoke_core::id::PeerId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::peer::{Trust, TrustEvent};
use convoke_store::{EnrolOutcome, StoreError};
use ed25519_dalek::VerifyingKey;
use serde_json::json;

use crate::clock;
use crate::hub::Hub;

/// Whether the key was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The key is bound, now or since before.
    Yes,
    /// An operator has revoked this agent; that stands.
    Revoked,
    /// Another machine is connected under this id.
    Taken,
    /// The key was revoked or replaced before: a new one is needed.
    OldKey,
}

impl Hub {
    /// Binds the key of the agent beside the hub.
    pub async fn adopt(&self, id: &PeerId, key: VerifyingKey) -> Result<Adopted, StoreError> {
        let _turn = self.agents.turn(id.as_str()).await;
        let trust = match self.agents.find(id.as_str()) {
            None => Trust::Unpaired,
            Some(agent) => {
                let state = agent.state();
                match (state.trust, state.public_key.as_deref()) {
                    (Trust::Revoked, _) => return Ok(Adopted::Revoked),
                    (Trust::Trusted, Some(bound)) if *bound == key => return Ok(Adopted::Yes),
                    (_, Some(_)) if state.is_online() => return Ok(Adopted::Taken),
                    (trust, _) => trust,
                }
            }
        };
        let now = clock::now();
        let token = clock::token("cve_");
        let expires_at = now.after(self.settings.kenny.enrol_token_ttl_s);
        let row = convoke_store::EnrolToken { agent: id.clone(), hash: token.hash(), expires_at, replaces_key: true };
        let record = |what: &str| {
            let mut draft = Draft::new(now, Kind::Enrol);
            draft.who = Some("hub".into());
            draft.door = Some(Door::Cli);
            draft.target = Some(id.as_str().into());
            draft.outcome = Some("ok".into());
            draft.detail(&json!({ "what": what }))
        };
        let invited = trust.after(TrustEvent::Invited);
        self.store.mint_enrol_token(row, invited, now, record("enrolment token for the local agent")).await?;
        let outcome =
            self.store.enrol(id, &token.hash(), key.to_bytes(), now, record("local agent's key bound")).await?;
        match outcome {
            EnrolOutcome::Bound | EnrolOutcome::AlreadySame => {
                let agent = self.agents.find_or_add(id);
                let mut state = agent.state();
                state.trust = Trust::Trusted;
                state.enrolled_at = Some(now);
                state.public_key = Some(Arc::new(key));
                Ok(Adopted::Yes)
            }
            EnrolOutcome::OldKey => Ok(Adopted::OldKey),
            EnrolOutcome::BadToken | EnrolOutcome::AlreadyEnrolled => Ok(Adopted::Taken),
        }
    }
}
