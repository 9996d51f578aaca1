//! Clients of model providers.
//!
//! A [`Client`] sends a provider-neutral [`Request`] to one [`Provider`] and streams what comes back as [`Event`]s into
//! a [`Sink`]; in the end there is a [`Completion`] or a [`Failure`]. Four providers are known: OpenAI's Responses API
//! with a key, the same API behind a ChatGPT sign-in (Codex), OpenRouter's chat completions, and any server that speaks
//! OpenAI's chat completions without an account (Ollama, llama.cpp, vLLM).
//!
//! What a caller can rely on:
//!
//! - **Nothing is said twice.** A failed attempt is tried again only as long as nothing of it has reached the sink. Once
//!   a delta is out, a cut ends in a [`Failure`] that carries what had come so far. Tool calls are held back until the
//!   answer is whole, so a provider that dies in the middle of one is simply asked again.
//! - **Cancelling closes the connection.** The provider sees the socket go, and `stream` returns
//!   [`ModelError::Cancelled`] with what had come so far.
//! - **Everything is bounded**: lines, events, answers, idle time, attempts, delays. See [`Limits`] and [`RetryPolicy`].
//! - **Secrets do not print.** Keys and tokens are [`SecretText`]; an error never repeats one, even if a
//!   provider's message does.
//!
//! This crate knows nothing of JSON-RPC, of sessions or of files: tokens come from and go to a [`oauth::TokenStore`].

mod catalogue;
mod chat;
mod client;
mod credentials;
mod draft;
mod error;
mod estimate;
mod event;
pub mod oauth;
mod provider;
mod request;
mod responses;
#[cfg(feature = "testkit")]
pub mod testkit;
mod usage;

pub use catalogue::{Catalogue, EFFORTS, Model, default_effort, default_model, facts, known_models};
pub use client::{Client, Http, Limits, RetryPolicy};
pub use convoke_core::secret::SecretText;
pub use credentials::{CredentialSource, Credentials, Fixed};
pub use error::{Failure, ModelError};
pub use estimate::{estimate_message, estimate_request, estimate_text};
pub use event::{Completion, Event, Finish, Partial, Retry, Sink};
pub use provider::{Provider, ProviderKind};
pub use request::{ImagePart, Message, Part, Request, ToolCall, ToolDefinition};
pub use usage::{Price, Usage};
