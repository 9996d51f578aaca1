//! The log of numbers: how long, how many, how it ended. Never what was said. Off until somebody turns it on.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`write`] | records into files by day |
//! | [`range`] | spans of time as people write them |
//! | [`stats`] | sums over a span of time |

mod range;
mod stats;
mod write;

pub(crate) use write::{Logs, Status};
