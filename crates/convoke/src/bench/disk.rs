//! What the disk takes for one commit, with nothing around it: a page written over in a file, and synced. A caller
//! alone pays for all of it with every call; the more there are, the more share it.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;

use super::calls::median;
use super::table::{Goal, Row};

/// A page of the database and its frame's header in the log.
const FRAME: usize = 8192 + 24;
/// Frames in the file, so that it is written over as the log is.
const FRAMES: u64 = 256;
/// Commits of each round.
const COMMITS: u64 = 300;

/// Measures it where the hubs of this run keep their data.
pub(super) fn measure(directory: &Path, rounds: u32) -> anyhow::Result<Row> {
    let cpu_ms =
        commits(directory, rounds).with_context(|| format!("measuring the disk of {}", directory.display()))?;
    Ok(Row {
        measure: "CPU of one write and sync, no hub".into(),
        unit: "ms",
        hub: median(cpu_ms),
        forwarder: None,
        goal: Goal::NONE,
        original: None,
        note: "one synced write on this machine; calls that arrive together share one".into(),
    })
}

/// Of each round, the CPU of one commit in milliseconds.
fn commits(directory: &Path, rounds: u32) -> io::Result<Vec<f64>> {
    let path = directory.join("disk");
    let file = File::create(&path)?;
    let frame = [7; FRAME];
    let write = |n: u64| {
        (&file).seek(SeekFrom::Start(n % FRAMES * FRAME as u64))?;
        (&file).write_all(&frame)
    };
    (0..FRAMES).try_for_each(write)?;
    file.sync_all()?;
    let mut rounds_ms = Vec::new();
    for _ in 0..rounds.max(1) {
        let before = own_cpu()?;
        for n in 0..COMMITS {
            write(n)?;
            file.sync_data()?;
        }
        rounds_ms.push((own_cpu()? - before) as f64 / 1e6 / COMMITS as f64);
    }
    fs::remove_file(&path)?;
    Ok(rounds_ms)
}

/// CPU of this thread so far, in nanoseconds.
fn own_cpu() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    first.ok_or_else(|| io::Error::other("/proc/thread-self/schedstat does not begin with a number"))
}
