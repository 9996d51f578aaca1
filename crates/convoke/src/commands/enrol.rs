//! `convoke enroll-token`: invites an agent.

use anyhow::Result;
use clap::Args;
use convoke_api::Client;
use convoke_api::agents::EnrolToken;
use convoke_core::id::PeerId;
use serde::Deserialize;
use serde_json::Map;
use serde_json::value::RawValue;

use super::{NO_QUERY, Verb, typed};
use crate::exit::Exit;
use crate::parse;
use crate::show::clean;
use crate::table::Grid;
use crate::when;

#[derive(Debug, Args)]
pub(crate) struct EnrolArgs {
    /// The agent's id: letters, digits, '.', '_' and '-'
    #[arg(value_parser = parse::agent)]
    id: PeerId,
}

pub(crate) async fn run(verb: Verb<'_>, args: EnrolArgs) -> Result<Exit> {
    let client = verb.client()?;
    let json: Box<RawValue> = client.post(&format!("/api/agents/{}/token", args.id), &Map::new()).await?;
    show(verb, &client, &json, What::Invitation).await?;
    Ok(Exit::Done)
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A first key.
    Invitation,
    /// A key in place of the old one.
    NewKey,
}

/// What the hub says of itself.
#[derive(Deserialize)]
struct About {
    http: String,
}

/// Shows a token and how to use it.
pub(super) async fn show(verb: Verb<'_>, client: &Client, json: &RawValue, what: What) -> Result<()> {
    if verb.output.json {
        return verb.output.raw_json(json);
    }
    let token: EnrolToken = typed(json)?;
    // The hub knows by what name it is reached; this program may have come by another one.
    let about: About = client.get("/api/hub", &NO_QUERY).await?;
    // `0.0.0.0` is where it listens, not where it is; how we came is a better guess.
    let http = if Reach::of(&about.http) == Reach::Unspecified { client.base() } else { &about.http };
    verb.output.text(&text(&token, http, what, when::now()))?;
    if let Some(hint) = &token.hint {
        verb.output.note(format_args!("note: {}", clean(hint)));
    }
    match (Reach::of(&about.http), Reach::of(http)) {
        (Reach::ThisMachine, _) => verb.output.note(
            "note: only this machine can reach this hub. For others on the local network start it with --lan; elsewhere \
             listen with TLS (--listen, --tls-cert, --tls-key) and set hub.public_url.",
        ),
        (Reach::Unspecified, Reach::ThisMachine) => verb.output.note(
            "note: on another machine, replace the address with this machine's name; hub.public_url sets it for all commands.",
        ),
        _ => {}
    }
    Ok(())
}

/// From where an address can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    ThisMachine,
    Elsewhere,
    /// Every address of the machine, and so the name of none.
    Unspecified,
}

impl Reach {
    fn of(http: &str) -> Self {
        let authority = http.split_once("://").map_or(http, |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default();
        match authority.parse::<std::net::SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Self::ThisMachine,
            Ok(address) if address.ip().is_unspecified() => Self::Unspecified,
            Err(_) if authority.split(':').next() == Some("localhost") => Self::ThisMachine,
            _ => Self::Elsewhere,
        }
    }
}

fn text(token: &EnrolToken, http: &str, what: What, now: convoke_core::time::Timestamp) -> String {
    let mut facts = Grid::facts();
    facts.fact("token", token.token.as_str());
    facts.fact("valid until", when::shown(token.expires_at, now));
    facts.fact("hub", http);
    facts.fact("hub's public key", token.hub_public_key.as_str());
    let id = clean(&token.agent_id);
    let before = match what {
        What::Invitation => format!("{id} can enrol once with this token. The token is shown only now."),
        What::NewKey => format!(
            "{id} can bind a new key once with this token. The token is shown only now. `convoke agent enroll` makes the \
             key. With an original kenny agent, first remove its key file and kenny-agent.enrolled beside it."
        ),
    };
    format!("{before}\n\n{}\n\nOn the machine:\n\n{}", facts.render_plain(), command(token, http))
}

/// The command lines: of our own agent, and of the kenny agent in the field.
fn command(token: &EnrolToken, http: &str) -> String {
    let ours = [
        ("hub", http.to_owned()),
        ("id", token.agent_id.clone()),
        ("token", token.token.clone()),
        ("hub-key", token.hub_public_key.clone()),
    ]
    .map(|(name, value)| format!(" --{name} {}", quoted(&value)))
    .concat();
    format!("  convoke agent enroll{ours}\n\nor, with an original kenny agent:\n\n{}", original(token, http))
}

fn original(token: &EnrolToken, http: &str) -> String {
    let socket = http.replacen("http", "ws", 1);
    [
        ("KENNY_SERVER", format!("{socket}/agent/ws")),
        ("KENNY_AGENT_ID", token.agent_id.clone()),
        ("KENNY_ENROLL_TOKEN", token.token.clone()),
        ("KENNY_SERVER_PUBKEY", token.hub_public_key.clone()),
    ]
    .map(|(name, value)| format!("  {name}={} \\\n", quoted(&value)))
    .concat()
        + "  kenny-agent"
}

/// Quoted for a POSIX shell: the hub's words are pasted into one.
fn quoted(text: &str) -> String {
    format!("'{}'", clean(text).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use convoke_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_command_line_can_be_pasted() {
        let at = |text| Timestamp::parse(text).expect("a time");
        let token = EnrolToken {
            agent_id: "pc-1".into(),
            token: "cve_abc".into(),
            expires_at: at("2026-06-04T19:00:00Z"),
            hub_public_key: "a+b/c=".into(),
            hint: None,
        };
        let shown = text(&token, "https://hub.example", What::Invitation, at("2026-06-04T18:00:00Z"));
        insta::assert_snapshot!(shown, @r"
        pc-1 can enrol once with this token. The token is shown only now.

        token             cve_abc
        valid until       2026-06-04 19:00:00Z (in 60 min)
        hub               https://hub.example
        hub's public key  a+b/c=

        On the machine:

          convoke agent enroll --hub 'https://hub.example' --id 'pc-1' --token 'cve_abc' --hub-key 'a+b/c='

        or, with an original kenny agent:

          KENNY_SERVER='wss://hub.example/agent/ws' \
          KENNY_AGENT_ID='pc-1' \
          KENNY_ENROLL_TOKEN='cve_abc' \
          KENNY_SERVER_PUBKEY='a+b/c=' \
          kenny-agent
        ");
        assert_eq!(quoted("a'; rm -rf ~ #"), r"'a'\''; rm -rf ~ #'");
    }

    #[test]
    fn an_address_says_who_can_reach_it() {
        for (http, expect) in [
            ("http://127.0.0.1:7410", Reach::ThisMachine),
            ("http://[::1]:7410", Reach::ThisMachine),
            ("http://localhost:7410", Reach::ThisMachine),
            ("https://0.0.0.0:7410", Reach::Unspecified),
            ("https://hub.example", Reach::Elsewhere),
            ("http://192.168.1.2:7410/", Reach::Elsewhere),
        ] {
            assert_eq!(Reach::of(http), expect, "{http}");
        }
    }
}
