//! The way a call came in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A door of the hub, as the journal and confirm rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// The HTTP API.
    Http,
    /// An assistant over MCP.
    Mcp,
    /// The command line.
    Cli,
    /// A person signed in to the page.
    Page,
    /// A room.
    Room,
    /// A protocol's own socket.
    Wire,
}

impl Door {
    /// All doors.
    pub const ALL: [Self; 6] = [Self::Http, Self::Mcp, Self::Cli, Self::Page, Self::Room, Self::Wire];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::Cli => "cli",
            Self::Page => "page",
            Self::Room => "room",
            Self::Wire => "wire",
        }
    }

    /// Whether a list of doors includes this one. The command line speaks HTTP and only says that it is one: saying so
    /// neither gets past a rule for `http` nor needs more than `http` in a token's scope. The page speaks HTTP, too.
    pub fn is_in(self, list: &[Self]) -> bool {
        list.contains(&self) || (matches!(self, Self::Cli | Self::Page) && list.contains(&Self::Http))
    }

    /// The door of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == text)
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
