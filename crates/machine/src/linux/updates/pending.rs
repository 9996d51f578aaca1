//! The packages that wait, by whichever package manager there is. Nothing is fetched: the lists are as they are.

use serde::Serialize;

use crate::facts::Facts;
use crate::text;

/// A package that could be newer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) installed: String,
    pub(super) available: String,
    /// Absent where the lists do not say what an update is for.
    pub(super) security: Option<bool>,
}

impl Package {
    fn new(id: &str, installed: &str, available: &str, security: Option<bool>) -> Self {
        let short = |text: &str| text::one_line(text, 128);
        Self { id: short(id), installed: short(installed), available: short(available), security }
    }
}

/// The package manager of this machine, whether or not it answers.
pub(super) fn manager(facts: &Facts) -> Option<&'static str> {
    let programs = [
        ("apt-get", "apt"),
        ("dnf", "dnf"),
        ("yum", "dnf"),
        ("zypper", "zypper"),
        ("pacman", "pacman"),
        ("apk", "apk"),
    ];
    programs.into_iter().find(|(program, _)| facts.program(program).is_some()).map(|(_, name)| name)
}

pub(super) fn packages(facts: &Facts) -> Option<(&'static str, Vec<Package>)> {
    if facts.exists("var/lib/dpkg/status") && facts.program("apt-get").is_some() {
        // A simulation takes no lock and needs no root.
        let args = [
            "--just-print",
            "-o",
            "Debug::NoLocking=true",
            "-o",
            "APT::Get::Show-User-Simulation-Note=false",
            "dist-upgrade",
        ];
        return Some(("apt", parse_apt(&facts.output("apt-get", &args)?)));
    }
    if let Some(program) = ["dnf", "yum"].into_iter().find(|program| facts.program(program).is_some()) {
        let output = facts.command(program, &["--quiet", "--cacheonly", "check-update"])?.ok()?;
        // 100 is "there are some".
        if !matches!(output.exit_code, 0 | 100) {
            return None;
        }
        let security = facts.output(program, &["--quiet", "--cacheonly", "updateinfo", "list", "--security"]);
        return Some(("dnf", parse_dnf(&output.stdout, security.as_deref())));
    }
    if facts.program("zypper").is_some() {
        let list = facts.output("zypper", &["--no-refresh", "--quiet", "--non-interactive", "list-updates"])?;
        return Some(("zypper", parse_zypper(&list)));
    }
    if facts.program("pacman").is_some() {
        // 1 is "there are none".
        let output = facts.command("pacman", &["-Qu"])?.ok()?;
        return Some(("pacman", parse_pacman(&output.stdout)));
    }
    if facts.program("apk").is_some() {
        return Some(("apk", parse_apk(&facts.output("apk", &["version", "-l", "<"])?)));
    }
    None
}

/// `Inst libssl3 [3.0.11-1] (3.0.15-1 Debian-Security:12/oldstable-security [amd64])`.
fn parse_apt(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let rest = line.strip_prefix("Inst ")?;
        let (name, rest) = rest.split_once(' ')?;
        // A package without an old version would be new, which is no update.
        let (installed, rest) = rest.strip_prefix('[')?.split_once("] (")?;
        let (available, origin) = rest.split_once(' ').unwrap_or((rest, ""));
        let security = origin.to_lowercase().contains("security");
        Some(Package::new(name, installed, available, Some(security)))
    };
    text.lines().filter_map(package).collect()
}

/// `openssl-libs.x86_64    1:3.0.7-28.el9_4    baseos`, until a list of obsoletes begins.
fn parse_dnf(text: &str, security: Option<&str>) -> Vec<Package> {
    let package = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, available, _repository] = words.as_slice() else { return None };
        let (id, _architecture) = name.rsplit_once('.')?;
        // `FEDORA-2026-1 Important/Sec. openssl-libs-1:3.0.7-28.el9_4.x86_64`.
        let listed = security.map(|list| {
            let plain = available.split_once(':').map_or(*available, |(_, version)| version);
            list.lines().any(|line| {
                let full = line.split_ascii_whitespace().next_back().unwrap_or_default();
                full.strip_prefix(id).is_some_and(|rest| rest.starts_with('-') && rest.contains(plain))
            })
        });
        Some(Package::new(id, "", available, listed))
    };
    text.lines().take_while(|line| !line.starts_with("Obsoleting")).filter_map(package).collect()
}

/// `v | Main Update Repository | openssl | 3.1.4-1 | 3.1.4-2 | x86_64`.
fn parse_zypper(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, name, installed, available, _] = cells.as_slice() else { return None };
        (*name != "Name").then(|| Package::new(name, installed, available, None))
    };
    text.lines().filter_map(package).collect()
}

/// `linux 6.10.1-1 -> 6.11.2-1`.
fn parse_pacman(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, installed, "->", available, ..] = words.as_slice() else { return None };
        Some(Package::new(name, installed, available, None))
    };
    text.lines().filter_map(package).collect()
}

/// `busybox-1.36.0-r0    < 1.36.1-r2`.
fn parse_apk(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let (full, available) = line.split_once('<')?;
        // The version is the last two parts between hyphens.
        let mut parts = full.trim().rsplitn(3, '-');
        let (revision, version, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Package::new(name, &format!("{version}-{revision}"), available.trim(), None))
    };
    text.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(packages: &[Package]) -> Vec<String> {
        packages.iter().map(|p| format!("{} {} {} {:?}", p.id, p.installed, p.available, p.security)).collect()
    }

    #[test]
    fn apts_simulation_is_read() {
        let text = include_str!("../../../../../fixtures/machine/linux/apt-get-dist-upgrade.txt");
        assert_eq!(
            lines(&parse_apt(text)),
            [
                "base-files 12.4+deb12u11 12.4+deb12u12 Some(false)",
                "libssl3 3.0.16-1~deb12u1 3.0.17-1~deb12u3 Some(true)",
            ]
        );
    }

    #[test]
    fn the_others_are_read() {
        let dnf = "\nopenssl-libs.x86_64    1:3.0.7-28.el9_4   baseos\nvim.x86_64 2:9.1-1 appstream\nObsoleting Packages\na.x 1 b\n";
        let security = "RHSA-2026:1 Important/Sec. openssl-libs-1:3.0.7-28.el9_4.x86_64\n";
        assert_eq!(
            lines(&parse_dnf(dnf, Some(security))),
            ["openssl-libs  1:3.0.7-28.el9_4 Some(true)", "vim  2:9.1-1 Some(false)"]
        );
        assert_eq!(parse_dnf(dnf, None)[0].security, None);
        let zypper = "S | Repository | Name | Current Version | Available Version | Arch\n--+--\nv | Main | openssl | 3.1-1 | 3.1-2 | x86_64\n";
        assert_eq!(lines(&parse_zypper(zypper)), ["openssl 3.1-1 3.1-2 None"]);
        assert_eq!(
            lines(&parse_pacman("linux 6.10-1 -> 6.11-1\nx 1 -> 2 [ignored]\nbad\n")),
            ["linux 6.10-1 6.11-1 None", "x 1 2 None"]
        );
        assert_eq!(
            lines(&parse_apk("Installed:   Available:\nca-certs-bundle-2023-r0   < 2024-r1\n")),
            ["ca-certs-bundle 2023-r0 2024-r1 None"]
        );
    }
}
