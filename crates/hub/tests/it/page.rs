//! The page's doors. Whether the page was built or not, the same rules hold for what is served.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{TOKEN, TestHub};

#[tokio::test]
async fn every_address_that_no_door_has_is_a_view_of_the_page() {
    let hub = TestHub::start().await;
    for path in ["/", "/welcome", "/machines/pc-1", "/room/lab", "/machines/a%2Fb", "/agent"] {
        let response = hub.http_client.get(format!("{}{path}", hub.http)).send().await.expect("answers");
        assert_eq!(response.status(), 200, "{path}");
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header("content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(
            header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
             manifest-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(header(name), value, "{path}");
        }
        let text = response.text().await.expect("a body");
        assert!(!text.contains("<style") && !text.contains(" style="), "no inline style: the policy refuses it");
        assert!(!text.contains(TOKEN));
        assert!(!text.contains("<script>"), "no inline script: the policy refuses it");
    }
}

#[tokio::test]
async fn addresses_for_programs_are_no_views() {
    let hub = TestHub::start().await;
    for path in
        ["/api/nothing", "/api/agents/x/nothing", "/oauth/nothing", "/.well-known/nothing", "/assets/nothing.js"]
    {
        let reply = hub.request("GET", path, None, None).await;
        assert_eq!((reply.status, reply.body["error"]["code"].as_str()), (404, Some("not_found")), "{path}");
    }
    let posted = hub.request("POST", "/machines", None, None).await;
    assert_eq!((posted.status, posted.body["error"]["code"].as_str()), (404, Some("not_found")));
}

#[tokio::test]
async fn no_path_leads_out_of_the_pages_folder() {
    let hub = TestHub::start().await;
    for path in
        ["/..%2f..%2fCargo.toml", "/%2e%2e/%2e%2e/Cargo.toml", "//etc/passwd", "/assets/..%2f..%2f..%2fCargo.toml"]
    {
        // Clients put such paths in order; somebody who means harm does not.
        let address = hub.http.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.expect("reads");
        assert!(!reply.contains("[workspace]") && !reply.contains("root:"), "{path}: {reply}");
    }
}
