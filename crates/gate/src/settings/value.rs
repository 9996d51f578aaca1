//! The kinds of values a setting can have.

use std::fmt;
use std::net::SocketAddr;

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// true or false.
    Bool,
    /// A whole number within bounds.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Any text; empty means unset.
    Text,
    /// A text that is never shown.
    Secret,
    /// Texts, separated by commas.
    List,
    /// Browser origins, separated by commas.
    Origins,
    /// `id=token` each, separated by commas; never shown.
    AgentTokens,
    /// An IP address and port.
    Address,
    /// An IP address and port; empty means unset.
    MaybeAddress,
    /// An http or https address.
    Url,
    /// An http or https address; empty means unset.
    MaybeUrl,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A switch.
    Bool(bool),
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
    /// Texts.
    List(Vec<String>),
}

impl Kind {
    /// Reads the default written in the table.
    pub(super) fn default(self, text: &str) -> Value {
        self.parse(text).expect("the table's defaults parse, as a test checks")
    }

    /// Reads text from a flag or a variable.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(Value::Bool(true)),
                "false" | "0" | "no" | "off" => Some(Value::Bool(false)),
                _ => None,
            },
            Self::Number { min, max } => {
                text.trim().parse().ok().filter(|n| (min..=max).contains(n)).map(Value::Number)
            }
            Self::Text | Self::Secret => Some(Value::Text(text.to_owned())),
            // What each may be is looked at when all is read, so that the wrong one is named.
            Self::List | Self::Origins | Self::AgentTokens => Some(Value::List(
                text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect(),
            )),
            Self::Address => text.parse::<SocketAddr>().ok().map(|_| Value::Text(text.to_owned())),
            Self::MaybeAddress if text.is_empty() => Some(Value::Text(String::new())),
            Self::MaybeAddress => Self::Address.parse(text),
            Self::MaybeUrl if text.is_empty() => Some(Value::Text(String::new())),
            Self::MaybeUrl => Self::Url.parse(text),
            Self::Url => {
                // Paths and tokens are put behind it, so that nothing else may be there.
                let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
                let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#', ' ']));
                fits.then(|| Value::Text(text.trim_end_matches('/').to_owned()))
            }
            Self::Word(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
        }
    }

    /// Reads a value of the TOML file: of its own type, or as text.
    pub fn from_toml(self, value: &toml::Value) -> Option<Value> {
        match (self, value) {
            (_, toml::Value::String(text)) => self.parse(text),
            (Self::Bool, toml::Value::Boolean(b)) => Some(Value::Bool(*b)),
            (Self::Number { .. }, toml::Value::Integer(n)) => self.parse(&n.to_string()),
            (Self::List | Self::Origins | Self::AgentTokens, toml::Value::Array(items)) => {
                items.iter().map(|i| i.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>().map(Value::List)
            }
            _ => None,
        }
    }

    /// What is allowed, in words.
    pub fn allowed(self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Number { min, max } => format!("a whole number from {min} to {max}"),
            Self::Text | Self::Secret => "a text".into(),
            Self::List => "a list of texts, separated by commas".into(),
            Self::Origins => "origins, such as https://name or https://name:8443, separated by commas".into(),
            Self::AgentTokens => "`id=token` for each agent, separated by commas".into(),
            Self::Address | Self::MaybeAddress => "an IP address and a port, such as 127.0.0.1:7410".into(),
            Self::Url | Self::MaybeUrl => "an http:// or https:// address, without a user, `?` or `#`".into(),
            Self::Word(words) => words.join(", "),
        }
    }

    /// Whether the value must never be shown.
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::AgentTokens)
    }
}

impl Value {
    /// Whether nothing was set.
    pub fn is_unset(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Bool(_) | Self::Number(_) => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => write!(f, "{b}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Text(text) => f.write_str(text),
            Self::List(list) => f.write_str(&list.join(",")),
        }
    }
}
