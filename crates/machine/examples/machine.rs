//! Runs a tool or collects a snapshot on this machine, to look at beside what the usual commands print:
//!
//! ```text
//! cargo run -p convoke-machine --example machine
//! cargo run -p convoke-machine --example machine -- diag_services '{"filter": "ssh"}'
//! cargo run -p convoke-machine --example machine -- telemetry_collect '{"sections": ["disk"]}'
//! ```
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use convoke_machine::{Call, Machine, Options};
use serde_json::{Map, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let tool = args.next().unwrap_or_else(|| "telemetry_collect".to_owned());
    let given: Map<String, Value> = args.next().map_or(Ok(Map::new()), |text| serde_json::from_str(&text))?;
    let started = std::time::Instant::now();
    let result = Machine::new(Options::default()).run(&tool, &given, &Call::default()).await?;
    println!("{result:#}");
    eprintln!("took {:?}", started.elapsed());
    Ok(())
}
