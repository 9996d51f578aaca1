//! The methods on turns.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use convoke_kward::attachment::{self, Image};
use convoke_kward::params;
use convoke_kward::results::{self, TurnError, TurnStatus};
use convoke_kward::rpc::RpcError;
use convoke_toolbox::pictures::{Picture, Places, pictures_in};
use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::queue::MAX_WAITING;
use super::turn::{Input, Turn, Work};
use crate::backend::Backend;
use crate::dispatch::{Answered, Reply};
use crate::prompts;
use crate::sessions::live::Live;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Queue,
    Steer,
}

impl Backend {
    /// `turns/start`. The answer goes out first, then `turnQueued`, then the turn's events.
    pub(crate) fn start_turn(self: &Arc<Self>, params: params::StartTurn) -> Answered {
        let live = self.session(&params.session_id)?;
        let images = attachment::parse(params.attachments)?;
        let work = self.work(&live, &params.input, &images);
        let running = {
            let queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            queue.at_work().filter(|turn| turn.status() == TurnStatus::Running).cloned()
        };
        let work = match (behaviour(params.streaming_behavior.as_deref(), running.is_some())?, running, work) {
            (Behaviour::Steer, Some(turn), Work::Ask(input)) => match self.steer(turn, input) {
                Ok(reply) => return Ok(reply),
                // The turn has just ended: what was said becomes the next one.
                Err(input) => Work::Ask(input),
            },
            (_, _, work) => work,
        };
        let turn = Arc::new(Turn::new(&live.id, work, self.out.clone()));
        {
            let mut queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if queue.is_closed {
                return Err(RpcError::failed("UnknownSession", format!("Unknown session: {}", live.id)));
            }
            if queue.waiting.len() >= MAX_WAITING {
                let text = format!("{MAX_WAITING} turns are waiting in this session. Cancel some, or wait.");
                return Err(RpcError::failed("QueueFull", text));
            }
            queue.waiting.push_back(turn.clone());
        }
        self.turns.add(turn.clone());
        let (shown, backend) = (turn.shown(), self.clone());
        Ok(Reply::new(&shown).and_then(move || {
            turn.queued();
            backend.work_off(&live);
        }))
    }

    fn steer(&self, turn: Arc<Turn>, input: Input) -> Result<Reply, Input> {
        // `turnSteered` comes before this answer: whether the input is taken has to be known for it.
        turn.steer(input)?;
        Ok(Reply::new(&turn.shown()))
    }

    /// What an input asks for: a plugin's command, or the model with templates, skills and pictures put in.
    fn work(&self, live: &Live, typed: &str, images: &[Image]) -> Work {
        if images.is_empty()
            && let Some((name, arguments)) = self.plugin_command(typed)
        {
            return Work::Plugin { name, arguments };
        }
        let expanded = prompts::expand_slash(&self.paths.dir, typed);
        let display = expanded.as_ref().map(|_| typed.to_owned());
        let text = expanded.unwrap_or_else(|| typed.to_owned());
        let (text, named) = match images {
            [] => self.pictures_named(live, text),
            _ => (text, Vec::new()),
        };
        let content = match [images, &named].concat().as_slice() {
            [] => Value::String(text.clone()),
            images => {
                let mut parts = vec![json!({ "type": "text", "text": text })];
                parts.extend(images.iter().map(Image::part));
                Value::Array(parts)
            }
        };
        Work::Ask(Input { content, display, text })
    }

    /// The pictures that a person names in a text instead of attaching them. A model that sees none gets the text alone.
    fn pictures_named(&self, live: &Live, text: String) -> (String, Vec<Image>) {
        let config = self.config.read_or_default();
        let selection = self.selection(&config, Some(&live.state().pinned.clone()));
        let is_blind =
            selection.model.is_some_and(|model| self.catalogue_lookup(selection.kind, &model).images == Some(false));
        if is_blind || config.0.get("attach_image_paths").and_then(Value::as_bool) == Some(false) {
            return (text, Vec::new());
        }
        let (text, found) = pictures_in(&text, Places { root: &live.root, home: self.environment.home() });
        let image =
            |picture: Picture| Image { data: picture.data, mime_type: picture.mime_type.into(), alt: picture.name };
        (text, found.into_iter().map(image).collect())
    }

    /// Starts a worker for a session's turns, unless one runs.
    fn work_off(self: &Arc<Self>, live: &Arc<Live>) {
        {
            let mut queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if std::mem::replace(&mut queue.has_worker, true) {
                return;
            }
        }
        let (backend, live) = (self.clone(), live.clone());
        self.spawn(async move {
            while let Some(turn) = next(&live) {
                if turn.start() && AssertUnwindSafe(backend.run_turn(&live, &turn)).catch_unwind().await.is_err() {
                    // A mistake of ours must not leave a turn without an end, nor the turns behind it without a worker.
                    let message = "The turn ended because of an internal error.".to_owned();
                    turn.finish(Err(TurnError { message, code: "internal".into(), fatal: false }));
                }
                backend.turns.ended(&turn.id);
            }
        });
    }

    /// `turns/cancel`.
    pub(crate) fn cancel_turn(&self, params: params::OfTurn) -> Result<results::Turn, RpcError> {
        let turn = self.turns.find(&params.turn_id)?;
        turn.request_cancel();
        // A turn that had not begun is out of the way at once.
        if let Ok(live) = self.session(&turn.session_id) {
            let mut queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let before = queue.waiting.len();
            queue.waiting.retain(|waiting| waiting.id != turn.id);
            if queue.waiting.len() < before {
                self.turns.ended(&turn.id);
            }
        }
        Ok(turn.shown())
    }

    /// `turns/status`.
    pub(crate) fn turn_status(&self, params: params::OfTurn) -> Result<results::Turn, RpcError> {
        self.turns.find(&params.turn_id).map(|turn| turn.shown())
    }

    /// `turns/events`.
    pub(crate) fn turn_events(&self, params: params::TurnEvents) -> Answered {
        #[derive(Serialize)]
        struct Events {
            turn: results::Turn,
            events: Vec<Arc<RawValue>>,
        }
        let turn = self.turns.find(&params.turn_id)?;
        let events = turn.events_after(params.after_sequence.unwrap_or(0));
        Ok(Reply::new(&Events { turn: turn.shown(), events }))
    }
}

fn next(live: &Live) -> Option<Arc<Turn>> {
    live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
}

fn behaviour(named: Option<&str>, is_running: bool) -> Result<Behaviour, RpcError> {
    match named {
        None if is_running => Ok(Behaviour::Steer),
        None | Some("newTurn" | "followUp") => Ok(Behaviour::Queue),
        Some("steer") if is_running => Ok(Behaviour::Steer),
        Some(other) => Err(RpcError::invalid_params(format!("Unsupported streamingBehavior: {other}"))),
    }
}
