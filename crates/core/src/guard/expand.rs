//! What a POSIX shell makes of the words of a command before it runs it, as far as the text alone tells: braces, `.`
//! and `..`, wildcards that fit the name of something protected, and where a relative word is. What a variable holds is not known.
//!
//! It works on the normalised text, whose quotes are gone. A quoted `{a,b}` or `*` is therefore expanded too, which
//! matters to few commands: the text as it was sent is matched beside this form.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::place::{self, Shell};
use super::{fetched, variables};

/// Most words that one word with braces becomes; one that would become more is left as it is.
const MAX_WORDS: usize = 64;
/// Longest word whose braces are looked at.
const MAX_BRACED: usize = 512;
/// What braces may add to a text altogether: matching costs as much as there is to match.
const MAX_ADDED: usize = 16 << 10;

/// Names that a wildcard may stand for, and how many of its characters must be no wildcard. `/etc/*` reads a hundred
/// files beside the one, and `cat i*` hardly means a key. See also [`BY_BOTH_ENDS`].
const NAMES: &[(&str, usize)] = &[
    ("etc", 1),
    ("shadow", 1),
    ("gshadow", 2),
    (".ssh", 3),
    (".aws", 3),
    (".kube", 3),
    (".gnupg", 3),
    (".netrc", 3),
    (".pgpass", 3),
    (".git-credentials", 5),
    ("id_rsa", 3),
    ("id_ed25519", 3),
    ("id_ecdsa", 3),
    ("id_dsa", 3),
    ("krb5.keytab", 6),
    ("convoke", 4),
    ("data.key", 6),
    ("hub.db", 5),
    ("sonde.json", 6),
];

/// Of those, the names that a path also means when it gives the first character and the last one: `data/d*y`.
const BY_BOTH_ENDS: &[&str] = &["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "data.key", "hub.db", "sonde.json"];

/// Tests of `find` that everything passes: `find /etc -true -delete` is `find /etc -delete`.
static NARROWS_NOTHING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"[ \t]+(?:-(?:true|readable|writable|executable|follow|daystart|ignore_readdir_race|d|ls|or?|and?|i?(?:path|wholename|regex)[ \t]+[/.*?]+|size[ \t]+(?:\+0|-[0-9]{2,})[a-zA-Z]?|links[ \t]+\+0|perm[ \t]+[-/]0+|newer[acm]t[ \t]+\S+|[mac]time[ \t]+-[0-9]{3,}|user[ \t]+(?:root|0))|(?:!|-not)[ \t]+-false)($|[\s;|&)}])",
    )
    .expect("a constant pattern, compiled by a test")
});

/// What a shell asks for at run time, and the text tells all the same: where a program is, and what is above a home.
static KNOWN_ANSWERS: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    let pattern = |text| Regex::new(text).expect("a constant pattern, compiled by a test");
    [
        (pattern(r"\$\([ \t]*(?:which|command[ \t]+-v|type[ \t]+-[pP])[ \t]+([\w./+-]+)[ \t]*\)"), "$1"),
        (pattern(r"`[ \t]*(?:which|command[ \t]+-v|type[ \t]+-[pP])[ \t]+([\w./+-]+)[ \t]*`"), "$1"),
        (pattern(r"(?:\$HOME|\$\{HOME\}|~)(?:/+\.\.){2,}/*"), "/"),
        (pattern(r"(?:\$HOME|\$\{HOME\}|~)/+\.\.($|[\s;|&)}/])"), "/home$1"),
    ]
});

/// The text with its words expanded, unless that is the same text.
pub(super) fn expanded(text: &str) -> Option<String> {
    let mut out = Cow::Borrowed(text);
    if let Some(filled) = variables::filled(text) {
        out = filled.into();
    }
    if out.contains(['$', '`', '~']) {
        for (pattern, becomes) in KNOWN_ANSWERS.iter() {
            if pattern.is_match(&out) {
                out = pattern.replace_all(&out, *becomes).into_owned().into();
            }
        }
    }
    if out.contains('{') {
        if calls_only_itself(&out) {
            out.to_mut().push_str(FORK_BOMB);
        }
        out = braces(&out).into();
    }
    if out.contains("find") && NARROWS_NOTHING.is_match(&out) {
        out = NARROWS_NOTHING.replace_all(&out, "$1").into_owned().into();
    }
    if out.contains("/.") || out.contains("/proc") || out.contains(['*', '?', '[']) {
        out = each_word(&out, |c| ends_word(c) || ",=:{}".contains(c), path).into();
    }
    if let Some(run) = fetched::stand_in(&out) {
        out = run.into();
    }
    if let Some(placed) = place::placed(&out, Shell::Posix) {
        out = placed.into();
    }
    (out != text).then(|| out.into_owned())
}

/// The well-known one, which a rule refuses.
const FORK_BOMB: &str = "\n:(){ :|:& };:";

/// Whether a function does nothing but call itself, more than once.
fn calls_only_itself(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let before = text[..at].trim_end();
        let called = before.strip_suffix(')').and_then(|before| before.trim_end().strip_suffix('('));
        let words = called.unwrap_or(before).trim_end();
        let from = words.rfind(|c: char| ends_word(c) || c == '{').map_or(0, |at| at + 1);
        let name = &words[from..];
        let is_function = called.is_some() || words[..from].trim_end().ends_with("function");
        let Some((body, _)) = text[at + 1..].split_once('}').filter(|_| is_function && !name.is_empty()) else {
            return false;
        };
        let mut words = body.split(ends_word).filter(|word| !word.is_empty());
        body.len() <= MAX_BRACED && words.clone().count() > 1 && words.all(|word| word == name)
    })
}

/// Whether a character is between words rather than in one.
pub(super) fn ends_word(c: char) -> bool {
    matches!(c, ';' | '|' | '&' | '<' | '>' | '(' | ')' | '`') || c.is_whitespace()
}

/// The text with each word written by `write` and what is between words kept.
fn each_word(text: &str, ends: impl Fn(char) -> bool, mut write: impl FnMut(&str, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(&ends) {
        let word = piece.trim_end_matches(&ends);
        if !word.is_empty() {
            write(word, &mut out);
        }
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// `{a,b}c` as `ac bc`.
fn braces(text: &str) -> String {
    let mut left = MAX_ADDED;
    each_word(text, ends_word, |word, out| {
        let words = if word.len() <= MAX_BRACED { alternatives(word) } else { None };
        let words = words.map(|words| words.join(" ")).filter(|words| words.len() <= word.len() + left);
        left -= words.as_ref().map_or(0, |words| words.len().saturating_sub(word.len()));
        out.push_str(words.as_deref().unwrap_or(word));
    })
}

/// The words that a word with braces stands for, when it does and they are not too many.
fn alternatives(word: &str) -> Option<Vec<String>> {
    innermost(word)?;
    let (mut waiting, mut done) = (vec![word.to_owned()], Vec::new());
    // Each list makes one word into two at the least, so that more looks than this make more words than there may be. The
    // words alone do not tell: `{,}{,}{,}` stands for nothing, eight times.
    for _ in 0..2 * MAX_WORDS {
        let Some(word) = waiting.pop() else { return Some(done) };
        match innermost(&word) {
            Some((open, close)) => {
                let choices = word[open + 1..close].rsplit(',');
                waiting.extend(choices.map(|choice| [&word[..open], choice, &word[close + 1..]].concat()));
            }
            None if word.is_empty() => {}
            None => done.push(word),
        }
        if waiting.len() + done.len() > MAX_WORDS {
            return None;
        }
    }
    None
}

/// Where the first braces with a comma and without such braces inside are. `${a,b}` is no list.
fn innermost(word: &str) -> Option<(usize, usize)> {
    let mut open: Vec<(usize, bool)> = Vec::new();
    for (at, byte) in word.bytes().enumerate() {
        match byte {
            b'{' => open.push((at, false)),
            b',' => {
                if let Some((_, list)) = open.last_mut() {
                    *list = true;
                }
            }
            b'}' => match open.pop() {
                Some((from, true)) if !word[..from].ends_with('$') => return Some((from, at)),
                _ => {}
            },
            _ => {}
        }
    }
    None
}

/// What a path through `/proc/<pid>/root` or `/proc/<pid>/cwd` leads to.
fn past_proc(word: &str) -> Option<String> {
    let mut parts: Vec<&str> = word.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let mut start = None;
    while word.starts_with('/') && parts.first() == Some(&"proc") {
        let link = if parts.get(2) == Some(&"task") { 4 } else { 2 };
        start = match parts.get(link) {
            Some(&"root") => Some("/"),
            Some(&"cwd") => Some("./"),
            _ => break,
        };
        parts.drain(..=link);
    }
    start.map(|start| [start, &parts.join("/")].concat())
}

/// A path without `.` and `..`, and with the names that its wildcards may stand for.
fn path(word: &str, out: &mut String) {
    let led = if word.starts_with("/proc") || word.starts_with("//") { past_proc(word) } else { None };
    let word = led.as_deref().unwrap_or(word);
    let mut kept: Vec<&str> = Vec::new();
    let parts = || word.split('/');
    // A leading `./` leads nowhere else, and half of all commands have one.
    let leads = word.contains('/') && parts().enumerate().any(|(at, part)| part == ".." || (part == "." && at > 0));
    if !leads && !word.contains(['*', '?', '[']) {
        return out.push_str(word);
    }
    let absolute = word.starts_with('/');
    for part in parts() {
        match part {
            "" | "." if leads => {}
            // What is above a home or a variable is not known.
            ".." if leads => match kept.last() {
                Some(above) if *above != ".." && !above.starts_with(['~', '$']) => drop(kept.pop()),
                None if absolute => {}
                _ => kept.push(part),
            },
            part => kept.push(protected(part, word.contains('/')).unwrap_or(part)),
        }
    }
    if leads && absolute {
        out.push('/');
    } else if kept.is_empty() {
        out.push('.');
    }
    out.push_str(&kept.join("/"));
}

/// The first of the protected names that a wildcard fits.
fn protected(part: &str, in_path: bool) -> Option<&'static str> {
    let wild = ['*', '?', '['];
    if part.len() > 64 || !part.contains(wild) {
        return None;
    }
    let has_ends = in_path && !part.starts_with(wild) && !part.ends_with(['*', '?', ']']);
    let fits = |(name, least): &&(&str, usize)| {
        let enough = literal(part) >= *least || (has_ends && BY_BOTH_ENDS.contains(name));
        enough && wildcard_fits(part.as_bytes(), name.as_bytes())
    };
    NAMES.iter().find(fits).map(|(name, _)| *name)
}

/// How many characters of a wildcard stand for themselves.
pub(super) fn literal(wildcard: &str) -> usize {
    let (mut rest, mut count) = (wildcard.as_bytes(), 0);
    while let Some(first) = rest.first() {
        let width = class(rest).unwrap_or(1);
        count += usize::from(width == 1 && !b"*?".contains(first));
        rest = &rest[width..];
    }
    count
}

/// How long the `[…]` is that a wildcard begins with.
fn class(wildcard: &[u8]) -> Option<usize> {
    (wildcard.first() == Some(&b'[')).then_some(())?;
    // A bracket that follows the opening one, or its `!`, is one of the characters.
    let first = if matches!(wildcard.get(1), Some(b'!' | b'^')) { 3 } else { 2 };
    Some(first + wildcard.get(first..)?.iter().position(|&byte| byte == b']')? + 1)
}

/// Whether a shell would take the name for the wildcard.
fn wildcard_fits(wildcard: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && wildcard.first() != Some(&b'.') {
        return false;
    }
    let (mut at, mut done) = (0, 0);
    let mut star = None;
    while done < name.len() {
        let rest = &wildcard[at..];
        if rest.first() == Some(&b'*') {
            star = Some((at, done));
            at += 1;
        } else if let Some(width) = one_fits(rest, name[done]) {
            at += width;
            done += 1;
        } else if let Some((star_at, from)) = star {
            // The last `*` takes one more.
            star = Some((star_at, from + 1));
            at = star_at + 1;
            done = from + 1;
        } else {
            return false;
        }
    }
    wildcard[at..].iter().all(|&byte| byte == b'*')
}

/// How much of the wildcard stands for this one character, if its beginning does.
fn one_fits(wildcard: &[u8], byte: u8) -> Option<usize> {
    if let Some(width) = class(wildcard) {
        let inside = &wildcard[1..width - 1];
        let (inside, wanted) = match inside.first() {
            Some(b'!' | b'^') => (&inside[1..], false),
            _ => (inside, true),
        };
        let range = |r: &[u8]| r[1] == b'-' && (r[0]..=r[2]).contains(&byte);
        return (wanted == (inside.contains(&byte) || inside.windows(3).any(range))).then_some(width);
    }
    let first = *wildcard.first()?;
    (first == b'?' || first == byte).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(text: &str, expect: &str) {
        assert_eq!(expanded(text).as_deref().unwrap_or(text), expect, "{text}");
    }

    #[test]
    fn braces_become_words() {
        becomes("{rm,-rf,/}", "rm -rf /");
        becomes("rm -rf {/,}; ls", "rm -rf /; ls");
        becomes("cat /etc/{shadow,passwd}", "cat /etc/shadow /etc/passwd");
        becomes("a{b,c{d,e}}f", "abf acdf abf acef");
        becomes("a{b}c,d} ${a,b} {} {a b,c}", "a{b}c,d} ${a,b} {} {a b,c}");
        for many in ["{a,b}".repeat(7), "{,}".repeat(60), "{,".repeat(100) + &"}".repeat(100)] {
            becomes(&many, &many);
        }
        becomes("{,}{,} x", " x");
    }

    #[test]
    fn braces_add_no_more_than_their_share() {
        let text = format!("{}{} ", "{a,b}".repeat(6), "x".repeat(400)).repeat(10);
        let grown = expanded(&text).map_or(0, |form| form.len());
        assert!(grown <= text.len() + MAX_ADDED, "{grown}");
    }

    #[test]
    fn dots_are_walked() {
        becomes("rm -rf /tmp/../ x", "rm -rf / x");
        becomes("cat /etc/./shadow", "cat /etc/shadow");
        becomes("ls --in=/a/b/../../c", "ls --in=/c");
        becomes("ls a/.. ../b a/../../b", "ls . ../b ../b");
        becomes("rm ./y ... a/...", "rm ./y ... a/...");
        // What is above a home is known well enough.
        becomes("rm ~/.. $HOME/../x ${HOME}/../../etc", "rm /home /home/x /etc");
    }

    #[test]
    fn a_program_that_is_looked_up_is_that_program() {
        becomes("$(which rm) -r x; `command -v ls`; $( type -p cp )", "rm -r x; ls; cp");
        becomes("echo $(which) $(date) `which rm ls`", "echo $(which) $(date) `which rm ls`");
    }

    #[test]
    fn proc_leads_to_the_root() {
        becomes("rm -rf /proc/self/root/etc", "rm -rf /etc");
        becomes("ls //proc/1/root /proc/$$/task/1/root//proc/2/root/x", "ls / /x");
        becomes("cat /proc/self/status /proc/1/rootx", "cat /proc/self/status /proc/1/rootx");
    }

    #[test]
    fn a_function_of_calls_to_itself_is_the_well_known_one() {
        for text in [":(){ :|:; };:", "f () { f & f; }; f", "function b { b | b | b; }; b"] {
            becomes(text, &[text, FORK_BOMB].concat());
        }
        for text in ["f(){ f; }; f", "f(){ a|b; }", "awk {x|x}", "fib(){ fib 1; fib 2; }"] {
            becomes(text, text);
        }
    }

    #[test]
    fn wildcards_stand_for_what_is_protected() {
        becomes("cat /et?/sha*", "cat /etc/shadow");
        becomes("cat /[a-f]tc/[!x]hadow", "cat /etc/shadow");
        becomes("cat ~/.aw?/x ~/.ss[h]/id_*", "cat ~/.aws/x ~/.ssh/id_rsa");
        becomes("cat /x/d*y ~/.ssh/i*9", "cat /x/data.key ~/.ssh/id_ed25519");
        for text in [
            "cat d*y x/d*",
            "cat /etc/*",
            "ls *",
            "cat .* i*",
            "cat /etc/*.conf",
            "cat [ -f x ]",
            "cat /etc/[",
            "cat *ssh",
        ] {
            becomes(text, text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_expanded_within_bounds(text in r"([{},/.*?\[\]!~$ ;|&<>ab=é-]|curl|wget|etc|shadow){0,80}") {
            if let Some(form) = expanded(&text) {
                proptest::prop_assert!(form.len() <= 8 * text.len() + MAX_ADDED, "{form}");
            }
        }
    }
}
