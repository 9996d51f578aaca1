//! Protocol versions (contract, "Versioning"), compared as numbers: as text "0.10" would sort below "0.8", which is how
//! the field's v0.8 servers lock newer agents out.

use std::fmt;
use std::str::FromStr;

/// A version of the wire protocol: `0.8`, `0.10`, `0.8.1`, `1.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl ProtocolVersion {
    /// The contract this crate implements, and the first version with the signature handshake.
    pub const V0_8: Self = Self::new(0, 8);
    /// Adds the `webfilter_*` tools.
    pub const V0_9: Self = Self::new(0, 9);
    /// Adds `shell_exec` and the rule group `posix`.
    pub const V0_14: Self = Self::new(0, 14);
    /// Adds the account tools.
    pub const V0_15: Self = Self::new(0, 15);
    /// Adds the key `shell` of a `policy` frame.
    pub const V0_18: Self = Self::new(0, 18);

    /// `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// Whether an agent of this version can prove itself by signature. With a `client_nonce` present that is what
    /// selects the signature path (contract, "Transport": migration window).
    pub fn signs(self) -> bool {
        self >= Self::V0_8
    }
}

impl FromStr for ProtocolVersion {
    type Err = BadVersion;

    /// Two or three decimal numbers with dots between. Anything else is an error rather than a guess: the version
    /// chooses the handshake.
    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let mut parts = text.split('.').map(number);
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { return Err(BadVersion) };
        let (major, minor) = (major?, minor?);
        let patch = parts.next().transpose()?.unwrap_or(0);
        if parts.next().is_some() {
            return Err(BadVersion);
        }
        Ok(Self { major, minor, patch })
    }
}

fn number(text: &str) -> Result<u16, BadVersion> {
    // `u16::from_str` takes a leading `+`, which no version has.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadVersion);
    }
    text.parse().map_err(|_| BadVersion)
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

/// The text is no protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a protocol version is two or three numbers, as in 0.8")]
pub struct BadVersion;

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ProtocolVersion {
        text.parse().expect("a version")
    }

    #[test]
    fn versions_compare_as_numbers() {
        let ordered = ["0.7", "0.8", "0.8.1", "0.9", "0.10", "0.14", "0.17", "1.0"].map(version);
        assert!(ordered.is_sorted_by(|a, b| a < b));
        assert_eq!(ordered.map(ProtocolVersion::signs), [false, true, true, true, true, true, true, true]);
    }

    #[test]
    fn garbage_is_no_version() {
        for bad in
            ["", ".", "0", "0.", ".8", "v0.8", "0.8-beta", "+0.8", "0.+8", " 0.8", "0.8.1.2", "0.99999", "０.８"]
        {
            assert_eq!(bad.parse::<ProtocolVersion>(), Err(BadVersion), "{bad}");
        }
    }

    #[test]
    fn prints_as_the_contract_writes_it() {
        for text in ["0.8", "0.17", "0.8.1", "1.0"] {
            assert_eq!(version(text).to_string(), text);
        }
    }
}
