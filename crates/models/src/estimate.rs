//! How many tokens a text has, roughly.
//!
//! Four characters to a token, rounded up. A tokenizer's tables would take several times the memory that the whole
//! backend is meant to need at rest, and would be exact for one family of models only. Providers report the real
//! numbers with each answer; this is for what has not been sent yet.

use crate::{Message, Part, Request};

/// What one picture is taken for.
const IMAGE_TOKENS: u64 = 1_200;

/// Roughly how many tokens a text has.
pub fn estimate_text(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

/// Roughly how many tokens a message has.
pub fn estimate_message(message: &Message) -> u64 {
    match message {
        Message::User(parts) | Message::ToolResult { parts, .. } => parts.iter().map(part).sum(),
        Message::Assistant { text, tool_calls } => {
            let calls = tool_calls.iter().map(|call| estimate_text(&call.name) + estimate_text(&call.arguments));
            estimate_text(text) + calls.sum::<u64>()
        }
    }
}

/// Roughly how many tokens a whole request has: instructions, tools and conversation.
pub fn estimate_request(request: &Request) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        estimate_text(&tool.name) + estimate_text(&tool.description) + estimate_text(&tool.parameters.to_string())
    });
    let messages = request.messages.iter().map(estimate_message);
    estimate_text(&request.instructions) + tools.sum::<u64>() + messages.sum::<u64>()
}

fn part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => estimate_text(text),
        Part::Image(_) => IMAGE_TOKENS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_characters_are_a_token() {
        let check = |text: &str, tokens: u64| assert_eq!(estimate_text(text), tokens, "{text}");
        check("", 0);
        check("a", 1);
        check("abcd", 1);
        check("abcde", 2);
        check("ääää", 1);
    }
}
