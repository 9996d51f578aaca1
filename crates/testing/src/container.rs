//! Tests that need a real systemd: a small Debian, booted in a container, in which the test program runs its other half.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::{is_root, skip};

/// Set for the half of a test that runs inside.
const INSIDE: &str = "INSIDE_THE_CONTAINER";

const RUNNER: &str = "[Unit]\nDescription=Runs the script of the test\nAfter=multi-user.target dbus.service\n\
    FailureAction=poweroff-force\nSuccessAction=poweroff-force\n\
    [Service]\nType=oneshot\nEnvironment=HOME=/root\n\
    ExecStart=/bin/sh -c '/bin/sh -ex /opt/test/script >/opt/out/log 2>&1; echo $? >/opt/out/status'\n";

/// Whether this is the half of a test that runs inside.
pub fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs the test `inside_the_container` of this program in the Debian, with more programs and units beside it: see
/// [`run`].
#[track_caller]
pub fn run_inside(programs: &[(&str, &Path)], units: &[(&str, &str)]) -> Option<String> {
    let script = format!("{INSIDE}=1 RUST_BACKTRACE=0 /opt/test/program --exact inside_the_container --nocapture");
    let own = env::current_exe().expect("the running test has a program");
    run(&script, &[programs, &[("program", &own)]].concat(), units)
}

/// Boots the Debian and runs a script in it, with programs in `/opt/test` and units beside the system's. Gives what was
/// printed; nothing, with a skip recorded, where nobody may boot a container.
///
/// # Panics
///
/// If the script fails, or the Debian is not there, though it could be.
#[track_caller]
pub fn run(script: &str, programs: &[(&str, &Path)], units: &[(&str, &str)]) -> Option<String> {
    let root = debian()?;
    let work = tempfile::tempdir().expect("a temporary directory can be made");
    let [test, out, system] = ["test", "out", "units"].map(|name| work.path().join(name));
    for folder in [&test, &out, &system] {
        fs::create_dir(folder).expect("the temporary directory is ours");
    }
    for (name, program) in programs {
        fs::copy(program, test.join(name)).expect("the program can be read");
    }
    fs::write(test.join("script"), script).expect("the temporary directory is ours");
    let mut boot = Command::new("timeout");
    boot.args(["--kill-after=10", "180", "systemd-nspawn", "--quiet", "--register=no", "--keep-unit"]);
    boot.args(["--private-network", "--volatile=overlay", "--link-journal=no", "--console=pipe"]);
    boot.arg("--capability=CAP_NET_ADMIN");
    boot.arg("--directory").arg(root);
    boot.arg(format!("--bind-ro={}:/opt/test", test.display()));
    boot.arg(format!("--bind={}:/opt/out", out.display()));
    for (name, text) in [("convoke-test.service", RUNNER)].iter().chain(units) {
        fs::write(system.join(name), text).expect("the temporary directory is ours");
        boot.arg(format!("--bind-ro={}:/etc/systemd/system/{name}", system.join(name).display()));
    }
    boot.args(["--boot", "--", "systemd.wants=convoke-test.service"]);
    let booted = boot.stdin(Stdio::null()).output().expect("every Linux has `timeout`");
    let status = fs::read_to_string(out.join("status")).unwrap_or_default();
    let log = fs::read_to_string(out.join("log")).unwrap_or_default();
    let console = String::from_utf8_lossy(&booted.stdout).into_owned() + &String::from_utf8_lossy(&booted.stderr);
    assert_eq!(status.trim(), "0", "{log}\n{console}");
    Some(log)
}

/// The root of the small Debian with systemd that `cargo xtask setup` makes. Records a skip where nobody may boot it.
///
/// # Panics
///
/// If it is not there, though it could be.
#[track_caller]
fn debian() -> Option<PathBuf> {
    if !is_root() {
        skip("booting a container needs root");
        return None;
    }
    let root = roots().and_then(|roots| {
        let whole = |path: &PathBuf| path.join("etc/os-release").exists() && path.extension().is_none();
        roots.read_dir().ok()?.flatten().map(|entry| entry.path()).find(whole)
    });
    Some(root.unwrap_or_else(|| panic!("there is no Debian to boot: run `cargo xtask setup`")))
}

fn roots() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("convoke/roots"))
}
