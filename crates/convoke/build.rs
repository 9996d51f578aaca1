//! Tells the linker which functions belong together (see `cargo xtask layout`).

use std::path::Path;
use std::{env, fs, io};

/// The functions that an agent at rest uses, by their linker names.
const LIST: &str = "link/agent.txt";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={LIST}");
    println!("cargo::rerun-if-changed=build.rs");
    if !wanted() {
        return Ok(());
    }
    let list = fs::read_to_string(LIST)?;
    let lines = list.lines().filter(|line| !line.is_empty()).map(|name| format!("    *(.text.{name})\n"));
    // A section of its own right before the rest of the code; whatever is not found there is simply not in it.
    let script =
        format!("SECTIONS\n{{\n  .text.agent :\n  {{\n{}  }}\n}}\nINSERT BEFORE .text;\n", lines.collect::<String>());
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let path = Path::new(&out).join("agent.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", path.display());
    Ok(())
}

/// Only where it pays and where the linker is the one that comes with the compiler: the names are of the optimised
/// program, and not every linker reads scripts.
fn wanted() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let own_linker = env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"))
        || env::var_os("RUSTC_LINKER").is_some();
    is("PROFILE", "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && !own_linker
}
