//! The result of a tool call.

/// The result of a call; every call has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For the model. Begins with `Error:` when the tool failed, and is `Cancelled.` when it was cancelled.
    pub content: String,
    /// Whether it failed, was declined or was cancelled.
    pub is_error: bool,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// A unified diff of what changed; also part of `content`.
    pub diff: Option<String>,
    /// Files that changed, as the model named them.
    pub changed_files: Vec<String>,
    /// The first line that changed, counted from 1.
    pub first_changed_line: Option<usize>,
    /// Pictures that were read.
    pub images: Vec<Image>,
}

impl Outcome {
    /// A success with nothing but text.
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// A failure. `Error: ` is put before it.
    pub fn error(why: impl std::fmt::Display) -> Self {
        Self { content: format!("Error: {why}"), is_error: true, ..Self::default() }
    }

    /// The caller cancelled it.
    pub fn cancelled() -> Self {
        Self { content: "Cancelled.".into(), is_error: true, cancelled: true, ..Self::default() }
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: &'static str,
    /// Raw base64.
    pub data: String,
}
