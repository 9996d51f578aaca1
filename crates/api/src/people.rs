//! People: users, and the sessions in which they are signed in.

use convoke_core::grant::{Role, Scopes};
use convoke_core::id::SessionId;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::tokens::ScopesShape;
use crate::{object, words};

/// A password, code or link in a request or an answer. It is not printed.
#[derive(Clone, Debug)]
pub struct Secret(pub SecretText);

impl Secret {
    /// Takes the text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretText::new(text))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::new)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.reveal())
    }
}

impl PartialSchema for Secret {
    fn schema() -> RefOr<Schema> {
        Object::with_type(Type::String).into()
    }
}

impl ToSchema for Secret {}

/// Sign in with a password.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The user's name.
    pub user: String,
    /// Their password.
    pub password: Secret,
    /// A one-time code, where they use them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totp: Option<Secret>,
}

/// Show the password once more.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepUp {
    /// The password of who is signed in.
    pub password: Secret,
}

/// A new secret for one-time codes, shown once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TotpSecret {
    /// To be typed into an app.
    pub secret: Secret,
    /// To be shown as a QR code (`otpauth://…`).
    pub uri: Secret,
}

/// A one-time code.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TotpCode {
    /// Six digits.
    pub code: Secret,
}

/// Sign in by a one-time link.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInByLink {
    /// What follows `#` in the link; the whole link will do.
    #[serde(alias = "link")]
    pub secret: Secret,
}

/// Who makes the request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Who {
    /// The user, or the name of the token. `null` for who came by the welcome link and is no user yet.
    pub user: Option<String>,
    /// The role.
    #[schema(value_type = words::Role)]
    pub role: Role,
    /// The rights.
    #[schema(value_type = Vec<words::Right>)]
    pub rights: Vec<String>,
    /// What narrows the role.
    #[serde(default)]
    #[schema(value_type = ScopesShape)]
    pub scopes: Scopes,
    /// There is no user yet: `POST /api/users` adds the first one, who is an admin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub welcome: bool,
    /// The session; absent for a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<OwnSession>,
}

/// The session in which somebody is signed in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OwnSession {
    /// Its id.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// When it ends.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
    /// Until when what was shown last counts as a step-up.
    #[schema(value_type = words::Time)]
    pub stepped_up_until: Timestamp,
    /// Whether the user has a password.
    pub has_password: bool,
    /// Whether they use one-time codes.
    pub has_totp: bool,
    /// How many passkeys they have.
    pub passkeys: usize,
}

/// One session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// Whose it is; absent for who came by the welcome link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether it is the one that asks.
    pub current: bool,
    /// The address that it began at.
    pub address: String,
    /// What the browser calls itself.
    pub browser: String,
    /// When it began.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// When it was last used; since the hub started.
    #[schema(value_type = words::Time)]
    pub last_seen: Timestamp,
    /// When it ends.
    #[schema(value_type = words::Time)]
    pub expires_at: Timestamp,
}

/// A page of sessions.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// The sessions, oldest first.
    pub sessions: Vec<SessionView>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<SessionId>,
}

/// A query for sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SessionQuery {
    /// Only this user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Only entries after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub after: Option<SessionId>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Add a user.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserRequest {
    /// Their name; no user or token may have the same.
    pub name: String,
    /// `viewer`, `operator` or `admin`.
    #[schema(value_type = words::Role)]
    pub role: Role,
    /// What narrows the role; `approve` lets them decide on others' calls.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScopesShape>)]
    pub scopes: Option<Scopes>,
    /// Their password (8 to 1024 bytes). Without one they sign in first by the link in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

/// Change a user. What is absent stays as it is. Who may not change users may change their own password.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    /// Another role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Role>)]
    pub role: Option<Role>,
    /// Other scopes, in place of all they have.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScopesShape>)]
    pub scopes: Option<Scopes>,
    /// Another password; it ends the user's sessions except the one that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

/// One user.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    /// Their name.
    pub name: String,
    /// Their role.
    #[schema(value_type = words::Role)]
    pub role: Role,
    /// What narrows it.
    #[schema(value_type = ScopesShape)]
    pub scopes: Scopes,
    /// Whether they have a password.
    pub has_password: bool,
    /// Whether they use one-time codes.
    pub has_totp: bool,
    /// How many passkeys they have.
    pub passkeys: usize,
    /// How many sessions they have.
    pub sessions: usize,
    /// When they were added.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
}

/// A user who was added.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserAdded {
    /// The user.
    #[serde(flatten)]
    pub user: UserView,
    /// The link by which they sign in first, where they have no password: once, within a day.
    #[serde(flatten)]
    pub link: Option<OneTimeLink>,
}

/// A one-time link, shown once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OneTimeLink {
    /// The link.
    pub link: Secret,
    /// When it lapses.
    #[schema(value_type = words::Time)]
    pub link_expires_at: Timestamp,
}

/// Open the page as somebody.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenPage {
    /// As which user; needed where the token has no owner, and then it takes the right to manage users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A page of users.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    /// The users, by name.
    pub users: Vec<UserView>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A query for users.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct UserQuery {
    /// Only entries after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
