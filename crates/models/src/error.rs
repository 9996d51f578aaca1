//! What can go wrong with a provider, worded for whoever has to do something about it.

use std::time::Duration;

use convoke_core::secret::SecretText;

use crate::{Partial, ProviderKind};

/// Why a request got no whole answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// The caller wanted it to end.
    #[error("The request was cancelled.")]
    Cancelled,
    /// There is nothing to prove oneself with.
    #[error("{0}")]
    NotConfigured(String),
    /// An address from configuration cannot be used.
    #[error("{provider}: the base URL {url:?} cannot be used: {why}")]
    BadAddress {
        /// Whose address.
        provider: ProviderKind,
        /// The address.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The provider does not accept the credentials.
    #[error("{provider} refused the credentials (HTTP {status}): {message}")]
    Unauthorised {
        /// Who refused.
        provider: ProviderKind,
        /// 401 or 403.
        status: u16,
        /// In the provider's words.
        message: String,
    },
    /// Too many requests.
    #[error("{provider} limits the rate (HTTP {status}): {message}{}", wait(retry_after))]
    RateLimited {
        /// Who limits.
        provider: ProviderKind,
        /// Usually 429.
        status: u16,
        /// In the provider's words.
        message: String,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
    /// The account has nothing left; waiting does not help.
    #[error("{provider}: the account's quota is used up (HTTP {status}): {message}")]
    QuotaExceeded {
        /// Whose account.
        provider: ProviderKind,
        /// The status.
        status: u16,
        /// In the provider's words.
        message: String,
    },
    /// The conversation is too long for the model.
    #[error("{provider}: the conversation does not fit into the model's context window: {message}")]
    ContextOverflow {
        /// Who said so.
        provider: ProviderKind,
        /// In the provider's words.
        message: String,
    },
    /// The provider does not accept the request.
    #[error("{provider} rejected the request (HTTP {status}): {message}")]
    Rejected {
        /// Who rejected.
        provider: ProviderKind,
        /// The status.
        status: u16,
        /// In the provider's words.
        message: String,
    },
    /// The provider failed.
    #[error("{provider} failed (HTTP {status}): {message}")]
    Server {
        /// Who failed.
        provider: ProviderKind,
        /// The status; 500 for a failure told in the stream.
        status: u16,
        /// In the provider's words.
        message: String,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
    /// The provider cannot be reached.
    #[error("cannot reach {provider}: {message}")]
    Network {
        /// Who cannot be reached.
        provider: ProviderKind,
        /// What happened.
        message: String,
    },
    /// Nothing came for too long.
    #[error("{provider} sent nothing for {} seconds", after.as_secs())]
    Idle {
        /// Who stalled.
        provider: ProviderKind,
        /// The limit.
        after: Duration,
    },
    /// The stream ended before the answer did.
    #[error("{provider} closed the connection before its answer was complete")]
    CutOff {
        /// Who hung up.
        provider: ProviderKind,
    },
    /// What came is not what the provider's format says.
    #[error("cannot read the answer of {provider}: {message}")]
    Malformed {
        /// Who sent it.
        provider: ProviderKind,
        /// What is wrong.
        message: String,
    },
    /// What came is larger than anything that is kept.
    #[error("{provider} sent {what} of more than {limit} bytes")]
    TooLarge {
        /// Who sent it.
        provider: ProviderKind,
        /// What was too large.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Every attempt failed.
    #[error("{} request failed after {attempts} attempts: {last}", provider)]
    Exhausted {
        /// Who failed.
        provider: ProviderKind,
        /// How often it was tried.
        attempts: u32,
        /// What happened the last time.
        last: Box<ModelError>,
    },
}

impl ModelError {
    /// A stable word for programs and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::NotConfigured(_) => "not_configured",
            Self::BadAddress { .. } => "bad_address",
            Self::Unauthorised { .. } => "unauthorised",
            Self::RateLimited { .. } => "rate_limited",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::ContextOverflow { .. } => "context_overflow",
            Self::Rejected { .. } => "rejected",
            Self::Server { .. } => "server_error",
            Self::Network { .. } => "network",
            Self::Idle { .. } => "idle",
            Self::CutOff { .. } => "cut_off",
            Self::Malformed { .. } => "malformed",
            Self::TooLarge { .. } => "too_large",
            Self::Exhausted { last, .. } => last.code(),
        }
    }

    /// Whether asking again may help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Server { .. }
                | Self::Network { .. }
                | Self::Idle { .. }
                | Self::CutOff { .. }
                | Self::Malformed { .. }
        )
    }

    /// Whether a shorter conversation would help.
    pub fn is_context_overflow(&self) -> bool {
        match self {
            Self::ContextOverflow { .. } => true,
            Self::Exhausted { last, .. } => last.is_context_overflow(),
            _ => false,
        }
    }

    /// The provider's HTTP status, if it came to one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Unauthorised { status, .. }
            | Self::RateLimited { status, .. }
            | Self::QuotaExceeded { status, .. }
            | Self::Rejected { status, .. }
            | Self::Server { status, .. } => Some(*status),
            Self::Exhausted { last, .. } => last.status(),
            _ => None,
        }
    }

    /// The same without a secret that the provider may have repeated.
    pub(crate) fn without(mut self, secret: Option<&SecretText>) -> Self {
        let Some(secret) = secret.map(SecretText::reveal).filter(|secret| secret.len() >= 8) else { return self };
        if let Self::Unauthorised { message, .. }
        | Self::RateLimited { message, .. }
        | Self::QuotaExceeded { message, .. }
        | Self::ContextOverflow { message, .. }
        | Self::Rejected { message, .. }
        | Self::Server { message, .. }
        | Self::Network { message, .. }
        | Self::Malformed { message, .. } = &mut self
        {
            *message = message.replace(secret, "[REDACTED]");
        }
        self
    }

    /// When the provider asked to come back.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// When a provider wants to be asked again, in words.
fn wait(retry_after: &Option<Duration>) -> String {
    retry_after.map(|wait| format!(" (it asks to wait {} s)", wait.as_secs_f64().ceil())).unwrap_or_default()
}

/// A request that got no whole answer, and what had come of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// Why.
    pub error: ModelError,
    /// What had reached the sink: worth keeping in the conversation's record, since the user has seen it.
    pub partial: Partial,
    /// How large the request was.
    pub request_bytes: usize,
    /// How many attempts were made.
    pub attempts: u32,
}
