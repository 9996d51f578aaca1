//! Text that came from outside, made fit to be sent: valid, bounded, on one line where it must be.

/// The text of some bytes, at most `cap` bytes of it. What is no UTF-8 becomes U+FFFD.
pub(crate) fn lossy(bytes: &[u8], cap: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    cut(&text, cap).to_owned()
}

/// The start of a text, at most `cap` bytes, never in the middle of a character.
pub(crate) fn cut(text: &str, cap: usize) -> &str {
    &text[..text.floor_char_boundary(cap)]
}

/// A text on one line, without control characters, at most `chars` characters.
pub(crate) fn one_line(text: &str, chars: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > chars * 4 {
            break;
        }
    }
    match line.char_indices().nth(chars) {
        None => line,
        Some((at, _)) => {
            line.truncate(at);
            line
        }
    }
}

/// `1 disk`, `2 disks`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// `1 process`, `2 processes`.
pub(crate) fn process_count(number: usize) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_cut_is_bounded_and_a_prefix(bytes: Vec<u8>, cap in 0_usize..64) {
            let text = lossy(&bytes, cap);
            prop_assert!(text.len() <= cap);
            prop_assert!(String::from_utf8_lossy(&bytes).starts_with(&text));
        }

        #[test]
        fn a_line_is_a_line(text: String, chars in 0_usize..64) {
            let line = one_line(&text, chars);
            prop_assert!(line.chars().count() <= chars);
            prop_assert!(!line.contains(|c: char| c.is_control()));
        }
    }
}
