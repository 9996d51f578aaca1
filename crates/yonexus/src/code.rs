//! Pairing codes: three groups of four from an alphabet without look-alikes, `H7KM-2QXR-9TDE`. 58 bits, five guesses.

use convoke_core::secret::SecretText;
use subtle::ConstantTimeEq as _;

/// Without `0 O 1 I L U`: a person reads it off one screen and types it into another.
const ALPHABET: &[u8; 30] = b"ABCDEFGHJKMNPQRSTVWXYZ23456789";
/// Characters without the hyphens.
const LENGTH: usize = 12;
/// Random bytes that [`PairingCode::new`] wants: those that would favour some characters are skipped.
pub const RANDOM: usize = 48;

/// Wrong codes that burn one.
pub const MAX_WRONG: u8 = 5;

/// A code. It does not print; whoever may see it asks for it by name.
#[derive(Clone, Debug)]
pub struct PairingCode(SecretText);

impl PairingCode {
    /// A code from random bytes.
    pub fn new(random: &[u8; RANDOM]) -> Self {
        // 240 is the largest multiple of 30 in a byte: beyond it the first characters would come more often.
        let fair = random.iter().filter(|byte| **byte < 240).map(|byte| ALPHABET[usize::from(byte % 30)]);
        // Fewer than twelve fair bytes of 48 come once in 10^26; then the rest are the first character.
        let characters: Vec<u8> = fair.chain(std::iter::repeat(ALPHABET[0])).take(LENGTH).collect();
        let groups: Vec<&str> =
            characters.chunks(4).map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
        Self(SecretText::new(groups.join("-")))
    }

    /// A code as it was kept.
    pub fn kept(text: SecretText) -> Self {
        Self(text)
    }

    /// The text, for the notifiers, for an operator who may pair, and for the sealed store. Never for a frame.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// Whether this is the code, ignoring case, hyphens and spaces, in constant time.
    pub fn matches(&self, typed: &SecretText) -> bool {
        let typed = normal(typed.reveal());
        let own = normal(self.0.reveal());
        // The length of a code is known to everyone.
        own.ct_eq(&typed).into()
    }
}

/// What counts of a typed code; at most one character more than a code has, so that a long text is no work.
fn normal(text: &str) -> Vec<u8> {
    let counts = |c: &char| !matches!(c, '-' | ' ' | '\t' | '\r' | '\n');
    let fold = |c: char| if c.is_ascii() { c.to_ascii_uppercase() as u8 } else { 0 };
    text.chars().take(256).filter(counts).map(fold).take(LENGTH + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_three_groups_of_four_without_look_alikes() {
        let mut random = [0; RANDOM];
        for (i, byte) in random.iter_mut().enumerate() {
            *byte = (i * 37) as u8;
        }
        let code = PairingCode::new(&random);
        let text = code.reveal();
        assert_eq!(text.len(), 14);
        assert_eq!(text.split('-').map(str::len).collect::<Vec<_>>(), [4, 4, 4]);
        assert!(!text.contains(|c| "0O1ILU".contains(c)), "{text}");
        assert!(!format!("{code:?}").contains(text));
        assert_eq!(PairingCode::new(&[255; RANDOM]).reveal().len(), 14, "even from a broken source");
    }

    #[test]
    fn case_hyphens_and_spaces_do_not_matter_and_everything_else_does() {
        let code = PairingCode::kept(SecretText::new("H7KM-2QXR-9TDE"));
        for good in ["H7KM-2QXR-9TDE", "h7km2qxr9tde", " H7KM 2QXR 9TDE\n"] {
            assert!(code.matches(&SecretText::new(good)), "{good:?}");
        }
        for bad in ["", "H7KM-2QXR-9TDF", "H7KM-2QXR-9TD", "H7KM-2QXR-9TDEE", "H7KM_2QXR_9TDE", "Ħ7KM-2QXR-9TDE"] {
            assert!(!code.matches(&SecretText::new(bad)), "{bad:?}");
        }
    }
}
