//! What OpenAI's models cost, in US dollars per million tokens, as public pages had it in November 2026. A model that
//! is not listed has no price here: a wrong one would be worse than none. Configuration may name others.

use crate::Price;

/// Up to so many input tokens a request to the models marked `short` costs this; beyond, it costs more.
const SHORT: u64 = 272_000;

/// Name, input, input from the cache, output, and whether it holds for short requests only.
type Row = (&'static str, f64, Option<f64>, f64, bool);

const OPENAI: &[Row] = &[
    ("gpt-5.5", 5.0, Some(0.5), 30.0, true),
    ("gpt-5.4", 2.5, Some(0.25), 15.0, true),
    ("gpt-5.4-mini", 0.75, Some(0.075), 4.5, false),
    ("gpt-5.4-nano", 0.2, Some(0.02), 1.25, false),
    ("gpt-5.3-codex", 1.75, Some(0.175), 14.0, false),
    ("gpt-5.2", 1.75, Some(0.175), 14.0, false),
    ("gpt-5.2-codex", 1.75, Some(0.175), 14.0, false),
    ("gpt-5.1", 1.25, Some(0.125), 10.0, false),
    ("gpt-5.1-codex", 1.25, Some(0.125), 10.0, false),
    ("gpt-5", 1.25, Some(0.125), 10.0, false),
    ("gpt-5-codex", 1.25, Some(0.125), 10.0, false),
    ("gpt-5-mini", 0.25, Some(0.025), 2.0, false),
    ("gpt-5-nano", 0.05, Some(0.005), 0.4, false),
    ("gpt-4.1", 2.0, Some(0.5), 8.0, false),
    ("gpt-4.1-mini", 0.4, Some(0.1), 1.6, false),
    ("gpt-4.1-nano", 0.1, Some(0.025), 0.4, false),
    ("gpt-4o", 2.5, Some(1.25), 10.0, false),
    ("gpt-4o-mini", 0.15, Some(0.075), 0.6, false),
    ("o3", 2.0, Some(0.5), 8.0, false),
    ("o3-mini", 1.1, Some(0.55), 4.4, false),
    ("o4-mini", 1.1, Some(0.275), 4.4, false),
];

/// The price of a model by its exact name, or by the name with a date behind it (`gpt-5-2025-08-07`).
pub(super) fn openai(id: &str) -> Option<Price> {
    let (_, input, cached, output, is_short) = OPENAI.iter().find(|(name, ..)| *name == undated(id))?;
    Some(Price {
        input: input / 1e6,
        cached_input: cached.map(|cached| cached / 1e6),
        output: output / 1e6,
        most_input: is_short.then_some(SHORT),
        ..Price::default()
    })
}

fn undated(id: &str) -> &str {
    let Some((name, date)) = id.len().checked_sub(11).and_then(|at| id.split_at_checked(at)) else { return id };
    let digits: Vec<&str> = date.strip_prefix('-').unwrap_or_default().split('-').collect();
    let is_date = matches!(digits.as_slice(), [year, month, day]
        if year.len() == 4 && month.len() == 2 && day.len() == 2
            && digits.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())));
    if is_date { name } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Usage;

    #[test]
    fn only_what_is_listed_has_a_price() {
        let input = |id: &str| openai(id).map(|price| (price.input * 1e6 * 1000.0).round() / 1000.0);
        assert_eq!(input("gpt-5.5"), Some(5.0));
        assert_eq!(input("gpt-5-2025-08-07"), Some(1.25));
        assert_eq!(input("gpt-5.4-mini"), Some(0.75));
        for unknown in ["gpt-5.3-codex-spark", "gpt-5.5-pro", "gpt-6", "gpt-5-2025-8-7", "gpt-5x2025-08-07", "", "é"]
        {
            assert_eq!(input(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_request_for_which_it_does_not_hold_has_none() {
        let price = openai("gpt-5.5").unwrap();
        let usage = |input| Usage { input, output: 1_000_000, ..Usage::default() };
        assert_eq!(price.cost(&usage(200_000)), Some(1.0 + 30.0));
        assert_eq!(price.cost(&usage(300_000)), None);
    }
}
