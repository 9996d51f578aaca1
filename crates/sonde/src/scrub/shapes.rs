//! Secrets that show by their form alone.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::REDACTED;

struct Shape {
    /// Cheap to look for: a text without it is not searched.
    hint: &'static str,
    pattern: LazyLock<Regex>,
    replacement: &'static str,
}

macro_rules! shape {
    ($hint:literal, $pattern:literal, $replacement:literal) => {
        Shape {
            hint: $hint,
            pattern: LazyLock::new(|| Regex::new($pattern).expect("a fixed pattern")),
            replacement: $replacement,
        }
    };
}

static SHAPES: [Shape; 22] = [
    // A private key with its end, or without it to the end of the text.
    shape!(
        "-----BEGIN",
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|\z)",
        "[REDACTED]"
    ),
    shape!("eyJ", r"\beyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{2,}(\.[A-Za-z0-9_-]*)?", "[REDACTED]"),
    shape!("AKIA", r"\bAKIA[0-9A-Z]{16}\b", "[REDACTED]"),
    shape!("ASIA", r"\bASIA[0-9A-Z]{16}\b", "[REDACTED]"),
    shape!("AIza", r"\bAIza[0-9A-Za-z_-]{35}", "[REDACTED]"),
    shape!("ya29.", r"\bya29\.[0-9A-Za-z_-]{20,}", "[REDACTED]"),
    shape!("gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b", "[REDACTED]"),
    shape!("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}\b", "[REDACTED]"),
    shape!("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}", "[REDACTED]"),
    shape!("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}", "[REDACTED]"),
    shape!("hooks.slack.com", r"hooks\.slack\.com/services/[A-Za-z0-9/]+", "hooks.slack.com/services/[REDACTED]"),
    shape!("k_", r"\b[srp]k_(live|test)_[A-Za-z0-9]{16,}\b", "[REDACTED]"),
    shape!("sk-", r"\bsk-[A-Za-z0-9_-]{20,}", "[REDACTED]"),
    shape!("npm_", r"\bnpm_[A-Za-z0-9]{36}\b", "[REDACTED]"),
    shape!("dop_v1_", r"\bdop_v1_[a-f0-9]{64}\b", "[REDACTED]"),
    shape!("SG.", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "[REDACTED]"),
    shape!("AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}", "[REDACTED]"),
    shape!("hvs.", r"\bhvs\.[A-Za-z0-9_-]{24,}", "[REDACTED]"),
    // The password of a URL, up to the last @ before a space: it may hold anything. A port is none.
    shape!(
        "://",
        r#"(?P<head>[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@"'<>?#]*):(?P<pass>[^\s"'<>/]+|[^\s"'<>/@]*[^\s"'<>/@0-9][^\s"'<>/@]*/[^\s"'<>@]*)@"#,
        "${head}:[REDACTED]@"
    ),
    shape!(
        "earer",
        r"(?i)\b(?P<head>bearer)\s+[A-Za-z0-9._~+/=-]*[0-9._~+/=][A-Za-z0-9._~+/=-]*",
        "${head} [REDACTED]"
    ),
    shape!("EARER", r"\b(?P<head>BEARER)\s+[A-Za-z0-9._~+/=-]*[0-9._~+/=][A-Za-z0-9._~+/=-]*", "${head} [REDACTED]"),
    shape!("asic ", r"(?P<head>[Bb]asic) +[A-Za-z0-9+/]{8,}={0,2}", "${head} [REDACTED]"),
];

pub(super) fn scrub(text: &str) -> String {
    let mut out = Cow::Borrowed(text);
    for shape in &SHAPES {
        if out.contains(shape.hint) && shape.pattern.is_match(&out) {
            out = Cow::Owned(shape.pattern.replace_all(&out, shape.replacement).into_owned());
        }
    }
    debug_assert!(REDACTED.starts_with('['), "the patterns above write it out");
    out.into_owned()
}

/// Whether a private key begins in this text, and whether one ends in it.
pub(super) fn pem_edges(text: &str) -> (bool, bool) {
    let edge = |word: &str| text.match_indices(word).any(|(at, _)| text[at..].contains("PRIVATE KEY"));
    (edge("-----BEGIN "), edge("-----END "))
}
