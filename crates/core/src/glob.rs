//! Globs for scopes and rules: `*` stands for any run of characters, everything else for itself.

/// Whether `text` matches `pattern`. Linear in practice and never exponential: on a mismatch only the last `*` is
/// tried again, which is enough because an earlier one could only match less.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (p, t) = (pattern.as_bytes(), text.as_bytes());
    let (mut pi, mut ti) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while ti < t.len() {
        if pi < p.len() && p[pi] == b'*' {
            retry = Some((pi + 1, ti));
            pi += 1;
        } else if pi < p.len() && p[pi] == t[ti] {
            pi += 1;
            ti += 1;
        } else if let Some((star, from)) = retry {
            pi = star;
            ti = from + 1;
            retry = Some((star, from + 1));
        } else {
            return false;
        }
    }
    p[pi..].iter().all(|&b| b == b'*')
}

/// Whether any of `patterns` matches.
pub fn any_matches<P: AsRef<str>>(patterns: &[P], text: &str) -> bool {
    patterns.iter().any(|p| matches(p.as_ref(), text))
}

/// Whether a pattern could be meant for names: of tools, agents or tags. What other globs use, `?`, `!`, brackets and lists,
/// would stand for itself here, and no name has it: such a pattern matches nothing, and looks as if it did.
pub fn is_for_names(pattern: &str) -> bool {
    pattern.bytes().all(|b| b.is_ascii_alphanumeric() || b"*._:-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_literals() {
        for (pattern, text, expect) in [
            ("*", "", true),
            ("*", "anything", true),
            ("fs_*", "fs_read", true),
            ("fs_*", "fs_", true),
            ("fs_*", "diag_fs_", false),
            ("*_exec", "shell_exec", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a.c", "abc", false),
            ("", "", true),
            ("", "x", false),
            ("**x", "x", true),
        ] {
            assert_eq!(matches(pattern, text), expect, "{pattern} / {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_regex(pattern in "[ab*]{0,8}", text in "[ab]{0,12}") {
            let regex = format!("^{}$", pattern.replace('*', ".*"));
            let regex = regex::Regex::new(&regex).expect("letters and .* only");
            proptest::prop_assert_eq!(matches(&pattern, &text), regex.is_match(&text));
        }
    }
}
