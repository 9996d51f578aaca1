//! The agent as it runs: one tunnel after another, for as long as the machine is up.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoke_dial::backoff::Backoff;
use convoke_machine::{Machine, Options};
use ed25519_dalek::SigningKey;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::config::{Config, ConfigError};
use crate::enrol::{EnrolError, enrol};
use crate::files::Files;
use crate::link::{self, Ended, LinkError, Shared};
use crate::logs::Forward;
use crate::net::Dialler;
use crate::policy::Policy;
use crate::probe;
use crate::state::{StateDir, StateError};
use crate::status::{Phase, Teller};
use crate::telemetry::{Links, Own, Telemetry, VERSION};
use crate::update::{Settled, Supervision, Trial, Updater, settle};
use crate::workplace;

/// How often, and after what pause, the lock is tried again.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// How long calls may take to end when the agent stops.
const DRAIN: Duration = Duration::from_secs(5);

/// An agent that is ready to run.
#[derive(Debug)]
pub struct Agent {
    /// Who, where, how.
    pub config: Config,
    /// Its state directory.
    pub state: StateDir,
    /// Its policy, which it shares with a Sonde tunnel in the same process.
    pub policy: Policy,
    /// Where its log events wait for the hub.
    pub logs: Forward,
    /// Who starts it again when it ends.
    pub supervision: Supervision,
    /// The program that collects its snapshots in a process of its own; without it, the agent does so itself.
    pub collect_with: Option<Vec<OsString>>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// Another version is in place: whoever supervises it starts that.
    Restart,
}

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its state.
    #[error(transparent)]
    State(#[from] StateError),
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its enrolment.
    #[error(transparent)]
    Enrol(#[from] EnrolError),
}

impl Agent {
    /// Runs until `stop` is cancelled or an update is in place. Fails only for what somebody must mend first; a hub that
    /// is away, frozen, or not itself is tried again for ever.
    pub async fn run(self, stop: CancellationToken) -> Result<End, RunError> {
        let Self { config, state, policy, logs, supervision, collect_with } = self;
        state.create()?;
        let _lock = lock(&state).await?;
        let trial = match settle(&state, &supervision) {
            Settled::Nothing => None,
            Settled::OnTrial(trial) => Some(trial),
            Settled::RolledBack => return Ok(End::Restart),
        };
        if !config.enrolled
            && let Some(token) = &config.token
            && !first_contact(&state, &config, token, &stop).await?
        {
            return Ok(End::Stopped);
        }
        let key = state.key()?;
        let runner = Runner::new(config, (state, policy), logs, (supervision, collect_with), key, stop);
        Ok(runner.run(trial).await)
    }
}

/// Whoever only looks holds the lock for a moment; whoever runs holds on to it.
async fn lock(state: &StateDir) -> Result<crate::state::Lock, StateError> {
    for _ in 0..LOCK_TRIES {
        match state.lock() {
            Err(StateError::Locked(_)) => tokio::time::sleep(LOCK_PAUSE).await,
            other => return other,
        }
    }
    state.lock()
}

/// Enrols with the token that came along. A hub that is not there yet is waited for; one that says no is not.
async fn first_contact(
    state: &StateDir,
    config: &Config,
    token: &convoke_core::secret::SecretText,
    stop: &CancellationToken,
) -> Result<bool, RunError> {
    let had_key = state.has_key();
    // The answer to it may have been lost on the way; the field's servers bind a key once and then say that there is one.
    let mut may_be_bound = had_key;
    let mut backoff = Backoff::new(config.settings.seconds("reconnect_max_s"));
    loop {
        let why = match enrol(state, &config.identity, token).await {
            Ok(()) => {
                tracing::info!(agent = %config.identity.id, hub = %config.identity.hub, "enrolled");
                return Ok(true);
            }
            Err(why) if why.is_passing() => why,
            // A token that stays in a service's environment is used up after the first time, and the key it has bound is
            // still good; one that is to be replaced is, until another is bound. If it is not, the hub will say so.
            Err(why) => {
                let may_be_good = match why {
                    EnrolError::OldKey(_) | EnrolError::BadToken(_) => had_key,
                    EnrolError::OtherKey(_) => may_be_bound,
                    _ => false,
                };
                if !may_be_good {
                    return Err(why.into());
                }
                tracing::warn!(%why, "cannot enrol again; continuing with the present key");
                return Ok(true);
            }
        };
        may_be_bound = true;
        let pause = backoff.next(random());
        tracing::warn!(%why, pause_s = pause.as_secs_f64(), "not enrolled yet");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(false),
        }
    }
}

struct Runner {
    shared: Shared,
    key: SigningKey,
    teller: Teller,
    updater: Updater,
    stop: CancellationToken,
    telemetry: Option<Telemetry>,
}

impl Runner {
    fn new(
        config: Config,
        (state, policy): (StateDir, Policy),
        logs: Forward,
        (supervision, collect_with): (Supervision, Option<Vec<OsString>>),
        key: SigningKey,
        stop: CancellationToken,
    ) -> Self {
        let Config { identity, settings, .. } = config;
        let machine = Machine::new(Options {
            output_cap: settings.number("output_bytes"),
            tool_timeout: settings.seconds("call_timeout_s"),
            collect_with,
            work_dir: workplace::of(std::env::current_dir().ok().as_deref(), &state),
            ..Options::default()
        });
        let dialler =
            Dialler::new(identity.ca.clone(), settings.seconds("connect_timeout_s")).knowing(&identity.hub_key);
        let updater = Updater::new(&identity, &settings, dialler.clone(), state.clone(), supervision.clone());
        let files = Files::new(identity.hub.clone(), dialler.clone(), state.path());
        let bounds = (settings.number("max_calls"), settings.number("max_waiting"));
        let own = Own { switch: policy.switch.clone(), logs: logs.clone(), started: Instant::now().into() };
        let calls = Calls::new(
            (machine.clone(), probe::load(&state, &settings)),
            own.clone(),
            policy.clone(),
            (updater.clone(), files),
            bounds,
            stop.child_token(),
        );
        let (links, told) = Links::new();
        let telemetry = Telemetry {
            id: identity.id.to_string(),
            machine,
            own,
            interval: settings.seconds("telemetry_s"),
            poll: settings.seconds("switch_poll_s"),
            links: told,
        };
        let calls = Arc::new(calls);
        let shared = Shared { identity, settings, dialler, policy, calls, logs, links, epoch: Instant::now() };
        let teller = Teller {
            state,
            id: shared.identity.id.to_string(),
            hub: shared.identity.hub.to_string(),
            service: supervision.is_service(),
        };
        Self { shared, key, teller, updater, stop, telemetry: Some(telemetry) }
    }

    async fn run(mut self, trial: Option<Trial>) -> End {
        let watch = self.telemetry.take().map(|telemetry| tokio::spawn(telemetry.run()));
        let (hub, id) = (&self.shared.identity.hub, &self.shared.identity.id);
        tracing::info!(%hub, agent = %id, version = VERSION, "the agent is running");
        if !hub.is_tls() && !hub.is_loopback() {
            tracing::warn!(%hub, "the tunnel is not encrypted: others on the network can read calls and answers");
        }
        let end = self.tunnels(trial).await;
        self.stop.cancel();
        self.shared.calls.drain(DRAIN).await;
        if let Some(watch) = watch {
            watch.abort();
        }
        self.teller.tell(Phase::Stopped, None);
        tracing::info!(restart = end == End::Restart, "the agent is stopping");
        end
    }

    /// One tunnel after another.
    async fn tunnels(&self, trial: Option<Trial>) -> End {
        let trial = Mutex::new(trial);
        let restart = self.updater.restarting();
        let mut backoff = Backoff::new(self.shared.settings.seconds("reconnect_max_s"));
        let mut key = self.key.clone();
        let tunnels = async {
            loop {
                self.teller.tell(Phase::Connecting, None);
                let why = match self.attempt(&trial, &key).await {
                    Ended::Stopped => return End::Stopped,
                    Ended::Restart => return End::Restart,
                    Ended::Lost(why, life) => {
                        backoff.lived(life);
                        why
                    }
                };
                let pause = backoff.next(random());
                self.teller.tell(Phase::Waiting, Some(why.to_string()));
                self.complain(&why, pause);
                if matches!(why, LinkError::Refused)
                    && let Some(other) = self.teller.state.key_after(&key)
                {
                    tracing::info!("trying the other key that an enrolment left behind");
                    key = other;
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.stop.cancelled() => return End::Stopped,
                }
            }
        };
        tokio::select! {
            biased;
            end = tunnels => end,
            () = restart.cancelled() => End::Restart,
            () = failed(&trial) => {
                if let Some(trial) = take(&trial) {
                    trial.roll_back();
                }
                End::Restart
            }
        }
    }

    /// One tunnel, from the attempt to its end.
    async fn attempt(&self, trial: &Mutex<Option<Trial>>, key: &SigningKey) -> Ended {
        let opened = tokio::select! {
            opened = link::open(&self.shared, key, self.shared.policy.switch.read()) => opened,
            () = self.stop.cancelled() => return Ended::Stopped,
        };
        let link = match opened {
            Ok(link) => link,
            Err(why) => return Ended::Lost(why, Duration::ZERO),
        };
        let confirmed = || {
            self.teller.tell(Phase::Connected, None);
            tracing::info!(hub = %self.shared.identity.hub, "connected");
            match self.teller.state.let_in_with(key) {
                Ok(true) => tracing::info!("now using the key that an enrolment left behind"),
                Ok(false) => {}
                // It is tried again with the next tunnel; until then it stays where it is.
                Err(why) => {
                    tracing::warn!(%why, "cannot replace the refused key with the accepted one; keeping both")
                }
            }
            if let Some(trial) = take(trial) {
                trial.succeed();
            }
        };
        link.run(&self.stop, confirmed).await
    }

    fn complain(&self, why: &LinkError, pause: Duration) {
        let hub = &self.shared.identity.hub;
        let pause_s = (pause.as_secs_f64() * 10.0).round() / 10.0;
        match why {
            LinkError::Distrust(reason) => tracing::error!(
                %hub, %reason, pause_s,
                "the server is not the hub that this agent is enrolled with; the agent signed nothing for it"
            ),
            LinkError::Refused => tracing::error!(%hub, %why, pause_s, "not connected"),
            why => tracing::warn!(%hub, %why, pause_s, "not connected"),
        }
    }
}

/// Resolves when a version on trial has had its time; never without one, or once it has stood the trial.
async fn failed(trial: &Mutex<Option<Trial>>) {
    let deadline = trial.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Trial::deadline);
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline).await;
        if trial.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
    }
    std::future::pending().await
}

fn take(trial: &Mutex<Option<Trial>>) -> Option<Trial> {
    trial.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness nothing can be signed either; a middle pause is fine then.
    if getrandom::fill(&mut bytes).is_err() {
        return u32::MAX / 2;
    }
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use convoke_core::secret::SecretText;

    use super::*;
    use crate::enrol::tests::{LOST, NO, OLD, hub};
    use crate::settings::{Settings, Sources};

    /// The first contact with a hub that answers so, of an agent that may have a key.
    async fn contact<const N: usize>(has_key: bool, answers: [(u16, &'static str); N]) -> Result<bool, RunError> {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("state"));
        if has_key {
            state.create().expect("made");
            state.key_or_new().expect("a key");
        }
        // A pause that nobody looks at is short.
        let flags = vec![("reconnect_max_s".into(), "0.2".into())];
        let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("settings");
        let config = Config { identity: hub(answers).await, settings, token: None, enrolled: false };
        first_contact(&state, &config, &SecretText::new("t"), &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn a_token_that_is_of_no_use_ends_no_agent_that_has_a_key() {
        assert!(contact(true, [NO]).await.expect("goes on"));
        assert!(contact(true, [(409, "{}")]).await.expect("goes on"));
        // The token lapses between the two.
        assert!(contact(true, [OLD, NO]).await.expect("goes on"));
        let refused = contact(false, [NO]).await;
        assert!(matches!(refused, Err(RunError::Enrol(EnrolError::BadToken(_)))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_hub_that_is_busy_or_unwell_is_asked_again() {
        for passing in [408, 429, 500, 502, 503] {
            assert!(contact(true, [(passing, "{}"), NO]).await.expect("goes on"), "{passing}");
            assert!(contact(false, [(passing, "{}"), (200, "{}")]).await.expect("is enrolled"), "{passing}");
        }
        let refused = contact(false, [(429, "{}"), NO]).await;
        assert!(matches!(refused, Err(RunError::Enrol(EnrolError::BadToken(_)))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_key_that_may_have_been_bound_by_a_lost_answer_is_gone_on_with() {
        assert!(contact(false, [LOST, (409, "{}")]).await.expect("goes on"));
        let refused = contact(false, [(409, "{}")]).await;
        assert!(matches!(refused, Err(RunError::Enrol(EnrolError::OtherKey(_)))), "{refused:?}");
    }
}
