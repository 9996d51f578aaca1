//! `cargo xtask layout`: which functions an agent at rest uses, which it uses for common calls, and which a hub uses for
//! a call, for the linker to put side by side.
//!
//! One program is hub and agent, and each uses a small part of it, strewn over all of it. What the kernel keeps in
//! memory are pieces of the file around each place that was used, so a strewn part costs many times its size; and a
//! processor that comes back from a sleep has to fetch it piece by piece. The lists are made from traces of the release
//! build and are part of the source (`crates/convoke/link`); the build script hands them to the linker. A function that
//! is not found there any more costs nothing but its place.
//!
//! An agent's list comes from its first run, which enrols, and a later one; `calls` from one in which it is called (what is
//! in a list before is not placed again); the hub's while it is called through each door.

mod stage;
mod traces;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{bench, run};

/// The lists there are.
const LISTS: [&str; 3] = ["agent", "calls", "hub"];
/// Most bytes of unused instances that a name brings along.
const SLACK: u64 = 16 * 1024;

/// Makes all lists anew: builds the program as it is shipped, traces it, and writes what was seen.
pub(crate) fn run(root: &Path) -> Result<()> {
    for program in ["valgrind", "callgrind_control", "cc"] {
        ensure!(run::find_program(program).is_some(), "{program} is not installed (Debian: valgrind, gcc)");
    }
    let target = bench::target_dir(root)?;
    // Beside the folder: where the program is as it was, nothing is linked, and no map written.
    let (dir, map) = (target.join("layout"), target.join("layout.map"));
    let _ = std::fs::remove_dir_all(&dir);
    let mut build = run::cargo(root);
    build.args(["rustc", "--release", "--package", "convoke", "--bin", "convoke", "--"]);
    run::shown(build.arg(format!("-Clink-arg=-Wl,-Map={}", map.display())))?;
    let program = target.join("release/convoke");
    let map = std::fs::read_to_string(&map).context("the linker wrote no map")?;
    for list in LISTS {
        let dir = dir.join(list);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let traces = traces::make(list, &program, &dir)?;
        write(root, list, &map, &traces)?;
    }
    Ok(())
}

/// Writes a list from the linker's map of a program and the traces of its runs.
fn write(root: &Path, list: &str, map: &str, traces: &[PathBuf]) -> Result<()> {
    let sections = sections(map);
    if sections.is_empty() {
        bail!("the map is not one of the linker that comes with the compiler");
    }
    let mut used = BTreeSet::new();
    for trace in traces {
        let text = std::fs::read_to_string(trace).with_context(|| format!("cannot read {}", trace.display()))?;
        used.extend(functions(&text));
    }
    let patterns = patterns(&sections, |section| used.contains(section.name));
    ensure!(!patterns.is_empty(), "the traces name no function of the program");
    let lines: String = patterns.iter().map(|(from, name)| format!("{from} {name}\n")).collect();
    let path = format!("crates/convoke/link/{list}.txt");
    std::fs::write(root.join(&path), lines).with_context(|| format!("cannot write {path}"))?;
    eprintln!("layout: {} functions in {path}", patterns.len());
    Ok(())
}

/// The functions that a trace of callgrind says were run. A name is written out once and then by its number.
fn functions(trace: &str) -> BTreeSet<String> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut run = BTreeSet::new();
    for line in trace.lines() {
        let Some((kind @ ("fn" | "cfn"), rest)) = line.split_once('=') else { continue };
        let Some((number, name)) = rest.trim_start_matches('(').split_once(')') else { continue };
        let name = name.trim();
        if !name.is_empty() {
            names.insert(number, name);
        }
        if let (true, Some(name)) = (kind == "fn", names.get(number)) {
            // `'2` and so on count the depth of a recursion.
            run.insert(name.split('\'').next().unwrap_or(name).to_owned());
        }
    }
    run
}

/// A function as the linker found it.
#[derive(Clone, Copy, Debug)]
struct Section<'a> {
    /// The crate whose object it was in; `*` where its name is enough.
    from: &'a str,
    name: &'a str,
    size: u64,
}

/// The functions in the linker's map. Its lines are `address address size align path:(section)`, in base 16.
fn sections(map: &str) -> Vec<Section<'_>> {
    let section = |line: &'_ str| -> Option<(u64, usize, usize)> {
        let size = u64::from_str_radix(line.split_whitespace().nth(2)?, 16).ok()?;
        let path_end = line.rfind(":(.text.")?;
        Some((size, path_end, path_end + 2))
    };
    let read = map.lines().filter_map(|line| {
        let (size, path_end, start) = section(line)?;
        let whole = line[start..].trim_end().strip_suffix(')')?.strip_prefix(".text.")?;
        let name =
            ["unlikely.", "hot.", "startup."].iter().find_map(|kind| whole.strip_prefix(kind)).unwrap_or(whole);
        let from = if name.starts_with("_ZN") { crate_of(&line[..path_end])? } else { "*" };
        Some(Section { from, name, size })
    });
    read.collect()
}

/// The crate in an object's name: `program-HASH.crate-HASH.crate.HASH-cgu.N.rcgu.o.rcgu.o`, and for the program's own
/// crate `program-HASH.crate.HASH-cgu.N.rcgu.o`.
fn crate_of(path: &str) -> Option<&str> {
    let file = path.rsplit('/').next()?;
    let (before, _) = file.split_once("-cgu.")?;
    before.rsplit('.').nth(1)
}

/// The patterns for the linker. A name without its hash stands for every instance of a generic function in that crate,
/// and outlives changes to the source. Those that bring unused instances along come last, so that they do not stand
/// between the others; where these weigh more than [`SLACK`] the names keep their hashes.
fn patterns<'a>(sections: &[Section<'a>], used: impl Fn(&Section<'a>) -> bool) -> Vec<(&'a str, String)> {
    let mut groups: BTreeMap<(&str, String), (u64, Vec<&str>)> = BTreeMap::new();
    for section in sections {
        let (unused, wanted) = groups.entry((section.from, general(section.name))).or_default();
        if used(section) {
            wanted.push(stem(section.name));
        } else {
            *unused += section.size;
        }
    }
    let mut found: Vec<_> = groups.into_iter().filter(|(_, (_, wanted))| !wanted.is_empty()).collect();
    found.sort_by_key(|(_, (unused, _))| if *unused > SLACK { 0 } else { *unused });
    let each = found.into_iter().flat_map(|((from, general), (unused, wanted))| {
        let names =
            if unused > SLACK { wanted.into_iter().map(|name| format!("{name}*")).collect() } else { vec![general] };
        names.into_iter().map(move |name| (from, name))
    });
    each.collect()
}

/// The name with a wildcard in place of what other compilers and versions write differently.
fn general(name: &str) -> String {
    let name = stem(name);
    if let Some((path, hash)) = name.rsplit_once("17h")
        && name.starts_with("_ZN")
        && hash.len() == 17
    {
        return format!("{path}17h*");
    }
    if name.starts_with("_R") { format!("{name}*") } else { name.to_owned() }
}

/// The name without what link-time optimisation adds to it.
fn stem(name: &str) -> &str {
    name.split(".llvm.").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "_ZN4core3one17h0123456789abcdefE";
    const USED: &str = "_ZN4core3two17h1111111111111111E";
    const OTHER: &str = "_ZN4core3two17h2222222222222222E";
    const LARGE: &str = "_ZN4core5three17h3333333333333333E";
    const LARGER: &str = "_ZN4core5three17h4444444444444444E";

    #[test]
    fn a_name_stands_for_all_its_namesakes_in_a_crate_and_then_comes_last() {
        let object = |of: &str| format!("/t/deps/convoke-0f.{of}-1d.{of}.90-cgu.0.rcgu.o.rcgu.o");
        let (hub, own) = (object("convoke_hub"), "/t/deps/convoke-0f.convoke.6b-cgu.3.rcgu.o");
        let map = format!(
            "  VMA  LMA  Size Align Out  In  Symbol\n\
             895ea0 895ea0 1cb891 16 .text.agent\n\
             1 1 10 16 {hub}:(.text.{USED}.llvm.77)\n\
             1 1 fff 16 {hub}:(.text.{OTHER})\n\
             1 1 10 16 {hub}:(.text.{LARGE})\n\
             1 1 ffff 16 {hub}:(.text.{LARGER})\n\
             1 1 10 16 {own}:(.text.unlikely.{PLAIN})\n\
             1 1 10 1      core::one::h0123456789abcdef\n\
             1 1 ffff 16 {own}:(.text.{OTHER})\n\
             1 1 8 16 /t/libmimalloc.rlib(static.o):(.text.mi_malloc)\n\
             1 1 8 16 {own}:(.data.rel.ro.mi_data)\n"
        );
        let trace = format!(
            "fn=(1) {PLAIN}\ncfn=(2) {USED}.llvm.77\nfn=(2)\nfn=(3) mi_malloc'2\nfn=(4) elsewhere\nfn=(5) {LARGE}\n"
        );
        let used = functions(&trace);
        assert_eq!(used.len(), 5);
        let found = patterns(&sections(&map), |section| used.contains(section.name));
        let expect = [
            ("*", "mi_malloc".to_owned()),
            ("convoke", "_ZN4core3one17h*".to_owned()),
            ("convoke_hub", format!("{LARGE}*")),
            ("convoke_hub", "_ZN4core3two17h*".to_owned()),
        ];
        assert_eq!(found, expect);
    }
}
