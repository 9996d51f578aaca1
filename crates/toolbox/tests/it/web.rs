//! Pages and searches from a scripted server on this machine.

use convoke_models::testkit::{Answer, ScriptedServer, Step};
use convoke_toolbox::Output;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Bench, call};

fn bench(server: &ScriptedServer) -> Bench {
    let url = format!("{}/mcp", server.url());
    Bench::with(|settings| {
        settings.private_addresses = true;
        settings.search_url = url;
    })
}

#[tokio::test]
async fn a_page_becomes_text() {
    let server = ScriptedServer::start().await;
    let html = "<!doctype html><html><head><title>T</title><style>p{}</style><script>evil()</script></head>\
                <body><h1>Head</h1><p>One &amp; two</p></body></html>";
    server.route("/page", Answer::raw(200, "text/html; charset=utf-8", html));
    let bench = bench(&server);
    let url = format!("{}/page", server.url());
    let page = bench.run("fetch_content", json!({ "url": url })).await.content;
    assert!(page.starts_with(&format!("URL: {url}\nStatus: 200\n\n")), "{page}");
    assert!(page.contains("One & two") && !page.contains("evil") && !page.contains("<p>"), "{page}");
    let raw = bench.run("fetch_content", json!({ "url": url, "extract": "raw" })).await.content;
    assert!(raw.contains("<p>One &amp; two</p>"), "{raw}");
}

#[tokio::test]
async fn redirects_are_followed_a_few_times_and_looked_at_each_time() {
    let server = ScriptedServer::start().await;
    let to = |path: &str| Answer::raw(302, "text/plain", "").header("location", path);
    server.route("/start", to("/end"));
    server.route("/end", Answer::raw(200, "text/plain", "arrived"));
    server.route("/loop", to("/loop"));
    server.route("/file", to("file:///etc/passwd"));
    let bench = bench(&server);
    let url = |path: &str| json!({ "url": format!("{}{path}", server.url()) });
    assert!(bench.run("fetch_content", url("/start")).await.content.ends_with("arrived"));
    assert_eq!(bench.fails("fetch_content", url("/loop")).await, "more than 5 redirects");
    let file = bench.fails("fetch_content", url("/file")).await;
    assert_eq!(file, "only http and https addresses can be fetched, not file");
}

#[tokio::test]
async fn private_addresses_are_refused_unless_allowed() {
    let server = ScriptedServer::start().await;
    server.route("/page", Answer::raw(200, "text/plain", "internal"));
    let bench = Bench::new();
    let refused = bench.fails("fetch_content", json!({ "url": format!("{}/page", server.url()) })).await;
    assert_eq!(refused, "127.0.0.1 is an address of this machine or a private network");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn what_is_no_text_too_large_or_gone_is_said() {
    let server = ScriptedServer::start().await;
    server.route("/image", Answer::raw(200, "image/png", vec![1, 2, 3]));
    server.route("/zero", Answer::raw(200, "text/plain", vec![b'a', 0]));
    server.route("/large", Answer::raw(200, "text/plain", "ä".repeat(1_500_000)));
    server.route("/cut", Answer::raw(200, "text/plain", "half").then(Step::Cut));
    server.route("/gone", Answer::raw(404, "text/plain", "not here"));
    let bench = bench(&server);
    let url = |path: &str| json!({ "url": format!("{}{path}", server.url()) });
    assert!(bench.fails("fetch_content", url("/image")).await.ends_with("is image/png, not text"));
    assert!(bench.fails("fetch_content", url("/zero")).await.ends_with("is not text"));
    assert!(bench.fails("fetch_content", url("/cut")).await.contains("broke off"));
    let large = bench.run("fetch_content", url("/large")).await.content;
    assert!(large.len() < 17_000 && large.contains("Only the first 2097152 bytes"), "{}", large.len());
    assert!(bench.run("fetch_content", url("/gone")).await.content.contains("Status: 404\n\nnot here"));
    assert!(
        bench.fails("fetch_content", json!({ "url": "not an address" })).await.starts_with("url is not an address")
    );
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    let server = ScriptedServer::start().await;
    server.push(Answer::stream(vec![Step::Hang]));
    let bench = bench(&server);
    let cancel = CancellationToken::new();
    let call = call("fetch_content", &json!({ "url": server.url() }));
    let mut live = |_: Output| {};
    let fetching = bench.toolbox.run(&call, &mut live, &cancel);
    let cancelling = async {
        server.requests(1).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(fetching, cancelling);
    assert!(outcome.cancelled);
    server.hung_up(1).await;
}

#[tokio::test]
async fn a_search_asks_once_per_query() {
    let server = ScriptedServer::start().await;
    let hit = |text: &str| json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": text }] } });
    server.push(Answer::events(&format!("event: message\ndata: {}\n\n", hit("Title: A"))));
    server.push(Answer::error(500, "x", "broken"));
    let bench = bench(&server);
    let arguments = json!({ "queries": ["rust", "ruby"], "max_results": 99, "domain_filter": ["a.org", "-b.org"],
                            "recency_filter": "week" });
    let found = bench.run("web_search", arguments).await;
    assert_eq!(found.content, "## rust\n\nTitle: A\n\n## ruby\n\nError: the search server answered HTTP 500");
    let asked = server.received()[0].json();
    assert_eq!(asked["params"]["name"], "web_search_exa");
    let expected =
        json!({ "query": "rust site:a.org -site:b.org (published within the last week)", "numResults": 20 });
    assert_eq!(asked["params"]["arguments"], expected);
    assert_eq!(bench.fails("web_search", json!({ "queries": [] })).await, "queries must be 1 to 4 texts");
    let other = bench.fails("web_search", json!({ "queries": ["x"], "provider": "bing" })).await;
    assert_eq!(other, "provider must be auto or exa, not bing");
}
