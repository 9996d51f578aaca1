//! `convoke clients` and `convoke pairings`: the allow-list, trust and open pairings.

use anyhow::{Result, bail};
use clap::Subcommand;
use convoke_api::yonexus::{AllowClient, ClientQuery, ClientView, DecidePairing, PairingList, RotateKey};
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::{NO_QUERY, Verb, prompt, typed};
use crate::exit::Exit;
use crate::parse;
use crate::table::{Field, Grid};
use crate::when;

const CLIENTS: &str = "/api/yonexus/clients";
const PAIRINGS: &str = "/api/yonexus/pairings";

#[derive(Debug, Subcommand)]
pub(crate) enum ClientsCommand {
    /// List clients
    List {
        /// Only clients that are online
        #[arg(long, conflicts_with = "offline")]
        online: bool,
        /// Only clients that are offline
        #[arg(long)]
        offline: bool,
    },
    /// Show one client
    Show {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
    },
    /// Allow a client to pair, also one that was revoked
    Allow {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
    },
    /// Revoke a client: close its link and refuse it from now on
    Revoke {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
    },
    /// Allow a client to bind a new key within an hour, with a proof of its secret
    RotateKey {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
        /// The new public key (base64); without it, whoever has the client's secret can bind any key
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Delete a client; the journal stays
    Remove {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PairingsCommand {
    /// List open pairings; who may approve sees their codes
    List,
    /// Complete a pairing without its code; compare the key's fingerprint first
    Approve {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
    },
    /// Deny a pairing
    Deny {
        #[arg(value_parser = parse::identifier)]
        identifier: String,
    },
}

pub(crate) async fn run(verb: Verb<'_>, command: ClientsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    let path = |identifier: &str| format!("{CLIENTS}/{identifier}");
    let (json, said): (Box<RawValue>, String) = match command {
        ClientsCommand::List { online, offline } => {
            let wanted = if online || offline { Some(online) } else { None };
            let query = ClientQuery { online: wanted, ..ClientQuery::default() };
            let items = Pages::new(&client, CLIENTS, "clients", &query, None)?.all().await?;
            if output.json {
                output.json(&joined("clients", &items))?;
                return Ok(Exit::Done);
            }
            let clients = items.iter().map(|item| typed(item)).collect::<Result<Vec<ClientView>>>()?;
            output.table(
                &list(&clients, when::now()),
                "no clients; allow one to pair with `convoke clients allow ID`",
            )?;
            return Ok(Exit::Done);
        }
        ClientsCommand::Show { identifier } => {
            let json: Box<RawValue> = client.get(&path(&identifier), &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&facts(&typed(&json)?, when::now()), "")?;
            }
            return Ok(Exit::Done);
        }
        ClientsCommand::Allow { identifier } => {
            let said = format!("`{identifier}` may pair");
            (client.post(CLIENTS, &AllowClient { identifier }).await?, said)
        }
        ClientsCommand::Revoke { identifier } => {
            let json = client.post(&format!("{}/revoke", path(&identifier)), &NO_QUERY).await?;
            (json, format!("`{identifier}` is revoked"))
        }
        ClientsCommand::RotateKey { identifier, key } => {
            let said = match key {
                Some(_) => format!("`{identifier}` may bind this key within an hour"),
                None => format!(
                    "`{identifier}` may bind a new key within an hour. Until then whoever has its secret can bind one; \
                     give --key to name the only one that will do"
                ),
            };
            let body = RotateKey { public_key: key };
            (client.post(&format!("{}/rotate-key", path(&identifier)), &body).await?, said)
        }
        ClientsCommand::Remove { identifier, yes } => {
            let question = format!("Delete client `{identifier}` with its key and its waiting messages?");
            if !yes && !prompt::confirm(&question, "give --yes to remove a client without a question")? {
                bail!("nothing was removed");
            }
            (client.delete(&path(&identifier)).await?, format!("`{identifier}` is gone"))
        }
    };
    if output.json {
        output.raw_json(&json)?;
    } else {
        output.text(&said)?;
    }
    Ok(Exit::Done)
}

pub(crate) async fn pairings(verb: Verb<'_>, command: PairingsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    let (identifier, approve) = match command {
        PairingsCommand::List => {
            let json: Box<RawValue> = client.get(PAIRINGS, &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&pending(&typed(&json)?, when::now()), "no open pairings")?;
            }
            return Ok(Exit::Done);
        }
        PairingsCommand::Approve { identifier } => (identifier, true),
        PairingsCommand::Deny { identifier } => (identifier, false),
    };
    let json: Box<RawValue> = client.post(&format!("{PAIRINGS}/{identifier}"), &DecidePairing { approve }).await?;
    if output.json {
        output.raw_json(&json)?;
        return Ok(Exit::Done);
    }
    let view: ClientView = typed(&json)?;
    output.text(&match (approve, view.state.as_str()) {
        (true, "paired") => format!("`{identifier}` is paired"),
        (true, _) => format!("`{identifier}` is paired as soon as it connects again"),
        (false, _) => format!("denied the pairing of `{identifier}`"),
    })?;
    Ok(Exit::Done)
}

fn list(clients: &[ClientView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["CLIENT", "TRUST", "LIVENESS", "FROM", "LAST SEEN", "WAITING", "KEY"]);
    for client in clients {
        grid.row([
            client.identifier.as_str().into(),
            Field::state(&client.state),
            Field::state(client.liveness.name()),
            client.address.as_deref().unwrap_or("-").into(),
            client.last_seen.map_or_else(|| "-".into(), |at| when::shown(at, now)).into(),
            client.waiting.to_string().into(),
            client.key_fingerprint.as_ref().map_or("-", |f| &f[..f.len().min(16)]).into(),
        ]);
    }
    grid
}

fn facts(client: &ClientView, now: Timestamp) -> Grid {
    let shown = |at: Option<Timestamp>| at.map(|at| when::shown(at, now));
    let mut grid = Grid::facts();
    grid.fact("identifier", client.identifier.as_str());
    grid.fact("trust", Field::state(&client.state));
    grid.fact("liveness", Field::state(client.liveness.name()));
    grid.fact("may pair", if client.allowed { "yes" } else { "no" });
    grid.fact_if("key", client.key_fingerprint.as_deref());
    grid.fact_if("from", client.address.as_deref());
    grid.fact_if("connected", shown(client.connected_at));
    grid.fact_if("paired", shown(client.paired_at));
    grid.fact_if("last proof", shown(client.last_auth));
    grid.fact_if("last seen", shown(client.last_seen));
    grid.fact_if("trust was reset", client.reset.as_deref());
    grid.fact_if("may change its key until", shown(client.rotation_until));
    grid.fact_if("only to key", client.rotation_fingerprint.as_deref());
    grid.fact("messages waiting", client.waiting.to_string());
    grid
}

fn pending(list: &PairingList, now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["CLIENT", "CODE", "KEY", "FROM", "AGE", "EXPIRES", "TOLD", "WRONG"]);
    for pairing in &list.pairings {
        let told = match pairing.notified.as_str() {
            "" => pairing.notification.clone(),
            words => format!("{}: {words}", pairing.notification),
        };
        grid.row([
            pairing.identifier.as_str().into(),
            pairing.pairing_code.as_deref().unwrap_or("(hidden)").into(),
            pairing.key_fingerprint[..pairing.key_fingerprint.len().min(16)].into(),
            pairing.address.as_str().into(),
            when::span(std::time::Duration::from_secs(pairing.age_s)).into(),
            when::shown(pairing.expires_at, now).into(),
            told.into(),
            pairing.wrong_codes.to_string().into(),
        ]);
    }
    grid
}
