//! What is worth remembering in what a person said. Better too little than something they did not mean.

/// Most that is taken from one look.
const MOST: usize = 5;

const MARKERS: [&str; 5] =
    ["important information", "remember this", "please remember", "remember that", "note that"];
const WHO: [&str; 5] = ["i", "we", "user", "captain", "our"];
const HABITS: [&str; 14] = [
    "prefer",
    "prefers",
    "usually",
    "always",
    "never",
    "workflow",
    "project",
    "use",
    "uses",
    "avoid",
    "avoids",
    "like",
    "likes",
    "convention",
];
const FEELINGS: [&str; 16] = [
    "feel",
    "feeling",
    "hate",
    "hated",
    "love",
    "loved",
    "angry",
    "sad",
    "upset",
    "frustrated",
    "annoyed",
    "afraid",
    "lonely",
    "depressed",
    "furious",
    "sorry",
];

/// Texts that may become memories: each once, five at most.
pub(super) fn candidates<'a>(said: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in said {
        for sentence in text.split(['\n', '.', ';']).map(str::trim) {
            let Some(candidate) = candidate(sentence) else { continue };
            if found.len() < MOST && !found.iter().any(|known| known.eq_ignore_ascii_case(&candidate)) {
                found.push(candidate);
            }
        }
    }
    found
}

fn candidate(sentence: &str) -> Option<String> {
    let fits = |text: &str| (8..=300).contains(&text.chars().count());
    let lower = sentence.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|w| !w.is_empty()).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    // A question tells nothing, and a mood is nobody's business later on.
    if sentence.ends_with('?') || has(&FEELINGS) {
        return None;
    }
    // Lower case may be longer or shorter; the marker is looked for where the bytes still agree.
    let marked = MARKERS.iter().find_map(|marker| {
        let at = lower.find(marker)? + marker.len();
        let rest = lower.get(at..)?.trim_start_matches([':', ',', ' ']);
        let rest = sentence.get(sentence.len().checked_sub(rest.len())?..)?;
        fits(rest).then(|| rest.to_owned())
    });
    marked.or_else(|| (has(&WHO) && has(&HABITS) && fits(sentence)).then(|| sentence.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_and_what_is_marked_are_found() {
        let said = "Please fix the parser. We always use tabs in this project; I feel we always use tabs\nPlease remember: deploys happen on Friday\nDo we use tabs?";
        assert_eq!(candidates([said]), ["We always use tabs in this project", "deploys happen on Friday"]);
    }

    #[test]
    fn little_is_taken_and_nothing_twice() {
        let many: Vec<String> = (0..9).map(|n| format!("We always use tool number {n}")).collect();
        assert_eq!(candidates(many.iter().map(String::as_str)).len(), MOST);
        assert_eq!(candidates(["we prefer tabs here", "We prefer tabs here"]).len(), 1);
        assert_eq!(candidates(["İ note that ßß: ok", "note that", "we use"]).len(), 0);
    }
}
