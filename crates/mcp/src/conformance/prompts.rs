//! The suite's prompts.

use rmcp::ErrorData;
use rmcp::model::{
    ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, Prompt,
    PromptArgument, PromptMessage, ResourceContents, Role,
};
use serde_json::{Value, json};

use super::{Fixtures, PNG, inputs};

impl Fixtures {
    /// The hub's prompts, and the suite's.
    pub fn prompts(&self, mut list: ListPromptsResult) -> ListPromptsResult {
        let argument =
            |name: &str| PromptArgument::new(name).with_description("A test argument.").with_required(true);
        let prompt = |name: &str, arguments: Vec<PromptArgument>| {
            Prompt::new(name, Some("A fixture of the conformance suite."), Some(arguments))
        };
        list.prompts.extend([
            prompt("test_simple_prompt", vec![]),
            prompt("test_prompt_with_arguments", vec![argument("arg1"), argument("arg2")]),
            prompt("test_prompt_with_embedded_resource", vec![argument("resourceUri")]),
            prompt("test_prompt_with_image", vec![]),
            prompt("test_input_required_result_prompt", vec![]),
        ]);
        list
    }

    /// One of the suite's prompts.
    pub fn get_prompt(&self, request: &GetPromptRequestParams) -> Option<Result<GetPromptResponse, ErrorData>> {
        let text = |name: &str| {
            request
                .arguments
                .as_ref()
                .and_then(|a| a.get(name))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let say = |text: String| PromptMessage::new_text(Role::User, text);
        let messages = match request.name.as_str() {
            "test_simple_prompt" => vec![say("This is a simple prompt for testing.".into())],
            "test_prompt_with_arguments" => {
                vec![say(format!("Prompt with arguments: arg1='{}', arg2='{}'", text("arg1"), text("arg2")))]
            }
            "test_prompt_with_embedded_resource" => {
                let resource = ResourceContents::text("Embedded resource content for testing.", text("resourceUri"));
                vec![
                    PromptMessage::new(Role::User, ContentBlock::resource(resource)),
                    say("Please process the embedded resource above.".into()),
                ]
            }
            "test_prompt_with_image" => vec![
                PromptMessage::new(Role::User, ContentBlock::image(PNG, "image/png")),
                say("Please analyze the image above.".into()),
            ],
            "test_input_required_result_prompt" => {
                let answers = request.input_responses.clone().unwrap_or_default();
                let context = inputs::field(&answers, "user_context", "context");
                let Some(context) = context.and_then(|c| c.as_str().map(str::to_owned)) else {
                    let schema = json!({ "context": { "type": "string" } });
                    let question = inputs::elicitation("What context should the prompt use?", schema);
                    return Some(inputs::required(&[("user_context", question)], None).map(Into::into));
                };
                vec![say(format!("Use this context: {context}"))]
            }
            _ => return None,
        };
        Some(Ok(GetPromptResult::new(messages).into()))
    }
}
