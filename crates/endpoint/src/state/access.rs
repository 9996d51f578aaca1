//! Who may use the state, where files have lists of access and not modes (Windows): the counterpart of 0700 and 0600.
//!
//! The directory gets a list of its own, in place of what it would inherit (below `ProgramData` that is everybody), for
//! its owner, the system and the administrators; what is made in it inherits that. A key is read only if nobody else is
//! in its list. Both are done with the system's own programs, by well-known ids and not by names, which are translated.

/// The list of a private directory, as `icacls` takes it: system, administrators, owner; for what is below, too.
#[cfg_attr(not(windows), allow(dead_code, reason = "only Windows has such lists; the reading is tested everywhere"))]
pub(super) const PRIVATE: [&str; 3] = ["*S-1-5-18:(OI)(CI)F", "*S-1-5-32-544:(OI)(CI)F", "*S-1-3-4:(OI)(CI)F"];

/// Who else may read, by a security descriptor in its text form (SDDL): each entry that allows somebody who is neither
/// the owner nor the system nor an administrator to read. A descriptor without a list lets everybody do everything.
#[cfg_attr(not(windows), allow(dead_code, reason = "only Windows has such lists; the reading is tested everywhere"))]
pub(super) fn strangers(sddl: &str) -> Vec<String> {
    let part = |tag: &str| {
        let from = sddl.find(tag)? + tag.len();
        // A part ends where the next tag begins: a letter before a colon, outside of the entries.
        let rest = &sddl[from..];
        let end = rest.find("G:").into_iter().chain(rest.find("D:")).chain(rest.find("S:(")).min();
        Some(&rest[..end.unwrap_or(rest.len())])
    };
    let owner = part("O:").unwrap_or_default();
    let Some(list) = part("D:").filter(|list| list.contains('(') || !list.contains("NO_ACCESS_CONTROL")) else {
        return vec!["everybody".to_owned()];
    };
    let entries = list.split('(').skip(1).filter_map(|entry| entry.split(')').next());
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let fields: Vec<&str> = entry.split(';').collect();
            let [kind, _, rights, _, _, who, ..] = fields.as_slice() else { return None };
            let allows = matches!(*kind, "A" | "XA") && reads(rights);
            let known = ["SY", "BA", "OW", "S-1-5-18", "S-1-5-32-544", "S-1-3-4"].contains(who) || *who == owner;
            (allows && !known).then(|| (*who).to_owned())
        })
        .collect();
    found.dedup();
    found
}

/// Whether rights include reading: by name (file or generic, read or all), or by number (the lowest bit, or a generic
/// right).
fn reads(rights: &str) -> bool {
    if let Some(number) = rights.strip_prefix("0x") {
        return u32::from_str_radix(number, 16).is_ok_and(|mask| mask & 0x9000_0001 != 0);
    }
    let names: Vec<&str> = (0..rights.len()).step_by(2).filter_map(|at| rights.get(at..at + 2)).collect();
    names.iter().any(|name| ["FA", "FR", "GA", "GR", "CC", "KA", "KR"].contains(name))
}

#[cfg(windows)]
mod system {
    use std::io;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::LazyLock;

    /// Programs of the system by their full path: the directory that the agent is started in may have others.
    fn program(name: &str) -> std::path::PathBuf {
        let root = std::env::var_os("SystemRoot").unwrap_or_else(|| "C:\\Windows".into());
        std::path::PathBuf::from(root).join("System32").join(name)
    }

    /// Makes a directory private, with all that will be made in it.
    pub(in super::super) fn make_private(dir: &Path, of_system: bool) -> io::Result<()> {
        let icacls = |args: &[&str]| {
            let mut command = Command::new(program("icacls.exe"));
            command.arg(dir).args(args).arg("/Q").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status()
        };
        if of_system {
            // Anybody may make a directory below `ProgramData`; whoever made this one must not keep it. Not allowed to
            // those who are no administrators, and they need it least.
            let _ = icacls(&["/setowner", "*S-1-5-32-544", "/T"]);
        }
        let list: Vec<&str> = ["/inheritance:r", "/grant:r"].into_iter().chain(super::PRIVATE).collect();
        let status = icacls(&list)?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("icacls ended with {status}"))) }
    }

    /// Who else may read a file. Nothing if the system does not say.
    pub(in super::super) fn others_who_read(file: &Path) -> Option<Vec<String>> {
        let script = "(Get-Acl -LiteralPath $env:CONVOKE_FILE).Sddl";
        let mut command = Command::new(program("WindowsPowerShell\\v1.0\\powershell.exe"));
        command.args(["-NoProfile", "-NonInteractive", "-Command", script]).env("CONVOKE_FILE", file);
        let said = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let sddl = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        (said.status.success() && sddl.contains(':')).then(|| super::strangers(&sddl))
    }

    /// Whether this process runs elevated, or as the system: by the level in its own token.
    pub(in super::super) fn is_elevated() -> bool {
        static ELEVATED: LazyLock<bool> = LazyLock::new(|| {
            let said =
                Command::new(program("whoami.exe")).args(["/groups", "/fo", "csv"]).stdin(Stdio::null()).output();
            said.is_ok_and(|said| {
                let groups = String::from_utf8_lossy(&said.stdout).into_owned();
                groups.contains("S-1-16-12288") || groups.contains("S-1-16-16384")
            })
        });
        *ELEVATED
    }
}

#[cfg(windows)]
pub(super) use system::{is_elevated, make_private, others_who_read};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owner_system_and_administrators_are_expected() {
        // As `icacls` leaves it, and the same by an owner's own id.
        for private in [
            "O:BAG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;OW)",
            "O:S-1-5-21-1-2-3-1001G:S-1-5-21-1-2-3-513D:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)(A;;FA;;;S-1-5-21-1-2-3-1001)",
            "O:SYG:SYD:P(A;;FA;;;SY)(D;;FA;;;WD)(A;;0x100000;;;WD)",
            "O:SYG:SYD:P(A;;FA;;;SY)S:AI(AU;SAFA;FA;;;WD)",
        ] {
            assert_eq!(strangers(private), Vec::<String>::new(), "{private}");
        }
        for (open, who) in [
            ("O:BAG:SYD:AI(A;ID;FA;;;SY)(A;ID;0x1200a9;;;BU)", "BU"),
            ("O:BAG:SYD:(A;;FR;;;WD)", "WD"),
            ("O:BAG:SYD:(A;;GRGX;;;AU)", "AU"),
            ("O:BAG:SYD:(A;;FA;;;S-1-5-21-9-9-9-1002)", "S-1-5-21-9-9-9-1002"),
            ("O:BAG:SYD:NO_ACCESS_CONTROL", "everybody"),
            ("O:BAG:SY", "everybody"),
        ] {
            assert_eq!(strangers(open), [who], "{open}");
        }
    }
}
