//! What a caller may do: a role, narrowed by scopes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contents;
use crate::door::Door;
use crate::effect::Effect;
use crate::glob;

/// The role of a token. Ordered: each role may do everything that the one before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees the fleet and may make `observe` calls.
    Viewer,
    /// May make every call.
    Operator,
    /// May also change policy, users, tokens and trust.
    Admin,
}

impl Role {
    /// All roles, weakest first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == text)
    }

    /// The strongest effect this role may cause.
    pub const fn strongest_effect(self) -> Effect {
        match self {
            Self::Viewer => Effect::Observe,
            Self::Operator | Self::Admin => Effect::Manage,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A right that a door asks for. Every HTTP route, MCP tool and wire call names exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Anyone at all; declared on purpose.
    Public,
    /// Holds the one-time token, signature or link that the door itself checks.
    OwnCredential,
    /// A token counts where one is shown, and none is needed: the door itself decides on who comes without.
    Guest,
    /// See the fleet, its health, logs, journal and one's own calls.
    View,
    /// Make a call; which one decides the gate.
    Call,
    /// Decide on someone else's pending call.
    Approve,
    /// Change deny rules and confirm rules.
    Policy,
    /// Mint and revoke operator tokens.
    Tokens,
    /// A password, one-time link or passkey that the door itself checks: signing in.
    SignIn,
    /// Add, change and remove users.
    Users,
    /// Enrol, tag and re-key agents, pair clients, open rooms and let others in: what hands on rights.
    Trust,
    /// Revoke and remove agents and clients, kick participants: what only takes rights away.
    Withdraw,
}

impl Right {
    /// Those that somebody has or lacks; the others are about how a door is entered.
    pub const HELD: [Self; 7] =
        [Self::View, Self::Call, Self::Approve, Self::Policy, Self::Tokens, Self::Users, Self::Trust];

    /// The name used in refusals and in the list of doors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::OwnCredential => "own_credential",
            Self::Guest => "guest",
            Self::View => "view",
            Self::Call => "call",
            Self::Approve => "approve",
            Self::Policy => "policy",
            Self::Tokens => "tokens",
            Self::SignIn => "sign_in",
            Self::Users => "users",
            Self::Trust => "trust",
            Self::Withdraw => "withdraw",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What narrows a role. An absent list means "all that the role has"; each list that is there narrows further, so
/// `agents` and `tags` together mean "these agents, and only while they carry one of these tags".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scopes {
    /// Effects that calls may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Vec<Effect>>,
    /// Tools by name; `*` is a wild card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Agents by id; `*` is a wild card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Agents by tag; `*` is a wild card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Doors at which the token is good. One that is made for an assistant is for `mcp` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doors: Option<Vec<Door>>,
    /// Whether the holder may decide on others' pending calls. Absent means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<bool>,
    /// Most calls the holder may place in a minute, through all doors together. Absent means the hub's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// Most calls of the holder that may be under way at once. Absent means the hub's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_calls: Option<u32>,
}

impl Scopes {
    /// Whether any list narrows the role (`approve` widens and does not count).
    pub fn narrows(&self) -> bool {
        self.effects.is_some()
            || self.tools.is_some()
            || self.agents.is_some()
            || self.tags.is_some()
            || self.doors.is_some()
            || self.calls_per_minute.is_some()
            || self.concurrent_calls.is_some()
    }

    /// Whether a peer with this id and these tags is within reach.
    pub fn reaches<T: AsRef<str>>(&self, agent: &str, tags: &[T]) -> bool {
        self.agents.as_ref().is_none_or(|globs| glob::any_matches(globs, agent))
            && self.tags.as_ref().is_none_or(|globs| tags.iter().any(|t| glob::any_matches(globs, t.as_ref())))
    }
}

/// The rights of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The scopes that narrow the role.
    pub scopes: Scopes,
}

/// Why a right is missing, in words for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The role is too weak.
    #[error("this needs the role {needed}; the token has the role {has}")]
    Role {
        /// The weakest role that would do.
        needed: Role,
        /// The caller's.
        has: Role,
    },
    /// A scope of the token leaves it out.
    #[error("the token's scope `{0}` does not include this")]
    Scope(&'static str),
    /// A viewer would read what is in a file or on a screen.
    #[error(
        "a viewer reads contents only below the folders of policy.viewer_paths; reading `{0}` needs the role operator"
    )]
    Contents(String),
    /// The token narrows its role and so may not hand out what is wider.
    #[error("a token with narrowed scopes cannot change {0}")]
    Narrowed(&'static str),
}

impl Grant {
    /// Whether the grant includes a right that is not about one peer. [`Right::Call`] is only the door: the gate
    /// then looks at effect, tool and target.
    pub fn check(&self, right: Right) -> Result<(), Missing> {
        let admin = |what: &'static str| {
            if self.role < Role::Admin {
                Err(Missing::Role { needed: Role::Admin, has: self.role })
            } else if self.scopes.narrows() {
                // Otherwise a token limited to one tag could mint itself a token for all of them.
                Err(Missing::Narrowed(what))
            } else {
                Ok(())
            }
        };
        match right {
            Right::Public | Right::OwnCredential | Right::Guest | Right::SignIn | Right::View | Right::Call => Ok(()),
            Right::Approve if self.scopes.approve == Some(true) => Ok(()),
            Right::Approve => Err(Missing::Scope("approve")),
            Right::Policy => admin("policy"),
            Right::Tokens => admin("tokens"),
            Right::Users => admin("users"),
            Right::Trust | Right::Withdraw if self.role < Role::Admin => {
                Err(Missing::Role { needed: Role::Admin, has: self.role })
            }
            // A tag, a key or an invite hands on rights of every effect: whoever has not all of them hands on none.
            Right::Trust
                if self.scopes.effects.as_ref().is_some_and(|some| !Effect::ALL.iter().all(|e| some.contains(e))) =>
            {
                Err(Missing::Scope("effects"))
            }
            Right::Trust if self.scopes.tools.is_some() => Err(Missing::Scope("tools")),
            Right::Trust | Right::Withdraw => Ok(()),
        }
    }

    /// Whether the grant is good at this door.
    pub fn check_door(&self, door: Door) -> Result<(), Missing> {
        if self.scopes.doors.as_ref().is_some_and(|doors| !door.is_in(doors)) {
            return Err(Missing::Scope("doors"));
        }
        Ok(())
    }

    /// Whether it was made for an assistant: good at the door for them, and nowhere else.
    pub fn is_for_assistant(&self) -> bool {
        self.scopes.doors.as_deref() == Some(&[Door::Mcp])
    }

    /// Whether nobody may do with `other` what they may not do with this one. In doubt no: scopes are compared as they are
    /// written.
    pub fn covers(&self, other: &Self) -> bool {
        fn lists<T: PartialEq>(wide: Option<&Vec<T>>, narrow: Option<&Vec<T>>) -> bool {
            wide.is_none_or(|wide| narrow.is_some_and(|narrow| narrow.iter().all(|item| wide.contains(item))))
        }
        let limits =
            |wide: Option<u32>, narrow: Option<u32>| wide.is_none_or(|wide| narrow.is_some_and(|n| n <= wide));
        let (wide, narrow) = (&self.scopes, &other.scopes);
        self.role >= other.role
            && lists(wide.effects.as_ref(), narrow.effects.as_ref())
            && lists(wide.tools.as_ref(), narrow.tools.as_ref())
            && lists(wide.agents.as_ref(), narrow.agents.as_ref())
            && lists(wide.tags.as_ref(), narrow.tags.as_ref())
            && lists(wide.doors.as_ref(), narrow.doors.as_ref())
            && limits(wide.calls_per_minute, narrow.calls_per_minute)
            && limits(wide.concurrent_calls, narrow.concurrent_calls)
            && (wide.approve == Some(true) || narrow.approve != Some(true))
    }

    /// Whether every right there is can be handed on with this grant: who holds it can let anyone in again.
    pub fn hands_on_everything(&self) -> bool {
        self.check(Right::Tokens).is_ok() && self.check(Right::Approve).is_ok()
    }

    /// Whether the grant includes this call.
    pub fn check_call<T: AsRef<str>>(
        &self,
        effect: Effect,
        tool: &str,
        agent: &str,
        tags: &[T],
    ) -> Result<(), Missing> {
        self.check_tool(effect, tool)?;
        self.check_reach(agent, tags)
    }

    /// Whether the grant could include a call of this tool to any peer at all: what is not even that is not shown.
    pub fn check_tool(&self, effect: Effect, tool: &str) -> Result<(), Missing> {
        if effect > self.role.strongest_effect() {
            return Err(Missing::Role { needed: Role::Operator, has: self.role });
        }
        self.check_scopes(effect, tool)
    }

    /// Whether the scopes include a call of this tool, whatever the role: who only approves needs no role for it.
    pub fn check_scopes(&self, effect: Effect, tool: &str) -> Result<(), Missing> {
        if self.scopes.effects.as_ref().is_some_and(|effects| !effects.contains(&effect)) {
            return Err(Missing::Scope("effects"));
        }
        if self.scopes.tools.as_ref().is_some_and(|globs| !glob::any_matches(globs, tool)) {
            return Err(Missing::Scope("tools"));
        }
        Ok(())
    }

    /// Whether the grant includes the contents of these files. A viewer's includes those below certain folders, as far as
    /// the names tell.
    pub fn check_contents<P: AsRef<str>>(&self, files: &[P], viewer_paths: &[String]) -> Result<(), Missing> {
        if self.role > Role::Viewer {
            return Ok(());
        }
        let outside = files.iter().map(AsRef::as_ref).find(|file| !contents::lies_below(file, viewer_paths));
        outside.map_or(Ok(()), |file| Err(Missing::Contents(file.chars().take(200).collect())))
    }

    /// Whether the peer is within the grant's reach.
    pub fn check_reach<T: AsRef<str>>(&self, agent: &str, tags: &[T]) -> Result<(), Missing> {
        if self.scopes.agents.as_ref().is_some_and(|globs| !glob::any_matches(globs, agent)) {
            return Err(Missing::Scope("agents"));
        }
        if !self.scopes.reaches(agent, tags) {
            return Err(Missing::Scope("tags"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(role: Role, scopes: &str) -> Grant {
        Grant { role, scopes: serde_json::from_str(scopes).expect("test scopes") }
    }

    #[track_caller]
    fn check(role: Role, scopes: &str, effect: Effect, tool: &str, agent: &str, tags: &[&str], expect: bool) {
        let verdict = grant(role, scopes).check_call(effect, tool, agent, tags);
        assert_eq!(verdict.is_ok(), expect, "{verdict:?}");
    }

    #[test]
    fn roles_bound_effects() {
        check(Role::Viewer, "{}", Effect::Observe, "fs_read", "pc", &[], true);
        check(Role::Viewer, "{}", Effect::Interact, "screen_capture", "pc", &[], false);
        check(Role::Operator, "{}", Effect::Manage, "shell_exec", "pc", &[], true);
    }

    #[test]
    fn each_scope_narrows() {
        check(Role::Operator, r#"{"effects":["observe"]}"#, Effect::Manage, "shell_exec", "pc", &[], false);
        check(Role::Operator, r#"{"tools":["fs_*"]}"#, Effect::Observe, "fs_read", "pc", &[], true);
        check(Role::Operator, r#"{"tools":["fs_*"]}"#, Effect::Observe, "net_config", "pc", &[], false);
        check(Role::Operator, r#"{"agents":["lab-*"]}"#, Effect::Observe, "fs_read", "lab-1", &[], true);
        check(Role::Operator, r#"{"agents":["lab-*"]}"#, Effect::Observe, "fs_read", "pc", &[], false);
        check(Role::Operator, r#"{"tags":["lab"]}"#, Effect::Observe, "fs_read", "pc", &["lab"], true);
        check(Role::Operator, r#"{"tags":["lab"]}"#, Effect::Observe, "fs_read", "pc", &[], false);
        check(Role::Operator, r#"{"agents":["pc"],"tags":["lab"]}"#, Effect::Observe, "fs_read", "pc", &["x"], false);
        check(Role::Operator, r#"{"effects":[]}"#, Effect::Observe, "fs_read", "pc", &[], false);
    }

    #[test]
    fn a_token_is_good_at_its_doors_only() {
        for (scopes, good) in [
            ("{}", Door::ALL.to_vec()),
            (r#"{"doors":["mcp"]}"#, vec![Door::Mcp]),
            (r#"{"doors":["http"]}"#, vec![Door::Http, Door::Cli, Door::Page]),
            (r#"{"doors":["cli","room"]}"#, vec![Door::Cli, Door::Room]),
        ] {
            let grant = grant(Role::Operator, scopes);
            let found: Vec<_> = Door::ALL.into_iter().filter(|door| grant.check_door(*door).is_ok()).collect();
            assert_eq!(found, good, "{scopes}");
        }
    }

    #[test]
    fn a_viewer_reads_contents_only_below_certain_folders() {
        let below = ["/var/log".to_owned()];
        let check = |role, file: &str| grant(role, "{}").check_contents(&[file], &below);
        assert_eq!(check(Role::Viewer, "/var/log/syslog"), Ok(()));
        assert_eq!(check(Role::Viewer, "/srv/.env"), Err(Missing::Contents("/srv/.env".into())));
        assert_eq!(check(Role::Operator, "/srv/.env"), Ok(()));
        assert_eq!(grant(Role::Viewer, "{}").check_contents::<&str>(&[], &below), Ok(()));
    }

    #[test]
    fn a_grant_covers_what_is_narrower() {
        let check = |wide: (Role, &str), narrow: (Role, &str), expect: bool| {
            let covers = grant(wide.0, wide.1).covers(&grant(narrow.0, narrow.1));
            assert_eq!(covers, expect, "{wide:?} {narrow:?}");
        };
        check((Role::Admin, "{}"), (Role::Viewer, r#"{"tools":["fs_*"]}"#), true);
        check((Role::Viewer, "{}"), (Role::Operator, r#"{"tools":[]}"#), false);
        check((Role::Admin, "{}"), (Role::Admin, r#"{"approve":true}"#), false);
        check((Role::Admin, r#"{"approve":true}"#), (Role::Admin, "{}"), true);
        for list in ["effects", "tools", "agents", "tags", "doors"] {
            let (one, two) = if list == "effects" { ("observe", "manage") } else { ("http", "mcp") };
            let (some, more) = (format!(r#"{{"{list}":["{one}"]}}"#), format!(r#"{{"{list}":["{one}","{two}"]}}"#));
            check((Role::Admin, &more), (Role::Admin, &some), true);
            check((Role::Admin, &some), (Role::Admin, &more), false);
            check((Role::Admin, &some), (Role::Admin, "{}"), false);
        }
        for limit in ["calls_per_minute", "concurrent_calls"] {
            let (some, more) = (format!(r#"{{"{limit}":1}}"#), format!(r#"{{"{limit}":2}}"#));
            check((Role::Admin, &more), (Role::Admin, &some), true);
            check((Role::Admin, &some), (Role::Admin, &more), false);
        }
    }

    #[test]
    fn approving_is_never_implied() {
        assert!(grant(Role::Admin, "{}").check(Right::Approve).is_err());
        assert!(grant(Role::Viewer, r#"{"approve":true}"#).check(Right::Approve).is_ok());
    }

    #[test]
    fn a_narrowed_admin_cannot_widen_itself() {
        let narrowed = grant(Role::Admin, r#"{"tags":["lab"]}"#);
        assert_eq!(narrowed.check(Right::Tokens), Err(Missing::Narrowed("tokens")));
        assert_eq!(narrowed.check(Right::Policy), Err(Missing::Narrowed("policy")));
        for scopes in [r#"{"calls_per_minute":10}"#, r#"{"doors":["http"]}"#] {
            let limited = grant(Role::Admin, scopes);
            assert!(limited.check(Right::Tokens).is_err(), "or it would mint itself one without the limit");
        }
        assert!(grant(Role::Admin, r#"{"approve":true}"#).check(Right::Tokens).is_ok());
        assert!(grant(Role::Operator, "{}").check(Right::Tokens).is_err());
    }

    #[test]
    fn who_may_not_do_everything_hands_on_nothing_and_may_still_withdraw() {
        for (scopes, may) in [
            ("{}", true),
            (r#"{"agents":["lab-*"]}"#, true),
            (r#"{"effects":["observe","interact","manage"]}"#, true),
            (r#"{"effects":["observe"]}"#, false),
            (r#"{"tools":["fs_*"]}"#, false),
        ] {
            let admin = grant(Role::Admin, scopes);
            assert_eq!(admin.check(Right::Trust).is_ok(), may, "{scopes}");
            assert!(admin.check(Right::Withdraw).is_ok());
        }
        assert!(grant(Role::Operator, "{}").check(Right::Withdraw).is_err());
    }

    #[test]
    fn an_unknown_scope_is_an_error_and_not_ignored() {
        assert!(serde_json::from_str::<Scopes>(r#"{"agent":["x"]}"#).is_err());
    }
}
