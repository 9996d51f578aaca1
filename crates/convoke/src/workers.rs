//! The runtime of whatever serves connections.

use std::num::NonZero;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};

/// A runtime with this many threads; 0 for as many as are worth having.
pub(crate) fn runtime(asked: usize) -> io::Result<Runtime> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    Builder::new_multi_thread().worker_threads(count(asked, processors)).enable_all().build()
}

/// A processor is left to the store's writer and to what blocks. More threads than processors take work from each other
/// and wake each other for it, which costs more than it brings.
const fn count(asked: usize, processors: usize) -> usize {
    match asked {
        0 if processors > 1 => processors - 1,
        0 => 1,
        asked => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_processor_is_left_and_one_thread_is_there() {
        assert_eq!([1, 2, 3, 16].map(|processors| count(0, processors)), [1, 1, 2, 15]);
        assert_eq!([1, 2, 3, 16].map(|processors| count(4, processors)), [4, 4, 4, 4]);
    }
}
