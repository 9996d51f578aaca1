//! The tables that winget prints.

use serde::Serialize;

/// A package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) available: String,
}

/// A package's name as winget has it: no option, no quote, no blank.
pub(super) fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-{}\\".contains(c);
    (1..=256).contains(&id.len()) && id.chars().all(plain) && !id.starts_with('-')
}

/// The rows of a table. Its columns begin where their titles do, in whatever language the titles are: always name, id,
/// version, available, source, the last two only where there is something in them. Before the table winget draws a
/// moving bar, with carriage returns; a cell that is too long ends in `…`.
pub(super) fn parse(text: &str) -> Vec<Package> {
    let lines: Vec<&str> = text.lines().map(|line| line.rsplit('\r').next().unwrap_or(line)).collect();
    let is_rule = |line: &str| line.len() > 20 && line.chars().all(|c| c == '-');
    let Some(rule) = lines.iter().position(|line| is_rule(line.trim_end())) else { return Vec::new() };
    let Some(title) = rule.checked_sub(1).map(|above| lines[above]) else { return Vec::new() };
    let starts = columns(title);
    let has_available = starts.len() >= 5 || (starts.len() == 4 && title.to_lowercase().contains("available"));
    let row = |line: &&str| {
        let cell = |index: usize| cell(line, &starts, index);
        let (name, id, version) = (cell(0)?, cell(1)?, cell(2)?);
        // After the table come sentences, whose words do not keep to the columns.
        if id.is_empty() || id.contains(' ') || version.is_empty() {
            return None;
        }
        let available = if has_available { cell(3).unwrap_or_default() } else { String::new() };
        Some(Package { id, name, version, available })
    };
    lines[rule + 1..].iter().filter_map(row).collect()
}

/// Where the words of a title begin, in characters.
fn columns(title: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut before = ' ';
    for (at, c) in title.chars().enumerate() {
        if c != ' ' && before == ' ' {
            starts.push(at);
        }
        before = c;
    }
    starts
}

fn cell(line: &str, starts: &[usize], index: usize) -> Option<String> {
    let start = *starts.get(index)?;
    let end = starts.get(index + 1).copied().unwrap_or(usize::MAX);
    let text: String = line.chars().skip(start).take(end - start).collect();
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIST: &str = include_str!("../../../../fixtures/machine/windows/winget-list.txt");
    const UPGRADE: &str = include_str!("../../../../fixtures/machine/windows/winget-upgrade.txt");

    fn lines(text: &str) -> Vec<String> {
        parse(text).iter().map(|p| format!("{}|{}|{}|{}", p.id, p.name, p.version, p.available)).collect()
    }

    #[test]
    fn tables_are_read() {
        assert_eq!(
            lines(LIST),
            [
                "7zip.7zip|7-Zip 24.08 (x64)|24.08|24.09",
                "Microsoft.Edge|Microsoft Edge|142.0.3595.65|",
                "ARP\\Machine\\X64\\ExampleTool|Ünïcode Tool|1.0|",
            ]
        );
        assert_eq!(
            lines(UPGRADE),
            ["7zip.7zip|7-Zip 24.08 (x64)|24.08|24.09", "Example.Editor|Example Editor|1.92|1.93"]
        );
        assert!(parse("No installed package found matching input criteria.\r\n").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_harm(text: String) {
            let _ = parse(&format!("a  b  c\n{}\n{text}", "-".repeat(30)));
        }
    }

    #[test]
    fn an_id_is_no_option() {
        for id in ["7zip.7zip", "Notepad++.Notepad++", "ARP\\Machine\\X64\\{0-1}"] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", "--all", "a b", "a;b", "a\"b", "a|b", "$x"] {
            assert!(!is_id(id), "{id}");
        }
    }
}
