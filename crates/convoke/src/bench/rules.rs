//! Yonexus rule messages: what one costs the hub, beside a bare relay and beside NATS with the same messages; what an
//! authentication costs, and an idle client.

use std::time::Duration;

use anyhow::ensure;
use convoke_sim::roster::Roster;
use convoke_sim::rules::clients::{Paired, enter, pair};
use convoke_sim::rules::load::{Conn, Flow, run};
use convoke_sim::rules::nats::{Nats, NatsServer};
use convoke_sim::stage::{Server, Stage};
use convoke_sim::ws::{self, Socket};
use serde_json::json;
use tokio::net::TcpStream;

use super::plan::Plan;
use super::table::{Goal, Row};

/// The keys of the simulated clients follow from this.
const SEED: &str = "rules";
/// Receivers of the fan-out.
const MANY: usize = 100;
/// A message as chats send them.
const CONTENT: &str = r#"{"conversationId":"7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11","body":"the quick brown fox jumps over the lazy dog"}"#;
/// Clients that connect at once.
const CONCURRENCY: usize = 32;

/// CPU of each message and how many a second, for one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) cpu_us: f64,
    pub(super) rate: f64,
}

pub(super) async fn measure(plan: &Plan, stage: &Stage, token: &str) -> anyhow::Result<Vec<Row>> {
    let many = MANY.min(plan.clients.saturating_sub(1)).max(1);
    let count = plan.clients.max(many + 1);
    let mut settings = plan.settings.clone();
    // The load is meant, and its clients come from one address.
    settings.push("yonexus.frames_per_second=100000000".into());
    settings.push("yonexus.max_pairings=100000".into());
    eprintln!("pairing {count} clients");
    let hub = stage.hub("rules", token, &settings).await?;
    let clients = pair(hub.address, token, &Roster::new(SEED), count).await?;
    add_rules(&hub, token, &clients, many).await?;
    // Killed, not stopped: what it acknowledged is there all the same, or the next step fails.
    hub.stop().await?;
    let hub = stage.hub("rules", token, &settings).await?;
    let relay = stage.relay().await?;
    let mut rows = idle(plan, &hub, &relay, &clients).await?;
    let nats = NatsServer::start().await?;
    if nats.is_none() {
        eprintln!("nats-server is not installed; its figures are left out");
    }
    for receivers in [1, many] {
        eprintln!("rule messages to {receivers}");
        rows.push(flow(plan, &hub, &relay, nats.as_ref(), &clients, receivers).await?);
    }
    Ok(rows)
}

/// One rule per shape of load: its clients are the first ones.
async fn add_rules(hub: &Server, token: &str, clients: &[Paired], many: usize) -> anyhow::Result<()> {
    let mut http = convoke_sim::http::Client::new(hub.address);
    let bearer = convoke_sim::http::bearer(token)?;
    let names: Vec<_> = clients.iter().skip(1).take(many).map(Paired::identifier).collect();
    let rule = json!({ "rule": "chat", "target": { "clients": { "to": names } } });
    let one = json!({ "rule": "one", "target": { "clients": { "to": [names[0]] } } });
    for body in [rule, one] {
        let body = body.to_string().into();
        let (status, _) = http.send("POST".parse()?, "/api/rules", Some(&bearer), body).await?;
        ensure!(status.is_success(), "the hub answered {status}");
    }
    Ok(())
}

/// Authentications and idle clients: everyone connects, and stays.
async fn idle(plan: &Plan, hub: &Server, relay: &Server, clients: &[Paired]) -> anyhow::Result<Vec<Row>> {
    let count = clients.len();
    eprintln!("{count} authentications");
    let (bare_cpu, bare_memory) = {
        let (cpu, memory) = (relay.usage()?.cpu, settled(plan, relay).await?);
        let sockets = connect_all(count, |_| open(relay)).await?;
        let after = (relay.usage()?.cpu, settled(plan, relay).await?);
        drop(sockets);
        (after.0.saturating_sub(cpu), after.1.saturating_sub(memory))
    };
    let (cpu, memory) = (hub.usage()?.cpu, settled(plan, hub).await?);
    let sockets = connect_all(count, |index| async move { Ok(enter(hub.address, &clients[index]).await?) }).await?;
    let after = hub.usage()?.cpu.saturating_sub(cpu);
    let grown = settled(plan, hub).await?.saturating_sub(memory);
    drop(sockets);
    let each_ms = |cpu: Duration| cpu.as_secs_f64() * 1000.0 / count as f64;
    let each_kib = |bytes: u64| bytes as f64 / 1024.0 / count as f64;
    Ok(vec![
        Row {
            measure: "CPU per Yonexus authentication".into(),
            unit: "ms",
            hub: each_ms(after),
            forwarder: Some(each_ms(bare_cpu)),
            goal: Goal::at_most(0.25),
            original: None,
            note: "with connection and upgrade; the relay only upgrades".into(),
        },
        Row {
            measure: format!("user memory per idle client, {count} clients"),
            unit: "KiB",
            hub: each_kib(grown),
            forwarder: Some(each_kib(bare_memory)),
            goal: Goal::at_most(12.0),
            original: None,
            note: String::new(),
        },
    ])
}

/// User memory once it has stopped falling.
pub(super) async fn settled(plan: &Plan, server: &Server) -> anyhow::Result<u64> {
    let mut lowest = u64::MAX;
    for _ in 0..10 {
        tokio::time::sleep(plan.settle).await;
        let now = server.usage()?.user_memory;
        if now >= lowest.saturating_sub(lowest / 100) {
            return Ok(now.min(lowest));
        }
        lowest = now;
    }
    Ok(lowest)
}

async fn connect_all<F>(count: usize, one: impl Fn(usize) -> F) -> anyhow::Result<Vec<Socket>>
where
    F: Future<Output = anyhow::Result<Socket>>,
{
    use futures_util::{StreamExt as _, TryStreamExt as _};
    futures_util::stream::iter((0..count).map(one)).buffer_unordered(CONCURRENCY).try_collect().await
}

async fn open(server: &Server) -> anyhow::Result<Socket> {
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    Ok(ws::open(stream, server.address, "/", None).await?)
}

/// The same messages through all three, in turns; the median of the rounds counts.
async fn flow(
    plan: &Plan,
    hub: &Server,
    relay: &Server,
    nats: Option<&NatsServer>,
    clients: &[Paired],
    receivers: usize,
) -> anyhow::Result<Row> {
    let (mut own, mut bare, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let mut sockets = Vec::new();
        for _ in 0..=receivers {
            sockets.push(Conn::Ws(Box::new(open(relay).await?)));
        }
        bare.push(point(plan, sockets, "chat", || Ok(relay.usage()?.cpu)).await?);
        let mut sockets = Vec::new();
        for client in clients.iter().take(receivers + 1) {
            sockets.push(Conn::Ws(Box::new(enter(hub.address, client).await?)));
        }
        let rule = if receivers == 1 { "one" } else { "chat" };
        own.push(point(plan, sockets, rule, || Ok(hub.usage()?.cpu)).await?);
        if let Some(nats) = nats {
            let mut sockets = vec![Conn::Nats(Nats::connect(nats.address, false).await?)];
            for _ in 0..receivers {
                sockets.push(Conn::Nats(Nats::connect(nats.address, true).await?));
            }
            other.push(point(plan, sockets, "chat", || Ok(nats.usage()?.cpu)).await?);
        }
    }
    let (own, bare) = (median(&own), median(&bare));
    let mut note = format!("{:.0}/s; relay {:.0}/s", own.rate, bare.rate);
    if !other.is_empty() {
        let nats = median(&other);
        note.push_str(&format!("; nats-server {:.4} ms, {:.0}/s", nats.cpu_us / 1000.0, nats.rate));
    }
    let goal = if receivers == 1 { Goal::NONE.and_times_forwarder(2.0) } else { Goal::NONE };
    Ok(Row {
        measure: format!("CPU per rule message, 1 → {receivers}"),
        unit: "ms",
        hub: own.cpu_us / 1000.0,
        forwarder: Some(bare.cpu_us / 1000.0),
        goal,
        original: None,
        note,
    })
}

async fn point(
    plan: &Plan,
    mut sockets: Vec<Conn>,
    rule: &str,
    cpu: impl Fn() -> anyhow::Result<Duration>,
) -> anyhow::Result<Point> {
    let sender = sockets.remove(0);
    let (_, sender, receivers) = run(sender, sockets, rule, CONTENT, plan.warm_up).await?;
    let before = cpu()?;
    let (flow, ..): (Flow, _, _) = run(sender, receivers, rule, CONTENT, plan.load).await?;
    let used = cpu()?.saturating_sub(before);
    ensure!(flow.sent > 0, "nothing was sent");
    Ok(Point {
        cpu_us: used.as_secs_f64() * 1e6 / flow.sent as f64,
        rate: flow.sent as f64 / flow.elapsed.as_secs_f64(),
    })
}

pub(super) fn median(points: &[Point]) -> Point {
    let middle = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or_default()
    };
    Point {
        cpu_us: middle(points.iter().map(|p| p.cpu_us).collect()),
        rate: middle(points.iter().map(|p| p.rate).collect()),
    }
}
