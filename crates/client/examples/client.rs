//! A client that sends one message and prints those that come: `cargo run -p convoke-client --example client`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use convoke_client::{Client, Config, StateFile};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `convoke client pair --hub ws://127.0.0.1:7410/yonexus --id client-a --state client-a.json` makes this file.
    let state = StateFile::open("client-a.json".as_ref())?;
    let mut client = Client::new(Config::new("ws://127.0.0.1:7410/yonexus", state));
    client.on("chat_sync", |message| println!("{}", message.content))?;
    let mut running = client.start()?;
    running.handle.send("chat_sync", "hello").await?;
    while let Some(event) = running.events.recv().await {
        eprintln!("{event:?}");
    }
    Ok(())
}
