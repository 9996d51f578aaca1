//! CPU and memory of a process, read from Linux' `/proc`.

use std::io;
use std::time::Duration;

/// The kernel counts CPU time for user space in hundredths of a second on every architecture we build for (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// What a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads since it began, in user space and in the kernel on its behalf. Steps of 10 ms.
    pub cpu: Duration,
    /// Anonymous resident memory now, in bytes: heap and stacks, without the program's file and without what the
    /// kernel keeps for its sockets.
    pub user_memory: u64,
}

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// Not Linux, or no such process.
    #[error("the usage of process {pid} cannot be read (it takes Linux' /proc): {why}")]
    Unreadable {
        /// The process.
        pid: u32,
        /// Why.
        why: io::Error,
    },
    /// A `/proc` that we do not understand.
    #[error("/proc/{pid}/{file} is not as expected")]
    Odd {
        /// The process.
        pid: u32,
        /// The file.
        file: &'static str,
    },
}

impl Usage {
    /// What process `pid` has used so far.
    pub fn of(pid: u32) -> Result<Self, UsageError> {
        let read = |file: &'static str| {
            std::fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(|why| UsageError::Unreadable { pid, why })
        };
        let cpu = cpu(&read("stat")?).ok_or(UsageError::Odd { pid, file: "stat" })?;
        let user_memory = user_memory(&read("status")?).ok_or(UsageError::Odd { pid, file: "status" })?;
        Ok(Self { cpu, user_memory })
    }
}

/// Resident memory of process `pid` now, in bytes: all of it, the program's own file included.
pub fn resident(pid: u32) -> Result<u64, UsageError> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(path).map_err(|why| UsageError::Unreadable { pid, why })?;
    kilobytes(&status, "VmRSS:").ok_or(UsageError::Odd { pid, file: "status" })
}

/// CPU time of process `pid` and of the children that it has waited for.
pub fn cpu_with_children(pid: u32) -> Result<Duration, UsageError> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(path).map_err(|why| UsageError::Unreadable { pid, why })?;
    ticks(&stat, 4).ok_or(UsageError::Odd { pid, file: "stat" })
}

/// CPU time of process `pid`, of its children that live, and of those that it has waited for.
pub fn cpu_of_family(pid: u32) -> Result<Duration, UsageError> {
    let mut sum = cpu_with_children(pid)?;
    let processes = std::fs::read_dir("/proc").map_err(|why| UsageError::Unreadable { pid, why })?;
    for stat in processes.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()) {
        // One that ends meanwhile has no file any more, and is counted by its parent the next time.
        if parent(&stat) == Some(pid) {
            sum += cpu(&stat).unwrap_or_default();
        }
    }
    Ok(sum)
}

fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// How many processes have wanted a CPU during the last minute, on average; nothing where `/proc` does not say.
pub fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn cpu(stat: &str) -> Option<Duration> {
    ticks(stat, 2)
}

/// The sum of the first `count` of user, system, children's user and children's system time.
fn ticks(stat: &str, count: usize) -> Option<Duration> {
    // The second field is the program's name in brackets and may itself hold brackets and blanks.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut sum = 0u32;
    for field in 0..count {
        let text = fields.split_ascii_whitespace().nth(11 + field)?;
        sum = sum.checked_add(text.parse().ok()?)?;
    }
    Some(TICK * sum)
}

fn user_memory(status: &str) -> Option<u64> {
    kilobytes(status, "RssAnon:")
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_proc_says() {
        let stat = "4711 (a ) name) S 1 4711 4711 0 -1 4194560 100 0 0 0 250 17 0 0 20 0 3 0 100 1000 50";
        assert_eq!(cpu(stat), Some(Duration::from_millis(2670)));
        assert_eq!(ticks(&stat.replace(" 17 0 0 ", " 17 3 1 "), 4), Some(Duration::from_millis(2710)));
        assert_eq!(user_memory("Name:\tx\nVmRSS:\t 9 kB\nRssAnon:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(parent(stat), Some(1));
        assert_eq!(cpu("nonsense"), None);
        assert_eq!(user_memory("RssAnon: many"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.user_memory > 0);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(matches!(Usage::of(u32::MAX), Err(UsageError::Unreadable { .. })));
    }
}
