//! What starts by itself: desktop entries, units that are enabled, timers of cron, old init files.

use std::path::{Path, PathBuf};

use convoke_core::redact;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::facts::{self, Facts};
use crate::{Section, ToolError, text};

/// Most entries told.
const MAX_ENTRIES: usize = 500;

/// Most bytes read of one file.
const FILE_CAP: usize = 256 * 1024;

/// Most people whose own files are looked at.
const MAX_PEOPLE: usize = 200;

/// One thing that starts by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Entry {
    name: String,
    command: String,
    location: String,
}

impl Entry {
    fn new(name: &str, command: &str, location: &str) -> Self {
        // A command line may carry a password.
        let command = text::one_line(&redact::clean_text(text::cut(command, 4096)), 500);
        Self { name: text::one_line(name, 200), command, location: text::one_line(location, 300) }
    }
}

pub(super) fn list(facts: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    let (entries, total) = entries(facts);
    let mut result = json!({"entries": entries});
    if total > entries.len() {
        result["truncated"] = true.into();
    }
    Ok(result)
}

pub(super) fn section(facts: &Facts) -> Section {
    let (entries, total) = entries(facts);
    let summary = if total == 1 { "1 entry".to_owned() } else { format!("{total} entries") };
    Section::ok(summary).with("entries", json!(entries))
}

fn entries(facts: &Facts) -> (Vec<Entry>, usize) {
    let mut found = desktop_entries(facts, "etc/xdg/autostart", None);
    let people = people(&facts.read("etc/passwd").unwrap_or_default());
    for person in people.iter().take(MAX_PEOPLE) {
        let home = person.home.trim_start_matches('/');
        found.extend(desktop_entries(facts, &format!("{home}/.config/autostart"), Some(&person.name)));
        found.extend(wanted_units(facts, &format!("{home}/.config/systemd/user")));
    }
    found.extend(wanted_units(facts, "etc/systemd/system"));
    found.extend(wanted_units(facts, "etc/systemd/user"));
    found.extend(cron(facts));
    if let Ok(text) = facts.read("etc/rc.local") {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines = lines.filter(|line| *line != "exit 0");
        found.extend(lines.map(|line| Entry::new("rc.local", line, "/etc/rc.local")));
    }
    let total = found.len();
    found.truncate(MAX_ENTRIES);
    (found, total)
}

/// Someone with a home.
#[derive(Debug, PartialEq, Eq)]
struct Person {
    name: String,
    home: String,
}

/// Root and the people; accounts of services have no desktop.
fn people(passwd: &str) -> Vec<Person> {
    let person = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, ..] = fields.as_slice() else { return None };
        let id: u32 = id.parse().ok()?;
        let is_person = id == 0 || (1000..65_000).contains(&id);
        (is_person && home.len() > 1 && home.starts_with('/') && !home.contains(".."))
            .then(|| Person { name: (*name).to_owned(), home: (*home).to_owned() })
    };
    passwd.lines().filter_map(person).collect()
}

fn desktop_entries(facts: &Facts, folder: &str, whose: Option<&str>) -> Vec<Entry> {
    let mut found = Vec::new();
    for file in facts.names(folder).iter().filter(|file| file.ends_with(".desktop")) {
        let path = format!("{folder}/{file}");
        let Ok(text) = facts::read_text(&facts.path(&path), FILE_CAP) else { continue };
        let Some((name, command)) = parse_desktop_entry(&text) else { continue };
        let name = name.unwrap_or_else(|| file.trim_end_matches(".desktop").to_owned());
        let location = whose.map_or_else(|| format!("/{path}"), |whose| format!("/{path} ({whose})"));
        found.push(Entry::new(&name, &command, &location));
    }
    found
}

/// Name and command of an entry that starts something.
fn parse_desktop_entry(text: &str) -> Option<(Option<String>, String)> {
    let mut section = "";
    let (mut name, mut command, mut off) = (None, None, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[Desktop Entry]"
            && let Some((key, value)) = line.split_once('=')
        {
            match (key.trim_end(), value.trim_start()) {
                ("Name", value) => name = Some(value.to_owned()),
                ("Exec", value) => command = Some(value.to_owned()),
                ("Hidden", "true") | ("X-GNOME-Autostart-enabled", "false") => off = true,
                _ => {}
            }
        }
    }
    command.filter(|_| !off).map(|command| (name, command))
}

/// Units that are linked from the `.wants` of another: that is what enabling does.
fn wanted_units(facts: &Facts, folder: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    for wants in facts.names(folder).iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires")) {
        for unit in facts.names(&format!("{folder}/{wants}")) {
            let link = facts.path(&format!("{folder}/{wants}/{unit}"));
            let command = unit_file(facts, &link).and_then(|text| parse_exec_start(&text)).unwrap_or_default();
            found.push(Entry::new(&unit, &command, &format!("/{folder}/{wants}")));
        }
    }
    found
}

/// The text of the unit that a link leads to; of a timer, that of the service it starts. Links are absolute, and absolute
/// below the root.
fn unit_file(facts: &Facts, link: &Path) -> Option<String> {
    let target: PathBuf = std::fs::read_link(link).ok()?;
    let path = if target.is_absolute() { facts.path(target.to_str()?) } else { link.parent()?.join(target) };
    let path =
        if path.extension().is_some_and(|kind| kind == "timer") { path.with_extension("service") } else { path };
    facts::read_text(&path, FILE_CAP).ok()
}

fn parse_exec_start(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("ExecStart="))?;
    Some(line.trim_start_matches(['-', '@', ':', '+', '!']).to_owned())
}

fn cron(facts: &Facts) -> Vec<Entry> {
    let mut found = Vec::new();
    let system = facts.names("etc/cron.d").into_iter().map(|name| format!("etc/cron.d/{name}"));
    for path in std::iter::once("etc/crontab".to_owned()).chain(system) {
        let text = facts::read_text(&facts.path(&path), FILE_CAP).unwrap_or_default();
        found.extend(parse_crontab(&text, Columns::WithUser, &format!("/{path}")));
    }
    for folder in ["var/spool/cron/crontabs", "var/spool/cron"] {
        for whose in facts.names(folder) {
            let path = format!("{folder}/{whose}");
            let text = facts::read_text(&facts.path(&path), FILE_CAP).unwrap_or_default();
            found.extend(parse_crontab(&text, Columns::Own, &format!("/{path}")));
        }
    }
    for often in ["hourly", "daily", "weekly", "monthly"] {
        for script in facts.names(&format!("etc/cron.{often}")).iter().filter(|name| !name.starts_with('.')) {
            let path = format!("/etc/cron.{often}/{script}");
            found.push(Entry::new(script, &path, &format!("/etc/cron.{often}")));
        }
    }
    found
}

/// Whether a line says as whom it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    WithUser,
    Own,
}

fn parse_crontab(text: &str, columns: Columns, location: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let line = line.trim();
        let when_words = if line.starts_with('@') { 1 } else { 5 };
        // A line that sets a variable has no time in front.
        let first = line.chars().next()?;
        if !(first.is_ascii_digit() || first == '*' || first == '@') {
            return None;
        }
        let skip = when_words + usize::from(columns == Columns::WithUser);
        let mut rest = line;
        let mut when = Vec::new();
        for index in 0..skip {
            let (word, tail) = rest.split_once(char::is_whitespace)?;
            if index < when_words {
                when.push(word);
            }
            rest = tail.trim_start();
        }
        (!rest.is_empty()).then(|| Entry::new(&when.join(" "), rest, location))
    };
    text.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    #[test]
    fn everything_that_starts_by_itself_is_found() {
        let section = collected(
            super::section,
            &[
                ("etc/passwd", "kim:x:1000:1000::/people/kim:/bin/sh\nwww:x:33:33::/var/www:/bin/false\nbad\n"),
                (
                    "etc/xdg/autostart/a.desktop",
                    "[Desktop Entry]\nName=Updater\nExec=/usr/bin/up --token=abc123secret\n",
                ),
                ("etc/xdg/autostart/off.desktop", "[Desktop Entry]\nExec=x\nHidden=true\n"),
                (
                    "people/kim/.config/autostart/chat.desktop",
                    "[Desktop Entry]\nExec=chat\n[Desktop Action x]\nExec=y\n",
                ),
                ("etc/systemd/system/multi-user.target.wants/web.service", "[Service]\nExecStart=/usr/bin/web\n"),
                (
                    "etc/crontab",
                    "SHELL=/bin/sh\n17 * * * * root cd / && run-parts /etc/cron.hourly\n# 1 2 3 4 5 x y\n",
                ),
                ("var/spool/cron/crontabs/kim", "@reboot /opt/start\n5 4 * * * backup\nbroken\n1 2 3\n"),
                ("etc/cron.daily/logrotate", ""),
                ("etc/rc.local", "#!/bin/sh\n/opt/old\nexit 0\n"),
            ],
        );
        let lines: Vec<_> = section["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| format!("{} | {} | {}", e["name"], e["command"], e["location"]).replace('"', ""))
            .collect();
        assert_eq!(
            lines,
            [
                "Updater | /usr/bin/up --token=[removed] | /etc/xdg/autostart/a.desktop",
                "chat | chat | /people/kim/.config/autostart/chat.desktop (kim)",
                "web.service |  | /etc/systemd/system/multi-user.target.wants",
                "17 * * * * | cd / && run-parts /etc/cron.hourly | /etc/crontab",
                "@reboot | /opt/start | /var/spool/cron/crontabs/kim",
                "5 4 * * * | backup | /var/spool/cron/crontabs/kim",
                "logrotate | /etc/cron.daily/logrotate | /etc/cron.daily",
                "rc.local | /opt/old | /etc/rc.local",
            ]
        );
        assert_eq!(section["summary"], "8 entries");
    }

    #[test]
    fn the_command_of_a_unit_is_found_behind_its_link() {
        assert_eq!(parse_exec_start("[Service]\nExecStart=-/usr/bin/x -a\n").as_deref(), Some("/usr/bin/x -a"));
        assert_eq!(parse_exec_start("[Timer]\n"), None);
    }
}
