//! Whether a restart is due.

use convoke_core::health::Status;
use serde_json::json;

use crate::Section;
use crate::facts::Facts;

pub(in crate::linux) fn reboot_pending(facts: &Facts) -> Section {
    let mut reasons = Vec::new();
    if facts.exists("run/reboot-required") || facts.exists("var/run/reboot-required") {
        let packages = facts.read("run/reboot-required.pkgs").unwrap_or_default();
        let mut names: Vec<&str> = packages.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(20);
        reasons.push(match names.is_empty() {
            true => "the system requires it".to_owned(),
            false => format!("updated: {}", names.join(", ")),
        });
    }
    // dnf's own judgement; 1 is "yes".
    if let Some(Ok(output)) = facts.command("needs-restarting", &["--reboothint"])
        && output.exit_code == 1
    {
        reasons.push("updated libraries or services are still in use".to_owned());
    }
    if let Some(running) = facts.word("proc/sys/kernel/osrelease") {
        reasons.extend(newer_kernel(&running, &installed(facts)));
    }
    let pending = !reasons.is_empty();
    let (status, summary) = match reasons.first() {
        Some(reason) => (Status::Warn, format!("a restart is due: {reason}")),
        None => (Status::Ok, "no restart is due".to_owned()),
    };
    Section::new(status, summary).with("pending", pending).with("reasons", json!(reasons))
}

/// The releases of the kernels that could be started.
fn installed(facts: &Facts) -> Vec<String> {
    let images = facts.names("boot").into_iter();
    images.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned)).collect()
}

/// What is wrong with the kernel that runs. One that is not installed at all came from outside (a container, some
/// virtual machines), and says nothing.
fn newer_kernel(running: &str, installed: &[String]) -> Option<String> {
    if !installed.iter().any(|release| release == running) {
        return None;
    }
    let flavour = |release: &str| -> String {
        release.split(['.', '-', '_', '+']).filter(|part| !part.starts_with(|c: char| c.is_ascii_digit())).collect()
    };
    let newest = installed
        .iter()
        .filter(|release| flavour(release) == flavour(running))
        .max_by_key(|release| numbers(release))?;
    (numbers(newest) > numbers(running)).then(|| format!("kernel {newest} is installed, {running} runs"))
}

/// `6.1.0-41-amd64` as `[6, 1, 0, 41]`: versions are compared as numbers.
fn numbers(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    #[test]
    fn a_newer_kernel_of_the_same_kind_is_a_reason() {
        let check = |running: &str, installed: &[&str], expect: Option<&str>| {
            let installed: Vec<_> = installed.iter().map(|release| (*release).to_owned()).collect();
            let found = newer_kernel(running, &installed);
            assert_eq!(found.as_deref().map(|text| text.split(' ').nth(1).unwrap()), expect, "{running}");
        };
        check("6.1.0-9-amd64", &["6.1.0-9-amd64", "6.1.0-41-amd64"], Some("6.1.0-41-amd64"));
        check("6.1.0-41-amd64", &["6.1.0-9-amd64", "6.1.0-41-amd64"], None);
        check("6.1.0-9-amd64", &["6.1.0-9-amd64", "6.1.0-41-cloud-amd64"], None);
        check("6.18.0-fc", &["6.1.0-41-amd64"], None);
    }

    #[test]
    fn what_the_system_asks_for_is_said() {
        let section = collected(
            reboot_pending,
            &[("run/reboot-required", ""), ("run/reboot-required.pkgs", "libc6\nlinux-base\nlibc6\n")],
        );
        assert_eq!(section["reasons"], json!(["updated: libc6, linux-base"]));
        assert_eq!((&section["status"], &section["pending"]), (&"warn".into(), &true.into()));
        assert_eq!(collected(reboot_pending, &[])["pending"], false);
    }
}
