//! Files that a command fetches and then uses: the file stands for the fetch, so that `curl -o a …; sh a` is refused by
//! the rule that refuses `sh <(curl …)`, and `curl -o a …; less a` by none.
//!
//! Files are told apart by their last name alone, since where a command is by then is not known.

use super::expand::ends_word;

/// What is written in place of a fetched file.
const FETCH: &str = "<(curl -)";
/// Most files that are kept in mind.
const MAX_FILES: usize = 16;

/// The text with every use of a file that it fetched before written as the fetch; none when there is no such use.
pub(super) fn stand_in(text: &str) -> Option<String> {
    if !text.contains("curl") && !text.contains("wget") {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let (mut command, mut files, mut found) = (Command::default(), Vec::new(), false);
    let mut rest = text;
    while !rest.is_empty() {
        let (word, tail) = rest.split_at(rest.find(ends_word).unwrap_or(rest.len()));
        if command.runs_or_reads(word, &files) {
            found = true;
            out.push_str(FETCH);
        } else {
            out.push_str(word);
        }
        command.read(word);
        let Some(between) = tail.chars().next() else { break };
        out.push(between);
        rest = &tail[between.len_utf8()..];
        if between == '>' {
            command.file_next = command.program.is_some();
        } else if ends_command(between, rest) {
            let fetched = std::mem::take(&mut command).fetched();
            files.extend(fetched.filter_map(name).take(MAX_FILES - files.len()));
        }
    }
    found.then_some(out)
}

/// Whether a command ends here. The `&` of an address whose quotes are gone ends none.
fn ends_command(between: char, rest: &str) -> bool {
    match between {
        '&' => rest.starts_with(|c: char| c == '&' || c.is_whitespace()),
        between => ";|()`\n".contains(between),
    }
}

/// The last name of a path or an address, if it could be that of a file.
fn name(word: &str) -> Option<&str> {
    let path = word.split(['?', '#']).next().unwrap_or(word);
    let name = path.rsplit('/').next().unwrap_or(path);
    (!name.is_empty() && name != "-" && !word.starts_with("/dev/")).then_some(name)
}

#[derive(Clone, Copy, PartialEq)]
enum Program {
    Curl,
    Wget,
}

/// What has been read of one command.
#[derive(Default)]
struct Command<'t> {
    begun: bool,
    program: Option<Program>,
    /// The next word is where the answer goes.
    file_next: bool,
    /// Files are called as on the server.
    remote_names: bool,
    files: Vec<&'t str>,
    addresses: Vec<&'t str>,
}

impl<'t> Command<'t> {
    /// Whether a word of this command is one of the files. A program is looked up elsewhere unless it is a path.
    fn runs_or_reads(&self, word: &str, files: &[&str]) -> bool {
        let may = self.program.is_none() && (self.begun || word.contains('/'));
        may && name(word).is_some_and(|name| files.contains(&name))
    }

    fn read(&mut self, word: &'t str) {
        if word.is_empty() {
            return;
        }
        self.begun = true;
        let Some(program) = self.program else {
            self.program = match name(word) {
                Some("curl") => Some(Program::Curl),
                Some("wget") => Some(Program::Wget),
                _ => None,
            };
            self.remote_names = self.program == Some(Program::Wget);
            return;
        };
        let (to_file, as_there) = match program {
            Program::Curl => ('o', 'O'),
            Program::Wget => ('O', '\0'),
        };
        if std::mem::take(&mut self.file_next) {
            self.files.push(word);
        } else if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            self.files.extend(option.starts_with("--output").then_some(value));
        } else if word.starts_with("--") {
            self.file_next = word.starts_with("--output");
            self.remote_names |= word.starts_with("--remote-name");
        } else if word.starts_with('-') {
            self.file_next = word.ends_with(to_file);
            self.remote_names |= word.contains(as_there);
        } else {
            self.addresses.push(word);
        }
    }

    /// The files it leaves behind, as far as can be told.
    fn fetched(self) -> impl Iterator<Item = &'t str> {
        let named = self.addresses.into_iter().filter(move |_| self.remote_names);
        self.files.into_iter().chain(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(text: &str, expect: &str) {
        assert_eq!(stand_in(text).as_deref().unwrap_or(text), expect, "{text}");
    }

    #[test]
    fn a_fetched_file_stands_for_the_fetch() {
        becomes("curl -sLo a https://x && sh a b", "curl -sLo a https://x && sh <(curl -) b");
        becomes("wget https://x/a.sh?b=1&c -q\nsh ./a.sh", "wget https://x/a.sh?b=1&c -q\nsh <(curl -)");
        becomes("curl -O x/a; chmod +x a; ./a", "curl -O x/a; chmod +x <(curl -); <(curl -)");
        becomes("sudo wget --output-document=/t/a x; . a", "sudo wget --output-document=/t/a x; . <(curl -)");
        becomes("curl x >a; less a", "curl x >a; less <(curl -)");
    }

    #[test]
    fn other_words_stay() {
        for text in [
            "curl -o data https://x && sh run",
            "curl https://x/python && python app",
            "wget https://x/node && node app",
            "curl -o /dev/null x; sh > /dev/null",
            "sh a; curl -o a x",
            "curl -o - x; cat -",
        ] {
            becomes(text, text);
        }
    }
}
