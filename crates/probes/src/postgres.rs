//! The pack `postgres`. The server itself writes JSON, so nothing in a name or a query can be taken for a separator.

use serde_json::{Map, Value, json};

use crate::context::{needed, number};
use crate::{Context, ProbeError};

/// Longest query text that is shown.
const MAX_QUERY: u32 = 2_000;
/// Most rows of one result.
const MAX_ROWS: u32 = 500;

pub(crate) async fn databases(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let sql = "SELECT d.datname AS name, pg_get_userbyid(d.datdba) AS owner, pg_encoding_to_char(d.encoding) AS encoding, \
        CASE WHEN has_database_privilege(d.datname, 'CONNECT') THEN pg_size_pretty(pg_database_size(d.datname)) END AS \"sizePretty\" \
        FROM pg_database d WHERE NOT d.datistemplate ORDER BY d.datname";
    let rows = query(cx, params, sql).await?;
    Ok(json!({ "count": rows.len(), "databases": rows }))
}

pub(crate) async fn connections(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let sql = format!(
        "SELECT pid, datname AS database, usename AS \"user\", client_addr::text AS \"clientAddr\", state, \
        left(query, {MAX_QUERY}) AS query, to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') AS \"backendStart\" \
        FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL ORDER BY backend_start"
    );
    let rows = query(cx, params, &sql).await?;
    Ok(json!({ "total": rows.len(), "connections": rows }))
}

pub(crate) async fn slow(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let threshold = number(params, "thresholdMs", 1000);
    let sql = format!(
        "SELECT pid, datname AS database, usename AS \"user\", \
        round(extract(epoch FROM clock_timestamp() - query_start) * 1000)::bigint AS \"durationMs\", state, \
        left(query, {MAX_QUERY}) AS query FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() \
        AND clock_timestamp() - query_start >= interval '{threshold} milliseconds' ORDER BY query_start"
    );
    let rows = query(cx, params, &sql).await?;
    Ok(json!({ "count": rows.len(), "thresholdMs": threshold, "queries": rows }))
}

async fn query(cx: &Context<'_>, params: &Map<String, Value>, sql: &str) -> Result<Vec<Value>, ProbeError> {
    let host = needed(params, "host")?;
    cx.check_host(host)?;
    let sql = format!("SELECT coalesce(json_agg(r), '[]'::json) FROM ({sql} LIMIT {MAX_ROWS}) r");
    let args = [
        format!("--host={host}"),
        format!("--port={}", number(params, "port", 5432)),
        format!("--username={}", needed(params, "user")?),
        "--dbname=postgres".into(),
        "--no-psqlrc".into(),
        "--no-password".into(),
        "--tuples-only".into(),
        "--no-align".into(),
        format!("--command={sql}"),
    ];
    let output = cx
        .run_with("psql", &args, &[("PGCONNECT_TIMEOUT", "10"), ("PGOPTIONS", "-c default_transaction_read_only=on")])
        .await?;
    if !output.success() {
        return Err(ProbeError::of_program("psql", output.exit_code, &output.stderr, &output.stdout));
    }
    serde_json::from_str(output.stdout.trim()).map_err(|why| ProbeError::unreadable("psql", why))
}
