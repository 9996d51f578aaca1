//! Memory and swap, as `free` counts.

use convoke_core::health::Status;

use super::percent;
use crate::Section;
use crate::facts::Facts;

/// Bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Memory {
    total: u64,
    available: u64,
    swap_total: u64,
    swap_free: u64,
}

pub(super) fn section(facts: &Facts) -> Section {
    let Some(memory) = facts.read("proc/meminfo").ok().and_then(|text| parse(&text)) else {
        return Section::new(Status::Warn, "cannot read /proc/meminfo");
    };
    let used = memory.total.saturating_sub(memory.available);
    let percent_used = percent(used, memory.total);
    // The hub's boundaries.
    let status = match percent_used {
        used if used > 95.0 => Status::Crit,
        used if used > 85.0 => Status::Warn,
        _ => Status::Ok,
    };
    Section::new(status, format!("{percent_used:.0}% of {} used", super::bytes(memory.total)))
        .with("total_bytes", memory.total)
        .with("used_bytes", used)
        .with("available_bytes", memory.available)
        .with("percent_used", percent_used)
        .with("swap_total_bytes", memory.swap_total)
        .with("swap_used_bytes", memory.swap_total.saturating_sub(memory.swap_free))
}

fn parse(text: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB").unwrap_or(line).trim().parse().ok()?;
        Some(kibibytes * 1024)
    };
    let total = field("MemTotal")?;
    // Kernels before 3.14 do not say what is available.
    let available = field("MemAvailable").or_else(|| Some(field("MemFree")? + field("Cached").unwrap_or(0)))?;
    let (swap_total, swap_free) = (field("SwapTotal").unwrap_or(0), field("SwapFree").unwrap_or(0));
    Some(Memory { total, available, swap_total, swap_free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:  16000 kB\nMemFree:  100 kB\nMemAvailable:  4000 kB\nSwapTotal: 8 kB\nSwapFree: 3 kB\n";
        let expect = Memory { total: 16_384_000, available: 4_096_000, swap_total: 8192, swap_free: 3072 };
        assert_eq!(parse(text), Some(expect));
        let old = "MemTotal: 10 kB\nMemFree: 1 kB\nCached: 2 kB\n";
        assert_eq!(parse(old).map(|memory| memory.available), Some(3072));
        assert_eq!(parse("MemTotal: x kB\n"), None);
    }
}
