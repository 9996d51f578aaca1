//! The raw limit of MCP: the official SDK's server with one tool that answers at once, on the hub's own HTTP stack.
//! What a call through a hub's `/mcp` costs beyond this is what the hub does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::server::Server;

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct BareMcp(Server);

impl BareMcp {
    /// Listens at `listen`.
    pub async fn start(listen: SocketAddr) -> io::Result<Self> {
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(|| Ok(AnswersAtOnce), sessions, config);
        let serve = move |stream| {
            let service = TowerToHyperService::new(service.clone());
            async move {
                let mut connection = http1::Builder::new();
                connection.timer(TokioTimer::new()).max_buf_size(16 * 1024);
                // A connection that breaks is its client's matter.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            }
        };
        Server::start(listen, serve).await.map(Self)
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// One tool, and no work.
#[derive(Clone, Copy)]
struct AnswersAtOnce;

impl ServerHandler for AnswersAtOnce {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "fs_list").then(|| Tool::new("fs_list", "Lists nothing.", serde_json::Map::new()))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut result = CallToolResult::success(vec![ContentBlock::text(r#"{"entries":[]}"#)]);
        result.structured_content = Some(json!({ "entries": [] }));
        Ok(result.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{self, LoadConfig, Way};

    #[tokio::test]
    async fn it_answers_every_call() {
        let server = BareMcp::start(([127, 0, 0, 1], 0).into()).await.expect("listens");
        let config =
            LoadConfig { way: Way::Mcp, calls: 20, ..LoadConfig::new(server.address(), ["x".to_owned()].into()) };
        let report = load::run_on_own_thread(config).await.expect("runs");
        assert_eq!((report.answered, report.errors()), (20, 0), "{report:?}");
    }
}
