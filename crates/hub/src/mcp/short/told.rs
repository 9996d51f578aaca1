//! A client that wants to hear of its call's progress. Nearly every call has ended before there is anything to tell, and
//! is answered like one whose client does not want to: what that costs is one timer. When the time for the first word
//! has come, the answer becomes a stream: progress, again and again, and at last the reply.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response};
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::stream;
use rmcp::model::{ProgressNotification, ProgressToken, ServerJsonRpcMessage, ServerNotification};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::call::named;
use super::super::progress::{EVERY, notice};
use crate::calls::Call;
use crate::http::extract::json_bytes;
use crate::hub::Hub;

/// What ends with the reply. It is dropped when the client goes away.
type Ending = Pin<Box<dyn Future<Output = String> + Send>>;

/// Keeps proxies from holding a stream back.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Who is told.
pub(super) struct Client {
    token: ProgressToken,
    started: Instant,
    /// The hub has stopped, and so do its streams.
    stopped: CancellationToken,
}

impl Client {
    /// Of a call that begins now.
    pub(super) fn of(hub: &Hub, token: ProgressToken) -> Self {
        Self { token, started: Instant::now(), stopped: hub.mcp.ended.clone() }
    }

    /// The reply, or a stream of progress that ends with it.
    pub(super) async fn answer(self, call: &Call, mut ending: Ending) -> Response<Body> {
        let next = self.started + EVERY;
        if let Ok(reply) = tokio::time::timeout_at(next, &mut ending).await {
            return json_bytes(reply);
        }
        let telling = Telling { what: named(call), client: self, ending: Some(ending), next };
        let events =
            stream::unfold(telling, async |mut telling| Some((Ok::<_, Infallible>(telling.event().await?), telling)));
        let mut response = Sse::new(events).into_response();
        response.headers_mut().extend([UNBUFFERED]);
        response
    }
}

/// A stream under way.
struct Telling {
    client: Client,
    what: String,
    /// Gone once the reply is.
    ending: Option<Ending>,
    next: Instant,
}

impl Telling {
    async fn event(&mut self) -> Option<Event> {
        let ending = self.ending.as_mut()?;
        tokio::select! {
            biased;
            reply = ending => {
                self.ending = None;
                Some(Event::default().data(reply))
            }
            () = self.client.stopped.cancelled() => None,
            () = tokio::time::sleep_until(self.next) => {
                self.next += EVERY;
                let notice = ProgressNotification::new(notice(&self.client.token, self.client.started, &self.what));
                let message = ServerJsonRpcMessage::notification(ServerNotification::ProgressNotification(notice));
                Event::default().json_data(message).ok()
            }
        }
    }
}
