//! Which memories fit an input, and why.

use std::collections::BTreeSet;

use convoke_core::time::Timestamp;
use convoke_kward::results::{MemoryReason, MemoryWhy};
use serde_json::Value;

use super::store::is_active;

/// Most of each kind.
const MOST: usize = 6;

/// Most words of an overlap that are shown.
const SHOWN_TERMS: usize = 5;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Picks memories for an input.
pub(super) fn retrieve(core: &[Value], soft: &[Value], scopes: &[String], input: &str, now: Timestamp) -> MemoryWhy {
    let is_in_scope = |memory: &&Value| {
        let scope = memory["scope"].as_str().unwrap_or("global");
        scopes.iter().any(|one| one == scope)
    };
    let mut why = MemoryWhy { enabled: true, scopes: scopes.to_vec(), ..MemoryWhy::default() };
    for memory in core.iter().filter(is_in_scope).take(MOST) {
        why.reasons.push(MemoryReason {
            id: id(memory),
            layer: "core".into(),
            score: 1.0,
            reasons: vec!["scope match".into(), "core memories are preferred".into()],
        });
        why.core.push(memory.clone());
    }
    let terms = terms(input);
    let live = soft.iter().filter(is_in_scope).filter(|memory| is_active(memory) && !is_expired(memory, now));
    let mut scored: Vec<(MemoryReason, &Value)> =
        live.filter_map(|memory| Some((score(memory, &terms)?, memory))).collect();
    scored.sort_by(|(a, am), (b, bm)| {
        let confidence = |memory: &Value| memory["confidence"].as_f64().unwrap_or(0.0);
        b.score
            .total_cmp(&a.score)
            .then_with(|| confidence(bm).total_cmp(&confidence(am)))
            .then_with(|| a.id.cmp(&b.id))
    });
    for (reason, memory) in scored.into_iter().take(MOST) {
        why.reasons.push(reason);
        why.soft.push(memory.clone());
    }
    if why.reasons.is_empty() {
        why.message = Some("No memories matched the last input.".into());
    }
    why.explanation = explanation(&why);
    why
}

/// The block that the model reads.
pub(super) fn block(why: &MemoryWhy) -> String {
    if why.core.is_empty() && why.soft.is_empty() {
        return String::new();
    }
    let mut out = String::from("<kward_memory>\n");
    for (heading, memories) in [("Core memories", &why.core), ("Soft memories", &why.soft)] {
        if !memories.is_empty() {
            out.push_str(&format!("{heading}:\n"));
            for memory in memories {
                out.push_str(&format!("- [{}] {}\n", id(memory), memory["text"].as_str().unwrap_or_default()));
            }
        }
    }
    out.push_str("Core memories count more than soft ones. Soft memories are hints, not facts.\n</kward_memory>");
    out
}

pub(crate) fn explanation(why: &MemoryWhy) -> String {
    if why.reasons.is_empty() {
        return why.message.clone().unwrap_or_default();
    }
    let texts = why.core.iter().chain(&why.soft);
    let lines = why.reasons.iter().zip(texts).map(|(reason, memory)| {
        let text = memory["text"].as_str().unwrap_or_default();
        format!("{} ({:.2}): {text} [{}]", reason.id, reason.score, reason.reasons.join("; "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn score(memory: &Value, terms: &BTreeSet<String>) -> Option<MemoryReason> {
    let text = super::retrieve::terms(memory["text"].as_str().unwrap_or_default());
    let tags = memory["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let tags: BTreeSet<String> = tags.map(str::to_lowercase).collect();
    let common = |of: &BTreeSet<String>| -> Vec<String> { of.intersection(terms).cloned().collect() };
    let (in_text, in_tags) = (common(&text), common(&tags));
    if in_text.is_empty() && in_tags.is_empty() {
        return None;
    }
    let confidence = memory["confidence"].as_f64().unwrap_or(0.0);
    let mut score = confidence + (0.15 * in_text.len() as f64).min(0.45);
    let mut reasons = vec!["scope match".to_owned()];
    if !in_text.is_empty() {
        reasons.push(format!("text overlap: {}", in_text[..in_text.len().min(SHOWN_TERMS)].join(", ")));
    }
    if !in_tags.is_empty() {
        score += 0.25;
        reasons.push(format!("tag overlap: {}", in_tags.join(", ")));
    }
    reasons.push(format!("confidence {confidence:.2}"));
    Some(MemoryReason { id: id(memory), layer: "soft".into(), score: (score * 1e3).round() / 1e3, reasons })
}

/// Words of three or more letters, digits, `_` and `-`.
fn terms(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let text = text.to_lowercase();
    text.split(|c| !is_word(c)).filter(|word| word.len() >= 3).map(str::to_owned).collect()
}

fn is_expired(memory: &Value, now: Timestamp) -> bool {
    let Some(seen) = memory["last_seen_at"].as_str().and_then(Timestamp::parse) else { return false };
    // One without a time to live stays.
    let Some(days) = memory["ttl_days"].as_i64().filter(|days| *days > 0) else { return false };
    seen.millis().saturating_add(days.saturating_mul(DAY_MS)) < now.millis()
}

fn id(memory: &Value) -> String {
    memory["id"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn soft(id: &str, text: &str, extra: Value) -> Value {
        let mut memory =
            json!({ "id": id, "text": text, "scope": "global", "tags": [], "confidence": 0.65, "status": "active" });
        memory.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        memory
    }

    #[test]
    fn what_fits_comes_up_with_its_reasons() {
        let now = Timestamp::parse("2026-03-10T00:00:00Z").unwrap();
        let core = [
            json!({ "id": "core_001", "text": "x" }),
            json!({ "id": "core_002", "text": "x", "scope": "workspace:/other" }),
        ];
        let all = [
            soft("soft_001", "Prefers tabs in Rust", json!({})),
            soft("soft_002", "Prefers tabs", json!({ "tags": ["rust"] })),
            soft("soft_003", "Rust", json!({ "status": "forgotten" })),
            soft("soft_004", "Rust", json!({ "last_seen_at": "2026-01-01T00:00:00Z", "ttl_days": 60 })),
            soft("soft_005", "Rust", json!({ "scope": "workspace:/other" })),
            soft("soft_006", "Something else", json!({})),
            soft("soft_007", "Rust", json!({ "last_seen_at": "2020-01-01T00:00:00Z", "ttl_days": 0 })),
        ];
        let why = retrieve(&core, &all, &["global".into(), "workspace:/w".into()], "use rust tabs", now);
        let ids: Vec<_> = why.reasons.iter().map(|reason| (reason.id.as_str(), reason.score)).collect();
        assert_eq!(ids, [("core_001", 1.0), ("soft_002", 1.05), ("soft_001", 0.95), ("soft_007", 0.8)]);
        assert_eq!(
            why.reasons[1].reasons,
            ["scope match", "text overlap: tabs", "tag overlap: rust", "confidence 0.65"]
        );
        assert!(block(&why).contains("- [soft_002] Prefers tabs\n"));
        assert!(why.explanation.starts_with("core_001 (1.00): x"));
    }

    #[test]
    fn without_a_match_nothing_is_told_to_the_model() {
        let why = retrieve(&[], &[], &["global".into()], "x", Timestamp::from_millis(0));
        assert_eq!(block(&why), "");
        assert!(why.message.is_some());
    }
}
