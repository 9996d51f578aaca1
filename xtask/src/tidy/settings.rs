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
    /// Names and defaults in the source of the table.
    defined: fn(&str) -> BTreeMap<String, &str>,
}

const HUB: Listing = Listing {
    table: "crates/gate/src/settings/table.rs",
    page: "docs/settings.md",
    section: None,
    defined: in_groups,
};
const AGENT: Listing = Listing {
    table: "crates/endpoint/src/settings.rs",
    page: "docs/agent.md",
    section: Some("## Settings"),
    defined: in_calls,
};

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
        let defined = (self.defined)(&table.text);
        let documented: BTreeMap<_, _> = self.lines(&page.text).filter_map(documented).collect();
        let mut findings = Vec::new();
        if defined.is_empty() {
            findings.push(Finding::in_file(self.table, "no setting was found in it: has its layout changed?"));
        }
        for (name, default) in &defined {
            match documented.get(name.as_str()) {
                None => findings.push(Finding::in_file(self.page, format!("`{name}` is missing"))),
                Some(written) if written != default => {
                    let what = format!("the default of `{name}` is `{default}`, not `{written}`");
                    findings.push(Finding::in_file(self.page, what));
                }
                Some(_) => {}
            }
        }
        for name in documented.keys().filter(|name| !defined.contains_key(**name)) {
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

/// Names and defaults in lines `setting("name", kind, "default", "what it does"),`.
fn in_calls(text: &str) -> BTreeMap<String, &str> {
    fn defined(line: &str) -> Option<(String, &str)> {
        let texts: Vec<&str> = line.trim_start().strip_prefix("setting(\"")?.split('"').collect();
        Some((texts[0].to_owned(), default_of(&texts)?))
    }
    text.lines().filter_map(defined).collect()
}

/// Names and defaults in lines `name: Type = kind, "default", "what it does";` of a group `group: Type {`.
fn in_groups(text: &str) -> BTreeMap<String, &str> {
    let table = text.lines().skip_while(|line| *line != "settings! {").take_while(|line| *line != "}");
    let mut group = "";
    let mut found = BTreeMap::new();
    for (name, rest) in table.filter_map(|line| line.trim_start().split_once(": ")) {
        if rest.ends_with('{') {
            group = name;
        } else if let Some(default) = default_of(&rest.split('"').collect::<Vec<_>>()) {
            found.insert(format!("{group}.{name}"), default);
        }
    }
    found
}

/// The last text of a row but one. The kind may contain texts too, so they are counted from the end.
fn default_of<'a>(split_at_quotes: &[&'a str]) -> Option<&'a str> {
    // …, default, between, doc, end.
    split_at_quotes.len().checked_sub(4).map(|default| split_at_quotes[default])
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

    const GROUPS: &str = r#"
macro_rules! settings {
    ($group:ident: $Group:ident { $name:ident: "$default", "$doc"; }) => {};
}
settings! {
    a: ASettings {
        b: u64 = number(1, 2), "1", "What `it` does: it.";
    }
    c: CSettings {
        c: Word = word("x", "y"), "x", "Does.";
        d: Option<String> = text(), "", "Does.";
    }
}
"#;

    const CALLS: &str = r#"
const fn setting(name: &'static str) {}
    setting("a.b", number(1, 2), "1", "What `it` does."),
    setting("c.c", Kind::Word(&["x", "y"]), "x", "Does."),
    setting("c.d", Kind::Text, "", "Does."),
"#;

    fn found(page: &str) -> Vec<String> {
        HUB.check(&House::of(&[(HUB.table, GROUPS), (HUB.page, page)]))
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn only_the_section_of_a_page_counts() {
        let page = "## State\n| `key` | a file |\n## Settings\n| `a.b` | `1` | x |\n| `c.c` | `x` | x |\n\
                    | `c.d` | unset | x |\n## More\n| `other` | `2` | x |\n";
        assert!(AGENT.check(&House::of(&[(AGENT.table, CALLS), (AGENT.page, page)])).is_empty());
    }

    #[test]
    fn the_page_and_the_table_agree() {
        let good = "| `a.b` | `1` | it |\n| `c.c` | `x` | it |\n| `c.d` | unset | it |\n";
        assert_eq!(found(good), Vec::<String>::new());
        assert_eq!(found(&good.replace("`1`", "`2`")), ["the default of `a.b` is `1`, not `2`"]);
        assert_eq!(found(&good.replace("| `c.c`", "a.c")), ["`c.c` is missing"]);
        assert_eq!(found(&format!("{good}| `c.e` | `1` | it |\n")), ["`c.e` is no setting"]);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_found() {
        assert_eq!(HUB.check(&House::of(&[(HUB.table, "fn main() {}"), (HUB.page, "")])).len(), 1);
        assert_eq!(HUB.check(&House::of(&[(HUB.table, GROUPS)])).len(), 1);
        assert_eq!(check(&House::of(&[])).len(), 2);
    }
}
