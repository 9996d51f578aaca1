//! Probes, as every tunnel of the agent asks for them: over a Sonde tunnel, or as the requests `probe_list` and
//! `probe_run` of a kenny tunnel.

use std::sync::Arc;

use convoke_core::effect::Effect;
use convoke_core::guard::Surface;
use convoke_machine::Call;
use convoke_probes::Probes;
use convoke_sonde::probe::{AnswerOut, Status};
use serde_json::{Map, Value, json};

use crate::policy::{Refusal, Request};
use crate::settings::Settings;
use crate::sonde;
use crate::state::StateDir;

/// A probe, as the endpoint's policy reads it.
#[derive(Debug)]
pub(crate) struct ProbeRequest {
    pub(crate) probes: Arc<Probes>,
    pub(crate) probe: String,
    /// The text of a JSON object.
    pub(crate) params: Option<String>,
}

impl Request for ProbeRequest {
    fn changes_machine(&self) -> bool {
        self.probes.effect(&self.probe).is_some_and(|effect| effect > Effect::Observe)
    }

    fn surfaces(&self) -> Vec<Surface<'_>> {
        self.probes.surfaces(&self.probe, self.params.as_deref())
    }

    /// The most that the machine's owner allows a probe to do.
    fn over_limit(&self) -> Option<Refusal> {
        self.probes.over_ceiling(&self.probe).map(Refusal::OverLimit)
    }
}

impl ProbeRequest {
    /// Reads the arguments of `probe_run`.
    pub(crate) fn read(probes: &Arc<Probes>, args: &Map<String, Value>) -> Result<Self, &'static str> {
        let probe = args.get("probe").and_then(Value::as_str).ok_or("probe_run needs probe (a text)")?.to_owned();
        let params = match args.get("params") {
            None | Some(Value::Null) => None,
            Some(params @ Value::Object(_)) => Some(params.to_string()),
            Some(_) => return Err("probe_run.params must be an object"),
        };
        Ok(Self { probes: Arc::clone(probes), probe, params })
    }

    /// Runs it and answers in Sonde's form, failures included.
    pub(crate) async fn run(self, call: &Call) -> Value {
        let ran = self.probes.run(&self.probe, self.params.as_deref(), call).await;
        let failure = ran.outcome.as_ref().err();
        let answer = AnswerOut {
            probe: &self.probe,
            status: failure.map_or(Status::Success, |failure| failure.status),
            data: ran.outcome.as_deref().ok(),
            duration_ms: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
            request_id: None,
            metadata: &ran.metadata,
            error: failure.map(|failure| failure.message.as_str()),
            code: failure.map(|failure| failure.code),
        };
        serde_json::from_str(&answer.encode()).unwrap_or_default()
    }
}

/// The result of `probe_list`.
pub(crate) fn listed(probes: &Probes) -> Value {
    json!({ "packs": probes.packs(), "capabilities": probes.capabilities(), "manifests": probes.own_manifests() })
}

/// The probes for a kenny tunnel. What the machine's owner allowed a Sonde hub holds here, too, but for the ceiling,
/// which is a setting of the agent. Without any when that cannot be read: going on with the defaults could allow more.
pub(crate) fn load(state: &StateDir, settings: &Settings) -> Option<Arc<Probes>> {
    let ceiling = settings.text("probe_ceiling").parse().unwrap_or(Effect::Observe);
    sonde::load_for_kenny(state, ceiling)
        .map(Arc::new)
        .inspect_err(|why| tracing::error!(%why, "cannot load probes; the hub can ask for none"))
        .ok()
}
