//! Events as they arrive from a hub.

use std::collections::VecDeque;

use convoke_sse::{Decoder, TooLong};

use crate::client::ClientError;

/// Most bytes of one event: the hub keeps log lines far below that.
const MAX_EVENT: usize = 1 << 20;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    /// The cursor behind it.
    pub id: String,
    /// Its kind, or `reset` where events are missing.
    pub kind: String,
    /// Its JSON object.
    pub data: String,
}

/// An open stream of events.
#[derive(Debug)]
pub struct EventStream {
    url: String,
    reply: reqwest::Response,
    decoder: Decoder,
    arrived: VecDeque<StreamEvent>,
}

impl EventStream {
    pub(crate) fn new(url: String, reply: reqwest::Response) -> Self {
        Self { url, reply, decoder: Decoder::new(MAX_EVENT), arrived: VecDeque::new() }
    }

    /// Reads on until something arrived, a comment too. False at the end. Whoever stops waiting misses nothing.
    pub async fn arrives(&mut self) -> Result<bool, ClientError> {
        let chunk = self.reply.chunk().await.map_err(|why| ClientError::of(&self.url, &why))?;
        let Some(chunk) = chunk else { return Ok(false) };
        let arrived = &mut self.arrived;
        let fed = self.decoder.feed(&chunk, |message| {
            let (id, kind, data) = (message.id.into(), message.name.into(), message.data.into());
            arrived.push_back(StreamEvent { id, kind, data });
            Ok::<_, TooLong>(())
        });
        fed.map_err(|why| ClientError::Lost { url: self.url.clone(), why: why.to_string() })?;
        Ok(true)
    }

    /// The next of the events that have arrived.
    pub fn next_arrived(&mut self) -> Option<StreamEvent> {
        self.arrived.pop_front()
    }
}
