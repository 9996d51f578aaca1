//! Who may register as whom.
//!
//! A name belongs to the key or certificate that enrolled it. A key lets its holder be that one agent and nothing else:
//! it opens no other door, and registers no other name. Only an operator's token for that very name gives it to another.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::door::Door;
use convoke_core::id::PeerId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::peer::Trust;
use convoke_core::secret::TokenHash;
use convoke_sonde::ack::Ack;
use convoke_sonde::hub::{Member, Registration};
use convoke_sonde::register::{Dialect, Register};
use convoke_sonde::sign::{Signer, Verifier};
use convoke_store::{SondeAgentRow, SondeEnrolled};
use serde_json::json;
use serde_json::value::RawValue;

use super::ca::Issued;
use super::change::{self, NotChanged};
use super::registry::{Facts, SondeAgent};
use super::{Arrival, Credential};
use crate::Wires;
use crate::joined;
use convoke_gate::agents::budget::Record;
use convoke_gate::clock;
use convoke_gate::settings::ChangedAgents;

/// An agent that may enter.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) sonde: Arc<SondeAgent>,
    pub(super) member: Member,
    pub(super) ack: Ack,
    pub(super) version: String,
    pub(super) meta: Box<RawValue>,
}

/// Decides on a registration. The error goes to the agent in its own dialect.
pub(super) async fn admit(hub: &Wires, arrival: &Arrival, registration: Registration) -> Result<Admitted, String> {
    let Registration { register, payload, signature } = registration;
    let in_payload = register.enrollment_token.as_ref().map(|t| t.hash());
    let token = match (in_payload, &arrival.credential) {
        (Some(token), _) => Some(token),
        (None, Credential::Token(token)) => Some(*token),
        (None, _) => None,
    };
    let (sonde, mut ack) = match &token {
        Some(token) => enrol(hub, arrival, &register, token, (&payload, &signature)).await?,
        None => return_of(hub, arrival, &register, &payload, &signature).await?,
    };
    if let (None, Some(proof)) = (&token, &register.machine) {
        joined::prove(hub, &sonde, proof).await;
    }
    let (verifier, names_requests, flagged) = {
        let state = sonde.state();
        let verifier = state.verifier.clone().map(|key| key as Arc<dyn Verifier>);
        (verifier, state.facts.names_requests, state.facts.changed.clone())
    };
    if let Some(changed) = &flagged {
        let fields: Vec<&str> = changed.changes.iter().map(|c| c.field.as_str()).collect();
        let what = format!("attestation changed ({}); an operator must accept it", fields.join(", "));
        if hub.settings.sonde.changed_agents == ChangedAgents::Refuse {
            return Err(format!("Registration refused: {what}"));
        }
        ack.warning = Some(what);
    }
    if !register.unfit.is_empty() {
        let what = register.unfit.join("; ");
        if let Some(note) = hub.tells_of(&sonde.id) {
            tracing::warn!(agent = %sonde.id, what, note = note.words(), "ignored a pack manifest of an agent");
        }
        let what = format!("ignored, so their probes count as manage: {what}");
        ack.warning = Some(ack.warning.map_or(what.clone(), |other| format!("{other}; {what}")));
    }
    let signer: Option<Arc<dyn Signer>> = match &verifier {
        None => None,
        Some(_) => Some(hub.sonde.ca(&*hub.store).await.map_err(internal)?),
    };
    ack.agent_id = Some(sonde.wire_id.clone());
    let member = Member { agent_id: sonde.wire_id.clone(), verifier, signer, names_requests };
    let meta = json!({
        "name": sonde.name, "hostname": register.hostname, "os": register.os, "os_version": register.os_version,
        "arch": register.arch, "version": register.version, "dialect": register.dialect.name(),
        "packs": register.packs.iter().map(|p| &p.name).collect::<Vec<_>>(),
        "attestation_changed": flagged.map(|c| c.changes),
    });
    let meta = RawValue::from_string(meta.to_string()).map_err(|_| "Internal error".to_owned())?;
    Ok(Admitted { sonde, member, ack, version: register.version, meta })
}

fn internal(why: impl std::fmt::Display) -> String {
    tracing::error!(%why, "cannot register a Sonde agent");
    "Internal error: the hub's log has more".into()
}

/// Once an agent has a certificate, its API key alone makes nobody that agent: on either port it signs its registration. A
/// field's agent that has shown in TLS that the certificate's key is its own may leave that out.
fn check_signed(arrival: &Arrival, agent: &SondeAgent, payload: &str, signature: &str) -> Result<(), String> {
    let (verifier, own_key) = {
        let state = agent.state();
        (state.verifier.clone(), state.own_key)
    };
    let Some(key) = verifier else { return Ok(()) };
    let is_shown = matches!(arrival.credential, Credential::Certificate(_)) && !own_key;
    if (is_shown && signature.is_empty()) || key.verify(payload.as_bytes(), signature) {
        return Ok(());
    }
    let what = if signature.is_empty() { "Signature required" } else { "Signature verification failed" };
    Err(what.into())
}

/// An agent that was here before comes back with its key or certificate.
async fn return_of(
    hub: &Wires,
    arrival: &Arrival,
    register: &Register,
    payload: &str,
    signature: &str,
) -> Result<(Arc<SondeAgent>, Ack), String> {
    let (Credential::Key(agent) | Credential::Certificate(agent)) = &arrival.credential else {
        return Err("Enrollment token rejected: Unknown token".into());
    };
    if agent.name != register.name {
        return Err(format!(
            "Registration refused: this key is {}'s; the name {} needs an enrollment token of its own",
            agent.name, register.name
        ));
    }
    check_signed(arrival, agent, payload, signature)?;
    let changed = change::facts(hub, agent, |facts| {
        let was = facts.changed.as_ref().map(|c| c.changes.clone());
        facts.attest(register, false, clock::now());
        facts.take(register);
        let is = facts.changed.as_ref().map(|c| &c.changes);
        let news = is.filter(|is| was.as_ref() != Some(is));
        let now = clock::now();
        // The first says it all: from then on it is not asked anything. One that changes with every connection is counted.
        let kept = news.and_then(|changes| {
            let note = hub.budgets.keep(&agent.id, Record::Attestation, now.millis());
            if note.is_none() {
                hub.metrics.dropped("attestation_records", 1);
            }
            Some((changes, note?))
        });
        Ok::<_, Infallible>(kept.map(|(changes, note)| {
            let mut detail = json!({ "what": "attestation changed", "changes": changes });
            note.tell(&mut detail);
            tracing::warn!(agent = %agent.id, name = agent.name, ?changes, "the attestation of an agent changed");
            let mut record = Draft::new(now, Kind::Trust).detail(&detail);
            record.who = Some(format!("agent:{}", agent.id));
            record.door = Some(Door::Wire);
            record.target = Some(agent.id.as_str().into());
            record
        }))
    });
    match changed.await {
        Ok(()) => {}
        Err(NotChanged::Gone) => return Err("Registration refused: this key is no longer good here".into()),
        Err(NotChanged::No(never)) => match never {},
        Err(NotChanged::Store(why)) => return Err(internal(why)),
    }
    Ok((Arc::clone(agent), Ack::default()))
}

/// A token gives a name to whoever holds it: a new one, or, when it is for that name, a known one under its old id.
async fn enrol(
    hub: &Wires,
    arrival: &Arrival,
    register: &Register,
    token: &TokenHash,
    (payload, signature): (&str, &str),
) -> Result<(Arc<SondeAgent>, Ack), String> {
    let rejected = |why: &str| Err(format!("Enrollment token rejected: {why}"));
    let now = clock::now();
    let known = hub.sonde.registry.of_name(&register.name);
    // Looked at before a key is made, which is dear; the store decides in the end.
    if !hub.sonde.registry.token_is_live(token, now) {
        let kept = hub.sonde.registry.tokens().into_iter().find(|t| t.hash == *token);
        return match kept {
            Some(t) if t.used_at.is_some() => rejected("Token already used"),
            Some(_) => rejected("Token expired"),
            None => rejected("Unknown token"),
        };
    }
    if known.is_none() && hub.sonde.registry.has_alike(&register.name) {
        return rejected("the name looks like that of another agent; choose one that nobody takes for it");
    }
    // A token that names nobody is for new agents. Otherwise whoever is given one for a machine of their own could become
    // any machine there is. Who proves to be the agent already may enrol anew with any.
    let is_it = match (&known, &arrival.credential) {
        (Some(known), Credential::Key(agent) | Credential::Certificate(agent)) => known.id == agent.id,
        _ => false,
    };
    let is_it = is_it && known.as_ref().is_some_and(|known| check_signed(arrival, known, payload, signature).is_ok());
    if known.is_some() && !is_it && !hub.sonde.registry.token_names(token, &register.name) {
        return rejected("the name is taken; an operator can reassign it with a token for that name");
    }
    let issued = certificate(hub, arrival, register).await?;
    let id = match &known {
        Some(agent) => agent.id.clone(),
        None => PeerId::parse(&format!("sonde:{}", clock::uuid())).map_err(internal)?,
    };
    let mut facts = Facts::default();
    facts.attest(register, true, now);
    facts.take(register);
    facts.public_key = issued.as_ref().map(|i| STANDARD.encode(&i.public_key));
    let key = clock::token("cvs_");
    let row = SondeAgentRow {
        id: id.clone(),
        name: register.name.clone(),
        key_hash: key.hash(),
        cert_pem: issued.as_ref().map(|i| i.cert_pem.clone()),
        cert_fingerprint: issued.as_ref().map(|i| i.fingerprint),
        own_key: register.csr.is_some() && issued.is_some(),
        facts: serde_json::to_string(&facts).map_err(internal)?,
    };
    let mut record = Draft::new(now, Kind::Enrol).detail(&json!({
        "what": if known.is_some() { "enrolled anew" } else { "enrolled" },
        "name": register.name, "address": arrival.address.to_string(),
        "certificate": issued.as_ref().map(|i| hex::encode(i.fingerprint)),
    }));
    record.who = Some(format!("agent:{id}"));
    record.door = Some(Door::Wire);
    record.target = Some(id.as_str().into());
    record.outcome = Some("ok".into());
    let _turn = hub.agents.turn(id.as_str()).await;
    match hub.store.enrol_sonde(token, row.clone(), now, record).await.map_err(internal)? {
        SondeEnrolled::Done => {}
        SondeEnrolled::Unknown => return rejected("Unknown token"),
        SondeEnrolled::Used => return rejected("Token already used"),
        SondeEnrolled::Expired => return rejected("Token expired"),
        SondeEnrolled::OtherName => return rejected("Token is for another name"),
        SondeEnrolled::NameTaken => return rejected("Name was just taken by another agent"),
    }
    hub.sonde.registry.token_used(token, now, &id);
    let sonde = hub.sonde.registry.put(row);
    let agent = hub.agents.find_or_add(&id);
    hub.agents.part(&agent);
    {
        let mut state = agent.state();
        state.trust = Trust::Trusted;
        state.enrolled_at = Some(now);
    }
    // Whoever is connected under the earlier key has no right to the name any more.
    hub.agents.close_link(&agent, convoke_gate::link::Close::Revoked);
    let mut ack = Ack { api_key: Some(key), ..Ack::default() };
    if let Some(Issued { cert_pem, key_pem, .. }) = issued {
        ack.cert_pem = Some(cert_pem);
        ack.key_pem = key_pem;
        ack.ca_cert_pem = Some(hub.sonde.ca(&*hub.store).await.map_err(internal)?.cert_pem.clone());
    }
    Ok((sonde, ack))
}

/// A certificate: for the key of the agent's own request, wherever it came from; or with a key that the hub makes, for
/// the field's agents, and then only over the TLS listener, since a private key goes over the wire.
async fn certificate(hub: &Wires, arrival: &Arrival, register: &Register) -> Result<Option<Issued>, String> {
    if let Some(csr) = &register.csr {
        let ca = hub.sonde.ca(&*hub.store).await.map_err(internal)?;
        return ca.certify(&register.name, csr).map(Some).map_err(|why| format!("Registration refused: {why}"));
    }
    if !arrival.mutual_tls || register.dialect != Dialect::Field {
        return Ok(None);
    }
    let ca = hub.sonde.ca(&*hub.store).await.map_err(internal)?;
    let _permit = hub.sonde.keys.acquire().await.map_err(internal)?;
    let name = register.name.clone();
    let issued = tokio::task::spawn_blocking(move || ca.issue(&name)).await.map_err(internal)?;
    issued.map(Some).map_err(internal)
}
