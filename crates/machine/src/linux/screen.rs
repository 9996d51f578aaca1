//! `screen_capture`: what a person sees on this machine.
//!
//! An agent that runs as a service has no desktop of its own. It looks for one in the environment of the processes that
//! have: the display, the key to it, the bus. On Wayland only the desktop itself can take a picture, and it may ask the
//! person first; that is as it should be.

mod picture;
mod portal;
mod session;
mod x11;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::ToolError;
use crate::facts::Facts;
use session::Session;

pub(super) fn capture(facts: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    let sessions = session::find(facts);
    if sessions.is_empty() {
        return Err(ToolError::unsupported("this machine has no X11 display and no Wayland session"));
    }
    let mut complaints = Vec::new();
    for session in &sessions {
        match picture_of(facts, session) {
            Ok(png) => {
                let text = base64::engine::general_purpose::STANDARD.encode(png);
                return Ok(json!({"image_b64": text, "format": "png"}));
            }
            Err(why) => complaints.push(why),
        }
        if facts.stopped() {
            break;
        }
    }
    Err(ToolError::failed(crate::text::one_line(&complaints.join("; "), 500)))
}

/// A PNG within the limit.
fn picture_of(facts: &Facts, session: &Session) -> Result<Vec<u8>, String> {
    let cap = facts.options.screen_cap;
    match session {
        Session::X11 { display, cookies } => x11::capture(facts, *display, cookies.as_deref(), cap),
        Session::Wayland { bus, owner, .. } => {
            let asked = bus.as_deref().ok_or_else(|| "the Wayland session has no bus".to_owned());
            let png = asked.and_then(|bus| portal::capture(facts, bus, *owner));
            // Compositors without a portal often have this program beside them.
            let png = png.or_else(|why| by_grim(facts, session).ok_or(why))?;
            picture::fit(png, cap)
        }
    }
}

fn by_grim(facts: &Facts, session: &Session) -> Option<Vec<u8>> {
    let Session::Wayland { socket: Some(socket), owner, .. } = session else { return None };
    // It is written in C, and reads whatever the other end sends: not with rights that the other end does not have.
    if *owner != nix::unistd::geteuid().as_raw() {
        return None;
    }
    let program = facts.program("grim")?;
    let folder = std::env::temp_dir().join(format!("convoke-screen-{}", uuid::Uuid::new_v4()));
    create_private(&folder).ok()?;
    let file = folder.join("screen.png");
    let command = crate::exec::Command::new(program)
        .arg(&file)
        .env("WAYLAND_DISPLAY", socket)
        .env("XDG_RUNTIME_DIR", socket.parent()?);
    let done = facts.exec(command).is_ok_and(|output| output.success());
    let png = done.then(|| crate::facts::read_start(&file, picture::MAX_FILE).ok()).flatten();
    let _ = std::fs::remove_dir_all(&folder);
    png
}

/// A folder that nobody else can look into.
fn create_private(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    std::fs::DirBuilder::new().mode(0o700).create(folder)
}
