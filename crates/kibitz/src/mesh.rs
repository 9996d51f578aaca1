//! The mesh of the field: PeerJS data channels between browsers, agents and the room's authority.
//!
//! Who is there is told over one connection from each participant to the authority (the *presence* of [`presence`]);
//! what is said goes directly between participants, each of whom holds the others to their grants ([`enforce`]).
//!
//! | module | what it is |
//! | --- | --- |
//! | [`pack`] | BinaryPack, the serialisation of the data channels |
//! | [`chunk`] | messages that are larger than one piece |
//! | [`presence`] | the authority's side of presence, in front of [`crate::room::Room`] |
//! | [`enforce`] | a participant's side: whose content counts, and who is sent what |
//! | [`participant`] | a participant's side: announcing itself, whom to dial, what happens |

pub mod chunk;
pub mod enforce;
pub mod pack;
pub mod participant;
pub mod presence;

/// What the broker's ids of rooms begin with.
pub const ROOM_PREFIX: &str = "kbz-v1-";

/// The id at the broker of a room's authority. `room` is in its normal form.
pub fn room_peer(room: &str) -> String {
    format!("{ROOM_PREFIX}{room}")
}

/// A certificate's fingerprint (its SHA-256), as assertions and session descriptions have it, in lower case.
pub fn fingerprint(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Whether `ours` dials and `theirs` answers: of two the smaller does, as the browser compares texts.
pub fn dials(ours: &str, theirs: &str) -> bool {
    ours.encode_utf16().lt(theirs.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_one_dials() {
        assert!(dials("a", "b") && !dials("b", "a") && !dials("a", "a"));
        assert!(dials("Z", "a") && dials("a", "ab"));
        // By UTF-16 units the surrogate comes first, by characters last.
        assert!(dials("\u{1f600}", "\u{ffff}"));
    }

    #[test]
    fn a_fingerprint_is_written_in_pairs() {
        assert_eq!(fingerprint(&[0, 0xab, 0x1]), "00:ab:01");
        assert_eq!(room_peer("standup"), "kbz-v1-standup");
    }
}
