//! Searching the workspace.

use serde_json::json;

use crate::Bench;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.put("src/a.rs", "fn alpha() {}\nlet Needle = 1;\nfn omega() {}\n");
    bench.put("src/b.txt", "needle in text\n");
    bench.put(".gitignore", "ignored/\n");
    bench.put("ignored/c.rs", "needle\n");
    bench.put("binary.rs", b"needle\0\n");
    bench.put(".secret/d.rs", "needle\n");
    std::os::unix::fs::symlink("../../secret.txt", bench.path("src/link.rs")).unwrap();
    bench
}

#[tokio::test]
async fn lines_are_found_where_ripgrep_would_find_them() {
    let bench = bench();
    let found = bench.run("code_search", json!({ "query": "needle" })).await;
    assert_eq!(found.content, "src/a.rs:2: let Needle = 1;\nsrc/b.txt:1: needle in text");
    let exact = bench.run("code_search", json!({ "query": "Needle" })).await;
    assert_eq!(exact.content, "src/a.rs:2: let Needle = 1;", "a capital letter means it");
    let globbed = bench.run("code_search", json!({ "query": "needle", "glob": "*.txt" })).await;
    assert_eq!(globbed.content, "src/b.txt:1: needle in text");
    let around = bench.run("code_search", json!({ "query": "Needle", "context_lines": 1, "path": "src" })).await;
    assert_eq!(around.content, "src/a.rs-1- fn alpha() {}\nsrc/a.rs:2: let Needle = 1;\nsrc/a.rs-3- fn omega() {}");
    let one_file = bench.run("code_search", json!({ "query": "fn (alpha|omega)", "path": "src/a.rs" })).await;
    assert_eq!(one_file.content, "src/a.rs:1: fn alpha() {}\nsrc/a.rs:3: fn omega() {}");
    assert_eq!(bench.run("code_search", json!({ "query": "outside" })).await.content, "No matches found.");
    let literal = bench.run("code_search", json!({ "query": "alpha() {", "literal": true })).await;
    assert_eq!(literal.content, "src/a.rs:1: fn alpha() {}");
}

#[tokio::test]
async fn files_are_found_by_name() {
    let bench = bench();
    let all = bench.run("code_search", json!({ "action": "files", "glob": "*.rs" })).await;
    assert_eq!(all.content, "binary.rs\nsrc/a.rs");
    let deep = bench.run("code_search", json!({ "action": "files", "glob": "src/**" })).await;
    assert_eq!(deep.content, "src/a.rs\nsrc/b.txt");
}

#[tokio::test]
async fn what_cannot_be_searched_is_said() {
    let bench = bench();
    assert_eq!(bench.fails("code_search", json!({})).await, "query is required");
    assert_eq!(bench.fails("code_search", json!({ "query": "" })).await, "query must not be empty");
    assert!(bench.fails("code_search", json!({ "query": "(" })).await.starts_with("query is not a valid pattern"));
    assert!(bench.fails("code_search", json!({ "query": "x", "glob": "[" })).await.starts_with("glob is not valid"));
    let out = bench.fails("code_search", json!({ "query": "x", "path": ".." })).await;
    assert_eq!(out, "path outside workspace: ..");
    let other = bench.fails("code_search", json!({ "action": "repo_clone" })).await;
    assert_eq!(other, "action must be search or files, not repo_clone");
}

#[tokio::test]
async fn results_are_limited_and_say_so() {
    let bench = bench();
    bench.put("many.txt", "hit\n".repeat(100));
    let few = bench.run("code_search", json!({ "query": "hit", "max_results": 3 })).await;
    assert_eq!(few.content.lines().filter(|line| line.starts_with("many.txt:")).count(), 3);
    assert!(few.content.ends_with("[3 matches shown. There are more; raise max_results or narrow the search.]"));
    bench.put("wide.txt", format!("wide {}\n", "ö".repeat(5_000)).repeat(400));
    let wide = bench.run("code_search", json!({ "query": "wide", "max_results": 500, "path": "wide.txt" })).await;
    assert!(wide.content.len() < 52_000 && wide.content.contains("more than can be shown"), "{}", wide.content.len());
}
