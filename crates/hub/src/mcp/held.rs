//! A session's request is answered with a stream, and the SDK lets its head go at once: a first event without a message,
//! from which a client whose connection breaks can resume. Most calls end a few milliseconds later, and then the head
//! was a packet, and a client woken, for nothing. So the head is held back for a moment: what has ended by then goes out
//! whole, in one piece, and what has not is a stream like any other.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use bytes::BytesMut;
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

/// For how long. A client that loses its connection in this time cannot resume, and asks again.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// Holds an answer back until it is whole, or until the moment is over.
pub(super) async fn back<B>(response: Response<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    until(Instant::now() + MOMENT, response).await
}

async fn until<B>(over: Instant, response: Response<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let (parts, mut rest) = response.into_parts();
    let mut begun = BytesMut::new();
    loop {
        match tokio::time::timeout_at(over, rest.frame()).await {
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    begun.extend_from_slice(&data);
                }
            }
            Ok(None) => return Response::from_parts(parts, Body::from(begun.freeze())),
            Err(_) => {
                let begun = stream::iter([Ok::<_, Infallible>(begun.freeze())]);
                return Response::from_parts(parts, Body::from_stream(begun.chain(rest.into_data_stream())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::sync::mpsc;

    use super::*;

    type Sender = mpsc::UnboundedSender<&'static str>;

    /// A stream that says what it is told to.
    fn stream() -> (Sender, Response<impl HttpBody<Data = Bytes, Error = Infallible> + Send + Unpin + 'static>) {
        let (say, said) = mpsc::unbounded_channel::<&'static str>();
        let said = stream::unfold(said, async |mut said| {
            let text = said.recv().await?;
            Some((Ok(Frame::data(Bytes::from_static(text.as_bytes()))), said))
        });
        (say, Response::new(StreamBody::new(Box::pin(said))))
    }

    #[tokio::test]
    async fn what_ends_within_the_moment_goes_out_whole() {
        let (say, response) = stream();
        let answering = tokio::spawn(until(Instant::now() + Duration::from_secs(3600), response));
        say.send("head, ").expect("listens");
        tokio::task::yield_now().await;
        say.send("answer").expect("listens");
        drop(say);
        let body = answering.await.expect("no panic").into_body();
        assert_eq!(body.size_hint().exact(), Some(12), "its length is known");
        assert_eq!(body.collect().await.expect("whole").to_bytes(), "head, answer");
    }

    #[tokio::test]
    async fn what_takes_longer_is_a_stream_that_lost_nothing() {
        let (say, response) = stream();
        say.send("head, ").expect("listens");
        let mut body = until(Instant::now(), response).await.into_body();
        let mut next = async || body.frame().await.expect("goes on").expect("whole").into_data().expect("data");
        assert_eq!(next().await, "head, ");
        say.send("answer").expect("listens");
        assert_eq!(next().await, "answer");
        drop(say);
        assert!(body.frame().await.is_none());
    }
}
