//! Calls through `/mcp`, beside the same calls through the HTTP API, and beside the SDK's server that answers at once.

use convoke_sim::load::Way;

use super::calls::CallSeries;
use super::measure::{Bench, MANY_CALLERS, say};
use super::table::{Goal, Row};
use super::target::{Target, mcp_calls};
use super::{Measure, plan::Plan};

impl Bench<'_> {
    pub(super) async fn mcp(&mut self, hub: &mut Target) -> anyhow::Result<()> {
        let Plan { few, rounds, .. } = *self.plan;
        hub.connect(self.plan, few).await?;
        let bare = self.stage.bare_mcp().await?;
        if !self.plan.wants(Measure::Calls) {
            self.disk(Measure::Mcp)?;
        }
        for callers in [1, 8, MANY_CALLERS] {
            say(&format!("calls through MCP, {callers} at once"));
            let (mut own, mut api, mut sdk) = <(CallSeries, CallSeries, CallSeries)>::default();
            let (mut with_progress, mut sdk_session, mut session) = <(CallSeries, CallSeries, CallSeries)>::default();
            for _ in 0..rounds {
                sdk.push(mcp_calls(Way::Mcp, &bare, None, ["x".to_owned()].into(), self.plan, callers).await?);
                api.push(hub.calls(self.plan, callers).await?);
                own.push(hub.mcp_calls(Way::Mcp, self.plan, callers).await?);
                if callers == MANY_CALLERS {
                    with_progress.push(hub.mcp_calls(Way::McpWithProgress, self.plan, callers).await?);
                    let one = ["x".to_owned()].into();
                    sdk_session.push(mcp_calls(Way::McpSession, &bare, None, one, self.plan, callers).await?);
                    session.push(hub.mcp_calls(Way::McpSession, self.plan, callers).await?);
                }
            }
            let plural = if callers == 1 { "caller" } else { "callers" };
            self.row(
                Measure::Mcp,
                Row {
                    measure: format!("CPU per durable call through MCP, {callers} {plural}"),
                    unit: "ms",
                    hub: own.cpu_ms(),
                    forwarder: Some(sdk.cpu_ms()),
                    goal: Goal::at_most(if callers == MANY_CALLERS { 0.1 } else { 0.3 }),
                    original: Some("2.1 ms"),
                    note: format!(
                        "{}; HTTP API {:.3} ms, {}; bare SDK (in place of the forwarder) {}",
                        own.describe(),
                        api.cpu_ms(),
                        api.describe(),
                        sdk.describe()
                    ),
                },
            );
            if callers == MANY_CALLERS {
                self.row(
                    Measure::Mcp,
                    Row {
                        measure: format!("the same with a progress token, {callers} callers"),
                        unit: "ms",
                        hub: with_progress.cpu_ms(),
                        forwarder: Some(sdk.cpu_ms()),
                        goal: Goal::at_most(0.3),
                        original: Some("2.1 ms"),
                        note: with_progress.describe(),
                    },
                );
                self.row(
                    Measure::Mcp,
                    Row {
                        measure: format!("the same in sessions, {callers} callers"),
                        unit: "ms",
                        hub: session.cpu_ms(),
                        forwarder: Some(sdk_session.cpu_ms()),
                        goal: Goal::at_most(0.3),
                        original: Some("2.1 ms"),
                        note: format!("{}; bare SDK in sessions {}", session.describe(), sdk_session.describe()),
                    },
                );
                self.row(
                    Measure::Mcp,
                    Row {
                        measure: format!("p99 latency through MCP, {callers} callers"),
                        unit: "ms",
                        hub: own.p99_ms(),
                        forwarder: Some(sdk.p99_ms()),
                        goal: Goal::at_most(10.0),
                        original: Some("182 ms"),
                        note: format!("HTTP API {:.2} ms", api.p99_ms()),
                    },
                );
            }
        }
        Ok(())
    }
}
