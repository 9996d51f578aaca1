//! The root of a small Debian with systemd, which tests of services and journals boot in a container.
//!
//! Made once per machine and release, with debootstrap, and kept in the cache folder. Tests boot it without writing to
//! it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run;

/// The file of this checkout that makes it necessary.
const NEEDED_IF: &str = "crates/machine/tests/systemd.rs";

/// What is in it beyond the bare minimum: systemd with its bus, and `ip`.
const INCLUDE: &str = "--include=systemd,systemd-sysv,dbus,iproute2";

/// Where the root is to be, if it is needed, can be made here, and is not there.
pub(super) fn missing(checkout: &Path) -> Option<PathBuf> {
    let folder = folder()?;
    let needed = checkout.join(NEEDED_IF).is_file() && is_root();
    (needed && !folder.join("etc/os-release").exists()).then_some(folder)
}

/// Makes it.
pub(super) fn make(folder: &Path) -> Result<()> {
    let suite = suite().context("the release of this Debian cannot be told from /etc/os-release")?;
    eprintln!("setup: making a small Debian ({suite}) with systemd for tests in {}", folder.display());
    let parent = folder.parent().context("the cache folder has no parent")?;
    std::fs::create_dir_all(parent)?;
    // Under another name until it is whole: a broken one would look like a whole one.
    let unfinished = folder.with_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    let mut make = Command::new("debootstrap");
    make.args(["--variant=minbase", INCLUDE, &suite]).arg(&unfinished);
    run::shown(&mut make)?;
    std::fs::rename(&unfinished, folder)?;
    Ok(())
}

/// `~/.cache/convoke/roots/systemd-<release>`. The release is this machine's own: the tests' programs are linked with
/// its C library.
fn folder() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("convoke/roots").join(format!("systemd-{}", suite()?)))
}

fn suite() -> Option<String> {
    codename(&std::fs::read_to_string("/etc/os-release").ok()?)
}

fn codename(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        let value = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    (field("ID")? == "debian").then(|| field("VERSION_CODENAME"))?
}

fn is_root() -> bool {
    run::output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debians_have_a_root_made() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n").as_deref(), Some("bookworm"));
        assert_eq!(codename("ID=\"fedora\"\nVERSION_CODENAME=\"\"\n"), None);
        assert_eq!(codename(""), None);
    }
}
