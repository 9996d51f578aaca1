//! Commands to a swarm in another process: one JSON object a line, answered by one line each.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::swarm::{Report, Swarm};

/// Most agents, reconnections or snapshots in one command.
pub const MAX_COUNT: u64 = 10_000_000;

/// A command for a swarm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Connect agents, or let some leave, until there are so many.
    Resize {
        /// So many.
        agents: u64,
    },
    /// Reconnect agents in turn.
    Reconnect {
        /// How often in all.
        count: u64,
    },
    /// Push snapshots, by agents in turn.
    Push {
        /// How many in all.
        count: u64,
        /// At most so many a second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        per_second: Option<f64>,
        /// Of machines of which no two are alike.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unlike: bool,
    },
    /// Mint tokens for so many Sonde agents, and make the keys of those that make their own.
    Tokens {
        /// So many.
        count: u64,
    },
    /// Enrol a Sonde agent with each token.
    Enrol {
        /// Over mutual TLS, with a certificate for the agent's own key.
        tls: bool,
    },
    /// Say what happened so far.
    Report,
}

/// What it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What happened so far.
    #[serde(flatten)]
    pub report: Report,
    /// How long this command took.
    pub took_ms: u64,
    /// The last thing that went wrong while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Command {
    /// How long the answer may take.
    pub fn patience(self) -> Duration {
        let (count, rate) = match self {
            Self::Resize { agents } => (agents, None),
            Self::Reconnect { count } => (count, None),
            Self::Push { count, per_second, .. } => (count, per_second),
            Self::Tokens { count } => (count, None),
            // So many are not minted at once.
            Self::Enrol { .. } => (10_000, None),
            Self::Report => (0, None),
        };
        let each = 0.02 + rate.filter(|rate| *rate > 0.0).map_or(0.0, |rate| 1.0 / rate);
        Duration::from_secs_f64((30.0 + count.min(MAX_COUNT) as f64 * each).min(86_400.0))
    }
}

/// Does what a line says.
pub async fn obey(swarm: &mut Swarm, line: &str) -> Reply {
    let began = Instant::now();
    let mut problem = None;
    match serde_json::from_str::<Command>(line) {
        Ok(Command::Resize { agents }) => {
            let agents = usize::try_from(agents.min(MAX_COUNT)).unwrap_or(usize::MAX);
            problem = swarm.resize(agents).await.1.map(|why| why.to_string());
        }
        Ok(Command::Reconnect { count }) => {
            swarm.reconnect(count.min(MAX_COUNT)).await;
        }
        Ok(Command::Push { count, per_second, unlike }) => {
            swarm.push(count.min(MAX_COUNT), per_second, unlike).await;
        }
        Ok(Command::Tokens { .. } | Command::Enrol { .. }) => {
            problem = Some("only simulated Sonde agents are enrolled on command".into());
        }
        Ok(Command::Report) => {}
        Err(why) => problem = Some(format!("not a command: {why}")),
    }
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Reply { report: swarm.report(), took_ms, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_look_like_this() {
        for (text, command) in [
            (r#"{"do":"resize","agents":10000}"#, Command::Resize { agents: 10_000 }),
            (r#"{"do":"reconnect","count":3000}"#, Command::Reconnect { count: 3000 }),
            (r#"{"do":"push","count":5}"#, Command::Push { count: 5, per_second: None, unlike: false }),
            (
                r#"{"do":"push","count":5,"per_second":2.5,"unlike":true}"#,
                Command::Push { count: 5, per_second: Some(2.5), unlike: true },
            ),
            (r#"{"do":"tokens","count":5}"#, Command::Tokens { count: 5 }),
            (r#"{"do":"enrol","tls":true}"#, Command::Enrol { tls: true }),
            (r#"{"do":"report"}"#, Command::Report),
        ] {
            assert_eq!(serde_json::from_str::<Command>(text).unwrap(), command);
            assert_eq!(serde_json::to_string(&command).unwrap(), text);
        }
        let text = r#"{"connected":1,"handshakes":1,"refused":0,"lost":0,"answered":0,"pushed":0,"frames_sent":2,"took_ms":7}"#;
        let reply: Reply = serde_json::from_str(text).unwrap();
        assert_eq!(reply.report.connected, 1);
        assert_eq!(serde_json::to_string(&reply).unwrap(), text);
    }

    #[test]
    fn patience_is_bounded_whatever_is_asked() {
        let push = Command::Push { count: u64::MAX, per_second: Some(1e-300), unlike: false };
        assert_eq!(push.patience(), Duration::from_secs(86_400));
        assert!(Command::Report.patience() >= Duration::from_secs(30));
    }
}
