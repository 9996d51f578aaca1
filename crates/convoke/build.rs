//! Tells the linker which functions belong together (see `cargo xtask layout`), and how to write the program small.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

/// The functions that an agent at rest uses, those that it uses for common calls, and those that a hub uses for a call:
/// their crate and their linker name.
const LISTS: [&str; 3] = ["agent", "calls", "hub"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    for list in LISTS {
        println!("cargo::rerun-if-changed=link/{list}.txt");
    }
    if !wanted() {
        return Ok(());
    }
    // Sections of their own right before the rest of the code; whatever is not found there is simply not in them.
    let mut script = String::from("SECTIONS\n{\n");
    for list in LISTS {
        let _ = writeln!(script, "  .text.{list} :\n  {{");
        for line in fs::read_to_string(format!("link/{list}.txt"))?.lines() {
            let Some((from, name)) = line.split_once(' ') else { continue };
            let file = if from == "*" { "*".to_owned() } else { format!("*.{from}.*-cgu.*") };
            let _ = writeln!(script, "    {file}(.text.{name} .text.unlikely.{name})");
        }
        script.push_str("  }\n");
    }
    script.push_str("}\nINSERT BEFORE .text;\n");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let path = Path::new(&out).join("layout.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", path.display());
    if packs_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
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

/// Whether the system's loader knows packed relocations (glibc from 2.36 on). A megabyte of them is read at each start
/// otherwise, and stays in memory. Built elsewhere than it runs, nothing is known of that system.
fn packs_relocations() -> bool {
    if env::var("HOST").ok() != env::var("TARGET").ok() {
        return false;
    }
    let Ok(told) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let told = String::from_utf8_lossy(&told.stdout);
    let mut version = told.trim().rsplit(' ').next().unwrap_or_default().split('.').map(|n| n.parse().unwrap_or(0));
    (version.next().unwrap_or(0), version.next().unwrap_or(0)) >= (2, 36)
}
