//! Chat completions: OpenRouter's, and those of any server in OpenAI's place.

mod body;
mod stream;

pub(crate) use body::body;
pub(crate) use stream::{read, read_whole};
