//! Which providers there are, and where they live.

use std::fmt;
use std::str::FromStr;

/// A kind of provider. The label is what configuration and clients call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderKind {
    /// OpenAI's Responses API behind a ChatGPT sign-in.
    Codex,
    /// OpenAI's Responses API with an API key.
    OpenAi,
    /// OpenRouter's chat completions.
    OpenRouter,
    /// Any server that speaks OpenAI's chat completions; no account.
    Local,
}

impl ProviderKind {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Codex, Self::OpenAi, Self::OpenRouter, Self::Local];

    /// The name that configuration and clients use.
    pub fn label(self) -> &'static str {
        match self {
            Self::Codex => "Codex",
            Self::OpenAi => "OpenAI",
            Self::OpenRouter => "OpenRouter",
            Self::Local => "Local",
        }
    }

    /// Where this provider lives unless configuration says otherwise.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Codex => "https://chatgpt.com/backend-api/codex",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::OpenRouter => "https://openrouter.ai/api/v1",
            Self::Local => "http://127.0.0.1:11434/v1",
        }
    }

    /// The path under which the provider's own addresses stand, tried when a base URL without a path answers 404.
    pub(crate) fn usual_path(self) -> &'static str {
        match self {
            Self::Codex => "/backend-api/codex",
            Self::OpenAi | Self::Local => "/v1",
            Self::OpenRouter => "/api/v1",
        }
    }

    /// Whether the account is a subscription, so that single requests have no price.
    pub fn is_subscription(self) -> bool {
        self == Self::Codex
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The text names no provider that is known here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unsupported provider: {0} (use Codex, OpenAI, OpenRouter or Local)")]
pub struct UnknownProvider(pub String);

impl FromStr for ProviderKind {
    type Err = UnknownProvider;

    /// Case does not matter. `openai_api` is how Kward writes the one that needs a key.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.trim();
        if wanted.eq_ignore_ascii_case("openai_api") {
            return Ok(Self::OpenAi);
        }
        let known = Self::ALL.into_iter().find(|kind| kind.label().eq_ignore_ascii_case(wanted));
        known.ok_or_else(|| UnknownProvider(wanted.to_owned()))
    }
}

/// A provider at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// What it speaks.
    pub kind: ProviderKind,
    /// Where it lives: everything before `/responses` or `/chat/completions`.
    pub base_url: String,
}

impl Provider {
    /// The provider at its own address.
    pub fn usual(kind: ProviderKind) -> Self {
        Self::at(kind, kind.default_base_url())
    }

    /// The provider at an address from configuration. A trailing slash, and the last path of the API itself, may be
    /// there or not. An address without any path is used as it is first and, where that answers 404, with the path
    /// that this provider usually has (`http://localhost:11434` works for Ollama).
    pub fn at(kind: ProviderKind, base_url: &str) -> Self {
        let mut base = base_url.trim().trim_end_matches('/');
        for api in ["/responses", "/chat/completions", "/models"] {
            base = base.strip_suffix(api).unwrap_or(base);
        }
        Self { kind, base_url: base.trim_end_matches('/').to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_in_any_case() {
        for kind in ProviderKind::ALL {
            assert_eq!(kind.label().to_lowercase().parse(), Ok(kind));
            assert_eq!(kind.label().to_uppercase().parse(), Ok(kind));
        }
        let why = "Copilot".parse::<ProviderKind>().unwrap_err().to_string();
        assert_eq!(why, "Unsupported provider: Copilot (use Codex, OpenAI, OpenRouter or Local)");
    }

    #[test]
    fn an_address_may_end_as_people_write_it() {
        let check = |given: &str, base: &str| assert_eq!(Provider::at(ProviderKind::Local, given).base_url, base);
        check("http://localhost:11434/v1", "http://localhost:11434/v1");
        check("http://localhost:11434/v1/", "http://localhost:11434/v1");
        check(" http://localhost:11434 ", "http://localhost:11434");
        check("http://localhost:8000/v1/chat/completions", "http://localhost:8000/v1");
        check("http://localhost:8000/v1/responses/", "http://localhost:8000/v1");
    }
}
