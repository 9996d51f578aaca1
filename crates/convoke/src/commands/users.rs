//! `convoke users` and `convoke sessions`: the people who sign in to the page.

use anyhow::{Result, bail};
use clap::Subcommand;
use convoke_api::Client;
use convoke_api::passkeys::{PasskeyList, PasskeyView};
use convoke_api::people::{
    OneTimeLink, Secret, SessionQuery, SessionView, SignIn, TotpCode, TotpSecret, UserAdded, UserChange, UserQuery,
    UserRequest, UserView,
};
use convoke_core::grant::{Role, Scopes};
use convoke_core::id::SessionId;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::prompt;
use super::scope_args::{ScopeArgs, given};
use super::{NO_QUERY, Verb, typed};
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
    /// Set up one-time codes for yourself, with your password; or turn a user's off
    Totp {
        /// Which user
        name: String,
        /// Turn them off: your own, or as an admin anybody's
        #[arg(long)]
        off: bool,
    },
    /// List or remove a user's passkeys; they are made in a browser
    #[command(subcommand)]
    Passkeys(PasskeysCommand),
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
pub(crate) enum PasskeysCommand {
    /// List a user's passkeys
    List {
        /// Which user
        name: String,
    },
    /// Remove a passkey: nobody signs in with it any more
    Remove {
        /// Which user
        name: String,
        /// The passkey, by its id or by a name that only one has
        passkey: String,
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
        UsersCommand::Totp { name, off: true } => {
            let json: Box<RawValue> = client.delete(&format!("{}/totp", path(&name))).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text(&format!("{} signs in without one-time codes", clean(&name)))?;
            }
        }
        UsersCommand::Totp { name, off: false } => set_up_totp(verb, &client, &name).await?,
        UsersCommand::Passkeys(PasskeysCommand::List { name }) => {
            let json: Box<RawValue> = client.get(&format!("{}/passkeys", path(&name)), &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                let list: PasskeyList = typed(&json)?;
                output
                    .table(&passkey_table(&list.passkeys, when::now()), "no passkeys; they are made in a browser")?;
            }
        }
        UsersCommand::Passkeys(PasskeysCommand::Remove { name, passkey }) => {
            let list: PasskeyList = client.get(&format!("{}/passkeys", path(&name)), &NO_QUERY).await?;
            let of_name = list.passkeys.iter().filter(|known| known.name == passkey).collect::<Vec<_>>();
            let found = list.passkeys.iter().find(|known| known.id == passkey);
            let id = match (found, &of_name[..]) {
                (Some(known), _) => &known.id,
                (None, [known]) => &known.id,
                (None, []) => bail!("{} has no passkey {}", clean(&name), clean(&passkey)),
                (None, several) => {
                    bail!("{} passkeys are called {}; name one by its id", several.len(), clean(&passkey))
                }
            };
            let json: Box<RawValue> = client.delete(&format!("{}/passkeys/{}", path(&name), segment(id))).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.text(&format!("the passkey is removed; {} signs in with it no more", clean(&name)))?;
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

/// One-time codes are a user's own: they sign in with their password, and show a code of the app's.
async fn set_up_totp(verb: Verb<'_>, client: &Client, name: &str) -> Result<()> {
    let output = verb.output;
    let password = Secret(prompt::password(&format!("Password of {}: ", clean(name)))?);
    let session = client.sign_in(&SignIn { user: name.to_owned(), password, totp: None }).await?;
    let set_up = async {
        let made: TotpSecret = session.post(&format!("{}/totp", path(name)), &serde_json::json!({})).await?;
        output.note(format_args!("type this secret into an app for one-time codes, or open the address with it:"));
        output.note(format_args!("  {}\n  {}", made.secret.0.reveal(), made.uri.0.reveal()));
        let code = Secret(SecretText::new(prompt::line("Code that the app shows: ")?));
        let json: Box<RawValue> = session.post(&format!("{}/totp/confirm", path(name)), &TotpCode { code }).await?;
        anyhow::Ok(json)
    };
    let done = set_up.await;
    let _: Result<Box<RawValue>, _> = session.delete("/api/session").await;
    let json = done?;
    if output.json {
        output.raw_json(&json)?;
    } else {
        output.text(&format!("{} signs in with a one-time code from now on", clean(name)))?;
    }
    Ok(())
}

/// The address of a user; a name may have spaces.
fn path(name: &str) -> String {
    format!("{USERS}/{}", segment(name))
}

fn segment(text: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}

fn passkey_table(passkeys: &[PasskeyView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["PASSKEY", "NAME", "FOR", "ADDED"]);
    for passkey in passkeys {
        let of = passkey.relying_party.as_deref().unwrap_or("-");
        grid.row([
            clean(&passkey.id).into(),
            clean(&passkey.name).into(),
            if passkey.usable {
                of.into()
            } else {
                Field::new(format!("{of} (not this hub's name now)"), Tone::Warn)
            },
            when::shown(passkey.created_at, now).into(),
        ]);
    }
    grid
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
