//! A picture through the desktop's portal (`org.freedesktop.portal.Screenshot`), which may ask the person first.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use zbus::{MatchRule, MessageStream, OwnedObjectPath, OwnedVariant, Variant};

use super::picture::MAX_FILE;
use crate::facts::Facts;

const NAME: &str = "org.freedesktop.portal.Desktop";
const PATH: &str = "/org/freedesktop/portal/desktop";

/// What a desktop may have to say before its answer.
const QUEUE: usize = 16;

pub(super) fn capture(facts: &Facts, bus: &str) -> Result<Vec<u8>, String> {
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
            let png = crate::tools::read_start(&file, MAX_FILE).map_err(|error| format!("the picture: {error}"));
            // It was made for us, and shows a person's screen.
            let _ = std::fs::remove_file(&file);
            png
        }
        (0, None) => Err("the desktop named no picture".to_owned()),
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

/// The path of a `file://` address.
fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let mut bytes = Vec::new();
    let mut rest = rest.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, hex.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
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
