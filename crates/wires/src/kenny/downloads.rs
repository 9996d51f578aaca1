//! Short-lived links to agent binaries: `agent_update` names one, and the agent fetches it without a token.
//!
//! A link lives from when its call goes out. One whose call waited for a person is given its life then, also by a hub that
//! was started again meanwhile: a link says which file it is for, and shows that this hub has made it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use convoke_core::secret::{SecretText, TokenHash};
use convoke_core::time::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::Wires;
use convoke_gate::clock;

/// Most links at once; one more takes the place of the one that lapses first.
const MAX_LINKS: usize = 1024;

/// The links.
#[derive(Debug, Default)]
pub struct Downloads {
    links: Mutex<HashMap<TokenHash, (PathBuf, Timestamp)>>,
}

/// A binary for one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
}

/// The address of a new link to a file of the folder of binaries; none when its name is no text. It leads nowhere until it
/// is activated](activate).
pub fn address(hub: &Wires, file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let random = clock::token("");
    let link = format!("{}.{}.{name}", random.reveal(), proof(hub, random.reveal(), name));
    Some(format!("{}{DOOR}{}", hub.base_url(), utf8_percent_encode(&link, NON_ALPHANUMERIC)))
}

/// Where links lead.
const DOOR: &str = "/d/binary/";

/// Shows that this hub has made a link. What it digests otherwise begins with a bracket.
fn proof(hub: &Wires, random: &str, name: &str) -> String {
    hub.digest(format!("link\n{random}\n{name}").as_bytes()).split_off("hmac-sha256:".len())
}

/// A link that this hub has made.
#[derive(Debug)]
pub struct Link {
    secret: SecretText,
    file: PathBuf,
}

/// Reads the address of a link. `None` when this hub has not made it.
pub fn read(hub: &Wires, address: &str) -> Option<Link> {
    let base = hub.base_url();
    let link = address.strip_prefix(&base)?.strip_prefix(DOOR)?;
    let link = percent_decode_str(link).decode_utf8().ok()?;
    let (random, rest) = link.split_once('.')?;
    let (shown, name) = rest.split_once('.')?;
    if TokenHash::of(shown) != TokenHash::of(&proof(hub, random, name)) {
        return None;
    }
    let file = hub.settings.kenny.update_dir.as_deref()?.join(name);
    Some(Link { secret: SecretText::new(link.into_owned()), file })
}

/// The call that names this address goes out: from now on it leads to its file, for as long as the settings say. `None`
/// when it is none of this hub's links.
pub fn activate(hub: &Wires, address: &str) -> Option<()> {
    let Link { secret, file } = read(hub, address)?;
    let now = clock::now();
    hub.downloads.offer(&secret, file, now, now.after(hub.settings.kenny.update_link_ttl_s));
    Some(())
}

impl Downloads {
    /// A link leads to a file for a while.
    fn offer(&self, secret: &SecretText, path: PathBuf, now: Timestamp, expires_at: Timestamp) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, (_, at)| now < *at);
        if links.len() >= MAX_LINKS
            && let Some(first) = links.iter().min_by_key(|(_, (_, at))| *at).map(|(hash, _)| *hash)
        {
            links.remove(&first);
        }
        links.insert(secret.hash(), (path, expires_at));
    }

    /// The file behind a link, while it lives.
    pub fn find(&self, secret: &SecretText, now: Timestamp) -> Option<PathBuf> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&secret.hash()).filter(|(_, at)| now < *at).map(|(path, _)| path.clone())
    }
}

/// The newest binary in `dir` for a machine: files are named `kenny-agent-VERSION-OS-ARCH`, with `.exe` on Windows.
pub fn newest(dir: &Path, os: &str, arch: &str) -> std::io::Result<Option<Binary>> {
    let suffix = format!("-{os}-{arch}");
    let mut best: Option<Binary> = None;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if !path.is_file() {
            continue;
        }
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let version = name.strip_prefix("kenny-agent-").and_then(|rest| rest.strip_suffix(&suffix));
        let Some(version) = version.filter(|v| !v.is_empty()) else { continue };
        if best.as_ref().is_none_or(|best| is_newer(version, &best.version)) {
            best = Some(Binary { path: path.clone(), version: version.to_owned() });
        }
    }
    Ok(best)
}

/// Whether a version is newer than another. By number: 0.10 comes after 0.9; and what is before a release comes before it:
/// 1.0-rc2 after 1.0-rc1 and before 1.0.
pub fn is_newer(version: &str, than: &str) -> bool {
    order(version) > order(than)
}

/// A version as it is compared: its numbers, whether it is a release, and the parts of what it is before one, numbers
/// before words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Order<'a>(Vec<u64>, bool, Vec<(bool, u64, &'a str)>);

fn order(version: &str) -> Order<'_> {
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (numbers, before) =
        version.split_once('-').map_or((version, None), |(numbers, before)| (numbers, Some(before)));
    let mut numbers: Vec<u64> = numbers.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    let parts = before.unwrap_or_default().split(['.', '-']).filter(|part| !part.is_empty());
    let parts = parts.map(|text| match text.parse() {
        Ok(number) => (false, number, text),
        Err(_) => (true, 0, text),
    });
    Order(numbers, before.is_none(), parts.collect())
}

/// SHA-256 of a file, in hex.
pub fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match std::io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(hex::encode(hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_by_number_for_the_right_machine() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in [
            "kenny-agent-0.9.0-windows-x86_64.exe",
            "kenny-agent-0.10.0-windows-x86_64.exe",
            "kenny-agent-0.11.0-linux-x86_64",
            "readme.txt",
        ] {
            std::fs::write(dir.path().join(name), name).expect("writes");
        }
        let found = newest(dir.path(), "windows", "x86_64").expect("reads").expect("there is one");
        assert_eq!(found.version, "0.10.0");
        assert_eq!(newest(dir.path(), "macos", "aarch64").expect("reads"), None);
    }

    #[test]
    fn a_release_is_newer_than_what_came_before_it_and_a_folder_is_no_binary() {
        for (newer, older) in [
            ("0.10.0", "0.9.9"),
            ("0.10.0", "0.10.0-rc1"),
            ("0.10.0-rc2", "0.10.0-rc1"),
            ("0.10.1-rc1", "0.10.0"),
            ("1.0.0-beta.11", "1.0.0-beta.2"),
        ] {
            assert!(is_newer(newer, older) && !is_newer(older, newer), "{newer} and {older}");
        }
        assert!(!is_newer("0.10", "0.10.0") && !is_newer("0.10.0+build5", "0.10.0"));
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["kenny-agent-0.10.0-linux-x86_64", "kenny-agent-0.10.0-rc1-linux-x86_64"] {
            std::fs::write(dir.path().join(name), name).expect("writes");
        }
        std::fs::create_dir(dir.path().join("kenny-agent-9.0.0-linux-x86_64")).expect("made");
        let found = newest(dir.path(), "linux", "x86_64").expect("reads").expect("there is one");
        assert_eq!(found.version, "0.10.0");
    }

    #[test]
    fn links_lapse() {
        let links = Downloads::default();
        let at = Timestamp::from_millis;
        let link = SecretText::new("link");
        links.offer(&link, "x".into(), at(0), at(10));
        assert!(links.find(&link, at(9)).is_some());
        assert!(links.find(&link, at(10)).is_none());
        assert!(links.find(&SecretText::new("other"), at(1)).is_none());
    }
}
