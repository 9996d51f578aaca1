//! The secrets in a text, found by reading it as commands: by the names of what is assigned, by the options of programs
//! and by what programs read. A text is read as either kind of shell would.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::REMOVED;
use super::names::{is_about_secret, names_secret};
use super::programs::{PROGRAMS, Program, READ_SECRET, READ_SECRET_OPTIONS};
use super::words::{Command, Word, commands, is_scheme};
use crate::shell::Dialect;

/// How deep quoted commands are read.
const MAX_DEPTH: usize = 4;
/// Most programs that are looked for in one command: `sudo`, `ssh` and their like name another one.
const MAX_PROGRAMS: usize = 8;

/// The text without the secrets that its commands show.
pub(super) fn cleaned(text: &str) -> String {
    let mut out = text.to_owned();
    for dialect in [Dialect::Posix, Dialect::Powershell] {
        if let Some(cleaned) = read_as(&out, dialect, 0) {
            out = cleaned;
        }
    }
    out
}

/// Which of these words are secrets, as a command with its arguments one by one.
pub(super) fn cleaned_words(words: &mut [String]) {
    let mut command = Command { words: words.iter().map(|word| Word::whole(word)).collect(), ..Command::default() };
    for (index, range) in secrets(&command, false) {
        command.words[index].text.replace_range(range, REMOVED);
        words[index] = std::mem::take(&mut command.words[index].text);
    }
}

fn read_as(text: &str, dialect: Dialect, depth: usize) -> Option<String> {
    let quoted = if depth < MAX_DEPTH { quoted_cleaned(text, dialect, depth) } else { None };
    let unquoted = without(quoted.as_deref().unwrap_or(text), dialect);
    unquoted.or(quoted)
}

/// The text with the commands in its quotes and here-documents cleaned.
fn quoted_cleaned(text: &str, dialect: Dialect, depth: usize) -> Option<String> {
    let (_, inner) = commands(text, dialect);
    let cleaned = inner.iter().filter_map(|quoted| {
        let cleaned = read_as(&quoted.text, dialect, depth + 1)?;
        let is_exact = text.get(quoted.place.clone()) == Some(&*quoted.text);
        Some((quoted.place.clone(), if is_exact { cleaned } else { cleaned.replace('"', "\\\"") }))
    });
    let cleaned: Vec<(Range<usize>, String)> = cleaned.collect();
    replaced(text, cleaned)
}

/// The text without the secrets of its own commands.
fn without(text: &str, dialect: Dialect) -> Option<String> {
    let (commands, _) = commands(text, dialect);
    let is_asked = text.contains("assword");
    let mut removed: Vec<Range<usize>> = Vec::new();
    for command in &commands {
        removed.extend(secrets(command, is_asked).into_iter().map(|(word, range)| command.words[word].place(range)));
    }
    for (index, command) in commands.iter().enumerate().filter(|(_, command)| reads_secret(command)) {
        let before = index.checked_sub(1).map(|before| &commands[before]).filter(|before| before.is_piped);
        for command in [Some(command), before].into_iter().flatten() {
            removed.extend(command.documents.iter().cloned());
            let here = command.words.iter().filter(|word| word.is_here_string);
            removed.extend(here.map(|word| word.place(0..word.text.len())));
        }
        removed.extend(before.map(said).unwrap_or_default());
    }
    for command in commands.iter().filter(|command| writes_secret(command)) {
        removed.extend(said(command));
    }
    let is_news = |range: &Range<usize>| {
        text.get(range.clone()).is_some_and(|old| !old.is_empty() && old != REMOVED && old != "[removed private key]")
    };
    let edit = |range: Range<usize>| {
        // The last line of a document, too, must end.
        let end = if text[range.clone()].ends_with('\n') { "\n" } else { "" };
        (range, [REMOVED, end].concat())
    };
    replaced(text, removed.into_iter().filter(is_news).map(edit).collect())
}

/// The text with each range replaced. Of ranges that overlap, all is removed.
fn replaced(text: &str, mut edits: Vec<(Range<usize>, String)>) -> Option<String> {
    if edits.is_empty() {
        return None;
    }
    edits.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut merged: Vec<(Range<usize>, String)> = Vec::with_capacity(edits.len());
    for (range, with) in edits {
        match merged.last_mut() {
            Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push((range, with)),
        }
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, with) in merged {
        out.push_str(&text[at..range.start]);
        out.push_str(&with);
        at = range.end;
    }
    out.push_str(&text[at..]);
    Some(out)
}

/// The name of a program without its path.
fn base_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// The words that `echo` or `printf` says.
fn said(command: &Command) -> Vec<Range<usize>> {
    let says = |word: &Word| matches!(&*base_name(&word.text), "echo" | "printf" | "write-output" | "print");
    let from = command.words.iter().take(MAX_PROGRAMS).position(says).map(|at| at + 1);
    // PowerShell says a quoted text by itself.
    let from = from.or_else(|| (command.words.len() == 1 && command.words[0].is_quoted_at(0)).then_some(0));
    let words = command.words[from.unwrap_or(command.words.len())..].iter();
    let words = words.filter(|word| !word.is_file && !word.text.starts_with('-') && !word.is_reference(0));
    words.map(|word| word.place(0..word.text.len())).collect()
}

/// Whether what comes in is a secret.
fn reads_secret(command: &Command) -> bool {
    let mut sudo = false;
    command.words.iter().enumerate().any(|(at, word)| {
        let name = base_name(&word.text);
        sudo |= at < MAX_PROGRAMS && name == "sudo";
        let stdin = sudo && word.text.strip_prefix('-').is_some_and(|o| !o.starts_with('-') && o.contains('S'));
        let is_program = !word.text.contains('/') || word.text.contains("bin/");
        (at < MAX_PROGRAMS && is_program && READ_SECRET.contains(&name.as_str()))
            || stdin
            || word.text == "--password=stdin"
            || READ_SECRET_OPTIONS.contains(&word.text.as_str())
    })
}

/// Whether what is said goes into a file that is called after a secret.
fn writes_secret(command: &Command) -> bool {
    command.words.iter().any(|word| {
        let name = base_name(&word.text);
        word.is_file
            && (names_secret(&name) || matches!(&*name, ".pgpass" | ".netrc" | ".my.cnf" | ".git-credentials"))
    })
}

/// The parts of a command's words that are secrets, each word once at most.
fn secrets(command: &Command, is_asked: bool) -> Vec<(usize, Range<usize>)> {
    let words = &command.words;
    let mut found: Vec<Option<Range<usize>>> = vec![None; words.len()];
    let mut mark = |index: usize, from: usize, to: Option<usize>| {
        let Some(word) = words.get(index) else { return };
        let end = to.unwrap_or(word.text.len());
        if from < end && !word.is_reference(from) {
            let range = found[index].get_or_insert(from..end);
            *range = range.start.min(from)..range.end.max(end);
        }
    };
    let lower: Vec<String> = words.iter().map(|word| word.text.to_ascii_lowercase()).collect();
    let any = |wanted: &[&str]| lower.iter().any(|word| wanted.contains(&word.as_str()));
    let is_sql = any(&["alter", "create", "set", "identified", "encrypted", "grant"]);
    let is_login = any(&["machine", "login"]);
    let sets = lower.iter().position(|word| {
        let verbs =
            ["set", "setx", "setenv", "put", "add", "config", "configure", "create", "set-item", "set-content"];
        verbs.contains(&word.as_str()) || word.ends_with(":set")
    });
    if let Some(called) = &command.called {
        let is_credential = called.to_ascii_lowercase().contains("credential");
        let is_call = names_secret(called.rsplit(['.', ':']).next().unwrap_or(called));
        match words.first() {
            // `NetworkCredential('name', 'secret')`
            Some(_) if is_credential => {
                let comma = words.iter().position(|word| word.text.contains(','));
                if let Some((at, offset)) = comma.and_then(|at| words[at].text.find(',').map(|offset| (at, offset))) {
                    mark(at, offset + 1, None);
                    (at + 1..words.len()).for_each(|index| mark(index, 0, None));
                }
            }
            // `PASSWORD('secret')`
            Some(first) if is_call && first.is_quoted_at(0) => mark(0, 0, None),
            _ => {}
        }
    }
    for (index, word) in words.iter().enumerate() {
        let text = word.text.as_str();
        let next = words.get(index + 1);
        // A word with spaces that no shell has read may be a script, which is cleaned by itself.
        if !(word.is_whole() && text.contains(char::is_whitespace)) {
            pairs(word, |from, to| mark(index, from, to));
        }
        match reaches_on(word) {
            // `password: x y`, `Authorization: Bearer x`: all of the line.
            Some(Reach::Line) => {
                let scheme = usize::from(next.is_some_and(|next| is_scheme(&next.text)));
                (index + 1 + scheme..words.len()).for_each(|index| mark(index, 0, None));
            }
            Some(Reach::Word) => {
                let skip = usize::from(next.is_some_and(|next| matches!(&*next.text, "=" | "=>")));
                mark(index + 1 + skip, 0, None);
            }
            None => {}
        }
        let option = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).or_else(|| {
            text.strip_prefix('/').filter(|rest| rest.len() <= 16 && rest.bytes().all(|b| b.is_ascii_alphabetic()))
        });
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b == b'_' || b == b'-' || b == b'.' || b.is_ascii_alphanumeric())
        };
        match option {
            Some(name) if is_name(name) && names_secret(if name == "secret-id" { text } else { name }) => {
                // A switch is followed by the next option.
                if next.is_some_and(|next| !next.text.starts_with('-') || next.is_quoted_at(0)) {
                    let skip = usize::from(next.is_some_and(|next| matches!(&*next.text, "=" | ":")));
                    mark(index + 1 + skip, 0, None);
                }
            }
            Some(_) => {}
            None => {
                let bare = text.trim_start_matches('$');
                let after = words.get(index + 2);
                if let Some(next) = next.filter(|next| matches!(&*next.text, "=" | ":" | "=>" | ":="))
                    && after.is_some()
                    && names_secret(bare.trim_end_matches(['"', '\'']))
                    && !next.is_quoted_at(0)
                {
                    // What a command says that PowerShell runs is not known.
                    let runs = text.starts_with('$')
                        && after.is_some_and(|after| !after.is_quoted_at(0) && after.text.contains('-'));
                    if !runs {
                        mark(index + 2, 0, None);
                    }
                } else if let Some(next) = next {
                    let is_noun = names_secret(text) && !text.contains(['=', ' ']);
                    let set = sets.is_some_and(|sets| sets < index) && is_set_name(text) && !is_place(&next.text);
                    if set || (is_noun && (is_login || (is_sql && next.is_quoted_at(0)))) {
                        mark(index + 1, 0, None);
                    }
                    if lower[index] == "by" && is_sql && next.is_quoted_at(0) {
                        mark(index + 1, 0, None);
                    }
                }
            }
        }
        // `SET PASSWORD FOR name = 'secret'`
        let is_before = |at: usize| names_secret(&words[at].text);
        if is_sql && text == "=" && (index.saturating_sub(4)..index).any(is_before) {
            mark(index + 1, 0, None);
        }
        // `send "x\r"` to a program that asked for a password
        if is_asked && lower[index] == "send" {
            mark(index + 1, 0, None);
        }
    }
    // `reg add … /v Password /d x`, `Set-ItemProperty -Name Password -Value x`
    let named = |at: usize| words.get(at + 1).is_some_and(|name| names_secret(&name.text));
    if (0..lower.len()).any(|at| matches!(&*lower[at], "/v" | "-name" | "-key" | "--name") && named(at)) {
        let values = (0..lower.len()).filter(|at| matches!(&*lower[*at], "/d" | "-value" | "--value"));
        values.for_each(|at| mark(at + 1, 0, None));
    }
    windows_net(&lower, words, &mut mark);
    let mut programs = 0;
    for (index, word) in words.iter().enumerate() {
        let Some(entries) = BY_NAME.get(base_name(&word.text).as_str()) else { continue };
        programs += 1;
        if programs > MAX_PROGRAMS {
            break;
        }
        for entry in entries {
            let behind = &words[index + 1..];
            let has = |needed: &str| {
                let exact = |word: &Word| word.text.eq_ignore_ascii_case(needed);
                // `-b` is among the letters of `-nbB`.
                let among = |word: &Word| {
                    let letter = needed.strip_prefix('-').filter(|letter| letter.len() == 1);
                    let all = word.text.strip_prefix('-').filter(|all| !all.starts_with('-'));
                    letter.zip(all).is_some_and(|(letter, all)| all.contains(letter))
                };
                behind.iter().any(|word| exact(word) || among(word))
            };
            if entry.needs.is_none_or(has) {
                entry
                    .secrets
                    .iter()
                    .for_each(|spec| by_program(spec, behind, |at, from, to| mark(index + 1 + at, from, to)));
            }
        }
    }
    found.into_iter().enumerate().filter_map(|(index, range)| Some((index, range?))).collect()
}

static BY_NAME: LazyLock<HashMap<&str, Vec<&Program>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&str, Vec<&Program>> = HashMap::new();
    for program in PROGRAMS {
        for name in program.names {
            by_name.entry(name).or_default().push(program);
        }
    }
    by_name
});

/// A name that a setting has: `aws_secret_access_key`, `//registry/:_authToken`; a lone `token` is a thing.
fn is_set_name(text: &str) -> bool {
    let parts = || text.split(['/', ':', '.']).filter(|part| !part.is_empty());
    let things =
        ["secret", "secrets", "token", "tokens", "credential", "credentials", "password", "passwords", "auth"];
    let lone = parts().count() == 1 && things.contains(&text.to_ascii_lowercase().as_str());
    let about = parts().next_back().is_some_and(is_about_secret);
    !lone && !about && !text.contains(['=', ' ']) && parts().any(names_secret)
}

fn is_place(text: &str) -> bool {
    text.starts_with(['/', '~', '-']) || text.starts_with("./") || text.starts_with("../")
}

/// How far the value of a name reaches that a word ends with.
enum Reach {
    Word,
    Line,
}

/// Whether a word ends with a secret's name and what binds a value to it, outside of quotes: `{"token":`, `password=`.
fn reaches_on(word: &Word) -> Option<Reach> {
    let end = word.text.len().checked_sub(1)?;
    let bind = word.text.as_bytes()[end];
    let is_quoted = word.quoted_before(end).is_some();
    // `SetEnvironmentVariable('TOKEN', 'secret')`
    let binds = matches!(bind, b':' | b'=') || (bind == b',' && is_quoted);
    if !binds || word.is_quoted_at(end) {
        return None;
    }
    let name = name_before(&word.text, end);
    let plain_line = bind == b':' && !is_quoted && !word.text.starts_with(['{', '-', '$']);
    names_secret(name).then_some(if plain_line { Reach::Line } else { Reach::Word })
}

/// The name that ends here.
fn name_before(text: &str, end: usize) -> &str {
    let text = text[..end].trim_end_matches([' ', '"', '\'', '\\']);
    let is_name = |c: char| c == '_' || c == '-' || c == '.' || c.is_alphanumeric();
    let from = text.rfind(|c| !is_name(c)).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[from..]
}

/// The values of names that are in one word: `--password=x`, `a=1&token=x`, `Authorization: x`, `PASSWORD='x'`.
fn pairs(word: &Word, mut mark: impl FnMut(usize, Option<usize>)) {
    let text = word.text.as_str();
    let mut from = 0;
    while let Some(offset) = text[from..].find(['=', ':', ',']) {
        let at = from + offset;
        from = at + 1;
        let bind = text.as_bytes()[at];
        let name = name_before(text, at);
        // `SetEnvironmentVariable('TOKEN', 'x')`
        if bind == b',' && word.quoted_before(at).is_none_or(|quoted| quoted != name) {
            continue;
        }
        // A `::` is no value, nor is the `:` of `https://`.
        if !names_secret(name) || (bind == b':' && text[from..].starts_with([':', '/'])) {
            continue;
        }
        let rest = &text[from..];
        let mut value = from + (rest.len() - rest.trim_start_matches([' ', '=', '>', '\\']).len());
        let first = text[value..].chars().next();
        let is_digits = |value: &str| !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        let begins_word =
            at == name.len() || text[..at - name.len()].bytes().all(|b| matches!(b, b'-' | b'/' | b'$'));
        let spaced = bind == b':' && text[value..].contains(char::is_whitespace);
        let end = match first {
            None => continue,
            Some(quote @ ('"' | '\'')) => {
                value += 1;
                text[value..].find(quote).map_or(text.len(), |end| value + end)
            }
            // Of a header or an option all, unless there are more values in it.
            _ if begins_word && (spaced || !text[value..].contains([',', ';', '&'])) => {
                text[value..].find(['\r', '\n']).map_or(text.len(), |end| value + end)
            }
            _ if begins_word && bind == b'=' && !has_more(&text[value..]) => text.len(),
            _ if spaced && !text.starts_with('{') => {
                text[value..].find(['\r', '\n', '"', '\'']).map_or(text.len(), |end| value + end)
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '&' | ';' | ',' | '"' | '\'' | '}' | ')' | '#');
                text[value..].find(ends).map_or(text.len(), |end| value + end)
            }
        };
        if bind == b':' && is_digits(&text[value..end]) && end - value < 4 {
            continue;
        }
        mark(value, Some(end));
        from = end.max(from);
    }
}

/// Whether a value is followed by another name and its value.
fn has_more(value: &str) -> bool {
    value.split([',', ';', '&']).skip(1).any(|field| field.contains('='))
}

/// The secrets of a program's words, by one line of the table.
fn by_program(spec: &str, words: &[Word], mut mark: impl FnMut(usize, usize, Option<usize>)) {
    let positional = |word: &Word| !word.text.starts_with('-') && !word.is_file && !word.is_here_string;
    if spec == "$" {
        if let Some(at) = words.iter().rposition(positional) {
            mark(at, 0, None);
        }
        return;
    }
    if spec == "==" {
        for (at, word) in words.iter().enumerate() {
            if let Some((name, _)) = word.text.split_once('=').filter(|(name, _)| !name.starts_with('-')) {
                mark(at, name.len() + 1, None);
            }
        }
        return;
    }
    if let Some(spec) = spec.strip_prefix('+') {
        let (spec, part) = spec.strip_suffix('/').map_or((spec, false), |spec| (spec, true));
        let name = spec.trim_end_matches(|c: char| c.is_ascii_digit() && !spec.ends_with("key0"));
        let nth = spec[name.len()..].parse::<usize>().unwrap_or(1);
        let behind = if name.is_empty() {
            Some(0)
        } else {
            words.iter().position(|word| word.text.eq_ignore_ascii_case(name)).map(|at| at + 1)
        };
        let Some(behind) = behind else { return };
        let found = words.iter().enumerate().skip(behind).filter(|(_, word)| positional(word)).nth(nth - 1);
        if let Some((at, word)) = found {
            match (part, word.text.find('/')) {
                // `name/secret@database`, and no path
                (true, Some(slash)) if slash > 0 => {
                    let end = word.text[slash..].find('@').map_or(word.text.len(), |end| slash + end);
                    if !word.text[slash + 1..end].contains('/') {
                        mark(at, slash + 1, Some(end));
                    }
                }
                (false, _) => mark(at, 0, None),
                _ => {}
            }
        }
        return;
    }
    let (option, kind) = spec.split_at(spec.len() - 1);
    let (option, kind) = if kind.starts_with([':', '%', ',', '=', '*', '_']) { (option, kind) } else { (spec, "") };
    for (at, word) in words.iter().enumerate() {
        let Some(rest) = word.text.strip_prefix(option).filter(|_| !word.is_file) else { continue };
        let bound = rest.starts_with('=') && (option.len() > 2 || kind.is_empty());
        let from = option.len() + usize::from(bound);
        let behind = words.get(at + 1).filter(|next| !next.text.starts_with('-') || next.is_quoted_at(0));
        match kind {
            "_" if rest.is_empty() => mark(at + 1, 0, None),
            "_" => {}
            "*" => mark(at, from, None),
            "" if !rest.is_empty() => mark(at, from, None),
            "" => {
                if behind.is_some() {
                    mark(at + 1, 0, None);
                }
            }
            separator => {
                let own = option.starts_with('/') || !rest.is_empty();
                // `--user` is no `--userx`.
                if own && option.starts_with("--") && !rest.starts_with('=') {
                    continue;
                }
                let (target, text, skip) = if own {
                    (at, word.text.as_str(), from)
                } else {
                    match behind {
                        Some(next) => (at + 1, next.text.as_str(), 0),
                        None => continue,
                    }
                };
                let cut = match (option, separator) {
                    // The option's own `:`.
                    ("/p", _) => rest.starts_with(':').then_some(2),
                    (_, ":") if option == "-E" || option == "--cert" => text[skip..].rfind(':').map(|cut| skip + cut),
                    _ => text[skip..].find(separator).map(|cut| skip + cut),
                };
                if let Some(cut) = cut {
                    mark(target, cut + 1, None);
                }
            }
        }
    }
}

/// `net user name secret`, `net use share secret`, and `-u name:secret` of programs that are not known.
fn windows_net(lower: &[String], words: &[Word], mark: &mut impl FnMut(usize, usize, Option<usize>)) {
    let is_switch = |word: &str| word.starts_with('/') && !word.starts_with("//");
    for at in 0..lower.len().min(MAX_PROGRAMS) {
        if matches!(&*base_name(&lower[at]), "net" | "net1") {
            let rest = at + 2;
            let mut plain = (rest..lower.len()).filter(|index| !is_switch(&lower[*index]));
            match lower.get(at + 1).map(String::as_str) {
                Some("user") => {
                    if let Some(index) = plain.nth(1).filter(|index| lower[*index] != "*") {
                        mark(index, 0, None);
                    }
                }
                Some("use") => {
                    let user = (rest..lower.len()).find(|index| lower[*index].starts_with("/user:"));
                    let is_share = |word: &str| word.starts_with(r"\\") || word.starts_with("//");
                    let share = (rest..lower.len()).find(|index| is_share(&lower[*index]));
                    let behind = share.or(user).map_or(lower.len(), |share| share + 1);
                    let secret = |index: &usize| *index >= behind && lower[*index] != "*";
                    plain.filter(secret).for_each(|index| mark(index, 0, None));
                }
                _ => {}
            }
        }
    }
    let has_names =
        |word: &String| matches!(&*base_name(word), "docker" | "podman" | "nerdctl" | "chown" | "systemd-run");
    if lower.iter().take(MAX_PROGRAMS).any(has_names) {
        return;
    }
    for (at, word) in words.iter().enumerate() {
        let rest = ["--user=", "--user", "-u"].iter().find_map(|option| word.text.strip_prefix(option));
        let (index, value) = match (rest, words.get(at + 1)) {
            (Some(""), Some(next)) => (at + 1, next.text.as_str()),
            (Some(rest), _) if !rest.starts_with('-') => (at, rest),
            _ => continue,
        };
        let is_id = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if let Some((name, secret)) = value.split_once(':')
            && !name.contains(['+', '/', '=', ' ', '%'])
            && !secret.starts_with(['/', '\\'])
            && !(is_id(name) && is_id(secret))
        {
            mark(index, words[index].text.len() - secret.len(), None);
        }
    }
}
