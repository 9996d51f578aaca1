//! Agent versions, compared as three numbers: all that decides whether `hub.update_available` is sent.

/// Whether `latest` is newer than `current`. What is no number counts as 0, as in the field; a pre-release's suffix
/// does not count.
pub fn is_newer(latest: &str, current: &str) -> bool {
    parts(latest) > parts(current)
}

fn parts(version: &str) -> [u64; 3] {
    let mut numbers = version.trim().trim_start_matches('v').split('.').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part[..digits].parse().unwrap_or(0)
    });
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        for (latest, current, newer) in [
            ("0.2.11", "0.2.9", true),
            ("0.2.9", "0.2.11", false),
            ("1.0", "0.9.9", true),
            ("1.0.0", "1.0.0", false),
            ("v2.0.0", "1.9.0", true),
            ("1.0.1-rc.1", "1.0.0", true),
            ("nonsense", "0.0.0", false),
        ] {
            assert_eq!(is_newer(latest, current), newer, "{latest} {current}");
        }
    }
}
