//! What judging one telemetry snapshot costs: prints nanoseconds per snapshot of 25 sections.
//!
//! `cargo run --release -p convoke-core --example health_cost`
#![allow(clippy::print_stdout)] // Its output is its purpose.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use convoke_core::health::{self, Os};
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

const SNAPSHOT: &str = include_str!("../../../fixtures/health/snapshot_windows.json");
const ROUNDS: u32 = 20_000;

fn main() {
    let sections: BTreeMap<&str, &RawValue> =
        serde_json::from_str(SNAPSHOT).expect("the fixture is a map of sections");
    let now = Timestamp::from_millis(1_780_596_000_000);

    let mut best = u128::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let health = sections.iter().map(|(name, raw)| health::evaluate(name, black_box(raw), Os::Windows, now));
            black_box(health::overall(health.map(|section| black_box(section).status)));
        }
        best = best.min(start.elapsed().as_nanos() / u128::from(ROUNDS));
    }
    println!("{best} ns for {} sections, {} bytes (best of 5 rounds)", sections.len(), SNAPSHOT.len());
}
