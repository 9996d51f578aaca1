//! What a durable change costs: CPU of this process per journal record and per snapshot, in groups of different
//! sizes, printed as a table. `cargo run --release -p convoke-store --example append_cost [callers]`. It includes what
//! the callers' own tasks cost.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use convoke_core::door::Door;
use convoke_core::id::{CallId, PeerId};
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_core::peer::Trust;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use convoke_store::{EnrolToken, Lossy, OpenOptions, SnapshotRow, SqliteStore, Store};
use uuid::Uuid;

const AGENTS: u64 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(OpenOptions::new(dir.path()))?);
    println!("{:<44}{:>10}{:>12}{:>12}{:>12}", "change", "count", "per second", "CPU µs", "per commit");
    let only: Option<u64> = std::env::args().nth(1).and_then(|n| n.parse().ok());
    for (targets, callers) in [(1, 1), (100, 16), (100, 32), (AGENTS, 32), (AGENTS, 128)] {
        if only.is_some_and(|only| only != callers) {
            continue;
        }
        let count = if callers == 1 { 2_000 } else { 60_000 };
        let name = format!("append, {callers} callers, {targets} targets");
        measure(&store, &name, count, async |n| {
            let mut tasks = tokio::task::JoinSet::new();
            for caller in 0..callers {
                let store = Arc::clone(&store);
                tasks.spawn(async move {
                    for i in 0..n / callers {
                        let target = (i * callers + caller).wrapping_mul(0x9E37_79B9) % targets;
                        store.append(outcome(target)).await.expect("appends");
                    }
                });
            }
            tasks.join_all().await;
        })
        .await;
    }
    if only.is_some() {
        return Ok(());
    }
    for n in 0..AGENTS {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&n.to_be_bytes());
        let token = EnrolToken { agent: agent(n), hash: TokenHash(hash), expires_at: now(), replaces_key: false };
        let store = Arc::clone(&store);
        let minted =
            async move { store.mint_enrol_token(token, Trust::Pending, now(), Draft::new(now(), Kind::Enrol)).await };
        if n % 64 == 0 {
            minted.await?;
        } else {
            tokio::spawn(minted);
        }
    }
    store.checkpoint(now()).await?;
    let body = format!("{{\"disk\":{{\"data\":\"{}\"}}}}", "x".repeat(6_000));
    let health = format!("{{\"disk\":{{\"status\":\"ok\",\"summary\":\"{}\"}}}}", "y".repeat(1_000));
    for agents in [100, AGENTS] {
        measure(&store, &format!("snapshot of 6 kB, {agents} agents"), 20_000, async |n| {
            for i in 0..n {
                let snapshot = SnapshotRow {
                    id: 0,
                    agent: agent(i.wrapping_mul(0x9E37_79B9) % agents),
                    collected_at: "2026-06-04T18:00:00Z".into(),
                    received_at: now(),
                    body: body.clone(),
                    health: health.clone(),
                };
                store.enqueue(Lossy::Snapshot(snapshot)).await.expect("takes");
            }
            store.checkpoint(now()).await.expect("commits");
        })
        .await;
    }
    store.close().await?;
    let verified = Instant::now();
    let verdict = convoke_store::audit::verify_dir(dir.path(), Default::default())?;
    println!("verify: good = {}, {:.2} s", verdict.is_good(), verified.elapsed().as_secs_f64());
    Ok(())
}

async fn measure(store: &SqliteStore, name: &str, count: u64, work: impl AsyncFnOnce(u64)) {
    let (cpu, commits, started) = (cpu_micros(), store.stats().commits, Instant::now());
    work(count).await;
    let (cpu, commits) = (cpu_micros() - cpu, store.stats().commits - commits);
    println!(
        "{name:<44}{count:>10}{:>12.0}{:>12.1}{:>12.1}",
        count as f64 / started.elapsed().as_secs_f64(),
        cpu as f64 / count as f64,
        count as f64 / commits as f64,
    );
}

fn agent(n: u64) -> PeerId {
    PeerId::kenny(&format!("agent-{n:05}")).expect("a good id")
}

fn outcome(target: u64) -> Draft {
    Draft {
        phase: Some(Phase::Outcome),
        who: Some("first operator".into()),
        door: Some(Door::Http),
        target: Some(format!("agent-{target:05}")),
        tool: Some("fs_list".into()),
        call_id: Some(CallId::new(Uuid::now_v7())),
        args: serde_json::value::RawValue::from_string("{\"path\":\"/var/log\",\"limit\":100}".into()).ok(),
        args_digest: Some("5f2b51ca2fdc5baa31ec02e002f69aec".into()),
        decision: Some(Decision::Allowed),
        outcome: Some("ok".into()),
        duration_ms: Some(12),
        ..Draft::new(now(), Kind::Call)
    }
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(since.as_millis() as i64)
}

/// CPU of this process so far, from the kernel's clock ticks (Linux; 0 elsewhere).
fn cpu_micros() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10_000
}
