//! Prompts for the common jobs, and completion of their arguments.

use convoke_core::id::PeerId;
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResult,
    ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::Value;

use super::server::{McpCaller, protocol_error};
use convoke_doors::agents::in_reach;
use convoke_gate::hub::Hub;

const TRIAGE: &str = "triage_machine";
const SLOW: &str = "why_is_it_slow";
const HEALTHY: &str = "is_the_fleet_healthy";

/// The prompts.
pub(super) fn list() -> ListPromptsResult {
    let agent = || {
        let agent = PromptArgument::new("agent").with_description("The machine, by its id.").with_required(true);
        let symptom =
            PromptArgument::new("symptom").with_description("What the person noticed.").with_required(false);
        Some(vec![agent, symptom])
    };
    let prompts = vec![
        Prompt::new(TRIAGE, Some("Find out what is wrong with one machine, without changing it."), agent())
            .with_title("Triage a machine"),
        Prompt::new(SLOW, Some("Find out why a machine is slow."), agent()).with_title("Why is it slow?"),
        Prompt::new(HEALTHY, Some("Say which machines need attention, worst first."), None::<Vec<PromptArgument>>)
            .with_title("Is the fleet healthy?"),
    ];
    ListPromptsResult::with_all_items(prompts)
}

/// One prompt, filled in.
pub(super) async fn get(
    hub: &Hub,
    asker: &McpCaller,
    request: &GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let text = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments.and_then(|a| a.get(name)).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    };
    let filled = match request.name.as_str() {
        HEALTHY => HEALTHY_TEXT.to_owned(),
        name @ (TRIAGE | SLOW) => {
            let Some(agent) = text("agent") else {
                return Err(ErrorData::invalid_params("`agent` is needed: the machine, by id or name", None));
            };
            let agent = in_reach(hub, &asker.caller, agent).await.map_err(|error| protocol_error(&error))?;
            let template = if name == TRIAGE { TRIAGE_TEXT } else { SLOW_TEXT };
            let mut filled = template.replace("{agent}", agent.id.as_str());
            if let Some(symptom) = text("symptom") {
                let symptom = &symptom[..symptom.floor_char_boundary(2000)];
                filled.push_str(&format!("\n\nWhat the person noticed: {symptom}"));
            }
            filled
        }
        _ => return Err(ErrorData::invalid_params("the prompt does not exist", None)),
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, filled)]))
}

const TRIAGE_TEXT: &str = "\
Triage the machine `{agent}` through Convoke. Look only; change nothing.

1. `agent_health` for `{agent}`: which sections warn or are critical, and since when is the telemetry?
2. If the telemetry is older than an hour, `telemetry_collect` for fresh.
3. For each section that is not ok, read its part with `agent_snapshot`, then look closer with the tool that fits: \
`fs_disk_usage`, `diag_processes`, `diag_services`, `diag_eventlog`, `net_config`.
4. `journal_search` for `{agent}`: did somebody change something lately that explains it?

Then tell, in a few sentences: what is wrong, how sure you are, what you saw that says so, and what you would do next. \
Name each step that would change the machine and wait for a yes before you take it; such calls may also need a \
person's approval at the hub.";

const SLOW_TEXT: &str = "\
Find out why the machine `{agent}` is slow, through Convoke. Look only; change nothing.

1. `diag_processes` on `{agent}`: what uses processor and memory, and how much?
2. `agent_snapshot` of `memory`, `disk`, `thermals` and `disk_smart`: is memory full, a disk nearly full or failing, the \
machine too hot?
3. `agent_snapshot` of `uptime`, `reboot_pending`, `win_update` and `app_updates`: does it wait for a restart, or is it \
updating?
4. `diag_autostart` if much starts by itself; `diag_eventlog` for disk and crash messages; `net_config` and \
`wifi_quality` if the network is what is slow.

Then tell the most likely cause first, the numbers that say so, and one small step that would show whether you are \
right.";

const HEALTHY_TEXT: &str = "\
Say whether the fleet is healthy, through Convoke. Look only; change nothing.

1. `fleet_overview`: which machines are critical, which warn, which are offline or have no telemetry?
2. For each critical machine, `agent_health`: which section, and what does its summary say?
3. Look for what machines have in common: the same section, the same tag, the same time.

Then give a short list, worst first: machine, what is wrong, how urgent. End with how many machines are fine, and with \
what you could not see.";

/// Completes the name of an agent, within the caller's reach.
pub(super) fn complete(hub: &Hub, asker: &McpCaller, request: &CompleteRequestParams) -> CompleteResult {
    if !["agent", "id"].contains(&request.argument.name.as_str()) {
        return CompleteResult::default();
    }
    let start = &request.argument.value;
    let scopes = &asker.caller.token.grant.scopes;
    let fits = |agent: &convoke_gate::agents::Agent| {
        PeerId::as_str(&agent.id).starts_with(start.as_str())
            && scopes.reaches(agent.id.as_str(), &agent.state().tags)
    };
    let mut values: Vec<String> = hub
        .agents
        .list(None)
        .iter()
        .filter(|agent| fits(agent))
        .take(CompletionInfo::MAX_VALUES + 1)
        .map(|agent| agent.id.as_str().to_owned())
        .collect();
    let more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    match CompletionInfo::with_pagination(values, None, more) {
        Ok(completion) => CompleteResult::new(completion),
        Err(_) => CompleteResult::default(),
    }
}
