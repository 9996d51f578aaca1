//! A raw MCP client: plain HTTP, in either era.

use serde_json::{Map, Value, json};

use crate::support::{PATIENCE, TestHub};

/// The stateless revision.
pub const NEW: &str = "2026-07-28";
/// The one with sessions.
pub const OLD: &str = "2025-11-25";

/// One client.
pub struct Mcp<'a> {
    pub hub: &'a TestHub,
    pub token: String,
    pub session: Option<String>,
    pub capabilities: Value,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub challenge: Option<String>,
    pub session: Option<String>,
    /// Every message, in order; the last is the response.
    pub messages: Vec<Value>,
}

impl Answer {
    pub fn last(&self) -> &Value {
        self.messages.last().unwrap_or(&Value::Null)
    }

    /// The result of a request that was answered.
    pub fn result(&self) -> &Value {
        let last = self.last();
        assert!(last["error"].is_null(), "{self:?}");
        &last["result"]
    }

    /// The structured content of a tool's result.
    pub fn structured(&self) -> &Value {
        &self.result()["structuredContent"]
    }

    /// All text of a tool's result.
    pub fn text(&self) -> String {
        let blocks = self.result()["content"].as_array().cloned().unwrap_or_default();
        blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

impl<'a> Mcp<'a> {
    /// A client of the new era: no session.
    pub fn stateless(hub: &'a TestHub, token: &str) -> Self {
        Self { hub, token: token.into(), session: None, capabilities: json!({}) }
    }

    /// A client of the old era, with its session open.
    pub async fn open(hub: &'a TestHub, token: &str) -> Self {
        Self::open_with(hub, token, json!({})).await
    }

    pub async fn open_with(hub: &'a TestHub, token: &str, capabilities: Value) -> Self {
        let mut client = Self { hub, token: token.into(), session: None, capabilities };
        let answer = client.initialize().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.result()["protocolVersion"], OLD);
        client.session = Some(answer.session.clone().expect("a session"));
        let noted = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!(noted.status, 202, "{noted:?}");
        client
    }

    /// Ends its session.
    pub async fn end(&self) -> reqwest::Response {
        let session = self.session.as_deref().expect("it has one");
        let request = self.hub.http_client.delete(format!("{}/mcp", self.hub.http)).bearer_auth(&self.token);
        let request = request.header("mcp-session-id", session).header("mcp-protocol-version", OLD);
        request.send().await.expect("the hub answers")
    }

    pub async fn initialize(&self) -> Answer {
        let params = json!({ "protocolVersion": OLD, "capabilities": self.capabilities,
            "clientInfo": { "name": "test", "version": "1" } });
        self.post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await
    }

    /// A request of this client's era.
    pub fn message(&self, method: &str, mut params: Value) -> Value {
        if self.session.is_none() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = NEW.into();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
    }

    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        self.post(&self.message(method, params)).await
    }

    pub async fn call(&self, tool: &str, args: Value) -> Answer {
        self.ask("tools/call", json!({ "name": tool, "arguments": args })).await
    }

    pub async fn tools(&self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({})).await;
        let tools = answer.result()["tools"].as_array().expect("a list").clone();
        tools.iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect()
    }

    pub async fn post(&self, message: &Value) -> Answer {
        read(self.request(message).send().await.expect("the hub answers")).await
    }

    /// The request as it would be sent.
    pub fn request(&self, message: &Value) -> reqwest::RequestBuilder {
        let mut request = self
            .hub
            .http_client
            .post(format!("{}/mcp", self.hub.http))
            .header("accept", "application/json, text/event-stream")
            .json(message);
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        let version =
            message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion").and_then(Value::as_str);
        if let Some(version) = version {
            request = request.header("mcp-protocol-version", version);
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            let name = message.pointer("/params/name").or_else(|| message.pointer("/params/uri"));
            if let Some(name) = name.and_then(Value::as_str) {
                request = request.header("mcp-name", name);
            }
        } else if message["method"] != "initialize" {
            request = request.header("mcp-protocol-version", OLD);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        request
    }
}

/// What a reply says.
pub async fn read(reply: reqwest::Response) -> Answer {
    let header = |name: &str| reply.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let (challenge, session) = (header("www-authenticate"), header("mcp-session-id"));
    let events = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
    let status = reply.status().as_u16();
    let text = tokio::time::timeout(PATIENCE, reply.text()).await.expect("in time").expect("a body");
    let messages = if events {
        events_of(&text)
    } else {
        serde_json::from_str(&text).map(|message| vec![message]).unwrap_or_else(|_| vec![Value::String(text)])
    };
    Answer { status, challenge, session, messages }
}

/// The messages of an event stream.
pub fn events_of(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}

/// An event stream that is read as it comes.
pub struct Events {
    reply: reqwest::Response,
    buffer: String,
}

impl Events {
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let reply = request.send().await.expect("the hub answers");
        assert_eq!(reply.status().as_u16(), 200);
        Self { reply, buffer: String::new() }
    }

    /// Whether the stream ends here, with nothing but the end of the last event.
    pub async fn ended(&mut self) -> bool {
        let rest = async {
            while let Some(chunk) = self.reply.chunk().await.expect("reads") {
                self.buffer.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        tokio::time::timeout(PATIENCE, rest).await.expect("it ends");
        self.buffer.trim().is_empty()
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(at) = self.buffer.find('\n') {
                    let line: String = self.buffer.drain(..=at).collect();
                    let data = line.trim_end().strip_prefix("data:").map(str::trim);
                    if let Some(message) = data.and_then(|data| serde_json::from_str(data).ok()) {
                        return message;
                    }
                    continue;
                }
                let chunk = self.reply.chunk().await.expect("reads").expect("goes on");
                self.buffer.push_str(&String::from_utf8_lossy(&chunk));
            }
        })
        .await
        .expect("a message comes")
    }
}

/// Arguments that a tool takes: something that fits for each that it needs.
pub fn arguments(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    required
        .iter()
        .filter_map(|name| {
            let name = name.as_str()?;
            let property = &schema["properties"][name];
            let value = match (property["enum"][0].clone(), property["type"].as_str()) {
                (first @ Value::String(_), _) => first,
                (_, Some("integer" | "number")) => json!(1),
                (_, Some("boolean")) => json!(true),
                (_, Some("array")) => json!(["x"]),
                _ => json!("x"),
            };
            Some((name.to_owned(), value))
        })
        .collect()
}
