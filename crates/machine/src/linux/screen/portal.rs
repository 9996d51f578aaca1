//! A picture through the desktop's portal (`org.freedesktop.portal.Screenshot`), which may ask the person first.
//!
//! Whoever owns the bus may put anything in the portal's place and name any file. So only a file that belongs to that
//! person is read, and it is removed with that person's rights: an agent that is root must not be a way to read or
//! remove what is somebody else's.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use percent_encoding::percent_decode_str;
use zbus::{MatchRule, MessageStream, OwnedObjectPath, OwnedVariant, Variant};

use super::picture::MAX_FILE;
use crate::exec::Command;
use crate::facts::Facts;

const NAME: &str = "org.freedesktop.portal.Desktop";
const PATH: &str = "/org/freedesktop/portal/desktop";

/// What a desktop may have to say before its answer.
const QUEUE: usize = 16;

pub(super) fn capture(facts: &Facts, bus: &str, owner: u32) -> Result<Vec<u8>, String> {
    let asked = facts.wait(async {
        tokio::select! {
            answer = ask(bus) => answer.map_err(|error| format!("the desktop's portal: {error}")),
            () = facts.stop.cancelled() => Err("cancelled".to_owned()),
            // Someone may have to be asked; nobody may be there.
            () = tokio::time::sleep(facts.patience.mul_f64(0.9)) => {
                Err("the desktop did not answer: it may be asking the person for permission".to_owned())
            }
        }
    })?;
    let (code, file) = asked;
    match (code, file) {
        (0, Some(file)) => {
            let png = read(&file, owner).map_err(|error| format!("the picture: {error}"))?;
            // It was made for us, and shows a person's screen.
            remove(facts, &file, owner);
            Ok(png)
        }
        (0, None) => Err("the desktop returned no picture".to_owned()),
        (1, _) => Err("the person at the machine refused".to_owned()),
        (code, _) => Err(format!("the desktop took no picture (answer {code})")),
    }
}

async fn ask(bus: &str) -> zbus::Result<(u32, Option<PathBuf>)> {
    let connection = zbus::connection::Builder::address(bus).build().await?;
    // The answer is a signal of a path that is known before: listening first means that none is missed.
    let token = format!("convoke{}", uuid::Uuid::new_v4().simple());
    let sender =
        connection.unique_name().map(|name| name.trim_start_matches(':').replace('.', "_")).unwrap_or_default();
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .interface("org.freedesktop.portal.Request")
        .member("Response")
        .build()?;
    let mut answers = MessageStream::for_match_rule(rule, &connection, std::num::NonZeroUsize::new(QUEUE)).await?;
    let options: HashMap<&str, Variant<'_>> =
        HashMap::from([("handle_token", Variant::from(token.as_str())), ("interactive", Variant::from(false))]);
    let reply = connection
        .call_method(Some(NAME), PATH, Some("org.freedesktop.portal.Screenshot"), "Screenshot", &("", options))
        .await?;
    let handle: OwnedObjectPath = reply.body().deserialize()?;
    let expected = format!("{PATH}/request/{sender}/{token}");
    while let Some(message) = answers.next().await {
        let message = message?;
        let header = message.header();
        let path = header.path().map(|path| path.as_str()).unwrap_or_default();
        if path == handle.as_str() || path == expected {
            let (code, results): (u32, HashMap<String, OwnedVariant>) = message.body().deserialize()?;
            let uri = results.get("uri").and_then(|uri| String::try_from(uri.clone()).ok());
            return Ok((code, uri.and_then(|uri| path_of(&uri))));
        }
    }
    Err(zbus::Error::Failure("the bus closed".into()))
}

/// A PNG that belongs to its owner.
fn read(file: &Path, owner: u32) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(file)?;
    let metadata = opened.metadata()?;
    if !metadata.is_file() || metadata.uid() != owner {
        return Err(io::Error::other("the desktop named a file that is not its own"));
    }
    let mut png = Vec::new();
    opened.take(MAX_FILE as u64).read_to_end(&mut png)?;
    if png.starts_with(b"\x89PNG") { Ok(png) } else { Err(io::Error::other("the desktop's file is not a PNG")) }
}

fn remove(facts: &Facts, file: &Path, owner: u32) {
    if owner == geteuid().as_raw() {
        let _ = std::fs::remove_file(file);
        return;
    }
    let Some(setpriv) = facts.program("setpriv") else { return };
    let as_owner = [format!("--reuid={owner}"), "--clear-groups".to_owned()];
    let command = Command::new(setpriv).args(as_owner).args(["--", "rm", "-f", "--"]).arg(file);
    let _ = facts.exec(command);
}

/// The path of a `file://` address.
fn path_of(uri: &str) -> Option<PathBuf> {
    let bytes: Vec<u8> = percent_decode_str(uri.strip_prefix("file://")?).collect();
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes)).to_owned();
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_read() {
        for (uri, path) in [
            ("file:///tmp/a%20b.png", Some("/tmp/a b.png")),
            ("file:///x%2", Some("/x%2")),
            ("https://x/y", None),
            ("file://", None),
        ] {
            assert_eq!(path_of(uri).as_deref(), path.map(Path::new), "{uri}");
        }
    }
}
