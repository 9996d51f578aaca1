//! A picture through a desktop's portal: a real bus, and on it a portal that answers as desktops do.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use convoke_kenny::frame::ErrorCode;
use convoke_machine::{Call, Machine, Options, ToolError};
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use zbus::message::Type;
use zbus::{Connection, MessageStream, ObjectPath, OwnedVariant, Variant};

/// A bus that ends with the test.
struct Bus {
    daemon: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn bus() -> Bus {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("--address=unix:path={}", folder.path().join("bus").display());
    let mut daemon = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--nosyslog", "--print-address=1", &address])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("dbus-daemon does not start ({error}): run `cargo xtask setup`"));
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Bus { daemon, address: line.trim().to_owned(), folder }
}

/// What the desktop does when it is asked.
enum Desktop {
    /// Takes this picture.
    Shows(PathBuf),
    /// The person says no.
    Refuses,
    /// Nobody is there to be asked.
    Waits,
}

/// Serves one question, and returns the options that came with it.
async fn portal(address: String, desktop: Desktop) -> HashMap<String, OwnedVariant> {
    let bus = zbus::connection::Builder::address(address.as_str()).build().await.unwrap();
    let mut calls = MessageStream::from(&bus);
    let (name, flags) = ("org.freedesktop.portal.Desktop", 0_u32);
    let own = "org.freedesktop.DBus";
    bus.call_method(Some(own), "/org/freedesktop/DBus", Some(own), "RequestName", &(name, flags)).await.unwrap();
    while let Some(message) = calls.next().await {
        let message = message.unwrap();
        let header = message.header();
        if header.message_type() == Type::MethodCall && header.member().is_some_and(|member| member == "Screenshot") {
            let (_window, options): (String, HashMap<String, OwnedVariant>) = message.body().deserialize().unwrap();
            answer(&bus, &message, &options, desktop).await;
            return options;
        }
    }
    panic!("nobody asked");
}

async fn answer(bus: &Connection, call: &zbus::Message, options: &HashMap<String, OwnedVariant>, desktop: Desktop) {
    let header = call.header();
    let sender = header.sender().unwrap().trim_start_matches(':').replace('.', "_");
    let token = String::try_from(options["handle_token"].clone()).unwrap();
    let path = format!("/org/freedesktop/portal/desktop/request/{sender}/{token}");
    let handle = ObjectPath::try_from(path.as_str()).unwrap();
    bus.reply(&header, &handle).await.unwrap();
    let (code, results) = match desktop {
        Desktop::Shows(file) => {
            let uri = format!("file://{}", file.display()).replace(' ', "%20");
            (0_u32, HashMap::from([("uri", Variant::from(uri))]))
        }
        Desktop::Refuses => (1, HashMap::new()),
        Desktop::Waits => return,
    };
    let to = header.sender().cloned();
    let interface = "org.freedesktop.portal.Request";
    bus.emit_signal(to, path.as_str(), interface, "Response", &(code, results)).await.unwrap();
}

/// Asks for a picture on a machine where somebody has a Wayland session on that bus.
async fn capture(bus: &Bus, timeout: Duration) -> Result<Value, ToolError> {
    let root = bus.folder.path().join("root");
    std::fs::create_dir_all(root.join("proc/7")).unwrap();
    let environ = format!("WAYLAND_DISPLAY=wayland-0\0DISPLAY=:0\0DBUS_SESSION_BUS_ADDRESS={}\0", bus.address);
    std::fs::write(root.join("proc/7/environ"), environ).unwrap();
    let machine = Machine::new(Options { root, tool_timeout: timeout, ..Options::default() });
    machine.run("screen_capture", &Map::new(), &Call::default()).await
}

fn picture(folder: &Path) -> (PathBuf, Vec<u8>) {
    let file = folder.join("a picture.png");
    let bytes = b"\x89PNG\r\n\x1a\n and the rest of it".to_vec();
    std::fs::write(&file, &bytes).unwrap();
    (file, bytes)
}

#[tokio::test]
async fn the_desktops_picture_is_returned_and_not_left_lying_about() {
    let bus = bus();
    let (file, bytes) = picture(bus.folder.path());
    let desktop = tokio::spawn(portal(bus.address.clone(), Desktop::Shows(file.clone())));
    let result = capture_when_served(&bus).await.unwrap();
    let png = base64::engine::general_purpose::STANDARD.decode(result["image_b64"].as_str().unwrap()).unwrap();
    assert_eq!(png, bytes);
    assert!(!file.exists());
    let options = desktop.await.unwrap();
    assert_eq!(bool::try_from(options["interactive"].clone()), Ok(false));
}

#[tokio::test]
async fn a_file_of_somebody_else_is_neither_read_nor_removed() {
    let bus = bus();
    let (file, _) = picture(bus.folder.path());
    let link = bus.folder.path().join("link.png");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let text = bus.folder.path().join("secret.png");
    std::fs::write(&text, "root:x:0").unwrap();
    for named in [link, text, PathBuf::from("/proc/self/mem"), PathBuf::from("/dev/zero")] {
        let _desktop = tokio::spawn(portal(bus.address.clone(), Desktop::Shows(named.clone())));
        let error = capture_when_served(&bus).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ExecFailed, "{}: {error}", named.display());
        assert!(named.symlink_metadata().is_ok());
    }
    assert!(file.exists());
}

#[tokio::test]
async fn a_person_may_refuse() {
    let bus = bus();
    let _desktop = tokio::spawn(portal(bus.address.clone(), Desktop::Refuses));
    let error = capture_when_served(&bus).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ExecFailed, "the person at the machine refused"));
}

#[tokio::test]
async fn a_desktop_that_waits_for_a_person_is_not_waited_for() {
    let bus = bus();
    let desktop = tokio::spawn(portal(bus.address.clone(), Desktop::Waits));
    let error = loop {
        let error = capture(&bus, Duration::from_secs(2)).await.unwrap_err();
        if desktop.is_finished() {
            break error;
        }
    };
    assert!(error.message.contains("did not answer"), "{error}");
}

/// Asks again while the portal is not on the bus yet.
async fn capture_when_served(bus: &Bus) -> Result<Value, ToolError> {
    loop {
        let result = capture(bus, Duration::from_secs(30)).await;
        if !result.as_ref().is_err_and(|error| {
            error.message.contains("ServiceUnknown") || error.message.contains("was not provided")
        }) {
            return result;
        }
    }
}
