//! The Sonde tunnel: this machine's probes for a Sonde hub, ours or one of the field.
//!
//! Enrolling makes an RSA key here and asks for a certificate over it; the private key never leaves the machine unless
//! the hub only knows the field's way and makes one itself. With a certificate everything is signed, and nothing runs
//! that the hub did not sign. The tunnel stands beside a kenny tunnel in the same process, or alone.

mod keys;
mod link;
mod saved;

use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_core::effect::Effect;
use convoke_core::id::PeerId;
use convoke_core::secret::SecretText;
use convoke_dial::backoff::Backoff;
use convoke_probes::Probes;
use convoke_socket::{SocketError, UpgradeError};
use convoke_sonde::agent::{AgentConfig, Event, Refused};
use convoke_sonde::register::{Dialect, MachineProof};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::net::DialError;
use crate::policy::Policy;
use crate::state::{StateDir, StateError, is_superuser};
use crate::status::{Phase, Teller};

pub use convoke_probes::{check_pack, check_packs};
pub use convoke_sonde::manifest::Manifest;
pub use saved::{Allowed, Saved};

use keys::OwnKey;
use link::{About, Connection};

/// Longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why the tunnel is not there.
#[derive(Debug, thiserror::Error)]
pub enum SondeError {
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// What is kept there.
    #[error("{0}")]
    Saved(String),
    /// The address.
    #[error("`{0}` is not an address of a hub; write http://host:port or https://host")]
    Address(String),
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No WebSocket.
    #[error("cannot open /ws/agent at the hub: {0}")]
    Upgrade(#[from] UpgradeError),
    /// The socket broke.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The key, or the token of an enrolment, is void.
    #[error("the hub does not accept this agent's key (HTTP {0}): it was revoked or replaced; enrol the agent again")]
    Key(u16),
    /// The hub said no.
    #[error("the hub refuses this agent: {0}")]
    Refused(String),
    /// The hub said nothing.
    #[error("the hub did not answer the registration")]
    NoAck,
    /// The hub says nothing any more, not even to pings.
    #[error("the hub does not answer pings")]
    Silent,
    /// Keys and certificates.
    #[error("{0}")]
    Keys(String),
    /// Everything for everyone.
    #[error(
        "probes need no root rights, and an agent with them is a risk; run it as another user, or with --allow-root"
    )]
    Root,
    /// A pattern that hides nothing.
    #[error(transparent)]
    Scrub(#[from] convoke_sonde::scrub::BadPattern),
}

/// What enrolling takes.
#[derive(Debug)]
pub struct Enrolment {
    /// The hub, as given.
    pub hub: String,
    /// The one-time token.
    pub token: SecretText,
    /// The agent's name; the machine's when nothing is said.
    pub name: Option<String>,
    /// Certificates of the only authority to trust.
    pub ca: Option<std::path::PathBuf>,
}

/// Enrols at a Sonde hub and keeps who we are there.
pub async fn enrol(state: &StateDir, enrolment: &Enrolment) -> Result<Saved, SondeError> {
    state.create()?;
    let door = door(&enrolment.hub)?;
    let name = enrolment.name.clone().unwrap_or_else(link::hostname);
    let key = tokio::task::spawn_blocking(OwnKey::make).await.map_err(|why| SondeError::Keys(why.to_string()))??;
    // What its owner allowed stays allowed, and nothing else.
    let before = Saved::read(state).ok();
    let Saved { allowed, heartbeat_s, .. } = before.clone().unwrap_or_default();
    let mut saved = Saved { hub: door.to_string(), name, ca_file: enrolment.ca.clone(), ..Saved::default() };
    saved.allowed = allowed;
    saved.heartbeat_s = heartbeat_s;
    let probes = load(state, saved.allowed.clone())?;
    let mut dialect = Dialect::Field;
    // Whoever enrols anew proves with the key it has that the name is its own. If that key is void, the token must do.
    let mut own_key = before.filter(|s| s.hub == saved.hub && s.name == saved.name);
    // Why the hub refused the field's shape. If it refuses the other one as well, that was the reason.
    let mut refusal: Option<String> = None;
    let ack = loop {
        let about = About::new(&saved, &probes);
        let register = about.register(Some(&enrolment.token), Some(key.request()));
        let bearer = own_key.as_ref().and_then(|s| s.api_key.as_deref()).unwrap_or(enrolment.token.reveal());
        let mut connection = match Connection::open(&saved, bearer).await {
            Ok(connection) => connection,
            Err(SondeError::Upgrade(_) | SondeError::Key(_)) if own_key.take().is_some() => continue,
            Err(why) => return Err(refusal.map_or_else(|| of_token(why), SondeError::Refused)),
        };
        // Where the name is an agent's with a certificate, its key's signature is what proves it.
        let signer = own_key.as_ref().map(Saved::signer).transpose()?.flatten();
        let config = AgentConfig { signer, ..AgentConfig::default() };
        match (connection.register(config, &register, dialect).await, refusal.take()) {
            (Ok((_, Event::Acked(ack))), _) => break ack,
            (Ok((_, Event::Refused(Refused { try_other_shape: true, reason }))), None)
                if dialect == Dialect::Field =>
            {
                dialect = Dialect::Contract;
                refusal = Some(reason);
            }
            (_, Some(reason)) => return Err(SondeError::Refused(reason)),
            (Ok((_, Event::Refused(refused))), None) => return Err(SondeError::Refused(refused.reason)),
            (Ok(_), None) => return Err(SondeError::NoAck),
            (Err(why), None) => return Err(why),
        }
    };
    saved.agent_id = ack.agent_id.clone().unwrap_or_default();
    saved.api_key = ack.api_key.as_ref().map(|k| k.reveal().to_owned());
    saved.dialect = dialect;
    if let (Some(cert), Some(ca)) = (&ack.cert_pem, &ack.ca_cert_pem) {
        saved.cert_pem = Some(cert.clone());
        saved.ca_pem = Some(ca.clone());
        saved.key_pem = Some(ack.key_pem.as_ref().map_or_else(|| key.pem(), |k| k.reveal().to_owned()));
    }
    if saved.api_key.is_none() && saved.cert_pem.is_none() {
        return Err(SondeError::Refused(
            "the hub sent neither a key nor a certificate for the next connection".into(),
        ));
    }
    saved.write(state)?;
    Ok(saved)
}

/// At an enrolment it is the token that was shown.
fn of_token(why: SondeError) -> SondeError {
    match why {
        SondeError::Key(status) => SondeError::Refused(format!(
            "it does not accept the enrolment token (HTTP {status}); a token works once and for a short time, make a new one"
        )),
        why => why,
    }
}

/// How the tunnel runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// Also as root.
    pub allow_root: bool,
    /// Without a kenny tunnel in the same process. That one tells how the agent stands, where there is one.
    pub alone: bool,
    /// As a service.
    pub service: bool,
    /// The id of the kenny agent that is this machine, if it is one: its key signs for the hub that both tunnels are.
    pub machine: Option<PeerId>,
}

/// Runs the tunnel until `stop`: one connection after another. Fails only for what somebody must mend first.
pub async fn run(
    state: &StateDir,
    policy: &Policy,
    running: Running,
    stop: CancellationToken,
) -> Result<(), SondeError> {
    if is_superuser() && !running.allow_root {
        return Err(SondeError::Root);
    }
    let saved = Saved::read(state)?;
    let (id, hub) = (saved.name.clone(), saved.hub.clone());
    let teller = running.alone.then(|| Teller { state: state.clone(), id, hub, service: running.service });
    let tell = |phase, problem: Option<String>| {
        if let Some(teller) = &teller {
            teller.tell(phase, problem);
        }
    };
    let ended = tunnels(state, &saved, (policy, running.machine.as_ref()), &tell, &stop).await;
    tell(Phase::Stopped, None);
    ended
}

/// One connection after another.
async fn tunnels(
    state: &StateDir,
    saved: &Saved,
    (policy, machine): (&Policy, Option<&PeerId>),
    tell: &(impl Fn(Phase, Option<String>) + Sync),
    stop: &CancellationToken,
) -> Result<(), SondeError> {
    let probes = Arc::new(load(state, saved.allowed.clone())?);
    let config = AgentConfig {
        heartbeat: saved.heartbeat()?,
        signer: saved.signer()?,
        verifier: saved.verifier()?,
        ..AgentConfig::default()
    };
    let mut backoff = Backoff::new(LONGEST_PAUSE);
    let mut dialect = saved.dialect;
    while !stop.is_cancelled() {
        let started = Instant::now();
        tell(Phase::Connecting, None);
        let connected = || tell(Phase::Connected, None);
        let ended = tokio::select! {
            ended = link::run((saved, proof(state, saved, machine)), &probes, policy, config.clone(), dialect, stop, connected) => ended,
            () = stop.cancelled() => return Ok(()),
        };
        tell(Phase::Waiting, ended.as_ref().err().map(ToString::to_string));
        match ended {
            Ok(()) => tracing::info!(hub = saved.hub, "the Sonde tunnel ended"),
            Err(SondeError::Refused(reason)) if reason.starts_with(link::OTHER_SHAPE) => {
                dialect = if dialect == Dialect::Field { Dialect::Contract } else { Dialect::Field };
                tracing::warn!(hub = saved.hub, reason, "trying the other message format");
            }
            Err(why) => tracing::warn!(hub = saved.hub, %why, "cannot open the Sonde tunnel"),
        }
        backoff.lived(started.elapsed());
        let mut random = [0; 4];
        let _ = getrandom::fill(&mut random);
        let pause: Duration = backoff.next(u32::from_le_bytes(random));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

/// The proof that this agent and the kenny agent beside it are one machine. Its key may be another one the next time.
fn proof(state: &StateDir, saved: &Saved, machine: Option<&PeerId>) -> Option<MachineProof> {
    let id = machine?.as_str().to_owned();
    let key = state.key().ok()?;
    let signature = convoke_kenny::joined::sign(&key, &id, &saved.agent_id);
    Some(MachineProof { id, signature })
}

/// The packs for a kenny tunnel of this machine.
pub(crate) fn load_for_kenny(state: &StateDir, ceiling: Effect) -> Result<Probes, SondeError> {
    load(state, Allowed { ceiling, ..allowed(state)? })
}

/// The packs that make sense here; what is wrong with others is told.
fn load(state: &StateDir, allowed: Allowed) -> Result<Probes, SondeError> {
    let probes = Probes::load(allowed.config(state), env!("CARGO_PKG_VERSION"))?;
    for problem in probes.problems() {
        tracing::warn!(problem, "cannot load a pack");
    }
    Ok(probes)
}

/// Where the packs of the machine's owner are.
pub fn packs_dir(state: &StateDir) -> Result<std::path::PathBuf, SondeError> {
    Ok(allowed(state)?.packs_dir.unwrap_or_else(|| state.path().join("packs")))
}

/// What the machine's owner allows.
fn allowed(state: &StateDir) -> Result<Allowed, SondeError> {
    if is_enrolled(state) { Ok(Saved::read(state)?.allowed) } else { Ok(Allowed::default()) }
}

/// Whether an agent was enrolled at a Sonde hub with this state directory.
pub fn is_enrolled(state: &StateDir) -> bool {
    saved::file(state).exists()
}

/// `http://hub/` → `ws://hub/ws/agent`.
fn door(hub: &str) -> Result<Url, SondeError> {
    let bad = || SondeError::Address(hub.to_owned());
    let mut url = Url::parse(hub.trim()).map_err(|_| bad())?;
    let scheme = match url.scheme() {
        "http" | "ws" => "ws",
        "https" | "wss" => "wss",
        _ => return Err(bad()),
    };
    url.set_scheme(scheme).map_err(|()| bad())?;
    url.host_str().ok_or_else(bad)?;
    let base = url.path().trim_end_matches('/').trim_end_matches("/ws/agent").to_owned();
    url.set_path(&format!("{base}/ws/agent"));
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    #[test]
    fn doors() {
        for (given, door) in [
            ("http://hub:3000", "ws://hub:3000/ws/agent"),
            ("http://hub:3000/", "ws://hub:3000/ws/agent"),
            ("https://hub/sonde/", "wss://hub/sonde/ws/agent"),
            ("wss://hub/ws/agent", "wss://hub/ws/agent"),
        ] {
            assert_eq!(super::door(given).expect(given).as_str(), door);
        }
        for bad in ["hub:3000", "ftp://hub", "", "http://"] {
            assert!(super::door(bad).is_err(), "{bad}");
        }
    }
}
