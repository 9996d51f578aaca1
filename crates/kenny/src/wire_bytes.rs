//! Keys, nonces and signatures as they travel: standard base64 with padding (contract, "Transcript").

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes in a nonce (contract, "register" and "challenge").
pub const NONCE_LEN: usize = 32;
/// Bytes in an Ed25519 signature.
pub const SIGNATURE_LEN: usize = 64;
/// Bytes in an Ed25519 public key or private seed.
pub const KEY_LEN: usize = 32;

/// Longest text that is looked at: 64 bytes are 88 characters, and whoever pads more than this with blanks is not
/// sending a key.
const MAX_TEXT: usize = 256;

/// Why a text does not hold the bytes it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBytes {
    /// Not standard base64 with padding.
    #[error("is not standard base64 with padding")]
    NotBase64,
    /// Base64, but of another number of bytes.
    #[error("has the wrong number of bytes")]
    Length,
}

impl BadBytes {
    /// The message as a constant, for errors that must not carry anything of the payload.
    pub const fn why(self) -> &'static str {
        match self {
            Self::NotBase64 => "is not standard base64 with padding",
            Self::Length => "has the wrong number of bytes",
        }
    }
}

/// Writes bytes as the contract wants them.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads exactly `N` bytes. Blanks around the text are dropped: keys are pasted by people and read from files that end
/// in a newline, and the agents of the field trim too.
pub fn decode<const N: usize>(text: &str) -> Result<[u8; N], BadBytes> {
    let text = text.trim();
    if text.len() > MAX_TEXT {
        return Err(BadBytes::Length);
    }
    let bytes = STANDARD.decode(text).map_err(|_| BadBytes::NotBase64)?;
    bytes.try_into().map_err(|_| BadBytes::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_trims() {
        let nonce = [0xaa; NONCE_LEN];
        let text = encode(&nonce);
        assert_eq!(decode::<NONCE_LEN>(&text), Ok(nonce));
        assert_eq!(decode::<NONCE_LEN>(&format!("  {text}\r\n")), Ok(nonce));
    }

    #[test]
    fn refuses_other_alphabets_lengths_and_missing_padding() {
        let text = encode(&[0xff; NONCE_LEN]);
        assert_eq!(decode::<NONCE_LEN>(text.trim_end_matches('=')), Err(BadBytes::NotBase64));
        assert_eq!(decode::<NONCE_LEN>(&text.replace('/', "_")), Err(BadBytes::NotBase64));
        assert_eq!(decode::<SIGNATURE_LEN>(&text), Err(BadBytes::Length));
        assert_eq!(decode::<NONCE_LEN>(""), Err(BadBytes::Length));
        assert_eq!(decode::<NONCE_LEN>(&"A".repeat(100_000)), Err(BadBytes::Length));
    }
}
