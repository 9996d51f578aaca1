//! `convoke tokens`: list, create and revoke operator tokens.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use convoke_api::Client;
use convoke_api::tokens::{TokenMinted, TokenQuery, TokenRequest, TokenView};
use convoke_core::door::Door;
use convoke_core::grant::{Role, Scopes};
use convoke_core::id::TokenId;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::scope_args::{ScopeArgs, given};
use super::{Verb, typed};
use crate::exit::Exit;
use crate::parse;
use crate::show::clean;
use crate::table::{Field, Grid, Tone};
use crate::when;

const TOKENS: &str = "/api/tokens";

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// List tokens, without their secrets
    List,
    /// Create a token; it is shown once
    Create(CreateArgs),
    /// Revoke a token
    Revoke {
        /// The token's id or name
        #[arg(value_name = "ID|NAME")]
        which: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The token's name; a name is used only once, so that the journal stays unambiguous
    name: String,
    /// viewer: only looks; operator: also calls; admin: also changes policy, tokens and trust
    #[arg(long, value_parser = parse::role())]
    role: Role,
    /// Make it for an assistant: good for MCP only, where what it changes needs a person
    #[arg(long, conflicts_with_all = ["doors", "approve"])]
    for_assistant: bool,
    /// The user it belongs to; none of their tokens may approve what another of them asks for
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    #[command(flatten)]
    may: ScopeArgs,
    /// Only these doors
    #[arg(long, value_delimiter = ',', value_parser = parse::door())]
    doors: Option<Vec<Door>>,
    /// Most calls in a minute [default: the hub's setting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    calls_per_minute: Option<u32>,
    /// Most calls at once [default: the hub's setting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrent_calls: Option<u32>,
    /// How long the token is valid, such as 12h or 30d [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    expires: Option<Duration>,
}

impl From<CreateArgs> for TokenRequest {
    fn from(args: CreateArgs) -> Self {
        let CreateArgs { name, role, owner, may, expires, .. } = args;
        let scopes = Scopes {
            doors: if args.for_assistant { Some(vec![Door::Mcp]) } else { args.doors },
            calls_per_minute: args.calls_per_minute,
            concurrent_calls: args.concurrent_calls,
            ..may.into()
        };
        Self { name, role, owner, scopes: given(scopes), expires_in_s: expires.map(|span| span.as_secs()) }
    }
}

pub(crate) async fn run(verb: Verb<'_>, command: TokensCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    match command {
        TokensCommand::List => {
            let items = Pages::new(&client, TOKENS, "tokens", &TokenQuery::default(), None)?.all().await?;
            if output.json {
                output.json(&joined("tokens", &items))?;
            } else {
                let tokens = items.iter().map(|item| typed(item)).collect::<Result<Vec<TokenView>>>()?;
                output.table(&list(&tokens, when::now()), "no tokens")?;
            }
        }
        TokensCommand::Create(args) => {
            let request = TokenRequest::from(args);
            let json: Box<RawValue> = client.post(TOKENS, &request).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let minted: TokenMinted = typed(&json)?;
                output.note(format_args!(
                    "created token {} with id {}; it is shown only now:",
                    clean(&request.name),
                    minted.id
                ));
                output.text(&minted.token)?;
            }
        }
        TokensCommand::Revoke { which } => {
            let (id, name) = find(&client, &which).await?;
            let json: Box<RawValue> = client.delete(&format!("{TOKENS}/{id}")).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text(&format!("{} is revoked", clean(&name)))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The token of this id or name.
async fn find(client: &Client, wanted: &str) -> Result<(TokenId, String)> {
    let items = Pages::new(client, TOKENS, "tokens", &TokenQuery::default(), None)?.all().await?;
    let tokens = items.iter().map(|item| typed(item)).collect::<Result<Vec<TokenView>>>()?;
    let id = wanted.parse::<TokenId>().ok();
    // Names may look like ids; an id is what was meant then.
    let found = tokens.iter().find(|t| Some(t.id) == id).or_else(|| tokens.iter().find(|t| t.name == wanted));
    found
        .map(|token| (token.id, token.name.clone()))
        .ok_or_else(|| anyhow!("token `{wanted}` does not exist; `convoke tokens list` shows all tokens"))
}

fn list(tokens: &[TokenView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["NAME", "OWNER", "ROLE", "STATE", "ONLY", "APPROVES", "EXPIRES", "LAST USED", "ID"]);
    for token in tokens {
        let time = |at: Option<Timestamp>| {
            at.map_or_else(|| Field::new("never", Tone::Dim), |at| when::shown(at, now).into())
        };
        grid.row([
            token.name.as_str().into(),
            token.owner.as_deref().map_or_else(|| Field::new("-", Tone::Dim), Into::into),
            token.role.name().into(),
            Field::state(&token.state),
            scopes(&token.scopes),
            if token.scopes.approve == Some(true) { "yes".into() } else { Field::new("no", Tone::Dim) },
            time(token.expires_at),
            time(token.last_used),
            token.id.to_string().into(),
        ]);
    }
    grid
}

/// What narrows the role.
pub(super) fn scopes(scopes: &Scopes) -> Field {
    let texts =
        |name: &str, list: &Option<Vec<String>>| list.as_ref().map(|list| format!("{name} {}", list.join(",")));
    let effects = scopes.effects.as_ref().map(|list| list.iter().map(|e| e.name()).collect::<Vec<_>>().join(","));
    let doors = scopes.doors.as_ref().map(|list| list.iter().map(|d| d.name()).collect::<Vec<_>>().join(","));
    let all: Vec<String> = [
        doors.map(|doors| format!("doors {doors}")),
        effects.map(|effects| format!("effects {effects}")),
        texts("tools", &scopes.tools),
        texts("agents", &scopes.agents),
        texts("tags", &scopes.tags),
        scopes.calls_per_minute.map(|n| format!("{n} calls/min")),
        scopes.concurrent_calls.map(|n| format!("{n} at once")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if all.is_empty() { Field::new("-", Tone::Dim) } else { all.join("; ").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_with_what_narrows_it() {
        let text = r#"[{"id":"0190f3a0-0000-7000-8000-000000000001","name":"anna","owner":"alex","role":"operator","state":"active",
            "scopes":{"effects":["observe"],"agents":["lab-*"],"doors":["mcp"],"approve":true},"created_at":"2026-06-04T18:00:00Z",
            "expires_at":"2026-07-04T18:00:00Z"}]"#;
        let tokens: Vec<TokenView> = serde_json::from_str(text).expect("tokens");
        let now = Timestamp::parse("2026-06-04T18:05:00Z").expect("a time");
        insta::assert_snapshot!(list(&tokens, now).render_plain());
    }

    #[test]
    fn a_token_without_limits_asks_for_no_scopes() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: CreateArgs,
        }
        let request = |line: &str| {
            let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|why| panic!("{why}"));
            serde_json::to_string(&TokenRequest::from(line.args)).expect("serialises")
        };
        assert_eq!(request("x anna --role viewer"), r#"{"name":"anna","role":"viewer"}"#);
        assert_eq!(
            request("x claude --role operator --for-assistant --owner anna"),
            r#"{"name":"claude","role":"operator","scopes":{"doors":["mcp"]},"owner":"anna"}"#
        );
        for contrary in ["--approve", "--doors http"] {
            let line = format!("x claude --role operator --for-assistant {contrary}");
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        assert_eq!(
            request("x anna --role admin --effects observe,interact --approve --expires 1d"),
            r#"{"name":"anna","role":"admin","scopes":{"effects":["observe","interact"],"approve":true},"expires_in_s":86400}"#
        );
    }
}
