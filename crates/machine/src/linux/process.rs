//! Processes, with the processor time that they really take.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use convoke_core::health::Status;
use nix::unistd::{SysconfVar, sysconf};
use serde_json::{Map, Value, json};

use super::round1;
use crate::facts::Facts;
use crate::{Section, ToolError, text};

/// Most processes that the tool returns.
const MAX_LISTED: usize = 5000;

/// Most processes that the section names.
const MAX_IN_SECTION: usize = 15;

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// Per cent of one processor.
    pub(crate) cpu: f64,
    pub(crate) mem_bytes: u64,
}

impl Process {
    fn shown(&self) -> Value {
        json!({"pid": self.pid, "name": self.name, "cpu": round1(self.cpu), "mem_bytes": self.mem_bytes})
    }
}

pub(super) fn list(facts: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    let all = processes(facts);
    let shown: Vec<_> = all.iter().take(MAX_LISTED).map(Process::shown).collect();
    let mut result = json!({"processes": shown});
    if all.len() > MAX_LISTED {
        result["truncated"] = true.into();
    }
    Ok(result)
}

pub(super) fn section(facts: &Facts) -> Section {
    let all = processes(facts);
    if all.is_empty() {
        return Section::new(Status::Warn, "cannot read /proc").with("count", 0).with("processes", json!([]));
    }
    let busiest = &all[0];
    let summary = format!("{}, busiest {} at {:.0}%", text::process_count(all.len()), busiest.name, busiest.cpu);
    let shown: Vec<_> = all.iter().take(MAX_IN_SECTION).map(Process::shown).collect();
    Section::ok(summary).with("count", all.len()).with("processes", shown)
}

/// All processes, the busiest first. Takes as long as the sampling interval.
fn processes(facts: &Facts) -> Vec<Process> {
    let system = System::ask();
    let (first, started) = (look(facts), Instant::now());
    // Woken early when nobody waits any more.
    facts.wait(async {
        let _ = tokio::time::timeout(facts.options.sample, facts.stop.cancelled()).await;
    });
    let (second, elapsed) = (look(facts), started.elapsed());
    let mut found = compare(&first, &second, elapsed, &system);
    for process in &mut found {
        process.name = full_name(facts, process.pid, std::mem::take(&mut process.name));
    }
    found.sort_by(|a, b| b.cpu.total_cmp(&a.cpu).then(b.mem_bytes.cmp(&a.mem_bytes)).then(a.pid.cmp(&b.pid)));
    found
}

/// The kernel's units.
struct System {
    page: u64,
    ticks: f64,
}

impl System {
    fn ask() -> Self {
        let ask =
            |what, fallback| sysconf(what).ok().flatten().and_then(|v| u64::try_from(v).ok()).unwrap_or(fallback);
        Self { page: ask(SysconfVar::PAGE_SIZE, 4096), ticks: ask(SysconfVar::CLK_TCK, 100) as f64 }
    }
}

/// What `/proc/<pid>/stat` says of a process.
#[derive(Debug, PartialEq)]
struct Stat {
    name: String,
    ticks: u64,
    /// Tells a process from a later one with its number.
    started: u64,
    pages: u64,
}

fn look(facts: &Facts) -> HashMap<u32, Stat> {
    let pids = facts.names("proc").into_iter().filter_map(|name| name.parse().ok());
    pids.filter_map(|pid: u32| {
        let text = facts.read(&format!("proc/{pid}/stat")).ok()?;
        Some((pid, parse_stat(&text)?))
    })
    .collect()
}

/// The kernel's own threads have this flag; they are no processes of anybody.
const PF_KTHREAD: u64 = 0x0020_0000;

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold more of them, and spaces.
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    if number(6)? & PF_KTHREAD != 0 || fields.first() == Some(&"Z") {
        return None;
    }
    Some(Stat {
        name: text::one_line(name, 64),
        ticks: number(11)? + number(12)?,
        started: number(19)?,
        pages: number(21).unwrap_or(0),
    })
}

fn compare(
    first: &HashMap<u32, Stat>,
    second: &HashMap<u32, Stat>,
    elapsed: Duration,
    system: &System,
) -> Vec<Process> {
    let elapsed = elapsed.as_secs_f64().max(0.001);
    let one = |(pid, now): (&u32, &Stat)| {
        let before = first.get(pid).filter(|before| before.started == now.started);
        // One that began in between has used what it used since then.
        let used = now.ticks.saturating_sub(before.map_or(0, |before| before.ticks));
        Process {
            pid: *pid,
            name: now.name.clone(),
            cpu: used as f64 / system.ticks / elapsed * 100.0,
            mem_bytes: now.pages * system.page,
        }
    };
    second.iter().map(one).collect()
}

/// The kernel keeps 15 bytes of a name. The rest is in the command line, whose other words are nobody's business: they
/// may hold a password.
fn full_name(facts: &Facts, pid: u32, name: String) -> String {
    if name.len() < 15 {
        return name;
    }
    let line = facts.read(&format!("proc/{pid}/cmdline")).unwrap_or_default();
    let program = line.split('\0').next().unwrap_or_default();
    let base = program.rsplit('/').next().unwrap_or_default();
    if base.starts_with(&name) { text::one_line(base, 64) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: System = System { page: 4096, ticks: 100.0 };

    fn stat(ticks: u64, started: u64) -> Stat {
        Stat { name: "x".into(), ticks, started, pages: 2 }
    }

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let line = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 7 3 0 0 20 0 1 0 900 1000 25 18446744073709551615";
        assert_eq!(parse_stat(line), Some(Stat { name: "a) b (c)".into(), ticks: 10, started: 900, pages: 25 }));
        let kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 18446744073709551615";
        assert_eq!(parse_stat(kernel), None);
        for broken in ["", "1", "1 (x", "1 (x) S", ") (", "1 (x) S a b c d e f g h i j k l m"] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_use_of_the_processor_is_that_of_the_interval() {
        let first = HashMap::from([(1, stat(1000, 5)), (2, stat(50, 5))]);
        let second = HashMap::from([(1, stat(1050, 5)), (2, stat(30, 77)), (3, stat(10, 80))]);
        let mut found = compare(&first, &second, Duration::from_millis(500), &SYSTEM);
        found.sort_by_key(|process| process.pid);
        let cpu: Vec<_> = found.iter().map(|process| process.cpu).collect();
        // Half a second: 50 ticks are a whole processor; the second is a new process under an old number.
        assert_eq!(cpu, [100.0, 60.0, 20.0]);
        assert_eq!(found[0].mem_bytes, 8192);
    }
}
