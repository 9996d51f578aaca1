//! What is protected by what it is, whatever its name.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::{OpenError, Refused};

/// The last bytes of a hub's backup.
const BACKUP_MARK: &[u8; 16] = b"convoke-backup\r\n";
/// How much of a key must follow its heading, so that a text about keys is not taken for one.
const KEY_START: usize = 16;

/// What must be looked at together with what follows, so that no key is missed between two pieces.
pub(super) const OVERLAP: usize = 64;

/// Refuses what lies in a hub's data directory. The working directory of its own agent's commands is not part of it.
pub(super) fn check_place(real: &Path) -> Result<(), Refused> {
    let Some(data) = real.ancestors().find(|folder| is_hub_data(folder)) else { return Ok(()) };
    if real.starts_with(data.join("agent").join("work")) {
        return Ok(());
    }
    Err(Refused::new("path_hub_data", "It lies in the data directory of a hub."))
}

/// Known by two of these: the database, which may be elsewhere, the lock and the key.
fn is_hub_data(folder: &Path) -> bool {
    ["hub.db", "hub.lock", "data.key"].iter().filter(|name| folder.join(name).is_file()).count() > 1
}

/// Refuses a backup of a hub.
pub(super) fn check_end(file: &mut File) -> Result<(), OpenError> {
    let mut end = [0; BACKUP_MARK.len()];
    // What has no end, or cannot be sought in, is no backup.
    let Ok(_) = file.seek(SeekFrom::End(-(end.len() as i64))) else { return Ok(()) };
    let is_backup = file.read_exact(&mut end).is_ok() && end == *BACKUP_MARK;
    file.rewind()?;
    if is_backup {
        return Err(Refused::new("path_hub_backup", "It is a backup of a hub.").into());
    }
    Ok(())
}

/// Refuses a text with a private key in it.
pub(super) fn check_text(bytes: &[u8]) -> Result<(), Refused> {
    const HEADING: &[u8] = b"PRIVATE KEY-----";
    let mut rest = bytes;
    while let Some(at) = rest.windows(HEADING.len()).position(|window| window == HEADING) {
        rest = &rest[at + HEADING.len()..];
        if begins_key(rest) {
            return Err(Refused::new("path_private_key", "It holds a private key."));
        }
    }
    Ok(())
}

/// Whether a key's own bytes follow, on a line of their own; in JSON the line's end is written out.
fn begins_key(after: &[u8]) -> bool {
    let ends: [&[u8]; 4] = [b"\r\n", b"\n", br"\r\n", br"\n"];
    let Some(body) = ends.iter().find_map(|end| after.strip_prefix(*end)) else { return false };
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"+/=-:, ".contains(b);
    body.get(..KEY_START).is_some_and(|start| start.iter().all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_known_by_two_of_its_files() {
        for (names, expect) in [
            (&["hub.db", "hub.lock"][..], true),
            (&["hub.db", "data.key"], true),
            (&["hub.lock", "data.key"], true),
            (&["hub.db"], false),
            (&["data.key", "other"], false),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            names.iter().for_each(|name| std::fs::write(dir.path().join(name), "x").expect("writes"));
            assert_eq!(check_place(&dir.path().join("logs/x.log")).is_err(), expect, "{names:?}");
            assert!(check_place(&dir.path().join("agent/work/x")).is_ok());
        }
    }

    #[test]
    fn a_private_key_is_known_in_any_text() {
        let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
        for text in [
            format!("-----BEGIN PRIVATE KEY-----\n{key}\n"),
            format!("-----BEGIN CERTIFICATE-----\nx\n-----BEGIN RSA PRIVATE KEY-----\r\n{key}\r\n"),
            format!(r#"{{"private_key": "-----BEGIN PRIVATE KEY-----\n{key}\n"}}"#),
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n".to_owned(),
        ] {
            assert!(check_text(text.as_bytes()).is_err(), "{text}");
        }
        for text in [
            "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0B\n",
            "a file that begins with -----BEGIN PRIVATE KEY----- is refused",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n",
        ] {
            assert!(check_text(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
