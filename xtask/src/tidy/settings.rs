//! `docs/settings.md` lists exactly the settings that the hub has, with their defaults; `docs/agent.md` the agent's.

use std::collections::BTreeMap;

use super::Finding;
use super::house::House;

/// A table of settings, and where it is documented.
struct Listing {
    table: &'static str,
    page: &'static str,
    /// The only part of the page that counts.
    section: Option<&'static str>,
}

const HUB: Listing = Listing { table: "crates/hub/src/settings/table.rs", page: "docs/settings.md", section: None };
const AGENT: Listing =
    Listing { table: "crates/endpoint/src/settings.rs", page: "docs/agent.md", section: Some("## Settings") };

/// How the page writes an empty default.
const UNSET: &str = "unset";

pub(super) fn check(house: &House) -> Vec<Finding> {
    [HUB, AGENT].iter().flat_map(|listing| listing.check(house)).collect()
}

impl Listing {
    fn check(&self, house: &House) -> Vec<Finding> {
        let Some(table) = house.file(self.table) else {
            return vec![Finding::in_file(self.table, "the table of settings is gone")];
        };
        let Some(page) = house.file(self.page) else {
            return vec![Finding::in_file(self.page, "this page is missing")];
        };
        let defined: BTreeMap<_, _> = table.text.lines().filter_map(defined).collect();
        let documented: BTreeMap<_, _> = self.lines(&page.text).filter_map(documented).collect();
        let mut findings = Vec::new();
        if defined.is_empty() {
            findings.push(Finding::in_file(self.table, "no setting was found in it: has its layout changed?"));
        }
        for (name, default) in &defined {
            match documented.get(name) {
                None => findings.push(Finding::in_file(self.page, format!("`{name}` is missing"))),
                Some(written) if written != default => {
                    let what = format!("the default of `{name}` is `{default}`, not `{written}`");
                    findings.push(Finding::in_file(self.page, what));
                }
                Some(_) => {}
            }
        }
        for name in documented.keys().filter(|name| !defined.contains_key(*name)) {
            findings.push(Finding::in_file(self.page, format!("`{name}` is no setting")));
        }
        findings
    }

    /// The lines of the page that count.
    fn lines<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let section = self.section;
        let mut inside = section.is_none();
        text.lines().filter(move |line| {
            if let Some(section) = section
                && line.starts_with("## ")
            {
                inside = *line == section;
            }
            inside
        })
    }
}

/// Name and default in a line `setting("name", kind, "default", "what it does"),`.
fn defined(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix("setting(\"")?;
    let texts: Vec<&str> = rest.split('"').collect();
    // name, kind, [word, between …], default, between, doc, end: the kind may contain texts, so count from the end.
    let default = texts.len().checked_sub(4)?;
    Some((texts[0], texts[default]))
}

/// Name and default in a row `| `name` | `default` | … |`.
fn documented(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let default = cells.next()?;
    let default = if default == UNSET { "" } else { default.trim_matches('`') };
    Some((name, default))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
const fn setting(name: &'static str) {}
    setting("a.b", number(1, 2), "1", "What `it` does."),
    setting("a.c", Kind::Word(&["x", "y"]), "x", "Does."),
    setting("a.d", Kind::Text, "", "Does."),
"#;

    fn found(page: &str) -> Vec<String> {
        HUB.check(&House::of(&[(HUB.table, TEXT), (HUB.page, page)]))
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn only_the_section_of_a_page_counts() {
        let page = "## State\n| `key` | a file |\n## Settings\n| `a.b` | `1` | x |\n| `a.c` | `x` | x |\n\
                    | `a.d` | unset | x |\n## More\n| `other` | `2` | x |\n";
        assert!(AGENT.check(&House::of(&[(AGENT.table, TEXT), (AGENT.page, page)])).is_empty());
    }

    #[test]
    fn the_page_and_the_table_agree() {
        let good = "| `a.b` | `1` | it |\n| `a.c` | `x` | it |\n| `a.d` | unset | it |\n";
        assert_eq!(found(good), Vec::<String>::new());
        assert_eq!(found(&good.replace("`1`", "`2`")), ["the default of `a.b` is `1`, not `2`"]);
        assert_eq!(found(&good.replace("| `a.c`", "a.c")), ["`a.c` is missing"]);
        assert_eq!(found(&format!("{good}| `a.e` | `1` | it |\n")), ["`a.e` is no setting"]);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_found() {
        assert_eq!(HUB.check(&House::of(&[(HUB.table, "fn main() {}"), (HUB.page, "")])).len(), 1);
        assert_eq!(HUB.check(&House::of(&[(HUB.table, TEXT)])).len(), 1);
        assert_eq!(check(&House::of(&[])).len(), 2);
    }
}
