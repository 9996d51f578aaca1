//! Rooms under load: participants of relay rooms, and what a data channel between two of ours costs beside raw UDP.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke_kibitz::mesh::pack::Value;
use convoke_rtc::{Config, Endpoint, Event as Happened, LinkId};
use hyper::Method;
use serde_json::json;
use tokio::net::{TcpStream, UdpSocket};

use crate::rules::RulesError;
use crate::ws::{self, Event, Socket};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest datagram.
const MAX_DATAGRAM: usize = 2_048;

/// Makes rooms on the relay: `room-0` and on.
pub async fn make(target: SocketAddr, token: &str, count: usize) -> Result<(), RulesError> {
    let mut http = crate::http::Client::new(target);
    let bearer = crate::http::bearer(token)?;
    for n in 0..count {
        let body = Bytes::from(json!({ "name": room(n) }).to_string());
        let (status, _) = http.send(Method::POST, "/api/rooms", Some(&bearer), body).await?;
        if !status.is_success() {
            return Err(RulesError::Odd(format!("the hub answered {status}")));
        }
    }
    Ok(())
}

/// The name of a room.
pub fn room(n: usize) -> String {
    format!("room-{n}")
}

/// A line of chat as a participant says it.
pub fn line(text: &str) -> String {
    json!({ "t": "to", "payload": { "k": "chat", "text": text } }).to_string()
}

/// Whether this is a line of chat as a participant hears it.
pub fn is_line(text: &str) -> bool {
    text.starts_with(r#"{"t":"from""#) && text.contains(r#""k":"chat""#)
}

/// Enters a room as an operator's participant, told from the others by `n`.
pub async fn enter(target: SocketAddr, token: &str, room: &str, n: usize) -> Result<Socket, RulesError> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let mut socket = ws::open(stream, target, &format!("/rooms/{room}/ws"), Some(token)).await?;
    socket.queue_text(
        &json!({ "t": "voice", "on": true, "name": format!("p{n}"), "token": format!("t{n}") }).to_string(),
    );
    socket.flush().await?;
    // Its grants come last.
    let entered = async {
        loop {
            match socket.next().await? {
                Event::Text(text) if text.contains(r#""k":"caps""#) => return Ok(()),
                Event::Text(text) if text.starts_with(r#"{"t":"error""#) => {
                    return Err(RulesError::Odd(text.to_string()));
                }
                Event::Close(code, _) => return Err(RulesError::Odd(format!("closed with {code:?}"))),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, entered).await.map_err(|_| RulesError::Odd("not let in in time".into()))??;
    Ok(socket)
}

/// Waits for a line of chat.
pub async fn hear(socket: &mut Socket) -> Result<(), RulesError> {
    loop {
        match socket.next().await? {
            Event::Text(text) if is_line(&text) => return Ok(()),
            Event::Ping(payload) => {
                socket.queue_pong(&payload);
                socket.flush().await?;
            }
            Event::Close(code, _) => return Err(RulesError::Odd(format!("closed with {code:?}"))),
            _ => {}
        }
    }
}

/// The median time of a round trip of `size` bytes over loopback: through a data channel, and bare.
pub async fn round_trips(count: usize, size: usize) -> io::Result<(Duration, Duration)> {
    let message = "x".repeat(size);
    Ok((median(channel(count, &message).await?), median(bare(count, &message).await?)))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn bare(count: usize, message: &str) -> io::Result<Vec<Duration>> {
    let (near, far) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    near.connect(far.local_addr()?).await?;
    far.connect(near.local_addr()?).await?;
    let echo = tokio::spawn(async move {
        let mut buffer = vec![0; MAX_DATAGRAM];
        while let Ok(size) = far.recv(&mut buffer).await {
            if far.send(&buffer[..size]).await.is_err() {
                return;
            }
        }
    });
    let (mut times, mut buffer) = (Vec::with_capacity(count), vec![0; MAX_DATAGRAM]);
    for _ in 0..count {
        let began = Instant::now();
        near.send(message.as_bytes()).await?;
        tokio::time::timeout(PATIENCE, near.recv(&mut buffer)).await??;
        times.push(began.elapsed());
    }
    echo.abort();
    Ok(times)
}

/// One of two ends, with its socket.
struct End {
    endpoint: Endpoint,
    socket: UdpSocket,
    local: SocketAddr,
    buffer: Vec<u8>,
}

impl End {
    async fn new() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let local = socket.local_addr()?;
        let config = Config { address: local, lite: false, links: (1, 1) };
        let endpoint = Endpoint::new(config).map_err(io::Error::other)?;
        Ok(Self { endpoint, socket, local, buffer: vec![0; MAX_DATAGRAM] })
    }

    /// Takes in and sends what there is, and waits for more if nothing happened.
    async fn turn(&mut self) -> io::Result<()> {
        while let Some(datagram) = self.endpoint.next_datagram() {
            self.socket.send_to(&datagram.bytes, datagram.to).await?;
        }
        let due = self.endpoint.due().unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
        tokio::select! {
            received = self.socket.recv_from(&mut self.buffer) => {
                let (size, from) = received?;
                self.endpoint.on_datagram(from, self.local, &self.buffer[..size], Instant::now());
            }
            () = tokio::time::sleep_until(due.into()) => {}
        }
        self.endpoint.on_time(Instant::now());
        while let Some(datagram) = self.endpoint.next_datagram() {
            self.socket.send_to(&datagram.bytes, datagram.to).await?;
        }
        Ok(())
    }
}

async fn channel(count: usize, message: &str) -> io::Result<Vec<Duration>> {
    let (mut near, mut far) = (End::new().await?, End::new().await?);
    near.endpoint.dial("a", "b", Instant::now()).ok_or_else(|| io::Error::other("cannot dial"))?;
    let connected = async {
        let mut open: [Option<LinkId>; 2] = [None, None];
        while open.iter().any(Option::is_none) {
            for (n, open) in open.iter_mut().enumerate() {
                while let Some(event) = if n == 0 { near.endpoint.next_event() } else { far.endpoint.next_event() } {
                    match event {
                        Happened::Signal(signal) => {
                            let other = if n == 0 { &mut far } else { &mut near };
                            other.endpoint.on_signal(&signal, Instant::now());
                        }
                        Happened::Open { link, .. } => *open = Some(link),
                        Happened::Message(..) | Happened::Closed { .. } => {}
                    }
                }
            }
            tokio::select! { done = near.turn() => done?, done = far.turn() => done? }
        }
        Ok::<_, io::Error>(open[0])
    };
    let link = tokio::time::timeout(PATIENCE, connected).await??;
    let link = link.ok_or_else(|| io::Error::other("not open"))?;
    // Its own task, as another participant is.
    let echo = tokio::spawn(async move {
        loop {
            while let Some(event) = far.endpoint.next_event() {
                if let Happened::Message(link, value) = event {
                    far.endpoint.send(link, &value, Instant::now());
                }
            }
            if far.turn().await.is_err() {
                return;
            }
        }
    });
    let (mut times, value) = (Vec::with_capacity(count), Value::Text(message.to_owned()));
    for _ in 0..count {
        let began = Instant::now();
        near.endpoint.send(link, &value, began);
        let answered = async {
            loop {
                while let Some(event) = near.endpoint.next_event() {
                    if matches!(event, Happened::Message(..)) {
                        return Ok::<_, io::Error>(());
                    }
                }
                near.turn().await?;
            }
        };
        tokio::time::timeout(PATIENCE, answered).await??;
        times.push(began.elapsed());
    }
    echo.abort();
    Ok::<_, io::Error>(times)
}
