//! OpenAI's Responses API: with a key, and behind a ChatGPT sign-in.

mod body;
mod stream;

pub(crate) use body::{Summary, body};
pub(crate) use stream::{read, read_whole};
