//! A picture of a real display: Xvfb, with a key, as desktops have it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use convoke_kenny::frame::ErrorCode;
use convoke_machine::{Call, Machine, Options, ToolError};
use serde_json::{Map, Value};

/// A display that ends with the test.
struct Display {
    server: Child,
    number: u32,
    folder: tempfile::TempDir,
}

impl Drop for Display {
    fn drop(&mut self) {
        // Asked and not killed: it then takes its socket along.
        let asked = Command::new("kill").arg(self.server.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
    }
}

/// Starts a server that lets in only who has the key, and waits until it has said its number.
fn display() -> Display {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    // Family "any", no address, no number: a key for this display whatever its number.
    let mut entry = vec![0xff, 0xff, 0, 0, 0, 0, 0, 18];
    entry.extend(b"MIT-MAGIC-COOKIE-1");
    entry.extend([0, 16]);
    entry.extend([7; 16]);
    std::fs::write(&keys, entry).unwrap();
    let mut server = Command::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "320x200x24", "-nolisten", "tcp", "-auth"])
        .arg(&keys)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("Xvfb does not start ({error}): run `cargo xtask setup`"));
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Display { number: line.trim().parse().unwrap(), server, folder }
}

/// A root in which a process has this environment, and the machine's own sockets of displays.
fn machine(environ: &str, options: Options) -> (tempfile::TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("proc/7")).unwrap();
    std::fs::write(root.path().join("proc/7/environ"), environ).unwrap();
    std::fs::create_dir(root.path().join("tmp")).unwrap();
    if !environ.is_empty() {
        std::os::unix::fs::symlink("/tmp/.X11-unix", root.path().join("tmp/.X11-unix")).unwrap();
    }
    let options = Options { root: root.path().to_owned(), ..options };
    (root, Machine::new(options))
}

async fn capture(machine: &Machine) -> Result<Value, ToolError> {
    machine.run("screen_capture", &Map::new(), &Call::default()).await
}

/// Width and height of a picture.
fn size(result: &Value) -> (u32, u32) {
    let png = base64::engine::general_purpose::STANDARD.decode(result["image_b64"].as_str().unwrap()).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn a_persons_display_is_found_and_pictured() {
    let display = display();
    let keys = display.folder.path().join("keys");
    let environ = format!("DISPLAY=:{}\0XAUTHORITY={}\0", display.number, keys.display());
    let (_root, machine) = machine(&environ, Options::default());
    let result = capture(&machine).await.unwrap();
    assert_eq!(result["format"], "png");
    assert_eq!(size(&result), (320, 200));
}

#[tokio::test]
async fn a_picture_that_is_too_large_is_halved() {
    let display = display();
    let keys = display.folder.path().join("keys");
    let environ = format!("DISPLAY=:{}\0XAUTHORITY={}\0", display.number, keys.display());
    // An empty screen of this size takes some hundred bytes.
    let (_root, machine) = machine(&environ, Options { screen_cap: 250, ..Options::default() });
    let (width, height) = size(&capture(&machine).await.unwrap());
    assert!(width < 320 && height < 200 && width > 10, "{width}x{height}");
}

#[tokio::test]
async fn without_the_key_nothing_is_shown() {
    let display = display();
    let environ = format!("DISPLAY=:{}\0XAUTHORITY=/no/such/file\0", display.number);
    let (_root, machine) = machine(&environ, Options::default());
    let error = capture(&machine).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ExecFailed, "{error}");
    assert!(error.message.contains(&format!(":{}", display.number)), "{error}");
}

#[tokio::test]
async fn a_machine_without_a_screen_says_so() {
    let (_root, machine) = machine("", Options::default());
    let error = capture(&machine).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
}
