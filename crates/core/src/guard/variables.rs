//! What a variable holds, as far as the text says so: `d=/etc; rm -rf $d`, `for f in /etc/*; do rm -rf $f; done`, and
//! `rm -rf ${x:-/}`. What a program or a person puts into one is not known.
//!
//! It works on normalised text, whose quotes are gone.

use std::collections::HashMap;

use super::expand::ends_word;

/// Most variables that are kept in mind.
const MAX_VARIABLES: usize = 64;
/// Most words that one holds.
const MAX_VALUES: usize = 32;
/// Longest word that one holds.
const MAX_VALUE: usize = 256;
/// What this may add to a text altogether.
const MAX_ADDED: usize = 16 << 10;

/// Names whose values rules and `guard/place.rs` know by themselves.
const KNOWN: &[&str] = &["HOME", "PWD", "OLDPWD", "IFS", "PATH"];

/// Words that a command may follow.
const BEFORE_COMMAND: &[&str] = &["then", "else", "do", "{", "export", "local", "declare", "readonly", "typeset"];

/// The text with what is known of its variables in their place; none when that is the same text.
pub(super) fn filled(text: &str) -> Option<String> {
    if !text.contains('$') || !(text.contains('=') || text.contains("for ") || text.contains("${")) {
        return None;
    }
    let mut known: HashMap<&str, Vec<String>> = HashMap::new();
    let (mut out, mut left, mut found) = (String::with_capacity(text.len()), MAX_ADDED, false);
    let (mut begins, mut heading, mut rest) = (true, None::<Heading<'_>>, text);
    while !rest.is_empty() {
        let (word, tail) = rest.split_at(word_end(rest));
        let mut written = vec![word.to_owned()];
        if word.contains('$')
            && let Some(words) = replaced(word, &known)
        {
            let added = words.iter().map(|word| word.len() + 1).sum::<usize>().saturating_sub(word.len());
            if let Some(room) = left.checked_sub(added) {
                (left, found, written) = (room, true, words);
            }
        }
        out.push_str(&written.join(" "));
        let between = tail.chars().next();
        match &mut heading {
            Some(heading) if !word.is_empty() => heading.read(word, written),
            None if begins && word == "for" => heading = Some(Heading::default()),
            None if begins && !word.is_empty() => {
                if let Some((name, value)) = word.split_once('=').filter(|(name, _)| is_name(name)) {
                    // `$(…)` is cut by its parenthesis, and what it says is not known.
                    let told = !matches!(between, Some('(' | '`')) && !value.ends_with('$');
                    let values = written.iter().map(|word| word.split_once('=').map_or("", |(_, value)| value));
                    set(&mut known, name, told.then(|| values.map(str::to_owned).collect()));
                } else {
                    begins = BEFORE_COMMAND.contains(&word);
                }
            }
            _ => {}
        }
        let Some(between) = between else { break };
        out.push(between);
        rest = &tail[between.len_utf8()..];
        if !between.is_whitespace() || between == '\n' {
            begins = true;
            if let Some(Heading { name: Some(name), values, .. }) = heading.take() {
                // The words of a `for` are also those of a command or a file that is not known.
                let told = matches!(between, ';' | '\n') && !values.is_empty();
                set(&mut known, name, told.then_some(values));
            }
        }
    }
    found.then_some(out)
}

/// Where the word ends that the text begins with. A `$` with braces is one word up to the closing one.
fn word_end(text: &str) -> usize {
    let mut in_braces = false;
    for (at, c) in text.char_indices() {
        match c {
            '{' if text[..at].ends_with('$') => in_braces = true,
            '}' => in_braces = false,
            // A default may have more than one word.
            ' ' if in_braces && text[at..].len() > 1 && text[at..].bytes().take(64).any(|byte| byte == b'}') => {}
            c if ends_word(c) => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b == b'_' || b.is_ascii_alphabetic())
        && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric())
        && !KNOWN.contains(&name)
}

/// Keeps what a variable holds, or forgets it.
fn set<'t>(known: &mut HashMap<&'t str, Vec<String>>, name: &'t str, values: Option<Vec<String>>) {
    let fits = |values: &Vec<String>| {
        values.len() <= MAX_VALUES && values.iter().all(|value| value.len() <= MAX_VALUE && !value.contains('$'))
    };
    match values.filter(fits) {
        Some(values) if known.len() < MAX_VARIABLES || known.contains_key(name) => drop(known.insert(name, values)),
        _ => drop(known.remove(name)),
    }
}

/// `for name in words`, as far as it has been read.
#[derive(Default)]
struct Heading<'t> {
    name: Option<&'t str>,
    has_in: bool,
    values: Vec<String>,
}

impl<'t> Heading<'t> {
    fn read(&mut self, word: &'t str, written: Vec<String>) {
        if self.name.is_none() {
            self.name = is_name(word).then_some(word);
        } else if !self.has_in {
            self.has_in = word == "in";
        } else if self.values.len() <= MAX_VALUES {
            self.values.extend(written);
        }
    }
}

/// The words that a word with variables stands for, if any of them is known.
fn replaced(word: &str, known: &HashMap<&str, Vec<String>>) -> Option<Vec<String>> {
    let (mut words, mut rest, mut found) = (vec![String::new()], word, false);
    while let Some(at) = rest.find('$') {
        let (before, dollar) = rest.split_at(at);
        words.iter_mut().for_each(|word| word.push_str(before));
        let (len, values) = variable(dollar, known);
        rest = &dollar[len..];
        match values {
            Some(values) if words.len() * values.len().max(1) <= MAX_VALUES => {
                found = true;
                words =
                    words.iter().flat_map(|word| values.iter().map(move |value| format!("{word}{value}"))).collect();
            }
            _ => words.iter_mut().for_each(|word| word.push_str(&dollar[..len])),
        }
    }
    words.iter_mut().for_each(|word| word.push_str(rest));
    found.then_some(words)
}

/// How long the variable is that the text begins with, and what it holds.
fn variable(text: &str, known: &HashMap<&str, Vec<String>>) -> (usize, Option<Vec<String>>) {
    let inside = text.strip_prefix("${").and_then(|inside| inside.split_once('}').map(|(inside, _)| inside));
    let name_in =
        |text: &str| text.bytes().position(|b| b != b'_' && !b.is_ascii_alphanumeric()).unwrap_or(text.len());
    let Some(inside) = inside else {
        let name = &text[1..1 + name_in(&text[1..])];
        return (1 + name.len(), known.get(name).cloned());
    };
    let (name, operation) = inside.split_at(name_in(inside));
    let default = || {
        let default = operation.strip_prefix(':').unwrap_or(operation).strip_prefix(['-', '='])?;
        (is_name(name) && !default.contains('$')).then(|| vec![default.to_owned()])
    };
    // `${d:?}` and `${d%/}` are `$d` as far as a rule cares; `${d[0]}` and `${#d}` are something else.
    let same = !operation.starts_with('[') && !operation.starts_with(":+");
    (inside.len() + 3, known.get(name).filter(|_| same).cloned().or_else(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(text: &str, expect: &str) {
        assert_eq!(filled(text).as_deref().unwrap_or(text), expect, "{text}");
    }

    #[test]
    fn what_the_text_says_is_filled_in() {
        for (text, expect) in [
            ("d=/etc; rm -rf $d", "d=/etc; rm -rf /etc"),
            ("d=/etc\nrm -rf ${d:?}/x $d.bak", "d=/etc\nrm -rf /etc/x /etc.bak"),
            ("export A=/ B=b && ls $A$B", "export A=/ B=b && ls /b"),
            ("a=/e; b=${a}tc; ls $b", "a=/e; b=/etc; ls /etc"),
            ("for f in /etc/* x; do rm $f/y; done", "for f in /etc/* x; do rm /etc/*/y x/y; done"),
            ("for f in a b\ndo\nls $f\ndone", "for f in a b\ndo\nls a b\ndone"),
            ("rm -rf ${x:-/} ${y-a b}", "rm -rf / a b"),
            ("d=; rm -rf $d/", "d=; rm -rf /"),
            ("if true; then d=/; fi; ls $d", "if true; then d=/; fi; ls /"),
        ] {
            becomes(text, expect);
        }
    }

    #[test]
    fn what_is_not_known_stays() {
        for text in [
            "d=$(mktemp -d); rm -rf $d",
            "d=`pwd`; rm -rf $d",
            "d=$1; rm -rf $d ${d}",
            "d=/etc; d=$(x); rm -rf $d",
            "for f in $(ls); do rm $f; done",
            "for f in *; do ls; done; HOME=/x ls $HOME",
            "ls a=b $a ${#x} ${x:+y} $? $$ $",
            "A=/etc; ls ${A[0]} '$'",
        ] {
            becomes(text, text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_filled_within_bounds(
            text in r"(for |in |do |a=|b=|\$a|\$\{a|\$b|[}:\-;|&()` \n/é{]|x){0,80}",
        ) {
            if let Some(form) = filled(&text) {
                proptest::prop_assert!(form.len() <= text.len() + MAX_ADDED, "{form}");
            }
        }
    }
}
