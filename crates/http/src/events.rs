//! What happens, as server-sent events.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use convoke_api::record::EventQuery;
use convoke_core::event::{Cursor, Kind};

use convoke_doors::ApiError;
use convoke_doors::error::clip;
use convoke_doors::extract::{By, QueryOf};
use convoke_gate::clock;
use convoke_gate::events::{Missed, NoStream, Published, Stream, Subscription, is_visible};
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

/// How often a stream on which nothing happens says that it is still there, and how far it has come.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A piece of the stream is sent once it is so long.
const PIECE: usize = 16 * 1024;
/// Where a reader that comes back says how far it has come.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells a proxy not to gather what is sent.
const ACCEL: HeaderName = HeaderName::from_static("x-accel-buffering");

#[utoipa::path(get, path = "/api/events", params(EventQuery, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String)), tag = "record")]
/// What happens from now on, or after a cursor, as server-sent events: `id` is the cursor, `event` the kind, `data` one JSON
/// object. `event: reset` says that events are missing: read anew what you need.
pub async fn stream(
    State(hub): State<Hub>,
    By(caller): By,
    headers: HeaderMap,
    QueryOf(query): QueryOf<EventQuery>,
) -> Result<Response<Body>, ApiError> {
    let kinds = query.kinds.as_deref().map(kinds).transpose()?;
    let place = hub.events.stream(caller.token.id).map_err(|why| match why {
        NoStream::OfToken => {
            let message = "this token reads as many streams of events as it may (events.max_streams_per_token)";
            ApiError::limited(message, 30)
        }
        NoStream::OfHub => ApiError::busy("the hub serves as many streams of events as it may (events.max_streams)"),
    })?;
    // A browser that reconnects repeats its first URL.
    let came_back = headers.get(&LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default().to_owned());
    let after = came_back.filter(|id| !id.is_empty()).or(query.after);
    let resumed = after.as_deref().map(|text| Cursor::parse(text).and_then(|at| hub.events.subscribe_after(&at)));
    let (subscription, begin) = match resumed {
        Some(Some(subscription)) => (subscription, ": goes on\n\n".to_owned()),
        other => {
            let subscription = hub.events.subscribe();
            let cursor = hub.events.cursor(subscription.seq());
            let reset = other.is_some();
            (subscription, if reset { missed(&cursor) } else { format!(": begins at {cursor}\nid: {cursor}\n\n") })
        }
    };
    let reader = Reader { caller, kinds, subscription, begin: Some(begin), hub, place };
    let pieces = futures_util::stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        let (piece, goes_on) = reader.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), goes_on.then_some(reader)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL, HeaderValue::from_static("no"));
    Ok(response)
}

/// The kinds in a list with commas.
fn kinds(list: &str) -> Result<Vec<Kind>, ApiError> {
    let named = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let read = |name: &str| {
        Kind::parse(name).ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            ApiError::bad_request(format!("`kinds`: there is no kind `{}`; there are {names}", clip(name)))
        })
    };
    named.map(read).collect()
}

/// Says that events are missing.
fn missed(cursor: &Cursor) -> String {
    format!("id: {cursor}\nevent: reset\ndata: {{}}\n\n")
}

/// One reader of the stream.
struct Reader {
    hub: Hub,
    caller: Caller,
    /// All where absent.
    kinds: Option<Vec<Kind>>,
    subscription: Subscription,
    /// What it gets first.
    begin: Option<String>,
    place: Stream,
}

impl Reader {
    /// The next piece, and whether more follows it. Nothing once the stream has ended.
    async fn next(&mut self) -> Option<(String, bool)> {
        if let Some(begin) = self.begin.take() {
            return Some((begin, true));
        }
        let beat = tokio::time::sleep(HEARTBEAT);
        tokio::pin!(beat);
        loop {
            let now = clock::now();
            if !self.caller.is_active(now) {
                return None;
            }
            let (piece, goes_on) = self.ready();
            if !piece.is_empty() {
                return Some((piece, goes_on));
            }
            if self.hub.stopping.is_cancelled() {
                return None;
            }
            let lapses = self.caller.expires_at().map(|at| at.since(now));
            let lapsed = async {
                match lapses {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.place.ended() => return None,
                () = self.subscription.more() => {}
                () = self.hub.stopping.cancelled() => {}
                () = lapsed => {}
                () = &mut beat => {
                    // Also tells how far a reader has come who is shown little of what happens.
                    let cursor = self.hub.events.cursor(self.subscription.seq());
                    return Some((format!(":\nid: {cursor}\n\n"), true));
                }
            }
        }
    }

    /// What there is by now, up to the length of a piece, and whether more follows it.
    fn ready(&mut self) -> (String, bool) {
        let mut piece = String::new();
        while piece.len() < PIECE {
            match self.subscription.try_next(&self.hub.events) {
                None => break,
                Some(Ok(published)) if self.shows(&published) => self.write(&mut piece, &published),
                Some(Ok(_)) => {}
                Some(Err(Missed)) => {
                    // The reader is too slow: end its stream; it comes back with its cursor.
                    piece.push_str(&missed(&self.hub.events.cursor(self.subscription.seq())));
                    return (piece, false);
                }
            }
        }
        (piece, true)
    }

    fn shows(&self, published: &Published) -> bool {
        let event = &published.event;
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&event.kind()))
            && is_visible(&self.hub, &self.caller.token, event)
    }

    fn write(&self, piece: &mut String, published: &Published) {
        let cursor = self.hub.events.cursor(published.seq);
        let (kind, data) = (published.event.name(), &published.data);
        // Writing into a text cannot fail.
        let _ = write!(piece, "id: {cursor}\nevent: {kind}\ndata: {data}\n\n");
    }
}
