//! Where a command works: what it calls `*`, `.` or `etc` is somewhere, and where that is may be told by a `cd` before it.
//!
//! * After `cd /etc`, a relative word stands for a path below `/etc`: `cd /etc; ls; rm -rf *` is `rm -rf /etc/*`.
//! * Before any `cd`, the directory is the one that the agent was started in, which nobody here knows, and which is `/`
//!   or `System32` for most services. What removes or opens all of it gets [`HERE`] for its name, and rules refuse that.
//! * After a `cd` to a name that is relative or in a variable, nothing is known and nothing is changed: who has chosen a
//!   directory may clear it.
//!
//! It works on normalised text, whose quotes are gone, and knows words, not grammar.

use super::expand;

/// What is written for all of an unknown directory.
const HERE: &str = "@cwd@";
/// Longest directory that is kept in mind.
const MAX_DIR: usize = 128;
/// What this may add to a text altogether: matching costs as much as there is to match. When it is used up, what removes
/// something is taken to remove all there is.
const MAX_ADDED: usize = 16 << 10;
/// What is left of that for commands that remove something.
const RESERVED: usize = MAX_ADDED / 2;
/// Most subshells inside one another.
const MAX_DEPTH: usize = 64;

/// What kind of command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Changes the directory.
    Go,
    /// Goes back to where one was.
    Back,
    /// Removes what it names, or gives it to everyone.
    Remove,
    /// Removes what it finds.
    Find,
    /// Says what another one may remove.
    List,
    /// Is given texts rather than paths.
    Say,
    /// Is given a text, and then paths.
    Seek,
    /// Goes to a directory by itself (`-C`), and its first word is no path.
    Pack,
    /// Runs another one, which is among its words.
    Run,
    /// Goes to the drive of its name.
    Drive,
    Other,
}

impl Kind {
    /// Whether it can remove what its words stand for, or pass it to a command that does.
    fn is_grave(self) -> bool {
        matches!(self, Self::Remove | Self::Find | Self::List | Self::Pack)
    }

    /// That of the command of this name, which is in lower case.
    fn of(name: &str) -> Self {
        match name {
            "cd" | "chdir" | "pushd" | "sl" | "set-location" | "push-location" => Self::Go,
            "popd" | "pop-location" => Self::Back,
            "rm" | "rmdir" | "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => Self::Remove,
            "remove-item" | "ri" | "rd" | "del" | "erase" => Self::Remove,
            "find" => Self::Find,
            "ls" | "dir" | "get-childitem" | "gci" => Self::List,
            "echo" | "printf" | "write-host" | "write-output" | "git" => Self::Say,
            "grep" | "egrep" | "fgrep" | "rg" | "sls" | "select-string" | "findstr" => Self::Seek,
            "tar" => Self::Pack,
            "sudo" | "doas" | "su" | "runuser" | "ssh" | "xargs" | "busybox" | "toybox" => Self::Run,
            "env" | "nohup" | "time" | "timeout" | "nice" | "ionice" | "setsid" | "stdbuf" => Self::Run,
            "command" | "builtin" | "exec" | "eval" | "cmd" | "powershell" | "pwsh" => Self::Run,
            "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => Self::Run,
            name if name.len() == 2 && name.ends_with(':') => Self::Drive,
            _ => Self::Other,
        }
    }
}

/// Options of `sudo` with a word of their own behind them.
const SUDO_NAMED: &[&str] = &["-u", "-g", "-p", "-h", "-r", "-t", "-T", "-U", "-C", "--user", "--group", "--prompt"];

/// Words before a command that are none.
const KEYWORDS: &[&str] = &["if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "function", "try"];

/// The shell whose syntax the words follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    Posix,
    Powershell,
}

impl Shell {
    fn ends_word(self, c: char) -> bool {
        expand::ends_word(c) || (self == Self::Powershell && matches!(c, '{' | '}' | ','))
    }

    fn separator(self) -> char {
        match self {
            Self::Posix => '/',
            Self::Powershell => '\\',
        }
    }

    fn separates(self, c: char) -> bool {
        c == '/' || (self == Self::Powershell && c == '\\')
    }

    /// Whether a path says by itself where it is.
    fn is_absolute(self, path: &str) -> bool {
        let drive = || path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
        let provider = || path.split_once(':').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_alphabetic()));
        path.starts_with('~')
            || path.starts_with(|c| self.separates(c))
            || is_home(path)
            || (self == Self::Powershell && (path.starts_with('%') || is_environment(path) || drive() || provider()))
    }

    /// Whether a word is an option: `-r`, and `/s` where there are drives.
    fn is_option(self, word: &str) -> bool {
        let slash = |rest: &str| self == Self::Powershell && rest.len() == 1 && rest != "*";
        word.starts_with('-') || word.strip_prefix('/').is_some_and(slash)
    }

    /// Whether a word stands for all that is in the directory, or above it.
    fn is_everything(self, word: &str) -> bool {
        let rest = ["$PWD", "${PWD}", "$pwd"].iter().find_map(|own| word.strip_prefix(own));
        let named = rest.is_some();
        let word = rest.unwrap_or(word);
        if !named && (word.is_empty() || word.starts_with(|c| self.separates(c))) {
            return false;
        }
        word.split(|c| self.separates(c)).all(|part| {
            let wild = |part: &str| part.contains(['*', '?', '[']) && expand::literal(&part.replace('.', "")) == 0;
            matches!(part, "" | "." | "..") || wild(part)
        })
    }
}

/// `$HOME`, as either shell writes it.
fn is_home(path: &str) -> bool {
    ["$home", "${home}"].iter().any(|home| path.get(..home.len()).is_some_and(|p| p.eq_ignore_ascii_case(home)))
}

fn is_environment(path: &str) -> bool {
    ["$env:", "${env:"].iter().any(|env| path.get(..env.len()).is_some_and(|p| p.eq_ignore_ascii_case(env)))
}

/// Which directory a command runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Dir {
    /// Where the agent was started.
    Start,
    /// In this directory.
    At(String),
    /// In one that somebody chose.
    Somewhere,
}

/// The text with its words written as what they stand for where they are; none when that is the same text.
pub(super) fn placed(text: &str, shell: Shell) -> Option<String> {
    let asked = ["$(pwd)", "`pwd`"].iter().any(|asked| text.contains(asked));
    let own = asked.then(|| text.replace("$(pwd)", "$PWD").replace("`pwd`", "$PWD"));
    let text = own.as_deref().unwrap_or(text);
    let mut walk = Walk {
        shell,
        dir: Dir::Start,
        outside: Vec::new(),
        deeper: 0,
        out: String::new(),
        written: 0,
        left: MAX_ADDED,
        is_marked: false,
    };
    let (mut words, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let (word, tail) = rest.split_at(rest.find(|c| shell.ends_word(c)).unwrap_or(rest.len()));
        if !word.is_empty() {
            words.push(Word { at, text: word });
        }
        let Some(between) = tail.chars().next() else { break };
        rest = &tail[between.len_utf8()..];
        if ends_command(shell, between, rest) {
            walk.command(text, &words, between == '|' && !rest.starts_with('|'));
            // ``cd `mktemp -d` `` goes where that says, and not home.
            if between == '`' && words.len() == 1 && program(&words).is_some_and(|(kind, _)| kind == Kind::Go) {
                walk.dir = Dir::Somewhere;
            }
            words.clear();
            walk.cross(between);
        }
    }
    walk.command(text, &words, false);
    if walk.written == 0 {
        return None;
    }
    walk.out.push_str(&text[walk.written..]);
    Some(walk.out)
}

/// Whether a command ends here. The `&` of `2>&1`, or of an address whose quotes are gone, ends none.
fn ends_command(shell: Shell, between: char, rest: &str) -> bool {
    match between {
        '&' => rest.starts_with(|c: char| c == '&' || c.is_whitespace()) || rest.is_empty(),
        '{' | '}' => shell == Shell::Powershell,
        between => matches!(between, ';' | '|' | '(' | ')' | '`' | '\n'),
    }
}

/// A word, and where in the text it is.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    at: usize,
    text: &'t str,
}

/// What the words run, and the words behind that.
fn program<'w, 't>(words: &'w [Word<'t>]) -> Option<(Kind, &'w [Word<'t>])> {
    let assigns = |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.contains(['/', '-', '\\']));
    let first = words.iter().position(|word| !KEYWORDS.contains(&word.text) && !assigns(word.text))?;
    let kind = |word: &Word<'_>| {
        let name = word.text.rsplit(['/', '\\']).next().unwrap_or(word.text).to_ascii_lowercase();
        Kind::of(name.strip_suffix(".exe").unwrap_or(&name))
    };
    let mut inner = (first + 1..words.len()).map(|at| (at, kind(&words[at])));
    let mut known = || inner.find(|(_, kind)| !matches!(kind, Kind::Other | Kind::Run | Kind::Drive));
    let (at, kind) = match kind(&words[first]) {
        Kind::Run => known().unwrap_or((first, Kind::Other)),
        kind => (first, kind),
    };
    Some((kind, &words[at + 1..]))
}

struct Walk {
    shell: Shell,
    dir: Dir,
    /// Where the commands around this subshell are.
    outside: Vec<Dir>,
    /// How many subshells are open beyond those that are kept in mind.
    deeper: usize,
    out: String,
    /// How much of the text is in `out`.
    written: usize,
    left: usize,
    /// There was no room for this command's words, and one of them says so.
    is_marked: bool,
}

impl Walk {
    /// A subshell goes where it wants; who started it stays. So does what runs in the background, but an `&` may as well
    /// have been in quotes, which are gone: it is not taken for that.
    fn cross(&mut self, between: char) {
        match between {
            '(' if self.outside.len() == MAX_DEPTH => self.deeper += 1,
            '(' => self.outside.push(self.dir.clone()),
            ')' if self.deeper > 0 => self.deeper -= 1,
            // One too many ends a pattern of `case`.
            ')' => self.dir = self.outside.pop().unwrap_or_else(|| self.dir.clone()),
            _ => {}
        }
    }

    /// Goes where a command goes, or writes what its words stand for.
    fn command(&mut self, text: &str, words: &[Word<'_>], piped: bool) {
        let Some((kind, mut args)) = program(words) else { return };
        self.is_marked = false;
        let before_env = self.dir.clone();
        // These can go somewhere for the one command that they run.
        for (name, short, named) in [("env", "-C", &["-u", "--unset"][..]), ("sudo", "-D", SUDO_NAMED)] {
            let by = words.iter().position(|word| word.text.rsplit('/').next() == Some(name));
            let mut options = by.map_or(&[][..], |at| &words[at + 1..]);
            while let Some((word, rest)) = options.split_first().filter(|(word, _)| word.text.contains(['-', '='])) {
                let went = self.goes_by_option(word, rest, &[short, "--chdir"]);
                let took = if named.contains(&word.text) { 2 } else { 1 };
                options = options.get(went.max(took)..).unwrap_or_default();
            }
        }
        let elsewhere = self.dir != before_env;
        let before = self.dir.clone();
        match kind {
            Kind::Go => self.go(args),
            Kind::Back => self.dir = Dir::Somewhere,
            Kind::Drive if self.shell == Shell::Powershell => self.go(words),
            Kind::Find if before != Dir::Somewhere => self.find(text, args, piped),
            Kind::Pack => {
                // `czf` without a hyphen is no path.
                if args.first().is_some_and(|mode| !mode.text.starts_with('-')) {
                    args = &args[1..];
                }
                while let Some((word, rest)) = args.split_first() {
                    let went = self.goes_by_option(word, rest, &["-C", "--directory"]);
                    if went == 0 {
                        self.words(text, kind, &args[..1], piped);
                    }
                    args = args.get(went.max(1)..).unwrap_or_default();
                }
                self.dir = before;
            }
            _ => {
                self.words(text, kind, args, piped);
                // What has no path lists where it is.
                let bare = |word: &Word<'_>| self.shell.is_option(word.text);
                if kind == Kind::List && piped && before != Dir::Somewhere && args.iter().all(bare) {
                    let end = words.last().map_or(0, |word| word.at + word.text.len());
                    self.insert(text, end, &[" ", &self.stand_for("")].concat());
                }
            }
        }
        if elsewhere {
            self.dir = before_env;
        }
    }

    /// Goes where an option says, as `-C /etc`, `-C/etc`, `--directory /etc` or `--directory=/etc`. How many words that took.
    fn goes_by_option(&mut self, word: &Word<'_>, rest: &[Word<'_>], [short, long]: &[&str; 2]) -> usize {
        let letters = word.text.strip_prefix('-').filter(|letters| letters.bytes().all(|b| b.is_ascii_alphabetic()));
        let ends_so = letters.is_some_and(|letters| letters.ends_with(short.trim_start_matches('-')));
        if ends_so || word.text == *long {
            self.go(rest.get(..1).unwrap_or_default());
            return 2;
        }
        let long = word.text.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        let Some(to) = long.or_else(|| word.text.strip_prefix(short)) else { return 0 };
        self.go(&[Word { at: word.at, text: to }]);
        1
    }

    /// Writes what the words of a command stand for.
    fn words(&mut self, text: &str, kind: Kind, args: &[Word<'_>], piped: bool) {
        let shell = self.shell;
        let narrows = |word: &Word<'_>| {
            let start = |name: &str| word.text.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
            shell == Shell::Powershell && (start("-inc") || start("-fil"))
        };
        let narrowed = args.iter().any(narrows);
        let sought = args.iter().position(|word| kind == Kind::Seek && !shell.is_option(word.text));
        for (_, word) in args.iter().enumerate().filter(|(at, _)| Some(*at) != sought) {
            let everything = || shell.is_everything(word.text);
            let redirected = || text[..word.at].trim_end().ends_with(['>', '<']);
            let stands = match (&self.dir, kind) {
                (Dir::Start, Kind::Remove) => !narrowed && everything(),
                (Dir::Start, Kind::List | Kind::Say) => piped && everything(),
                (Dir::At(_), Kind::List | Kind::Say) => everything() || redirected(),
                (Dir::At(_), _) => true,
                _ => false,
            };
            if stands {
                self.write(text, word, kind);
            }
        }
    }

    /// The paths of `find` come before what it looks for, and without any it looks where it is.
    fn find(&mut self, text: &str, args: &[Word<'_>], piped: bool) {
        let ends = |word: &&Word<'_>| ["-delete", "-exec", "-execdir", "-ok", "-okdir"].contains(&word.text);
        if !piped && args.iter().find(ends).is_none() {
            return;
        }
        // These come before the paths, as in `find -O3 /etc`.
        let leads = |word: &str| matches!(word, "-H" | "-L" | "-P" | "-D" | "--") || word.starts_with("-O");
        let paths =
            args.iter().position(|word| word.text == "!" || (word.text.starts_with('-') && !leads(word.text)));
        let (paths, wanted) = args.split_at(paths.unwrap_or(args.len()));
        for word in paths {
            if self.dir != Dir::Start || self.shell.is_everything(word.text) {
                self.write(text, word, Kind::Find);
            }
        }
        if let Some(first) = wanted.first().filter(|_| paths.iter().all(|word| self.shell.is_option(word.text))) {
            self.insert(text, first.at, &[&self.stand_for(""), " "].concat());
        }
        // `-name '*'` is no less than everything.
        for word in wanted.iter().filter(|word| word.text == "*") {
            self.replace(text, word, HERE, Kind::Find);
        }
    }

    fn go(&mut self, args: &[Word<'_>]) {
        let mut args = args.iter().map(|word| word.text).filter(|word| *word != "--");
        let to = match self.shell {
            Shell::Posix => args.find(|word| !word.starts_with('-') || *word == "-").unwrap_or("~").to_owned(),
            // The quotes around a name with spaces are gone.
            Shell::Powershell => {
                let words =
                    args.filter(|word| *word == "-" || !(word.starts_with('-') || word.eq_ignore_ascii_case("/d")));
                let words = words.collect::<Vec<_>>().join(" ");
                if words.is_empty() { "~".to_owned() } else { words }
            }
        };
        let up_or_nowhere = to.chars().all(|c| c == '.' || self.shell.separates(c));
        self.dir = match &self.dir {
            _ if to.len() > MAX_DIR => Dir::Somewhere,
            _ if self.shell.is_absolute(&to) => Dir::At(self.walked(&to)),
            Dir::Start if up_or_nowhere => Dir::Start,
            Dir::At(_) if !to.starts_with(['-', '$']) => Dir::At(self.stand_for(&to)),
            _ => Dir::Somewhere,
        };
        if matches!(&self.dir, Dir::At(at) if at.len() > MAX_DIR) {
            self.dir = Dir::Somewhere;
        }
    }

    /// What a word stands for here; the directory itself for an empty one.
    fn stand_for(&self, word: &str) -> String {
        let Dir::At(dir) = &self.dir else { return HERE.to_owned() };
        let separator = self.shell.separator();
        let word = ["$PWD", "${PWD}", "$pwd"].iter().find_map(|own| word.strip_prefix(own)).unwrap_or(word);
        let word = word.trim_start_matches(|c| self.shell.separates(c));
        let mut parts: Vec<&str> = Vec::new();
        for part in word.split(|c| self.shell.separates(c)).filter(|part| !part.is_empty() && *part != ".") {
            let within = parts.last().is_some_and(|last| *last != "..");
            if part == ".." && within {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        let mut path = dir.trim_end_matches(|c| self.shell.separates(c)).to_owned();
        for part in parts {
            if part == ".." {
                self.go_up(&mut path);
            } else {
                path.push(separator);
                path.push_str(part);
            }
        }
        if path.is_empty() { separator.to_string() } else { path }
    }

    /// Above a home are the homes.
    fn go_up(&self, path: &mut String) {
        match path.rfind(|c| self.shell.separates(c)) {
            Some(at) => path.truncate(at),
            None if path.starts_with('~') || is_home(path) => {
                *path = if self.shell == Shell::Posix { "/home" } else { "C:\\Users" }.to_owned();
            }
            None => {}
        }
    }

    /// A directory without the ways up in its name.
    fn walked(&self, to: &str) -> String {
        if !to.split(|c| self.shell.separates(c)).any(|part| part == "..") {
            return to.to_owned();
        }
        let root = to.find(|c| self.shell.separates(c)).unwrap_or(to.len());
        let mut path = to[..root].to_owned();
        for part in to[root..].split(|c| self.shell.separates(c)).filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                self.go_up(&mut path);
            } else {
                path.push(self.shell.separator());
                path.push_str(part);
            }
        }
        if path.is_empty() { self.shell.separator().to_string() } else { path }
    }

    /// Writes a relative word as what it stands for.
    fn write(&mut self, text: &str, word: &Word<'_>, kind: Kind) {
        let known = word.text.starts_with(['$', '%', '@']) && !self.shell.is_everything(word.text);
        if known || self.shell.is_option(word.text) || self.shell.is_absolute(word.text) || word.text.contains("://")
        {
            return;
        }
        // `dd` has its paths behind names.
        let stands = match word.text.split_once('=') {
            Some((name, path)) if !self.shell.is_absolute(path) => [name, "=", &self.stand_for(path)].concat(),
            Some(_) => return,
            None => self.stand_for(word.text),
        };
        self.replace(text, word, &stands, kind);
    }

    fn replace(&mut self, text: &str, word: &Word<'_>, with: &str, kind: Kind) {
        let is_grave = kind.is_grave();
        let room = is_grave || self.left > RESERVED;
        if room && self.insert(text, word.at, with) {
            self.written += word.text.len();
        } else if is_grave && !self.is_marked {
            // Whoever writes so much must not get by with the rest of it.
            self.is_marked = true;
            self.out.push_str(&text[self.written..word.at]);
            self.out.push_str(HERE);
            self.written = word.at + word.text.len();
        }
    }

    /// Writes `what` at a place in the text, as long as there is room.
    fn insert(&mut self, text: &str, at: usize, what: &str) -> bool {
        let Some(left) = self.left.checked_sub(what.len()) else { return false };
        self.left = left;
        self.out.push_str(&text[self.written..at]);
        self.out.push_str(what);
        self.written = at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(shell: Shell, text: &str, expect: &str) {
        assert_eq!(placed(text, shell).as_deref().unwrap_or(text), expect, "{text}");
    }

    #[test]
    fn a_directory_gone_to_is_where_words_are() {
        for (text, expect) in [
            ("cd /etc; ls; rm -rf *", "cd /etc; ls; rm -rf /etc/*"),
            ("cd / && sudo rm -rf etc .", "cd / && sudo rm -rf /etc /"),
            ("cd /var\ncd lib/x/..\nrm -r ./*", "cd /var\ncd lib/x/..\nrm -r /var/lib/*"),
            ("cd /usr/lib && find .. -delete", "cd /usr/lib && find /usr -delete"),
            ("cd /usr && find -type f -exec rm {} +", "cd /usr && find /usr -type f -exec rm {} +"),
            ("cd && rm -rf *", "cd && rm -rf ~/*"),
            ("cd /dev; dd if=/x of=sda", "cd /dev; dd if=/x of=/dev/sda"),
            ("cd /etc && cat shadow > out", "cd /etc && cat /etc/shadow > /etc/out"),
            ("cd /srv/a && (cd /etc && ls) && rm -rf *", "cd /srv/a && (cd /etc && ls) && rm -rf /srv/a/*"),
            ("cd / && ls | xargs rm -rf", "cd / && ls / | xargs rm -rf"),
            ("tar -C /etc -cf - shadow", "tar -C /etc -cf - /etc/shadow"),
            ("tar --directory=/ -czf - etc/shadow", "tar --directory=/ -czf - /etc/shadow"),
            ("tar cz -C /etc shadow -C /x y; ls z", "tar cz -C /etc /etc/shadow -C /x /x/y; ls z"),
            ("env -C / rm -rf etc; rm -rf x", "env -C / rm -rf /etc; rm -rf x"),
            ("env A=b --chdir=/etc cat shadow", "env A=/etc/b --chdir=/etc /etc/cat /etc/shadow"),
        ] {
            becomes(Shell::Posix, text, expect);
        }
        for (text, expect) in [
            (r"cd C:\Windows; Remove-Item * -Recurse", r"cd C:\Windows; Remove-Item C:\Windows\* -Recurse"),
            (r"sl C:\Program Files; ri .\* -r", r"sl C:\Program Files; ri C:\Program Files\* -r"),
            (
                r"Set-Location -Path $env:SystemRoot; gci | ri",
                r"Set-Location -Path $env:SystemRoot; gci $env:SystemRoot | ri",
            ),
            (r"cd C:\Windows\Temp; cd ..; rm -r *", r"cd C:\Windows\Temp; cd ..; rm -r C:\Windows\*"),
            ("D: & rd /s /q .", "D: & rd /s /q D:"),
        ] {
            becomes(Shell::Powershell, text, expect);
        }
    }

    #[test]
    fn where_the_agent_was_started_is_not_known() {
        for (text, expect) in [
            ("rm -rf *", "rm -rf @cwd@"),
            ("rm -rf ./ .* [a-z]* x", "rm -rf @cwd@ @cwd@ @cwd@ x"),
            ("cd .. && rm -rf ../*", "cd .. && rm -rf @cwd@"),
            ("rm -rf $PWD/* $(pwd)", "rm -rf @cwd@ @cwd@"),
            ("find -delete", "find @cwd@ -delete"),
            ("find . -name * -delete", "find @cwd@ -name @cwd@ -delete"),
            ("find -O3 . -delete", "find -O3 @cwd@ -delete"),
            ("find -- -delete", "find -- @cwd@ -delete"),
            ("sudo -u bob rm -r .", "sudo -u bob rm -r @cwd@"),
            ("(cd /tmp; ls); chmod -R 777 .", "(cd /tmp; ls); chmod -R 777 @cwd@"),
            ("ls -A | xargs rm -rf", "ls -A @cwd@ | xargs rm -rf"),
        ] {
            becomes(Shell::Posix, text, expect);
        }
        becomes(Shell::Powershell, r"Remove-Item .\* -Recurse", "Remove-Item @cwd@ -Recurse");
        becomes(Shell::Powershell, "gci -Recurse | Remove-Item", "gci -Recurse @cwd@ | Remove-Item");
    }

    #[test]
    fn a_directory_that_somebody_chose_is_theirs() {
        for text in [
            "cd build && rm -rf *",
            "cd \"$DIR\" && rm -rf .",
            "mkdir -p x; cd x; find . -delete",
            "sh -c cd $x && rm -rf *",
            "rm -rf ./node_modules build/* *.o",
            "git rm -r --cached .",
            "echo rm -rf *",
            "ls; find . -name x; chmod 755 ./run",
            "cd build; cd ..; rm -rf *",
            "cd `mktemp -d` && rm -rf *",
            "cd `git rev-parse --show-toplevel` && find . -delete",
            "tar czf x.tgz a b",
        ] {
            becomes(Shell::Posix, text, text);
        }
        for text in [r"cd build; Remove-Item * -Recurse", r"gci -Filter *.log | ri", "del /s *.tmp", "cd $x; ri * -r"]
        {
            becomes(Shell::Powershell, text, text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_placed_within_bounds(
            text in r"(cd |rm |find |ls|\| |[;&()`{}./\\*?$~%: \n=é-]|/etc|-delete|C:|\$PWD){0,80}",
        ) {
            for shell in [Shell::Posix, Shell::Powershell] {
                if let Some(form) = placed(&text, shell) {
                    proptest::prop_assert!(form.len() <= 2 * text.len() + MAX_ADDED, "{form}");
                }
            }
        }
    }
}
