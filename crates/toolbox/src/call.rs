//! A tool call, and its output while it runs.

use serde_json::{Map, Value};

/// A model's call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call's id.
    pub id: String,
    /// The tool, as the model named it.
    pub name: String,
    /// The arguments as the model wrote them: the text of a JSON object.
    pub arguments: String,
}

impl Call {
    /// The arguments as an object; an empty text counts as `{}`.
    pub fn parsed(&self) -> Result<Map<String, Value>, String> {
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(map)) => Ok(map),
            Ok(_) => Err("the arguments must be a JSON object".into()),
            Err(why) => Err(format!("the arguments are not valid JSON: {why}")),
        }
    }
}

/// Which of a command's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Output of a command that still runs. Text is cut at the boundaries of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where it was written.
    pub stream: Stream,
    /// The text.
    pub text: String,
}

/// Receives live output. Called from the task that reads the command's pipes, so it must not block.
pub trait Live: Send {
    /// Takes a piece of output.
    fn output(&mut self, output: Output);
}

impl<F: FnMut(Output) + Send> Live for F {
    fn output(&mut self, output: Output) {
        self(output);
    }
}
