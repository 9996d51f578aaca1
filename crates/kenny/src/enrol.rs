//! The public key of an enrolment (contract, "Enrollment (first contact)").

use ed25519_dalek::VerifyingKey;

use crate::wire_bytes::{self, BadBytes, KEY_LEN};

/// Why a text is no key to enrol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// Not base64 of 32 bytes.
    #[error("{0}")]
    Bytes(#[from] BadBytes),
    /// 32 bytes that are no Ed25519 public key, or an unusual spelling of one.
    #[error("is not an Ed25519 public key")]
    NotAKey,
    /// A key for which anybody can make signatures.
    #[error("is a weak key")]
    Weak,
    /// The hub's own key.
    #[error("is the hub's own key")]
    HubsOwn,
}

/// Reads the key of an agent that enrols with the hub that has `hub_key`.
///
/// The hub's own key is refused because both sides sign the same bytes: an "agent" enrolled under it could send the
/// hub's signature straight back and be let in without a key of its own.
pub fn parse_public_key(text: &str, hub_key: &VerifyingKey) -> Result<VerifyingKey, BadKey> {
    let key = parse_key(text)?;
    if key == *hub_key { Err(BadKey::HubsOwn) } else { Ok(key) }
}

/// Reads a public key that somebody pinned, as an agent does with the hub's.
pub fn parse_key(text: &str) -> Result<VerifyingKey, BadKey> {
    let bytes: [u8; KEY_LEN] = wire_bytes::decode(text)?;
    if !is_canonical(&bytes) {
        return Err(BadKey::NotAKey);
    }
    let key = VerifyingKey::from_bytes(&bytes).map_err(|_| BadKey::NotAKey)?;
    if key.is_weak() { Err(BadKey::Weak) } else { Ok(key) }
}

/// Whether the y coordinate is below the field's prime, 2^255 - 19. A second spelling of the same key would pass for
/// another key wherever keys are compared as bytes.
fn is_canonical(bytes: &[u8; KEY_LEN]) -> bool {
    let (first, rest) = (bytes[0], &bytes[1..31]);
    !(first >= 0xed && rest.iter().all(|b| *b == 0xff) && bytes[31] & 0x7f == 0x7f)
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::*;

    #[test]
    fn good_keys_pass_and_bad_ones_say_why() {
        let hub = SigningKey::from_bytes(&[1; 32]).verifying_key();
        let agent = SigningKey::from_bytes(&[2; 32]).verifying_key();
        let parse = |bytes: &[u8]| parse_public_key(&wire_bytes::encode(bytes), &hub);
        assert_eq!(parse(agent.as_bytes()), Ok(agent));
        assert_eq!(parse(hub.as_bytes()), Err(BadKey::HubsOwn));
        assert_eq!(parse(&[0; 31]), Err(BadKey::Bytes(BadBytes::Length)));
        assert_eq!(parse_public_key("nonsense!", &hub), Err(BadKey::Bytes(BadBytes::NotBase64)));

        let y = |y: u8| std::array::from_fn::<u8, 32, _>(|i| if i == 0 { y } else { 0 });
        assert_eq!(parse(&y(1)), Err(BadKey::Weak), "the identity");
        assert_eq!(parse(&y(0)), Err(BadKey::Weak), "a point of order four");
        assert_eq!(parse(&y(2)), Err(BadKey::NotAKey), "no point has this y");

        let mut second_spelling = [0xff; 32];
        second_spelling[0] = 0xee; // p + 1, the identity again
        second_spelling[31] = 0x7f;
        assert_eq!(parse(&second_spelling), Err(BadKey::NotAKey));
    }
}
