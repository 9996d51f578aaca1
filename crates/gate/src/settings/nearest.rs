//! Which setting a mistyped name may have meant.

use super::table::SETTINGS;

/// How alike two names must be, from 0 to 1, for one to be taken for the other.
const ALIKE: f64 = 0.8;
/// Most names that are offered.
const MOST: usize = 3;

/// The settings that a name may have meant, best first.
pub(super) fn to(name: &str) -> Vec<&'static str> {
    let names = || SETTINGS.iter().map(|setting| setting.name);
    // One underscore for the dot, as a variable is easily written.
    let plain = |name: &str| name.replace('.', "_");
    if let Some(same) = names().find(|known| plain(known) == plain(name)) {
        return vec![same];
    }
    let alike = names().map(|known| (strsim::normalized_damerau_levenshtein(known, name), known));
    let best = alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(alike, _)| *alike >= ALIKE);
    if let Some((_, best)) = best {
        return vec![best];
    }
    // The right name in the wrong group, or in none.
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    names().filter(|known| last(known) == last(name)).take(MOST).collect()
}

/// A question after them, or nothing.
pub(super) fn hint(like: &[String]) -> String {
    if like.is_empty() {
        return String::new();
    }
    let quoted: Vec<_> = like.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}?", quoted.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_offered_and_nothing_else() {
        for (name, meant) in [
            ("kenny_heartbeat_s", &["kenny.heartbeat_s"][..]),
            ("kenny.hartbeat_s", &["kenny.heartbeat_s"]),
            ("kenny.heartbeat", &["kenny.heartbeat_s"]),
            ("calls.defualt_timeout_s", &["calls.default_timeout_s"]),
            ("heartbeat_s", &["kenny.heartbeat_s", "sonde.heartbeat_s"]),
            ("hub.heartbeat_s", &["kenny.heartbeat_s", "sonde.heartbeat_s"]),
            ("drain_s", &["hub.drain_s"]),
            ("kenny.colour", &[]),
            ("x", &[]),
        ] {
            assert_eq!(to(name), meant, "{name}");
        }
        assert_eq!(hint(&[]), "");
        assert_eq!(hint(&["a".into(), "b".into()]), "; did you mean `a` or `b`?");
    }
}
