//! `cargo xtask setup`: installs what the tests need and the machine lacks, and says what it does.
//!
//! The lists are kept short on purpose: whoever can compile this program has a linker and a C compiler already, and
//! everything else that the tests need is built by cargo.

mod roots;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run;

/// A Debian package that something here needs.
struct Package {
    /// Its name.
    name: &'static str,
    /// The program whose absence means that it is missing.
    program: &'static str,
    /// The file of this checkout that makes it necessary.
    needed_if: &'static str,
    /// Why.
    why: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "git",
        program: "git",
        needed_if: "Cargo.toml",
        why: "the tidy checks ask it which files belong to the project",
    },
    Package {
        name: "g++",
        program: "c++",
        needed_if: "fuzz/Cargo.toml",
        why: "libFuzzer, which the fuzz targets link, is written in C++",
    },
    Package {
        name: "strace",
        program: "strace",
        needed_if: "crates/convoke/tests/it/disk.rs",
        why: "makes a running hub's syncs fail",
    },
    Package {
        name: "debootstrap",
        program: "debootstrap",
        needed_if: "crates/machine/tests/systemd.rs",
        why: "makes the small Debian that tests of services boot",
    },
    Package {
        name: "systemd-container",
        program: "systemd-nspawn",
        needed_if: "crates/machine/tests/systemd.rs",
        why: "boots it",
    },
    Package {
        name: "xvfb",
        program: "Xvfb",
        needed_if: "crates/machine/tests/screen.rs",
        why: "a display of which tests take a picture",
    },
    Package {
        name: "dbus-daemon",
        program: "dbus-daemon",
        needed_if: "crates/machine/tests/portal.rs",
        why: "a bus on which tests ask a desktop for a picture",
    },
    Package {
        name: "nats-server",
        program: "nats-server",
        needed_if: "crates/bus/tests/bus.rs",
        why: "the bus between hubs is tested on a real server, and `bench --only rules` measures beside it",
    },
    Package {
        name: "coturn",
        program: "turnserver",
        needed_if: "crates/hub/tests/it/turn.rs",
        why: "credentials for TURN are tried on a real server, and browsers that only reach each other through it",
    },
    Package {
        name: "nftables",
        program: "nft",
        needed_if: "crates/convoke/tests/cluster.rs",
        why: "cuts hubs off from each other",
    },
    Package {
        name: "iproute2",
        program: "ip",
        needed_if: "crates/convoke/tests/cluster.rs",
        why: "makes the networks of several hubs",
    },
    Package {
        name: "faketime",
        program: "faketime",
        needed_if: "crates/convoke/tests/cluster.rs",
        why: "moves the clock of several hubs' database",
    },
    Package {
        name: "nodejs",
        program: "node",
        needed_if: "web/package.json",
        why: "the pages are built and tested with it",
    },
    Package {
        name: "npm",
        program: "npm",
        needed_if: "tests/mcp/package.json",
        why: "fetches the MCP suite and Inspector, which judge the hub",
    },
    Package {
        name: "npm",
        program: "npm",
        needed_if: "web/package.json",
        why: "fetches the packages that the pages are built from",
    },
    Package { name: "chromium", program: "chromium", needed_if: "web/package.json", why: "the page is tested in it" },
    Package {
        name: "postgresql",
        program: "psql",
        needed_if: "crates/probes/Cargo.toml",
        why: "the store and PostgreSQL's probes are tested on a real server",
    },
    Package {
        name: "redis-server",
        program: "redis-server",
        needed_if: "crates/probes/Cargo.toml",
        why: "Redis' probes are tested on a real server",
    },
    Package {
        name: "nginx-light",
        program: "nginx",
        needed_if: "crates/probes/Cargo.toml",
        why: "nginx' probes are tested on the real program",
    },
    Package {
        name: "mariadb-server",
        program: "mariadb",
        needed_if: "crates/probes/Cargo.toml",
        why: "MySQL's probes are tested on a real server",
    },
    Package {
        name: "iputils-ping",
        program: "ping",
        needed_if: "crates/probes/Cargo.toml",
        why: "the network probes run it",
    },
    Package {
        name: "traceroute",
        program: "traceroute",
        needed_if: "crates/probes/Cargo.toml",
        why: "the network probes run it",
    },
];

/// A component of the Rust toolchain, and the cargo command that it brings.
const COMPONENTS: &[(&str, &str)] = &[("rustfmt", "fmt"), ("clippy", "clippy")];

/// Folders whose Node packages the checks need.
const NODE_FOLDERS: &[&str] = &["web", crate::conformance::FOLDER];

/// Whether a folder has packages to fetch, or has others than its lock file names.
fn lacks_packages(folder: &Path) -> bool {
    let lock = folder.join("package-lock.json");
    let modified = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    match (modified(&lock), modified(&folder.join("node_modules/.package-lock.json"))) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(wanted), Some(there)) => wanted > there,
    }
}

/// What is missing.
struct Missing {
    packages: Vec<&'static Package>,
    components: Vec<&'static str>,
    node_packages: Vec<&'static str>,
    root: Option<PathBuf>,
}

impl Missing {
    fn look(root: &Path) -> Self {
        let lacks = |package: &&Package| {
            root.join(package.needed_if).is_file() && run::find_program(package.program).is_none()
        };
        let absent = |command: &str| !run::succeeds(run::cargo(root).args([command, "--version"]));
        Self {
            packages: PACKAGES.iter().filter(lacks).collect(),
            components: COMPONENTS.iter().filter(|(_, command)| absent(command)).map(|(name, _)| *name).collect(),
            node_packages: NODE_FOLDERS.iter().copied().filter(|folder| lacks_packages(&root.join(folder))).collect(),
            root: roots::missing(root),
        }
    }

    fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.components.is_empty() && self.node_packages.is_empty() && self.root.is_none()
    }
}

/// Whether [`run`] would do anything.
pub(crate) fn is_needed(root: &Path) -> bool {
    !Missing::look(root).is_empty()
}

/// Installs what is missing.
pub(crate) fn run(root: &Path) -> Result<()> {
    let missing = Missing::look(root);
    if missing.is_empty() {
        eprintln!("setup: nothing is missing");
        return Ok(());
    }
    if !missing.components.is_empty() {
        eprintln!("setup: adding to the Rust toolchain: {}", missing.components.join(", "));
        let mut add = Command::new("rustup");
        run::shown(add.current_dir(root).args(["component", "add"]).args(&missing.components))
            .context("add these components to the Rust toolchain by hand")?;
    }
    // What needs no packages is done all the same.
    let mut installed = Ok(());
    if !missing.packages.is_empty() {
        for package in &missing.packages {
            eprintln!("setup: `{}` is missing: {}", package.program, package.why);
        }
        let names: BTreeSet<_> = missing.packages.iter().map(|package| package.name).collect();
        installed = install(&names.into_iter().collect::<Vec<_>>());
    }
    for folder in missing.node_packages {
        if run::find_program("npm").is_none() {
            continue;
        }
        eprintln!("setup: fetching the Node packages of {folder}/");
        // No scripts: nothing that is installed here needs to run anything to be there. Not `npm ci`: it refuses a lock
        // without the packages of other platforms, which not every registry offers; this leaves the lock as it is.
        let args = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
        run::shown(Command::new("npm").current_dir(root.join(folder)).args(args))?;
    }
    if let Some(folder) = &missing.root {
        roots::make(folder)?;
    }
    installed
}

/// Who may install packages here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installer {
    /// Root: what is missing is installed, and said.
    Root,
    /// Somebody at a terminal, who is asked.
    Asked,
}

fn install(names: &[&str]) -> Result<()> {
    let has_apt = run::find_program("apt-get").is_some();
    let is_root = run::output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let installer = choose(has_apt, is_root, is_asked).map_err(|why| by_hand(why, names))?;
    if installer == Installer::Asked && !agrees(names)? {
        return Err(by_hand("nothing was installed", names));
    }
    eprintln!("setup: installing {}", names.join(", "));
    run::shown(apt_get(installer).arg("update").arg("-q"))?;
    run::shown(apt_get(installer).args(["install", "-y", "-q", "--no-install-recommends"]).args(names))
}

fn agrees(names: &[&str]) -> Result<bool> {
    eprint!("setup: run `{}` now? [y/N] ", line(names));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn choose(has_apt: bool, is_root: bool, is_asked: bool) -> Result<Installer, &'static str> {
    match (has_apt, is_root, is_asked) {
        (false, ..) => Err("this is not a Debian system"),
        (true, true, _) => Ok(Installer::Root),
        (true, false, true) => Ok(Installer::Asked),
        (true, false, false) => Err("packages are installed only by root, or when somebody at a terminal agrees"),
    }
}

/// What somebody would type.
fn line(names: &[&str]) -> String {
    format!("sudo apt-get install --no-install-recommends {}", names.join(" "))
}

fn by_hand(why: &str, names: &[&str]) -> anyhow::Error {
    anyhow::anyhow!("{why}; what is missing (Debian's names):\n  {}", line(names))
}

fn apt_get(installer: Installer) -> Command {
    match installer {
        Installer::Root => {
            let mut command = Command::new("apt-get");
            command.env("DEBIAN_FRONTEND", "noninteractive");
            command
        }
        Installer::Asked => {
            let mut command = Command::new("sudo");
            command.args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
            command
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_can_be_installed_it_says_what_to_do() {
        assert_eq!(choose(true, true, false), Ok(Installer::Root));
        assert_eq!(choose(true, false, true), Ok(Installer::Asked));
        let why = choose(true, false, false).expect_err("nobody agrees");
        let text = by_hand(why, &["g++", "git"]).to_string();
        assert!(text.contains("root") && text.ends_with("g++ git"), "{text}");
        assert!(choose(false, true, false).is_err_and(|why| why.contains("Debian")));
    }

    #[test]
    fn what_no_file_asks_for_is_not_missing() {
        // An empty folder has no web page and no fuzz crate, so nothing of theirs is needed.
        let nowhere = Path::new("no-such-folder-here");
        assert!(Missing::look(nowhere).packages.is_empty());
        assert!(Missing::look(nowhere).node_packages.is_empty());
        assert!(Missing::look(nowhere).root.is_none());
    }
}
