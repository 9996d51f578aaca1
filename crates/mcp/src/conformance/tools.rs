//! The suite's tools.
#![expect(deprecated, reason = "the suite still has scenarios for sampling and logging")]

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateMessageRequestParams, ElicitRequestParams, ElicitResult, InputResponses, JsonObject, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ResourceContents, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::{Fixtures, PNG, WAV, inputs};

const NAMES: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_reconnection",
    "test_logging_tool",
    "test_missing_capability",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_headers",
    "json_schema_2020_12_tool",
];

/// The pause between two messages that the suite asks for.
const PAUSE: Duration = Duration::from_millis(50);

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

impl Fixtures {
    /// One of the suite's tools.
    pub fn tool(&self, name: &str) -> Option<Tool> {
        let name = NAMES.iter().find(|n| **n == name)?;
        let argument = match *name {
            "test_sampling" => Some("prompt"),
            "test_elicitation" => Some("message"),
            _ => None,
        };
        let schema = match argument {
            None if *name == "json_schema_2020_12_tool" => composed(),
            None if *name == "test_headers" => json!({ "type": "object", "properties": {
                "text": { "type": "string", "x-mcp-header": "Text" } }, "required": [] }),
            Some(argument) => {
                json!({ "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument] })
            }
            None => json!({ "type": "object", "properties": {} }),
        };
        let Value::Object(schema) = schema else { return None };
        Some(Tool::new(*name, "A fixture of the conformance suite.", schema))
    }

    /// The hub's tools, and the suite's.
    pub fn tools(&self, mut tools: Vec<Tool>) -> Vec<Tool> {
        tools.extend(NAMES.iter().filter_map(|name| self.tool(name)));
        tools
    }

    /// Calls one of them.
    pub async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = request.arguments.clone().unwrap_or_default();
        match &*request.name {
            "test_simple_text" => Ok(text("This is a simple text response for testing.")),
            "test_image_content" => Ok(CallToolResult::success(vec![ContentBlock::image(PNG, "image/png")]).into()),
            "test_audio_content" => Ok(CallToolResult::success(vec![ContentBlock::audio(WAV, "audio/wav")]).into()),
            "test_embedded_resource" => {
                let resource =
                    ResourceContents::text("This is an embedded resource content.", "test://embedded-resource");
                Ok(CallToolResult::success(vec![ContentBlock::resource(resource)]).into())
            }
            "test_multiple_content_types" => {
                let json = json!({ "test": "data", "value": 123 }).to_string();
                let resource =
                    ResourceContents::text(json, "test://mixed-content-resource").with_mime_type("application/json");
                Ok(CallToolResult::success(vec![
                    ContentBlock::text("Multiple content types test:"),
                    ContentBlock::image(PNG, "image/png"),
                    ContentBlock::resource(resource),
                ])
                .into())
            }
            "test_error_handling" => {
                let content = ContentBlock::text("This tool intentionally returns an error for testing");
                Ok(CallToolResult::error(vec![content]).into())
            }
            "test_tool_with_logging" | "test_logging_tool" => logging(&context).await,
            "test_tool_with_progress" => progress(&context).await,
            "test_sampling" => sampling(&args, &context).await,
            "test_elicitation"
            | "test_elicitation_sep1034_defaults"
            | "test_elicitation_sep1330_enums"
            | "test_streaming_elicitation" => elicitation(&request.name, &args, &context).await,
            "test_headers" | "json_schema_2020_12_tool" => Ok(text("ok")),
            "test_reconnection" => {
                tokio::time::sleep(PAUSE).await;
                Ok(text("Reconnection test completed successfully."))
            }
            "test_missing_capability" => {
                let sampling = ClientCapabilities::builder().enable_sampling().build();
                if context.client_capabilities().is_some_and(|c| c.sampling.is_some()) {
                    Ok(text("The client can sample."))
                } else {
                    Err(ErrorData::missing_required_client_capability(sampling))
                }
            }
            name => input_required(name, &request, &context),
        }
    }
}

async fn logging(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    for (n, line) in ["Tool execution started", "Tool processing data", "Tool execution completed"].iter().enumerate()
    {
        if n > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        // A client without a session says with each request whether it wants to hear.
        let inline = context.meta.protocol_version().is_some();
        if inline && !context.meta.0.contains_key("io.modelcontextprotocol/logLevel") {
            continue;
        }
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
        let _ = context.peer.notify_logging_message(message).await;
    }
    Ok(text("Tool with logging executed successfully"))
}

/// A schema with the keywords that must come through unchanged.
fn composed() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object",
            "properties": { "street": text(), "city": text() } } },
        "properties": {
            "name": text(),
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": text(),
            "email": text(),
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if done > 0.0 {
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let _ = context.peer.notify_progress(progress).await;
        }
    }
    Ok(text("Progress test completed"))
}

async fn sampling(args: &JsonObject, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let prompt = args.get("prompt").and_then(Value::as_str).unwrap_or_default();
    let params: CreateMessageRequestParams = serde_json::from_value(json!({ "maxTokens": 100,
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }] }))
    .map_err(|why| ErrorData::internal_error(why.to_string(), None))?;
    match context.peer.create_message(params).await {
        Ok(answer) => {
            let answer = serde_json::to_value(&answer).unwrap_or_default();
            let said = answer["content"]["text"].as_str().unwrap_or_default().to_owned();
            Ok(text(format!("LLM response: {said}")))
        }
        Err(why) => Ok(CallToolResult::error(vec![ContentBlock::text(why.to_string())]).into()),
    }
}

async fn elicitation(
    name: &str,
    args: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let said = args.get("message").and_then(Value::as_str).unwrap_or("Please fill in the form.");
    let titled = |names: [&str; 3]| {
        names
            .iter()
            .enumerate()
            .map(|(n, t)| json!({ "const": format!("value{}", n + 1), "title": t }))
            .collect::<Vec<_>>()
    };
    let options = json!(["option1", "option2", "option3"]);
    let (schema, lead) = match name {
        "test_elicitation_sep1034_defaults" => (
            json!({ "type": "object", "required": [], "properties": {
                "name": { "type": "string", "default": "John Doe" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                "verified": { "type": "boolean", "default": true },
            } }),
            "Elicitation completed: ",
        ),
        "test_elicitation_sep1330_enums" => (
            json!({ "type": "object", "required": [], "properties": {
                "untitledSingle": { "type": "string", "enum": options },
                "titledSingle": { "type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"]) },
                "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"] },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
                "titledMulti": { "type": "array", "items": { "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]) } },
            } }),
            "Elicitation completed: ",
        ),
        _ => (
            json!({ "type": "object", "required": ["username", "email"], "properties": {
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" },
            } }),
            "User response: ",
        ),
    };
    let params: ElicitRequestParams =
        serde_json::from_value(json!({ "mode": "form", "message": said, "requestedSchema": schema }))
            .map_err(|why| ErrorData::internal_error(why.to_string(), None))?;
    match context.peer.create_elicitation(params).await {
        Ok(ElicitResult { action, content, .. }) => {
            let action = serde_json::to_value(&action).unwrap_or_default();
            let action = action.as_str().unwrap_or_default().to_owned();
            Ok(text(format!("{lead}action={action}, content={}", content.unwrap_or(Value::Null))))
        }
        Err(why) => Ok(CallToolResult::error(vec![ContentBlock::text(why.to_string())]).into()),
    }
}

/// The tools that ask the client first.
fn input_required(
    name: &str,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let answers = request.input_responses.clone().unwrap_or_default();
    let state = inputs::opened(request.request_state.as_deref())?;
    let name_form = |question: &str| inputs::elicitation(question, json!({ "name": { "type": "string" } }));
    let ok_form = || inputs::elicitation("Please confirm", json!({ "ok": { "type": "boolean" } }));
    match name {
        "test_input_required_result_elicitation" => match inputs::field(&answers, "user_name", "name") {
            Some(Value::String(who)) => Ok(text(format!("Hello, {who}!"))),
            _ => inputs::required(&[("user_name", name_form("What is your name?"))], None).map(Into::into),
        },
        "test_input_required_result_sampling" => match said(&answers, "capital_question") {
            Some(said) => Ok(text(said)),
            None => {
                let question = inputs::sampling("What is the capital of France?", 100);
                inputs::required(&[("capital_question", question)], None).map(Into::into)
            }
        },
        "test_input_required_result_list_roots" => match answers.get("client_roots").map(|a| &a["roots"]) {
            Some(roots @ Value::Array(_)) => Ok(text(format!("Client roots: {roots}"))),
            _ => inputs::required(&[("client_roots", inputs::roots())], None).map(Into::into),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match (inputs::field(&answers, "confirm", "ok"), state.as_deref()) {
                (Some(_), Some("confirming")) => Ok(text("state-ok")),
                _ => inputs::required(&[("confirm", ok_form())], Some("confirming")).map(Into::into),
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let who = inputs::field(&answers, "user_name", "name");
            let greeting = said(&answers, "greeting");
            match (who, greeting, answers.get("client_roots"), state.as_deref()) {
                (Some(Value::String(who)), Some(greeting), Some(roots), Some("multiple")) => {
                    Ok(text(format!("{who}: {greeting} {}", roots["roots"])))
                }
                _ => {
                    let questions = [
                        ("user_name", name_form("What is your name?")),
                        ("greeting", inputs::sampling("Generate a greeting", 50)),
                        ("client_roots", inputs::roots()),
                    ];
                    inputs::required(&questions, Some("multiple")).map(Into::into)
                }
            }
        }
        "test_input_required_result_multi_round" => {
            let color = inputs::field(&answers, "step2", "color");
            let who = inputs::field(&answers, "step1", "name");
            match (state.as_deref(), who, color) {
                (Some(state), _, Some(Value::String(color))) if state.starts_with("step2:") => {
                    Ok(text(format!("{} likes {color}", &state[6..])))
                }
                (Some("step1"), Some(Value::String(who)), _) => {
                    let question = inputs::elicitation(
                        "Step 2: What is your favorite color?",
                        json!({ "color": { "type": "string" } }),
                    );
                    inputs::required(&[("step2", question)], Some(&format!("step2:{who}"))).map(Into::into)
                }
                _ => inputs::required(&[("step1", name_form("Step 1: What is your name?"))], Some("step1"))
                    .map(Into::into),
            }
        }
        "test_input_required_result_capabilities" => {
            let can = context.client_capabilities().unwrap_or_default();
            let mut questions = Vec::new();
            if can.elicitation.is_some() {
                questions.push(("user_name", name_form("What is your name?")));
            }
            if can.sampling.is_some() {
                questions.push(("greeting", inputs::sampling("Generate a greeting", 50)));
            }
            if can.roots.is_some() {
                questions.push(("client_roots", inputs::roots()));
            }
            if questions.is_empty() || questions.iter().all(|(key, _)| answers.contains_key(*key)) {
                return Ok(text("Nothing more to ask."));
            }
            inputs::required(&questions, None).map(Into::into)
        }
        _ => Err(ErrorData::invalid_params("there is no such fixture", None)),
    }
}

/// What the client's model said.
fn said(answers: &InputResponses, key: &str) -> Option<String> {
    answers.get(key)?["content"]["text"].as_str().map(str::to_owned)
}
