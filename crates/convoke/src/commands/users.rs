//! `convoke users` and `convoke sessions`: the people who sign in to the page.

use anyhow::{Result, bail};
use clap::Subcommand;
use convoke_api::people::{
    OneTimeLink, Secret, SessionQuery, SessionView, UserAdded, UserChange, UserQuery, UserRequest, UserView,
};
use convoke_core::grant::{Role, Scopes};
use convoke_core::id::SessionId;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::prompt;
use super::scope_args::{ScopeArgs, given};
use super::{Verb, typed};
use crate::exit::Exit;
use crate::parse;
use crate::show::clean;
use crate::table::{Field, Grid, Tone};
use crate::when;

const USERS: &str = "/api/users";
const SESSIONS: &str = "/api/sessions";

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// List the users
    List,
    /// Add a user; prints the one-time link by which they sign in first
    Add {
        /// Their name; no user or token may have the same
        name: String,
        #[command(flatten)]
        may: ScopeArgs,
        /// viewer: only looks; operator: also calls; admin: also changes policy, users, tokens and trust
        #[arg(long, value_parser = parse::role())]
        role: Role,
        /// Ask for their password instead of making a link (or read it from CONVOKE_PASSPHRASE)
        #[arg(long)]
        password: bool,
    },
    /// Change a user's role or scopes; scopes that are not named are dropped
    Change {
        /// Which user
        name: String,
        #[command(flatten)]
        may: ScopeArgs,
        /// Another role
        #[arg(long, value_parser = parse::role())]
        role: Option<Role>,
        /// Drop all scopes
        #[arg(long)]
        no_scopes: bool,
    },
    /// Make a one-time link for a user who lost their password or passkey
    Link {
        /// Which user
        name: String,
    },
    /// Remove a user: their sessions end and their tokens are revoked
    Remove {
        /// Which user
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List who is signed in, and where
    List {
        /// Only this user's sessions
        #[arg(long)]
        user: Option<String>,
    },
    /// End a session
    End {
        /// The session's id
        id: SessionId,
    },
}

pub(crate) async fn users(verb: Verb<'_>, command: UsersCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    match command {
        UsersCommand::List => {
            let items = Pages::new(&client, USERS, "users", &UserQuery::default(), None)?.all().await?;
            if output.json {
                output.json(&joined("users", &items))?;
            } else {
                let users = items.iter().map(|item| typed(item)).collect::<Result<Vec<UserView>>>()?;
                output.table(
                    &user_table(&users, when::now()),
                    "no users; open the link that the hub shows when it starts",
                )?;
            }
        }
        UsersCommand::Add { name, may, role, password } => {
            let password = if password { Some(Secret(prompt::passphrase(true)?)) } else { None };
            let request = UserRequest { name, role, scopes: given(may.into()), password };
            let json: Box<RawValue> = client.post(USERS, &request).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let added: UserAdded = typed(&json)?;
                let name = clean(&added.user.name);
                match added.link {
                    Some(link) => show_link(verb, &format!("added {name}; they sign in with this link"), &link)?,
                    None => output.text(&format!("{name} is added"))?,
                }
            }
        }
        UsersCommand::Change { name, may, role, no_scopes } => {
            let scopes = given(may.into()).or_else(|| no_scopes.then(Scopes::default));
            if role.is_none() && scopes.is_none() {
                bail!("nothing to change: give --role, scopes or --no-scopes");
            }
            let change = UserChange { role, scopes, password: None };
            let json: Box<RawValue> = client.patch(&path(&name), &change).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text(&format!("{} is changed", clean(&name)))?;
            }
        }
        UsersCommand::Link { name } => {
            let json: Box<RawValue> = client.post(&format!("{}/link", path(&name)), &serde_json::json!({})).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let what = format!("a link for {}; earlier ones are void", clean(&name));
                show_link(verb, &what, &typed(&json)?)?;
            }
        }
        UsersCommand::Remove { name, yes } => {
            let question = format!("Remove {} with all their sessions and tokens?", clean(&name));
            if !yes && !prompt::confirm(&question, "removing a user needs --yes where nobody can be asked")? {
                return Ok(Exit::Failed);
            }
            let json: Box<RawValue> = client.delete(&path(&name)).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text(&format!("{} is removed", clean(&name)))?;
            }
        }
    }
    Ok(Exit::Done)
}

pub(crate) async fn sessions(verb: Verb<'_>, command: SessionsCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    match command {
        SessionsCommand::List { user } => {
            let query = SessionQuery { user, ..SessionQuery::default() };
            let items = Pages::new(&client, SESSIONS, "sessions", &query, None)?.all().await?;
            if output.json {
                output.json(&joined("sessions", &items))?;
            } else {
                let sessions = items.iter().map(|item| typed(item)).collect::<Result<Vec<SessionView>>>()?;
                output.table(&session_table(&sessions, when::now()), "nobody is signed in")?;
            }
        }
        SessionsCommand::End { id } => {
            let json: Box<RawValue> = client.delete(&format!("{SESSIONS}/{id}")).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text("the session has ended")?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The address of a user; a name may have spaces.
fn path(name: &str) -> String {
    format!("{USERS}/{}", percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC))
}

fn show_link(verb: Verb<'_>, what: &str, link: &OneTimeLink) -> Result<()> {
    let until = when::shown(link.link_expires_at, when::now());
    verb.output.note(format_args!("{what}; it works once, until {until}, and is shown only now:"));
    verb.output.text(link.link.0.reveal())?;
    Ok(())
}

fn user_table(users: &[UserView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["USER", "ROLE", "ONLY", "APPROVES", "SIGNS IN WITH", "SESSIONS", "ADDED"]);
    for user in users {
        let with = [
            user.has_password.then(|| "password".to_owned()),
            user.has_totp.then(|| "code".to_owned()),
            (user.passkeys > 0).then(|| format!("{} passkeys", user.passkeys)),
        ];
        let with = with.into_iter().flatten().collect::<Vec<_>>().join(", ");
        grid.row([
            clean(&user.name).into(),
            user.role.name().into(),
            super::tokens::scopes(&user.scopes),
            if user.scopes.approve == Some(true) { "yes".into() } else { Field::new("no", Tone::Dim) },
            if with.is_empty() { Field::new("a link", Tone::Dim) } else { with.into() },
            user.sessions.to_string().into(),
            when::shown(user.created_at, now).into(),
        ]);
    }
    grid
}

fn session_table(sessions: &[SessionView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["SESSION", "USER", "ADDRESS", "BROWSER", "LAST SEEN", "ENDS"]);
    for session in sessions {
        grid.row([
            session.id.to_string().into(),
            clean(session.user.as_deref().unwrap_or("-")).into(),
            clean(&session.address).into(),
            clean(&session.browser).into(),
            when::shown(session.last_seen, now).into(),
            when::shown(session.expires_at, now).into(),
        ]);
    }
    grid
}
