//! Frames that a hub sends and an agent decodes.

use std::borrow::Cow;

use convoke_core::guard::AppliesTo;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::fields::{Fields, text_of};
use super::{FrameError, MAX_NAME, clip};
use crate::policy::{Dialect, PolicyRule, ShellMode, ShellPolicy};
use crate::wire_bytes::{self, NONCE_LEN, SIGNATURE_LEN};

/// Most operator rules in one `policy` frame; more are skipped and counted.
pub const MAX_RULES: usize = 4096;

/// A frame from the hub (contract, "Frame envelope").
#[derive(Clone, Debug)]
pub enum HubFrame<'a> {
    /// The hub's signed nonce (contract, "challenge").
    Challenge {
        /// 32 fresh bytes.
        server_nonce: [u8; NONCE_LEN],
        /// The hub's signature over the transcript.
        server_sig: [u8; SIGNATURE_LEN],
    },
    /// Invoke one tool (contract, "request").
    Request {
        /// Made by the hub.
        id: Uuid,
        /// A name of the catalogue.
        tool: Cow<'a, str>,
        /// The tool's arguments; `{}` if there are none.
        args: Cow<'a, RawValue>,
        /// The only folders below which files may be read for this call. Our own addition, for agents that announce
        /// [`FEATURE_BELOW`](crate::policy::FEATURE_BELOW).
        below: Option<Vec<String>>,
    },
    /// The operator's extra deny rules, replacing those sent before (contract, "policy").
    Policy {
        /// The rules that were understood.
        rules: Vec<PolicyRule>,
        /// Rules that were not: an unknown group, a missing field. Skipped and never fatal, so that a rule for newer
        /// agents does not cost this one the others.
        skipped: usize,
        /// The shell policy, if the hub sends one.
        shell: Option<ShellPolicy>,
    },
    /// Heartbeat.
    Ping,
    /// Heartbeat reply.
    Pong,
}

impl<'a> HubFrame<'a> {
    /// A request whose arguments are written from the parsed value. A hub uses this and not the caller's text: with a
    /// key given twice, the guard and the agent could otherwise each read a different one.
    pub fn request(id: Uuid, tool: impl Into<Cow<'a, str>>, args: &Map<String, Value>) -> Self {
        let args = serde_json::value::to_raw_value(args).expect("a map with text keys always serialises");
        Self::Request { id, tool: tool.into(), args: Cow::Owned(args), below: None }
    }

    /// A policy frame with these rules. Filter them by the agent's [`Dialect`] first.
    pub fn policy(rules: Vec<PolicyRule>) -> Self {
        Self::Policy { rules, skipped: 0, shell: None }
    }

    /// The rules that an agent of that dialect understands.
    pub fn policy_for(dialect: Dialect, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        Self::Policy { rules: dialect.filter(rules), skipped: 0, shell: dialect.shell() }
    }

    /// The frame as text: exactly the contract's keys, in its order.
    pub fn encode(&self) -> String {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "lowercase")]
        enum Wire<'w> {
            Challenge {
                server_nonce: String,
                server_sig: String,
            },
            Policy {
                rules: &'w [PolicyRule],
                #[serde(skip_serializing_if = "Option::is_none")]
                shell: Option<&'w ShellPolicy>,
            },
            Ping {},
            Pong {},
        }
        let wire = match self {
            Self::Challenge { server_nonce, server_sig } => Wire::Challenge {
                server_nonce: wire_bytes::encode(server_nonce),
                server_sig: wire_bytes::encode(server_sig),
            },
            Self::Request { id, tool, args, below } => return request(*id, tool, args, below.as_deref()),
            Self::Policy { rules, shell, .. } => Wire::Policy { rules, shell: shell.as_ref() },
            Self::Ping => Wire::Ping {},
            Self::Pong => Wire::Pong {},
        };
        serde_json::to_string(&wire).expect("texts, lists and raw JSON always serialise")
    }

    /// Decodes one text message, for the agent's side.
    pub fn decode(text: &'a str) -> Result<Self, FrameError> {
        let fields = Fields::read(text)?;
        let kind = fields.kind()?;
        match &*kind {
            "request" => {
                let fields = fields.of("request")?;
                let args = fields.get("args").map_or_else(empty_args, Cow::Borrowed);
                // A limit that cannot be read is the strictest.
                let below = fields.get("below").map(|raw| serde_json::from_str(raw.get()).unwrap_or_default());
                Ok(Self::Request { id: fields.uuid("id")?, tool: fields.text("tool")?, args, below })
            }
            "policy" => read_policy(&fields.of("policy")?),
            "ping" => Ok(Self::Ping),
            "pong" => Ok(Self::Pong),
            "challenge" => {
                let fields = fields.of("challenge")?;
                Ok(Self::Challenge {
                    server_nonce: fields.bytes("server_nonce")?,
                    server_sig: fields.bytes("server_sig")?,
                })
            }
            _ => Err(FrameError::UnknownType { kind: clip(&kind, MAX_NAME).to_owned() }),
        }
    }
}

/// A request as text. By hand, since every call takes one.
fn request(id: Uuid, tool: &str, args: &RawValue, below: Option<&[String]>) -> String {
    let mut text = String::with_capacity(96 + tool.len() + args.get().len());
    text.push_str("{\"type\":\"request\",\"id\":\"");
    text.push_str(id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    text.push_str("\",\"tool\":");
    if tool.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        text.extend(["\"", tool, "\""]);
    } else {
        text.push_str(&serde_json::to_string(tool).expect("a text always serialises"));
    }
    text.extend([",\"args\":", args.get()]);
    if let Some(below) = below {
        text.extend([",\"below\":", &serde_json::to_string(below).expect("texts always serialise")]);
    }
    text.push('}');
    text
}

fn empty_args<'a>() -> Cow<'a, RawValue> {
    Cow::Owned(RawValue::from_string("{}".to_owned()).expect("{} is JSON"))
}

fn read_policy<'a>(fields: &Fields<'a>) -> Result<HubFrame<'a>, FrameError> {
    let raw = fields.get("rules").ok_or_else(|| fields.bad("rules", "is missing"))?;
    let (rules, skipped) = read_rules(raw).ok_or_else(|| fields.bad("rules", "is not a list"))?;
    let shell = fields.get("shell").map(|raw| {
        // A restriction that cannot be read is the strictest, and does not cost us the rules beside it.
        read_shell(raw).unwrap_or((ShellPolicy { mode: ShellMode::Off, allow: Vec::new() }, 1))
    });
    let (shell, lost) = shell.map_or((None, 0), |(shell, lost)| (Some(shell), lost));
    Ok(HubFrame::Policy { rules, skipped: skipped + lost, shell })
}

/// The rules of a list that we understand, and how many we do not.
fn read_rules(raw: &RawValue) -> Option<(Vec<PolicyRule>, usize)> {
    let list: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    let rules: Vec<_> = list.iter().take(MAX_RULES).filter_map(|raw| read_rule(raw)).collect();
    let skipped = list.len() - rules.len();
    Some((rules, skipped))
}

fn read_shell(raw: &RawValue) -> Option<(ShellPolicy, usize)> {
    #[derive(serde::Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        mode: &'a RawValue,
        #[serde(borrow, default)]
        allow: Option<&'a RawValue>,
    }
    let shape: Shape<'_> = serde_json::from_str(raw.get()).ok()?;
    let mode = ShellMode::parse(&text_of(shape.mode)?);
    let (allow, skipped) = shape.allow.map_or(Some((Vec::new(), 0)), read_rules)?;
    Some((ShellPolicy { mode, allow }, skipped))
}

fn read_rule(raw: &RawValue) -> Option<PolicyRule> {
    #[derive(serde::Deserialize)]
    struct Shape<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        #[serde(borrow)]
        applies_to: &'a RawValue,
        #[serde(borrow)]
        pattern: &'a RawValue,
        #[serde(borrow)]
        reason: Option<&'a RawValue>,
    }
    let shape: Shape<'_> = serde_json::from_str(raw.get()).ok()?;
    Some(PolicyRule {
        id: text_of(shape.id)?.into_owned(),
        applies_to: AppliesTo::parse(&text_of(shape.applies_to)?)?,
        pattern: text_of(shape.pattern)?.into_owned(),
        reason: shape.reason.and_then(text_of).unwrap_or_default().into_owned(),
    })
}
