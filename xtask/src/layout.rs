//! `cargo xtask layout`: which functions an agent at rest uses, for the linker to put side by side.
//!
//! One program is hub and agent, and an agent uses a small part of it, strewn over all of it. What the kernel keeps in
//! memory are pieces of the file around each place that was used, so a strewn part costs many times its size. The list
//! is made from a trace of the release build and is part of the source (`crates/convoke/link/agent.txt`); the build
//! script hands it to the linker. A function that is not found there any more costs nothing but its place.
//!
//! ```text
//! MIMALLOC_PURGE_DELAY=0 valgrind --tool=callgrind --demangle=no --callgrind-out-file=/tmp/trace \
//!     target/release/convoke agent run --state DIR      # enrolled; end it with Ctrl-C after its first snapshot
//! cargo xtask layout target/release/convoke /tmp/trace
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::run;

/// Where the list is.
const LIST: &str = "crates/convoke/link/agent.txt";
/// A name without its hash stands for every instance of a generic function. It is taken where the other instances do
/// not weigh more than this; else the name keeps its hash, which another compiler or version changes.
const SLACK: u64 = 4096;

/// Writes the list from a program and the traces of its runs.
pub(crate) fn run(root: &Path, program: &str, traces: &[&str]) -> Result<()> {
    let symbols = run::output(Command::new("nm").args(["-S", "--defined-only", program]))
        .with_context(|| format!("nm does not read {program}"))?;
    let mut used = BTreeSet::new();
    for trace in traces {
        let text = std::fs::read_to_string(trace).with_context(|| format!("cannot read {trace}"))?;
        used.extend(functions(&text));
    }
    let patterns = patterns(&sizes(&symbols), &used);
    ensure!(!patterns.is_empty(), "the traces name no function of {program}; were they made with --demangle=no?");
    let list: String = patterns.iter().map(|pattern| format!("{pattern}\n")).collect();
    std::fs::write(root.join(LIST), list).with_context(|| format!("cannot write {LIST}"))?;
    eprintln!("layout: {} functions in {LIST}", patterns.len());
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

/// The sizes of a program's functions, as `nm -S` tells them.
fn sizes(symbols: &str) -> BTreeMap<&str, u64> {
    let mut sizes = BTreeMap::new();
    for line in symbols.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, size, "t" | "T" | "w" | "W", name] = words.as_slice() {
            *sizes.entry(*name).or_default() += u64::from_str_radix(size, 16).unwrap_or(0);
        }
    }
    sizes
}

/// The patterns for the linker, in order.
fn patterns(sizes: &BTreeMap<&str, u64>, used: &BTreeSet<String>) -> Vec<String> {
    let mut of_all: BTreeMap<String, u64> = BTreeMap::new();
    let mut of_used: BTreeMap<String, u64> = BTreeMap::new();
    for (name, size) in sizes {
        *of_all.entry(general(name)).or_default() += size;
        if used.contains(*name) {
            *of_used.entry(general(name)).or_default() += size;
        }
    }
    let found = used.iter().filter(|name| sizes.contains_key(name.as_str())).map(|name| {
        let general = general(name);
        if of_all[&general] <= of_used[&general] + SLACK { general } else { format!("{}*", stem(name)) }
    });
    found.collect::<BTreeSet<_>>().into_iter().collect()
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

    #[test]
    fn a_name_keeps_its_hash_where_its_namesakes_are_large() {
        let nm = format!(
            "00 0000000000000010 t {PLAIN}\n00 10 t {USED}.llvm.77\n00 ffff t {OTHER}\n00 8 T mi_malloc\n00 8 D data\n"
        );
        let trace = format!("fn=(1) {PLAIN}\ncfn=(2) {USED}.llvm.77\nfn=(2)\nfn=(3) mi_malloc'2\nfn=(4) elsewhere\n");
        let used = functions(&trace);
        assert_eq!(used.len(), 4);
        let expect = ["_ZN4core3one17h*", &format!("{USED}*"), "mi_malloc"];
        assert_eq!(patterns(&sizes(&nm), &used), expect);
    }
}
