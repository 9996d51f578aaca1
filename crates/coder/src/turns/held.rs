//! Holds back the end of a turn's streams where it may be the beginning of a secret: a secret that is split between two
//! pieces of a stream must not be shown either.

use convoke_kward::events::{ToolDelta, TurnHappening};

use crate::redact::Redactor;

/// A stream of a turn.
#[derive(Clone, Debug)]
pub(crate) enum Stream {
    Text,
    Reasoning,
    Tool { id: String, name: String, elapsed_ms: u64 },
}

impl Stream {
    /// The stream that an event belongs to and its piece; or the event, if it is no piece of one.
    fn of(what: TurnHappening) -> Result<(Self, String), TurnHappening> {
        match what {
            TurnHappening::AssistantDelta { delta } => Ok((Self::Text, delta)),
            TurnHappening::ReasoningDelta { delta } => Ok((Self::Reasoning, delta)),
            TurnHappening::ToolUpdate { tool_call_id, tool_name, delta, elapsed_ms } => {
                Ok((Self::Tool { id: tool_call_id, name: tool_name, elapsed_ms }, delta.content))
            }
            other => Err(other),
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text, Self::Text) | (Self::Reasoning, Self::Reasoning) => true,
            (Self::Tool { id, .. }, Self::Tool { id: other, .. }) => id == other,
            _ => false,
        }
    }

    fn piece(self, text: String) -> TurnHappening {
        match self {
            Self::Text => TurnHappening::AssistantDelta { delta: text },
            Self::Reasoning => TurnHappening::ReasoningDelta { delta: text },
            Self::Tool { id, name, elapsed_ms } => TurnHappening::ToolUpdate {
                tool_call_id: id,
                tool_name: name,
                delta: ToolDelta { content: text },
                elapsed_ms,
            },
        }
    }
}

/// The ends of the streams that have not been shown yet.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<(Stream, String)>);

impl Held {
    /// The events that can be sent now, in order.
    pub(crate) fn pass(&mut self, redactor: &Redactor, what: TurnHappening) -> Vec<TurnHappening> {
        let (stream, piece) = match Stream::of(what) {
            Ok(piece) => piece,
            Err(other) => {
                let mut told = match other {
                    // It ends one of the streams only.
                    TurnHappening::ReasoningBoundary {} => self.end(redactor, |stream| stream.is(&Stream::Reasoning)),
                    _ => self.end(redactor, |_| true),
                };
                told.push(other);
                return told;
            }
        };
        let at = self.0.iter().position(|(known, _)| known.is(&stream));
        let mut held = at.map(|at| self.0.swap_remove(at).1).unwrap_or_default();
        let shown = redactor.next_piece(&mut held, &piece);
        if !held.is_empty() {
            self.0.push((stream.clone(), held));
        }
        if shown.is_empty() { Vec::new() } else { vec![stream.piece(shown)] }
    }

    /// The held ends of all streams, once no more pieces will come.
    pub(crate) fn rest(&mut self, redactor: &Redactor) -> Vec<TurnHappening> {
        self.end(redactor, |_| true)
    }

    fn end(&mut self, redactor: &Redactor, ends: impl Fn(&Stream) -> bool) -> Vec<TurnHappening> {
        let ended = self.0.extract_if(.., |(stream, _)| ends(stream));
        ended.map(|(stream, held)| stream.piece(redactor.last_piece(&held))).collect()
    }
}
