//! The limits. Each tool says what happens at its own.

use std::time::Duration;

/// The largest text file that is read, edited or replaced.
pub const FILE_BYTES: u64 = 256 * 1024;
/// The largest picture that is read.
pub const IMAGE_BYTES: u64 = 10 * 1024 * 1024;
/// How much of a file one call returns.
pub const READ_OUTPUT_BYTES: usize = 50 * 1024;
/// How many lines of a file one call returns.
pub const READ_OUTPUT_LINES: usize = 2_000;
/// How much text one call may write.
pub const WRITE_BYTES: usize = 4 * 1024 * 1024;
/// How much of a diff is shown.
pub const DIFF_BYTES: usize = 8 * 1024;
/// How many children of a directory are listed.
pub const LIST_ENTRIES: usize = 2_000;
/// How much of a command's output is returned, both streams together.
pub const SHELL_OUTPUT_BYTES: usize = 20 * 1024;
/// How much of a command's output is shown live.
pub const SHELL_LIVE_BYTES: usize = 1024 * 1024;
/// How long a command may run if the model does not say.
pub const SHELL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a command may run at most.
pub const SHELL_LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How long a command has between the request to end and its end.
pub const SHELL_GRACE: Duration = Duration::from_millis(200);
/// How much of a skill's file is read.
pub const SKILL_BYTES: u64 = 100_000;
/// How many results a code search gives if the model does not say.
pub const SEARCH_RESULTS: usize = 50;
/// How many results a code search gives at most.
pub const SEARCH_RESULTS_MOST: usize = 500;
/// How many lines are shown around a match at most.
pub const SEARCH_CONTEXT: usize = 5;
/// How much of a matching line is shown.
pub const SEARCH_LINE_CHARS: usize = 300;
/// How much a code search returns.
pub const SEARCH_OUTPUT_BYTES: usize = 50 * 1024;
/// Files larger than this are not searched.
pub const SEARCH_FILE_BYTES: u64 = 8 * 1024 * 1024;
/// How long a code search takes at most.
pub const SEARCH_TIME: Duration = Duration::from_secs(20);
/// How much of a page is returned if the model does not say.
pub const FETCH_OUTPUT_BYTES: usize = 16 * 1024;
/// How much of a page is returned at most.
pub const FETCH_OUTPUT_MOST: usize = 128 * 1024;
/// How much of a page is read.
pub const FETCH_BODY_BYTES: usize = 2 * 1024 * 1024;
/// How long a page may take, redirects included.
pub const FETCH_TIME: Duration = Duration::from_secs(30);
/// How many redirects are followed.
pub const FETCH_REDIRECTS: usize = 5;
/// How many queries one web search may have.
pub const WEB_QUERIES: usize = 4;
/// How many results a web search gives per query if the model does not say.
pub const WEB_RESULTS: i64 = 5;
/// How many results a web search gives per query at most.
pub const WEB_RESULTS_MOST: i64 = 20;
/// How much a web search returns.
pub const WEB_OUTPUT_BYTES: usize = 50 * 1024;
