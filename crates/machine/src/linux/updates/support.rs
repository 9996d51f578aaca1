//! How long the system is supported.
//!
//! Where the system says so itself (`SUPPORT_END` of `/etc/os-release`) that holds; else this table does. Its dates are
//! the last day on which fixes for security come to everybody without a contract.

use convoke_core::health::Status;
use jiff::civil::Date;
use jiff::{Unit, Zoned};
use serde_json::Value;

use crate::Section;
use crate::facts::Facts;

/// `ID`, `VERSION_ID` or its beginning up to a dot, the last day.
const TABLE: &[(&str, &str, &str)] = &[
    ("debian", "8", "2020-06-30"),
    ("debian", "9", "2022-06-30"),
    ("debian", "10", "2024-06-30"),
    ("debian", "11", "2026-08-31"),
    ("debian", "12", "2028-06-30"),
    ("debian", "13", "2030-06-30"),
    ("raspbian", "10", "2024-06-30"),
    ("raspbian", "11", "2026-08-31"),
    ("raspbian", "12", "2028-06-30"),
    ("ubuntu", "14.04", "2019-04-25"),
    ("ubuntu", "16.04", "2021-04-30"),
    ("ubuntu", "18.04", "2023-05-31"),
    ("ubuntu", "20.04", "2025-05-31"),
    ("ubuntu", "22.04", "2027-04-30"),
    ("ubuntu", "23.10", "2024-07-11"),
    ("ubuntu", "24.04", "2029-05-31"),
    ("ubuntu", "24.10", "2025-07-10"),
    ("ubuntu", "25.04", "2026-01-15"),
    ("ubuntu", "25.10", "2026-07-09"),
    ("ubuntu", "26.04", "2031-05-31"),
    ("pop", "22.04", "2027-04-30"),
    ("pop", "24.04", "2029-05-31"),
    ("linuxmint", "20", "2025-04-30"),
    ("linuxmint", "21", "2027-04-30"),
    ("linuxmint", "22", "2029-04-30"),
    ("fedora", "38", "2024-05-21"),
    ("fedora", "39", "2024-11-26"),
    ("fedora", "40", "2025-05-13"),
    ("fedora", "41", "2025-12-15"),
    ("fedora", "42", "2026-05-27"),
    ("fedora", "43", "2026-12-02"),
    ("rhel", "7", "2024-06-30"),
    ("rhel", "8", "2029-05-31"),
    ("rhel", "9", "2032-05-31"),
    ("rhel", "10", "2035-05-31"),
    ("centos", "7", "2024-06-30"),
    ("centos", "8", "2024-05-31"),
    ("centos", "9", "2027-05-31"),
    ("centos", "10", "2030-01-01"),
    ("almalinux", "8", "2029-03-01"),
    ("almalinux", "9", "2032-05-31"),
    ("almalinux", "10", "2035-05-31"),
    ("rocky", "8", "2029-05-31"),
    ("rocky", "9", "2032-05-31"),
    ("rocky", "10", "2035-05-31"),
    ("ol", "7", "2024-12-31"),
    ("ol", "8", "2029-07-31"),
    ("ol", "9", "2032-06-30"),
    ("opensuse-leap", "15.4", "2023-12-07"),
    ("opensuse-leap", "15.5", "2024-12-31"),
    ("opensuse-leap", "15.6", "2026-04-30"),
    ("opensuse-leap", "16.0", "2027-10-31"),
    ("sles", "12.5", "2024-10-31"),
    ("sles", "15.5", "2024-12-31"),
    ("sles", "15.6", "2025-12-31"),
    ("sles", "15.7", "2031-07-31"),
    ("alpine", "3.17", "2024-11-22"),
    ("alpine", "3.18", "2025-05-09"),
    ("alpine", "3.19", "2025-11-01"),
    ("alpine", "3.20", "2026-04-01"),
    ("alpine", "3.21", "2026-11-01"),
    ("alpine", "3.22", "2027-05-01"),
    ("alpine", "3.23", "2027-11-01"),
    ("amzn", "2", "2026-06-30"),
    ("amzn", "2023", "2029-06-30"),
    ("nixos", "24.05", "2024-12-31"),
    ("nixos", "24.11", "2025-06-30"),
    ("nixos", "25.05", "2025-12-31"),
    ("nixos", "25.11", "2026-06-30"),
];

/// Systems without versions, which are supported for as long as they are kept up to date.
const ROLLING: [&str; 8] =
    ["arch", "manjaro", "endeavouros", "opensuse-tumbleweed", "gentoo", "void", "cachyos", "artix"];

/// Days before the end at which it is time to plan: the hub's.
const NOTICE_DAYS: i32 = 90;

pub(in crate::linux) fn os_support(facts: &Facts) -> Section {
    let text = facts.read("etc/os-release").or_else(|_| facts.read("usr/lib/os-release")).unwrap_or_default();
    let release = Release::parse(&text);
    let kernel = facts.word("proc/sys/kernel/osrelease");
    let today = Zoned::now().date();
    let end = release.end();
    let rolling = ROLLING.contains(&release.id.as_str());
    let days = end.and_then(|end| today.until((Unit::Day, end)).ok()).map(|span| span.get_days());
    let or = |text: &String, other: &str| if text.is_empty() { other.to_owned() } else { text.clone() };
    let name = or(&release.pretty, "Linux");
    // Its version is told beside it.
    let bare = or(&release.name, &name);
    let (status, eol, summary) = match (days, end) {
        (Some(days), Some(end)) if days < 0 => (Status::Crit, Some(true), format!("{name}: support ended on {end}")),
        (Some(days), Some(end)) if days <= NOTICE_DAYS => {
            (Status::Warn, Some(false), format!("{name}: support ends on {end}"))
        }
        (Some(_), Some(end)) => (Status::Ok, Some(false), format!("{name}: supported until {end}")),
        _ if rolling => (Status::Ok, Some(false), format!("{name}: a rolling release")),
        _ => (Status::Ok, None, format!("{name}: end of support is not known")),
    };
    Section::new(status, summary)
        .with("name", bare)
        .with("version", release.version)
        .with("build", kernel)
        .with("eol", eol)
        .with("eol_date", end.map_or(Value::Null, |end| end.to_string().into()))
        .with("arch", std::env::consts::ARCH)
}

/// What `/etc/os-release` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Release {
    id: String,
    version: String,
    name: String,
    pretty: String,
    support_end: Option<Date>,
}

impl Release {
    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
            Some(crate::text::one_line(value.trim_matches(['"', '\'']), 128))
        };
        Self {
            id: field("ID").unwrap_or_default(),
            version: field("VERSION_ID").unwrap_or_default(),
            name: field("NAME").unwrap_or_default(),
            pretty: field("PRETTY_NAME").or_else(|| field("NAME")).unwrap_or_default(),
            support_end: field("SUPPORT_END").and_then(|date| date.parse().ok()),
        }
    }

    fn end(&self) -> Option<Date> {
        let fits = |version: &str| {
            self.version == version || self.version.strip_prefix(version).is_some_and(|rest| rest.starts_with('.'))
        };
        let known = TABLE.iter().find(|(id, version, _)| *id == self.id && fits(version));
        self.support_end.or_else(|| known.and_then(|(_, _, date)| date.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    #[test]
    fn every_date_of_the_table_is_one_and_no_version_hides_another() {
        for (id, version, date) in TABLE {
            assert!(date.parse::<Date>().is_ok(), "{id} {version}");
            let release = Release { id: (*id).into(), version: (*version).into(), ..Release::default() };
            assert_eq!(release.end().map(|end| end.to_string()).as_deref(), Some(*date), "{id} {version}");
        }
    }

    #[test]
    fn the_end_of_support_is_found() {
        let check = |text: &str, status: &str, eol: Value, date: Value| {
            let section = collected(os_support, &[("etc/os-release", text)]);
            assert_eq!(
                (&section["status"], &section["eol"], &section["eol_date"]),
                (&status.into(), &eol, &date),
                "{text}"
            );
        };
        check("ID=debian\nVERSION_ID=\"8\"\n", "crit", true.into(), "2020-06-30".into());
        check("ID=rocky\nVERSION_ID='10.1'\n", "ok", false.into(), "2035-05-31".into());
        check("ID=arch\n", "ok", false.into(), Value::Null);
        check("ID=homemade\nVERSION_ID=7\n", "ok", Value::Null, Value::Null);
        check("ID=fedora\nVERSION_ID=99\nSUPPORT_END=2020-01-02\n", "crit", true.into(), "2020-01-02".into());
        check("", "ok", Value::Null, Value::Null);
        let text = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
        let section = collected(os_support, &[("etc/os-release", text)]);
        assert_eq!((&section["name"], &section["version"]), (&"Debian GNU/Linux".into(), &"12".into()));
    }
}
