//! `web_search`: asks an MCP server over HTTP that has Exa's `web_search_exa` tool.

use serde_json::{Value, json};
use url::Url;

use super::client::{Web, causes};
use crate::Outcome;
use crate::arguments::Arguments;
use crate::limits::{FETCH_BODY_BYTES, FETCH_TIME, WEB_OUTPUT_BYTES, WEB_QUERIES, WEB_RESULTS, WEB_RESULTS_MOST};

/// Results of each query under its heading. A query that fails says so in its place.
pub(crate) async fn web_search(web: &Web, search_url: &str, arguments: &Arguments) -> Result<Outcome, String> {
    let queries = arguments.texts("queries")?;
    let queries: Vec<&str> = queries.iter().map(|query| query.trim()).filter(|query| !query.is_empty()).collect();
    if queries.is_empty() || queries.len() > WEB_QUERIES {
        return Err(format!("queries must be 1 to {WEB_QUERIES} texts"));
    }
    if let Some(other) = arguments.optional_text("provider")?.filter(|name| !matches!(*name, "auto" | "exa")) {
        return Err(format!("provider must be auto or exa, not {other}"));
    }
    let results = arguments.optional_number("max_results")?.unwrap_or(WEB_RESULTS).clamp(1, WEB_RESULTS_MOST);
    let narrowed = narrowing(arguments)?;
    let url = Url::parse(search_url).map_err(|why| format!("the search server's address is wrong: {why}"))?;
    let mut sections = Vec::new();
    let mut failures = 0;
    for query in &queries {
        let asked = tokio::time::timeout(FETCH_TIME, ask(web, &url, &format!("{query}{narrowed}"), results)).await;
        let answer = asked.unwrap_or_else(|_| Err(format!("no answer within {} seconds", FETCH_TIME.as_secs())));
        sections.push(match answer {
            Ok(text) => format!("## {query}\n\n{}", cut(text.trim(), WEB_OUTPUT_BYTES / queries.len())),
            Err(why) => {
                failures += 1;
                format!("## {query}\n\nError: {why}")
            }
        });
    }
    if failures == queries.len() {
        return Err(format!("the search failed\n\n{}", sections.join("\n\n")));
    }
    Ok(Outcome::text(sections.join("\n\n")))
}

/// What the model wants narrowed, in words that search engines know.
fn narrowing(arguments: &Arguments) -> Result<String, String> {
    let mut words = String::new();
    for domain in arguments.texts("domain_filter")? {
        match domain.strip_prefix('-') {
            Some(excluded) => words.push_str(&format!(" -site:{excluded}")),
            None => words.push_str(&format!(" site:{domain}")),
        }
    }
    match arguments.optional_text("recency_filter")? {
        None => {}
        Some(period @ ("day" | "week" | "month" | "year")) => {
            words.push_str(&format!(" (published within the last {period})"))
        }
        Some(other) => return Err(format!("recency_filter must be day, week, month or year, not {other}")),
    }
    Ok(words)
}

async fn ask(web: &Web, url: &Url, query: &str, results: i64) -> Result<String, String> {
    let call = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": { "name": "web_search_exa", "arguments": { "query": query, "numResults": results } },
    });
    let request = web.pool()?.post(url.clone()).header("accept", "application/json, text/event-stream").json(&call);
    let mut response =
        request.send().await.map_err(|why| format!("cannot reach the search server: {}", causes(why)))?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|why| format!("the answer broke off: {}", causes(why)))? {
        if body.len() + chunk.len() > FETCH_BODY_BYTES {
            return Err(format!("the answer has more than {FETCH_BODY_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    if !status.is_success() {
        return Err(format!("the search server answered HTTP {}", status.as_u16()));
    }
    read_answer(&String::from_utf8_lossy(&body))
}

/// The answer as JSON, or as the last event of a stream.
fn read_answer(body: &str) -> Result<String, String> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("data:"));
    let documents = std::iter::once(body).chain(lines);
    let mut answers = documents.rev().filter_map(|text| serde_json::from_str::<Value>(text.trim()).ok());
    let answer = answers.find(|answer| answer.get("result").is_some() || answer.get("error").is_some());
    let Some(answer) = answer else { return Err("the answer cannot be read".into()) };
    if let Some(message) = answer["error"]["message"].as_str() {
        return Err(message.to_owned());
    }
    let result = &answer["result"];
    let parts = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let text = text.join("\n\n");
    if result["isError"] == true {
        return Err(cut(&text, 500));
    }
    Ok(if text.is_empty() { "No results.".into() } else { text })
}

fn cut(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let note = if end < text.len() { "\n[cut]" } else { "" };
    format!("{}{note}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_both_forms() {
        let result =
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": "hit" }] } });
        assert_eq!(read_answer(&result.to_string()).unwrap(), "hit");
        assert_eq!(read_answer(&format!("event: message\ndata: {result}\n\n")).unwrap(), "hit");
        let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": "no" } });
        assert_eq!(read_answer(&error.to_string()).unwrap_err(), "no");
        let failed = json!({ "result": { "isError": true, "content": [{ "type": "text", "text": "rate limit" }] } });
        assert_eq!(read_answer(&failed.to_string()).unwrap_err(), "rate limit");
        assert_eq!(read_answer("<html>").unwrap_err(), "the answer cannot be read");
    }
}
