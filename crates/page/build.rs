//! Builds the page where it goes into the program: in release builds, and where `BUILD_WEB_PAGE` asks for it. A
//! debug build reads it from disk at run time, so an editor's checks never wait for npm.
//!
//! Without Node, or when the page cannot be built, the program is built all the same and serves a plain page that says
//! what to do.

use std::path::Path;
use std::process::{Command, Stdio};

/// No name of ours: the program takes `CONVOKE_…` for its settings.
const ASKED: &str = "BUILD_WEB_PAGE";

/// What the page is made from, below `web/`.
const SOURCES: &[&str] = &["index.html", "package-lock.json", "public", "scripts/build.mjs", "src", "vite.config.ts"];

fn main() {
    println!("cargo:rerun-if-env-changed={ASKED}");
    println!("cargo:rerun-if-changed=build.rs");
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    // Where the page is embedded from, or read from: it must be there, with or without a page in it.
    if let Err(why) = std::fs::create_dir_all(web.join("dist")) {
        println!("cargo:warning=cannot make {}: {why}", web.join("dist").display());
    }
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release && std::env::var_os(ASKED).is_none() {
        return;
    }
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", web.join(source).display());
    }
    // The script does nothing where what it built last is still what the sources say.
    let build = Command::new("node").arg("scripts/build.mjs").current_dir(&web).stdin(Stdio::null()).output();
    let why = match build {
        Ok(output) if output.status.success() => return,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").to_owned();
            format!("building it failed: {last} (run `node scripts/build.mjs` in web/ for the whole message)")
        }
        Err(_) => "Node is not installed (Node 20 or newer, with npm)".to_owned(),
    };
    println!("cargo:warning=the web page is not up to date in this build: {why}");
}
