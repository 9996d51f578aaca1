//! The limits of a machine's tools and telemetry.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Every limit, with the number that holds unless told otherwise.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/proc`, `/sys`, `/etc`, `/var` and `/usr/share` are read from. Tests put recorded files there. The paths
    /// that callers give to the `fs_*` tools are not affected.
    pub root: PathBuf,
    /// Most bytes of text that a command's output may take in a result, standard output and error together. What is
    /// beyond is read and dropped, and the result says so (`truncated`).
    pub output_cap: usize,
    /// Most bytes that `fs_read` returns.
    pub read_cap: usize,
    /// Most entries that `fs_list` returns.
    pub list_cap: usize,
    /// Most paths that `fs_search` returns.
    pub search_hits: usize,
    /// Most entries that `fs_search` looks at.
    pub search_entries: usize,
    /// Most events that `diag_eventlog` returns, whatever was asked for.
    pub event_cap: usize,
    /// Largest picture that `screen_capture` returns, in bytes of PNG; a larger one is halved until it fits. Base64 makes
    /// a third more of it, and the field's hubs take frames of 8 MiB.
    pub screen_cap: usize,
    /// Where the commands of the shell tools run; otherwise where the agent does. It is made if it is not there, and where
    /// that cannot be, they run in the system's directory for temporary files.
    pub work_dir: Option<PathBuf>,
    /// How long a tool may take when its call says nothing.
    pub tool_timeout: Duration,
    /// Most threads that run tools, counting those that hang in the system (a file server that is gone) after their
    /// call was given up. A call beyond waits for its turn until its own deadline.
    pub tool_threads: usize,
    /// Over how long the use of the processor is sampled.
    pub sample: Duration,
    /// The program and arguments that collect a snapshot in a process of its own ([`crate::apart`]). Without it, or when
    /// that fails, it is collected in this one.
    pub collect_with: Option<Vec<OsString>>,
    /// How long one section of a snapshot may take.
    pub section_timeout: Duration,
    /// How many sections are collected at once.
    pub parallel_sections: usize,
    /// How many of the largest directories the section `disk` names; 0 leaves them out.
    pub top_dirs: usize,
    /// Most entries that are looked at to find them.
    pub top_dirs_entries: usize,
    /// How long the look may take.
    pub top_dirs_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            output_cap: 1024 * 1024,
            read_cap: 256 * 1024,
            list_cap: 20_000,
            search_hits: 1000,
            search_entries: 5_000_000,
            event_cap: 1000,
            screen_cap: 5 * 1024 * 1024,
            work_dir: None,
            tool_timeout: Duration::from_secs(30),
            tool_threads: 64,
            sample: Duration::from_millis(500),
            collect_with: None,
            section_timeout: Duration::from_secs(30),
            parallel_sections: 4,
            top_dirs: 10,
            top_dirs_entries: 200_000,
            top_dirs_time: Duration::from_secs(3),
        }
    }
}
