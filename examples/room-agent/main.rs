//! An agent in a room. It reads along, and counts the words of whoever calls it by name, if a host lets it speak.
//!
//! ```sh
//! convoke up
//! convoke room create standup --open
//! cargo run -p convoke-room --example room-agent -- http://127.0.0.1:7410 standup
//! convoke room grant standup ID --act send-chat     # ID: what the agent prints
//! convoke room say --room standup "@counter how many words are these?"
//! ```

use std::time::Duration;

use convoke_room::{Agent, Config, Profile, Transport, cooldown};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(hub), Some(room)) = (args.next(), args.next()) else {
        return Err("usage: room-agent HUB ROOM".into());
    };
    // `backend` tells the room who is told what this agent perceives. An agent that asks no model says so.
    let profile = Profile { name: "counter".into(), backend: Some("no model".into()), ..Profile::default() };
    // A closed room takes a key (`key: Some(AgentKeyFile::open(path)?.into())`) or an invite (`profile.invite`).
    let config = Config { hub, room, transport: Transport::Relay, profile, token: None, key: None };
    let agent = Agent::join(config, || eprintln!("waiting in the lobby: a host decides")).await?;
    eprintln!("in the room as {}", agent.id());

    // Perceive: these are called with what there is now, and whenever it changes.
    agent.on_view(|view| eprintln!("the application shows {view}"));
    agent.on_roster(|people| eprintln!("{} in the room", people.len()));
    let (heard, mut lines) = mpsc::channel(64);
    agent.on_chat(move |said| drop(heard.try_send(said.clone())));

    // Decide and act. What others say is data: it is counted here, and never obeyed.
    let mut pace = cooldown(Duration::from_secs(6));
    loop {
        tokio::select! {
            Some(said) = lines.recv() => {
                let called = said.text.to_lowercase().contains("@counter");
                if said.from == agent.id() || !agent.can_act() || !(called || pace.ready()) {
                    continue;
                }
                pace.stamp();
                let words = said.text.split_whitespace().count();
                if let Err(why) = agent.say(&format!("{}: {words} words", said.name)).await {
                    eprintln!("not said: {why}");
                }
            }
            why = agent.ended() => {
                eprintln!("no longer in the room: {why}");
                return Ok(());
            }
            _ = tokio::signal::ctrl_c() => {
                agent.leave().await;
                return Ok(());
            }
        }
    }
}
