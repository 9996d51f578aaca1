//! Rooms: what a line costs on the relay, beside a bare fan-out and beside NATS with the same lines; what a participant
//! takes who only listens; many participants in many rooms; a data channel between two of ours beside raw UDP.

use std::time::{Duration, Instant};

use anyhow::ensure;
use convoke_sim::rooms::{self, enter, hear, line, make, room};
use convoke_sim::rules::load::{Conn, Flow, run};
use convoke_sim::rules::nats::{Nats, NatsServer};
use convoke_sim::stage::{Server, Stage};
use convoke_sim::ws::{self, Socket};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::net::TcpStream;

use super::plan::Plan;
use super::rules::{Point, median, settled};
use super::table::{Goal, Row};

/// Who hears a line.
const MANY: usize = 100;
/// A line as people write them.
const LINE: &str = "the quick brown fox jumps over the lazy dog, and build 4711 of the release branch is out";
/// Participants in each of many rooms.
const IN_A_ROOM: usize = 20;
/// Participants that enter at once.
const CONCURRENCY: usize = 32;

pub(super) async fn measure(plan: &Plan, stage: &Stage, token: &str) -> anyhow::Result<Vec<Row>> {
    let mut settings = plan.settings.clone();
    // The load is meant.
    settings.extend(["rooms.frames_per_second=1000000".to_owned(), "rooms.max_participants=1000".to_owned()]);
    let count = plan.agents.next_multiple_of(IN_A_ROOM);
    let hub = stage.hub("rooms", token, &settings).await?;
    make(hub.address, token, count / IN_A_ROOM).await?;
    // Killed, not stopped: what it acknowledged is there all the same, or the next step fails.
    hub.stop().await?;
    let hub = stage.hub("rooms", token, &settings).await?;
    let relay = stage.relay().await?;
    let mut rows = crowd(plan, &hub, &relay, token, count).await?;
    let nats = NatsServer::start().await?;
    if nats.is_none() {
        eprintln!("nats-server is not installed; its figures are left out");
    }
    rows.push(fan_out(plan, &hub, &relay, nats.as_ref(), token).await?);
    rows.push(channel(plan).await?);
    Ok(rows)
}

/// Everybody enters and stays; then one in each room says something.
async fn crowd(plan: &Plan, hub: &Server, relay: &Server, token: &str, count: usize) -> anyhow::Result<Vec<Row>> {
    let rooms = count / IN_A_ROOM;
    eprintln!("{count} participants in {rooms} rooms");
    let bare = {
        let before = settled(plan, relay).await?;
        let sockets: Vec<Socket> = futures_util::stream::iter((0..count).map(|_| open(relay)))
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let after = settled(plan, relay).await?;
        drop(sockets);
        after.saturating_sub(before)
    };
    let (before, cpu) = (settled(plan, hub).await?, hub.usage()?.cpu);
    let all = (0..count).map(|n| async move {
        let room = n % rooms;
        enter(hub.address, token, &self::room(room), n).await.map(|socket| (room, socket))
    });
    let mut inside: Vec<(usize, Socket)> =
        futures_util::stream::iter(all).buffer_unordered(CONCURRENCY).try_collect().await?;
    let cpu = hub.usage()?.cpu.saturating_sub(cpu);
    let memory = settled(plan, hub).await?.saturating_sub(before);
    let began = Instant::now();
    let mut spoke = vec![false; rooms];
    let mut hearing = tokio::task::JoinSet::new();
    for (room, mut socket) in inside.drain(..) {
        let speaks = !std::mem::replace(&mut spoke[room], true);
        hearing.spawn(async move {
            if speaks {
                socket.queue_text(&line(LINE));
                socket.flush().await?;
            } else {
                hear(&mut socket).await?;
            }
            // Kept open until all have heard theirs.
            anyhow::Ok(socket)
        });
    }
    let mut kept = Vec::with_capacity(count);
    while let Some(done) = hearing.join_next().await {
        kept.push(done??);
    }
    let took = began.elapsed();
    drop(kept);
    let each_kib = |bytes: u64| bytes as f64 / 1024.0 / count as f64;
    let each_ms = |cpu: Duration| cpu.as_secs_f64() * 1000.0 / count as f64;
    Ok(vec![
        Row {
            measure: format!("user memory per idle participant, {count} in {rooms} rooms"),
            unit: "KiB",
            hub: each_kib(memory),
            forwarder: Some(each_kib(bare)),
            goal: Goal::at_most(16.0),
            original: None,
            note: format!("a line in each room at once was heard by all others after {} ms", took.as_millis()),
        },
        Row {
            measure: format!("CPU per participant that enters, {IN_A_ROOM} in a room"),
            unit: "ms",
            hub: each_ms(cpu),
            forwarder: None,
            goal: Goal::NONE,
            original: None,
            note: "with connection and upgrade; everybody in the room is told".into(),
        },
    ])
}

async fn open(server: &Server) -> anyhow::Result<Socket> {
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    Ok(ws::open(stream, server.address, "/", None).await?)
}

/// The same lines through all three, in turns; the median of the rounds counts.
async fn fan_out(
    plan: &Plan,
    hub: &Server,
    relay: &Server,
    nats: Option<&NatsServer>,
    token: &str,
) -> anyhow::Result<Row> {
    let many = MANY.min(plan.clients.saturating_sub(1)).max(1);
    eprintln!("lines to {many}");
    let (mut own, mut bare, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let mut sockets = Vec::new();
        for _ in 0..=many {
            sockets.push(Conn::Ws(Box::new(open(relay).await?)));
        }
        bare.push(point(plan, sockets, || Ok(relay.usage()?.cpu)).await?);
        let mut sockets = Vec::new();
        for n in 0..=many {
            sockets.push(Conn::Room(Box::new(enter(hub.address, token, &room(0), n).await?)));
        }
        own.push(point(plan, sockets, || Ok(hub.usage()?.cpu)).await?);
        if let Some(nats) = nats {
            let mut sockets = vec![Conn::Nats(Nats::connect(nats.address, false).await?)];
            for _ in 0..many {
                sockets.push(Conn::Nats(Nats::connect(nats.address, true).await?));
            }
            other.push(point(plan, sockets, || Ok(nats.usage()?.cpu)).await?);
        }
    }
    let (own, bare) = (median(&own), median(&bare));
    let mut note = format!("{:.0}/s; bare {:.0}/s", own.rate, bare.rate);
    if !other.is_empty() {
        let nats = median(&other);
        note.push_str(&format!("; nats-server {:.4} ms, {:.0}/s", nats.cpu_us / 1000.0, nats.rate));
    }
    Ok(Row {
        measure: format!("CPU per line on the relay, 1 → {many}"),
        unit: "ms",
        hub: own.cpu_us / 1000.0,
        forwarder: Some(bare.cpu_us / 1000.0),
        goal: Goal::NONE.and_times_forwarder(2.0),
        original: None,
        note,
    })
}

async fn point(
    plan: &Plan,
    mut sockets: Vec<Conn>,
    cpu: impl Fn() -> anyhow::Result<Duration>,
) -> anyhow::Result<Point> {
    let sender = sockets.remove(0);
    let (_, sender, receivers) = run(sender, sockets, "chat", LINE, plan.warm_up).await?;
    let before = cpu()?;
    let (flow, ..): (Flow, _, _) = run(sender, receivers, "chat", LINE, plan.load).await?;
    let used = cpu()?.saturating_sub(before);
    ensure!(flow.sent > 0, "nothing was sent");
    Ok(Point {
        cpu_us: used.as_secs_f64() * 1e6 / flow.sent as f64,
        rate: flow.sent as f64 / flow.elapsed.as_secs_f64(),
    })
}

async fn channel(plan: &Plan) -> anyhow::Result<Row> {
    let count = if plan.quick { 500 } else { 20_000 };
    eprintln!("{count} round trips over a data channel");
    let (own, bare) = rooms::round_trips(count, 100).await?;
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    Ok(Row {
        measure: "round trip over a data channel, median".into(),
        unit: "ms",
        hub: ms(own),
        forwarder: Some(ms(bare)),
        goal: Goal::NONE,
        original: None,
        note: "100 bytes over loopback; beside it raw UDP".into(),
    })
}
