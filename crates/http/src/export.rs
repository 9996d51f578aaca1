//! What a person takes along: the journal as lines of JSON, the agents as a table.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use convoke_api::agents::{Agent as AgentView, AgentQuery};
use convoke_api::record::JournalQuery;

use convoke_doors::ApiError;
use convoke_doors::agents::page;
use convoke_doors::extract::{By, QueryOf};
use convoke_doors::journal::journal_page;
use convoke_gate::clock;
use convoke_gate::hub::Hub;

/// How many records or agents are read at a time.
const AT_A_TIME: u32 = 1_000;

#[utoipa::path(get, path = "/api/export/journal", params(JournalQuery), responses((status = 200, content_type = "application/x-ndjson", body = String)), tag = "record")]
/// All records that a query asks for, one JSON object a line. `limit` is not looked at.
pub async fn journal(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<JournalQuery>,
) -> Result<Response<Body>, ApiError> {
    let query = JournalQuery { limit: Some(AT_A_TIME), ..query };
    // What is wrong with it is said before anything is sent.
    let first = journal_page(&hub, &caller, query.clone(), None).await?;
    let state = Some((first, query));
    let pieces = futures_util::stream::unfold(state, move |state| {
        let (hub, caller) = (hub.clone(), caller.clone());
        async move {
            let (page, query) = state?;
            let mut lines = String::new();
            for record in &page.records {
                lines.push_str(record.get());
                lines.push('\n');
            }
            let next = match page.next {
                Some(next) if caller.is_active(clock::now()) => {
                    let (after, before) =
                        if query.before.is_some() { (query.after, Some(next)) } else { (Some(next), query.before) };
                    let query = JournalQuery { after, before, ..query };
                    match journal_page(&hub, &caller, query.clone(), None).await {
                        Ok(page) => Some((page, query)),
                        // The stream ends; the file is shorter than whoever reads it expects.
                        Err(why) => {
                            tracing::error!(why = why.sentence(), "cannot go on with an export of the journal");
                            None
                        }
                    }
                }
                _ => None,
            };
            Some((Ok::<_, Infallible>(Bytes::from(lines)), next))
        }
    });
    Ok(file(Body::from_stream(pieces), "application/x-ndjson", "attachment; filename=\"journal.ndjson\""))
}

#[utoipa::path(get, path = "/api/export/agents", params(AgentQuery), responses((status = 200, content_type = "text/csv", body = String)), tag = "agents")]
/// The agents that a query asks for, as a table (CSV) for a spreadsheet. `limit` is not looked at.
pub async fn agents(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<AgentQuery>,
) -> Result<Response<Body>, ApiError> {
    let mut query = AgentQuery { limit: Some(AT_A_TIME), ..query };
    let mut table =
        String::from("id,name,protocol,online,trust,health,tags,hostname,os,version,last_seen,enrolled_at\r\n");
    loop {
        let list = page(&hub, &caller, &query)?;
        list.agents.iter().for_each(|agent| line(&mut table, agent));
        query.after = list.next;
        if query.after.is_none() {
            return Ok(file(Body::from(table), "text/csv; charset=utf-8", "attachment; filename=\"agents.csv\""));
        }
    }
}

fn line(table: &mut String, agent: &AgentView) {
    let shown = serde_json::to_value(agent).unwrap_or_default();
    // What the machine says of itself, as far as it says it.
    let of = |name: &str| if shown[name].is_null() { &shown["meta"][name] } else { &shown[name] };
    let text = |name: &str| match of(name) {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        serde_json::Value::Array(list) => list.iter().filter_map(|one| one.as_str()).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let names = [
        "id",
        "name",
        "protocol",
        "online",
        "trust",
        "health",
        "tags",
        "hostname",
        "os",
        "version",
        "last_seen",
        "enrolled_at",
    ];
    let cells: Vec<String> = names.iter().map(|name| cell(&text(name))).collect();
    table.push_str(&cells.join(","));
    table.push_str("\r\n");
}

/// A cell that a spreadsheet takes for text: machines name themselves, and what begins like a formula would be run as one.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn file(body: Body, kind: &'static str, disposition: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    response
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_cell_is_text_whatever_a_machine_calls_itself() {
        for (text, written) in
            [("web-1", "web-1"), ("=1+1", "'=1+1"), ("a,b", "\"a,b\""), ("@x \"y\"", "\"'@x \"\"y\"\"\""), ("", "")]
        {
            assert_eq!(cell(text), written);
        }
    }
}
