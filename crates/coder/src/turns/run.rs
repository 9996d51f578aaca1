//! A turn at work: ask the model, run the tools it calls, ask again, until it has nothing more to call for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_kward::events::TurnHappening;
use convoke_kward::results::TurnError;
use convoke_kward::transcript::Stored;
use convoke_models::{Client, Completion, Event, Failure, ModelError, Price, Request, ToolDefinition, Usage};
use serde_json::{Map, Value, json};

use super::request;
use super::turn::{Input, Turn, Work};
use crate::backend::Backend;
use crate::clock;
use crate::config::Config;
use crate::logs::Status;
use crate::providers::Selection;
use crate::sessions::compact::Reason;
use crate::sessions::cut::{self, Settings};
use crate::sessions::live::Live;
use crate::sessions::record::Record;
use crate::sessions::turn_lock::TurnLock;

/// How often to look whether another process's turn has ended.
const OTHERS_TURN: Duration = Duration::from_millis(100);

/// Why a turn does not come to an answer.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) TurnError);

impl Stopped {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self(TurnError { message: message.into(), code: code.into(), fatal: false })
    }
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::new("file_error", format!("The session cannot be written: {error}"))
    }
}

impl From<&ModelError> for Stopped {
    fn from(error: &ModelError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// What every request of a turn has in common.
struct Setting {
    client: Client,
    selection: Selection,
    model: String,
    instructions: String,
    tools: Vec<ToolDefinition>,
    window: Option<u64>,
}

impl Backend {
    /// Runs a turn to its end. Whatever happens, the conversation is in order afterwards and the turn has ended.
    pub(crate) async fn run_turn(self: &Arc<Self>, live: &Arc<Live>, turn: &Arc<Turn>) {
        let began = Instant::now();
        let lock = self.turn_of_session(live, turn).await;
        let outcome = match (&turn.work, &lock) {
            (Work::Ask(input), Ok(_)) => self.ask(live, turn, input).await,
            (Work::Plugin { name, arguments }, Ok(_)) => self.plugin_turn(live, turn, name, arguments).await,
            (_, Err(Stopped(error))) => Err(Stopped(error.clone())),
        };
        let repaired = match &lock {
            Ok(_) => tokio::task::block_in_place(|| live.state().repair()),
            Err(_) => Ok(()),
        };
        drop(lock);
        let outcome = outcome.and_then(|()| repaired.map_err(Stopped::from));
        let status = match &outcome {
            _ if turn.is_cancel_requested() => Status::Cancelled,
            Ok(()) => Status::Ok,
            Err(_) => Status::Error,
        };
        self.logs.turn(&self.log_switches(), began.elapsed(), status);
        if let (Err(Stopped(error)), Status::Error) = (&outcome, status) {
            self.logs.error(&self.log_switches(), "turn_error", &error.code, &error.message, None);
        }
        turn.finish(outcome.map_err(|Stopped(error)| TurnError {
            message: self.redactor.text(&error.message).into_owned(),
            ..error
        }));
        if status == Status::Ok && matches!(turn.work, Work::Ask(_)) {
            self.summarize_by_itself(live).await;
        }
    }

    /// Waits until no other process has a turn in the session, and goes on from where that one ended.
    async fn turn_of_session(&self, live: &Live, turn: &Turn) -> Result<TurnLock, Stopped> {
        loop {
            if let Some(lock) = tokio::task::block_in_place(|| TurnLock::try_take(&live.path))? {
                tokio::task::block_in_place(|| self.catch_up(live))?;
                return Ok(lock);
            }
            tokio::select! {
                () = turn.cancel.cancelled() => return Err(Stopped::from(&ModelError::Cancelled)),
                () = tokio::time::sleep(OTHERS_TURN) => {}
            }
        }
    }

    async fn ask(self: &Arc<Self>, live: &Arc<Live>, turn: &Arc<Turn>, input: &Input) -> Result<(), Stopped> {
        // What the person said is kept, whatever becomes of it.
        append(live, said(input))?;
        let config = self.config.read().map_err(|why| Stopped::new("config_error", why.to_string()))?;
        let selection = self.selection(&config, Some(&live.state().pinned.clone()));
        let client = self.client(&config, selection.kind).map_err(|why| Stopped::from(&why))?;
        let model = self.model_of(&selection).await.map_err(|why| Stopped::from(&why))?;
        let facts = self.catalogue(selection.kind).lookup(&client, &model);
        if facts.images == Some(false) && live.state().items.iter().any(|item| item.message.images().next().is_some())
        {
            return Err(Stopped::new("images_unsupported", format!("{model} does not support image inputs")));
        }
        let instructions = tokio::task::block_in_place(|| self.instructions(live, &config, &input.text));
        let definition = |spec: convoke_toolbox::ToolSpec| ToolDefinition {
            name: spec.name.to_owned(),
            description: spec.description,
            parameters: spec.parameters,
        };
        let tools = live.tools().specs().into_iter().map(definition).collect();
        let window = Settings::of(&config).window.or(facts.context_window);
        let setting = Setting { client, selection, model, instructions, tools, window };
        self.compact_if_due(live, turn, &setting).await;
        let content = self.converse(live, turn, &setting).await?;
        turn.emit(TurnHappening::Answer { content });
        self.note_retrieval(live)
    }

    /// Model and tools in turns, until there is an answer.
    async fn converse(
        self: &Arc<Self>,
        live: &Arc<Live>,
        turn: &Arc<Turn>,
        setting: &Setting,
    ) -> Result<String, Stopped> {
        let mut has_compacted = false;
        loop {
            let answered = match self.request(live, turn, setting).await {
                Err(failure) if failure.error.is_context_overflow() && !has_compacted => {
                    has_compacted = true;
                    let made = self.compact(live, &setting.selection, "", Reason::Overflow, &turn.cancel).await;
                    made.map_err(|_| Stopped::from(&failure.error))?;
                    continue;
                }
                Err(failure) => {
                    self.keep_partial(live, setting, &failure)?;
                    return Err(Stopped::from(&failure.error));
                }
                Ok(answered) => answered,
            };
            let message = append(live, self.stored_answer(setting, &answered))?;
            turn.emit(TurnHappening::AssistantMessage { message: without_id(&message) });
            for call in &answered.tool_calls {
                if turn.cancel.is_cancelled() {
                    break;
                }
                self.run_tool(live, turn, call).await?;
            }
            if turn.cancel.is_cancelled() {
                return Err(Stopped::from(&ModelError::Cancelled));
            }
            let is_done = answered.tool_calls.is_empty();
            let steered = if is_done { turn.take_steered_or_close() } else { turn.take_steered() };
            if is_done && steered.is_empty() {
                return Ok(answered.text);
            }
            if !steered.is_empty() {
                turn.emit(TurnHappening::SteeringApplied { count: steered.len() });
            }
            for input in &steered {
                append(live, said(input))?;
            }
        }
    }

    /// One request to the model, its progress told as it comes.
    async fn request(&self, live: &Live, turn: &Arc<Turn>, setting: &Setting) -> Result<Completion, Failure> {
        let request = Request {
            model: setting.model.clone(),
            instructions: setting.instructions.clone(),
            messages: request::messages(&live.state().items),
            tools: setting.tools.clone(),
            effort: setting.selection.effort.clone(),
            max_output_tokens: None,
            cache_key: Some(live.persistent_id.clone()),
        };
        let began = Instant::now();
        let mut sink = |event: Event| {
            if self.out.is_full() {
                tokio::task::block_in_place(|| self.out.wait_for_room());
            }
            self.tell(turn, event);
        };
        let answered = setting.client.stream(&request, &mut sink, &turn.cancel).await;
        let switches = self.log_switches();
        let provider = setting.selection.kind.label();
        match &answered {
            Ok(done) => {
                let usage = done.usage.map(|usage| usage_json(&usage, None));
                self.logs.model(
                    &switches,
                    provider,
                    &setting.model,
                    done.request_bytes,
                    began.elapsed(),
                    Status::Ok,
                    usage,
                );
            }
            Err(failed) => {
                let status =
                    if matches!(failed.error, ModelError::Cancelled) { Status::Cancelled } else { Status::Error };
                self.logs.model(
                    &switches,
                    provider,
                    &setting.model,
                    failed.request_bytes,
                    began.elapsed(),
                    status,
                    None,
                );
                if status == Status::Error {
                    let (code, text) = (failed.error.code(), failed.error.to_string());
                    self.logs.error(&switches, "model_request", code, &text, Some(provider));
                }
            }
        }
        answered
    }

    fn tell(&self, turn: &Turn, event: Event) {
        match event {
            Event::Text(delta) => turn.emit(TurnHappening::AssistantDelta { delta }),
            Event::Reasoning(delta) => turn.emit(TurnHappening::ReasoningDelta { delta }),
            Event::ReasoningBoundary => turn.emit(TurnHappening::ReasoningBoundary {}),
            // Told when it is run.
            Event::ToolCall(_) => {}
            Event::Retry(retry) => {
                self.logs.retry(
                    &self.log_switches(),
                    retry.provider.label(),
                    &retry.model,
                    retry.attempt,
                    retry.delay,
                );
                turn.emit(TurnHappening::ModelRetry {
                    provider: retry.provider.label().into(),
                    model: retry.model,
                    attempt: retry.attempt,
                    max_attempts: retry.max_attempts,
                    delay_seconds: (retry.delay.as_secs_f64() * 1000.0).round() / 1000.0,
                    error: retry.error,
                    request_bytes: retry.request_bytes as u64,
                });
            }
        }
    }

    async fn compact_if_due(self: &Arc<Self>, live: &Arc<Live>, turn: &Turn, setting: &Setting) {
        let Some(window) = setting.window else { return };
        let settings = Settings::of(&self.config.read_or_default());
        let tokens = cut::tokens_in(&live.state().items);
        if settings.is_due(tokens, window) {
            // If it does not work out, the model is asked all the same; the client has been told why.
            let _ = self.compact(live, &setting.selection, "", Reason::Threshold, &turn.cancel).await;
        }
    }

    fn stored_answer(&self, setting: &Setting, answered: &Completion) -> Stored {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        message.insert("content".into(), answered.text.clone().into());
        if !answered.reasoning.is_empty() {
            message.insert("reasoning_summary".into(), answered.reasoning.clone().into());
        }
        if !answered.tool_calls.is_empty() {
            message.insert("tool_calls".into(), answered.tool_calls.iter().map(super::tools::raw).collect());
        }
        if let Some(usage) = &answered.usage {
            let listed = self.catalogue(setting.selection.kind).lookup(&setting.client, &setting.model).price;
            let price = configured_price(&self.config.read_or_default(), &setting.model).or(listed);
            let cost = usage.cost.or_else(|| price?.cost(usage));
            message.insert("usage".into(), usage_json(usage, cost));
        }
        message.insert("provider".into(), setting.selection.kind.label().into());
        message.insert("model".into(), setting.model.clone().into());
        Stored(message)
    }

    /// What the person has seen of an answer that broke off is kept.
    fn keep_partial(&self, live: &Live, setting: &Setting, failure: &Failure) -> Result<(), Stopped> {
        let partial = &failure.partial;
        if partial.text.is_empty() && partial.reasoning.is_empty() {
            return Ok(());
        }
        let mut message = json!({
            "role": "assistant", "content": partial.text, "provider": setting.selection.kind.label(),
            "model": setting.model, "error_message": self.redactor.text(&failure.error.to_string()),
        });
        if !partial.reasoning.is_empty() {
            message["reasoning_summary"] = partial.reasoning.clone().into();
        }
        append(live, Stored::from_value(message)).map(drop)
    }

    /// Writes down what was remembered for this turn, so that `memory/why` can tell after a restart.
    fn note_retrieval(&self, live: &Live) -> Result<(), Stopped> {
        let retrieval = live.state().last_retrieval.clone().filter(|retrieval| retrieval.enabled);
        let Some(retrieval) = retrieval else { return Ok(()) };
        let last_retrieval = json!(retrieval);
        let record = Record::MemoryState {
            timestamp: clock::now_text(),
            session_memories: &[],
            last_retrieval: &last_retrieval,
        };
        tokio::task::block_in_place(|| live.state().note(&record))?;
        Ok(())
    }
}

/// A message as it is told: its id is the file's own business.
fn without_id(message: &Stored) -> Value {
    let mut message = message.0.clone();
    message.remove("id");
    Value::Object(message)
}

pub(crate) fn append(live: &Live, message: Stored) -> Result<Arc<Stored>, Stopped> {
    Ok(tokio::task::block_in_place(|| live.state().append(message))?)
}

fn said(input: &Input) -> Stored {
    let mut message = json!({ "role": "user", "content": input.content });
    if let Some(display) = &input.display {
        message["display_content"] = display.clone().into();
    }
    Stored::from_value(message)
}

/// A price that the configuration names: `prices.<model>.{input, cached_input, output}`, in dollars per million tokens.
fn configured_price(config: &Config, model: &str) -> Option<Price> {
    let of = |key: &str| {
        let dollars = config.0.get("prices")?.get(model)?.get(key)?.as_f64()?;
        (dollars >= 0.0).then_some(dollars / 1e6)
    };
    Some(Price { input: of("input")?, output: of("output")?, cached_input: of("cached_input"), ..Price::default() })
}

fn usage_json(usage: &Usage, cost: Option<f64>) -> Value {
    let mut json = json!({
        "input_tokens": usage.input, "output_tokens": usage.output, "cache_read_tokens": usage.cached_input,
        "cache_write_tokens": usage.cache_write, "total_tokens": usage.total, "estimated": false,
    });
    if let Some(cost) = cost {
        json["cost"] = cost.into();
    }
    json
}
