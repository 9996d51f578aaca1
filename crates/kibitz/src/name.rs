//! What a room is called. Two spellings of a name are one room, as in every program of the field.

/// Longest name.
pub const MAX_NAME: usize = 40;

/// The room that a text names: lower case, every run of other characters a hyphen, none at the ends, then cut. `None`
/// when nothing is left. The order matters: a cut may leave a hyphen at the end, and programs of the field do so too.
pub fn normal(text: &str) -> Option<String> {
    let mut name = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
        // Far beyond what is kept, and short of what a stranger could make us copy.
        if name.len() > 4 * MAX_NAME {
            break;
        }
    }
    let trimmed = name.trim_matches('-');
    let cut = &trimmed[..trimmed.len().min(MAX_NAME)];
    (!cut.is_empty()).then(|| cut.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_field_makes_of_them() {
        for (text, name) in [
            ("My Room", "my-room"),
            ("  Hello, World!  ", "hello-world"),
            ("café ☕ chat", "caf-chat"),
            ("standup", "standup"),
        ] {
            assert_eq!(normal(text).as_deref(), Some(name));
        }
        assert_eq!(normal(&"x".repeat(50)), Some("x".repeat(40)));
        assert_eq!(
            normal(&format!("{} y", "x".repeat(39))),
            Some(format!("{}-", "x".repeat(39))),
            "cut after trimming"
        );
        for nothing in ["", " ", "☕", "---"] {
            assert_eq!(normal(nothing), None);
        }
    }
}
