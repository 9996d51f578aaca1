//! The desktops of this machine.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::unistd::geteuid;

use crate::facts::Facts;

/// Most desktops that are tried.
const MAX_SESSIONS: usize = 8;

/// Where a picture can be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// A display of X11 on this machine, by number, and the file with the key to it.
    X11 { display: u32, cookies: Option<PathBuf> },
    /// A compositor's socket, the bus of its person, and who that is.
    Wayland { socket: Option<PathBuf>, bus: Option<String>, owner: u32 },
}

/// The agent's own desktop first, if it has one; then everybody else's.
pub(super) fn find(facts: &Facts) -> Vec<Session> {
    let own: HashMap<String, String> = std::env::vars().collect();
    let mut found: Vec<Session> =
        if facts.options.root.as_os_str() == "/" { of(&own, geteuid().as_raw()) } else { Vec::new() };
    let pids = facts.names("proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    for pid in pids {
        let Ok(environ) = facts.read(&format!("proc/{pid}/environ")) else { continue };
        let Ok(metadata) = facts.path(&format!("proc/{pid}/environ")).metadata() else { continue };
        for session in of(&parse_environ(&environ), metadata.uid()) {
            if !found.contains(&session) {
                found.push(session);
            }
        }
    }
    // A display that nobody admits to, such as one that was just started. Some let in whoever is on the machine.
    for name in facts.names("tmp/.X11-unix") {
        let display = name.strip_prefix('X').and_then(|number| number.parse().ok());
        let known =
            |display: u32| found.iter().any(|s| matches!(s, Session::X11 { display: d, .. } if *d == display));
        // A socket outlives a server that was killed.
        let lives = || UnixStream::connect(facts.path("tmp/.X11-unix").join(&name)).is_ok();
        if let Some(display) = display.filter(|display| !known(*display) && lives()) {
            found.push(Session::X11 { display, cookies: None });
        }
    }
    found.truncate(MAX_SESSIONS);
    found
}

fn parse_environ(text: &str) -> HashMap<String, String> {
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The desktop that an environment speaks of. With both kinds of variables it is Wayland, whose X11 shows nothing but
/// the windows of old programs.
fn of(environ: &HashMap<String, String>, owner: u32) -> Vec<Session> {
    let value = |name: &str| environ.get(name).filter(|value| !value.is_empty());
    if let Some(wayland) = value("WAYLAND_DISPLAY") {
        let folder = value("XDG_RUNTIME_DIR").map(PathBuf::from);
        // Joining an absolute path gives that path, which is what is meant.
        let socket = folder.map(|folder| folder.join(wayland)).filter(|path| path.is_absolute());
        return vec![Session::Wayland { socket, bus: value("DBUS_SESSION_BUS_ADDRESS").cloned(), owner }];
    }
    let display = value("DISPLAY").and_then(|display| parse_display(display));
    let cookies = value("XAUTHORITY").cloned().map(PathBuf::from).or_else(|| {
        let home = value("HOME")?;
        Some(PathBuf::from(home).join(".Xauthority"))
    });
    display.map(|display| Session::X11 { display, cookies }).into_iter().collect()
}

/// `:0`, `:0.0`, `unix:1`. One of another machine (`host:0`, a tunnel's `localhost:10.0`) is not here.
fn parse_display(text: &str) -> Option<u32> {
    let (host, rest) = text.rsplit_once(':')?;
    (host.is_empty() || host == "unix").then(|| rest.split('.').next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::linux::tests::{facts, root};

    #[test]
    fn displays_of_this_machine_are_told_from_others() {
        for (text, expect) in [
            (":0", Some(0)),
            (":12.1", Some(12)),
            ("unix:3", Some(3)),
            ("localhost:10.0", None),
            ("x", None),
            (":", None),
        ] {
            assert_eq!(parse_display(text), expect, "{text}");
        }
    }

    #[test]
    fn desktops_are_found_in_the_environment_of_their_programs() {
        let root = root(&[
            ("proc/7/environ", "DISPLAY=:1\0XAUTHORITY=/run/auth\0"),
            ("proc/8/environ", "DISPLAY=:1\0XAUTHORITY=/run/auth\0"),
            (
                "proc/9/environ",
                "WAYLAND_DISPLAY=wayland-0\0DISPLAY=:2\0XDG_RUNTIME_DIR=/run/user/7\0DBUS_SESSION_BUS_ADDRESS=unix:path=/b\0",
            ),
            ("proc/10/environ", "TERM=x\0"),
            ("tmp/.X11-unix/X1", ""),
            ("tmp/.X11-unix/X4", ""),
        ]);
        let _server = std::os::unix::net::UnixListener::bind(root.path().join("tmp/.X11-unix/X5")).unwrap();
        let (_runtime, facts) = facts(Options { root: root.path().to_owned(), ..Options::default() });
        assert_eq!(
            find(&facts),
            [
                Session::X11 { display: 1, cookies: Some("/run/auth".into()) },
                Session::Wayland {
                    socket: Some("/run/user/7/wayland-0".into()),
                    bus: Some("unix:path=/b".into()),
                    owner: geteuid().as_raw(),
                },
                Session::X11 { display: 5, cookies: None },
            ]
        );
    }
}
