//! Pages of lists: as many items as were asked for, and no more bytes than a page may have. What is not read waits in memory.

use std::io::{self, Write};

use serde::Serialize;

/// A page ends once its items have so many bytes.
pub const PAGE_BYTES: usize = 1 << 20;

/// A page that is being filled.
#[derive(Debug)]
pub struct Page<T> {
    items: Vec<T>,
    bytes: usize,
    limit: usize,
}

impl<T: Serialize> Page<T> {
    /// An empty page for at most `limit` items.
    pub fn new(limit: usize) -> Self {
        Self { items: Vec::new(), bytes: 0, limit }
    }

    /// Whether nothing more goes on it. Where there is more, [`Self::last`] says where the next page goes on.
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.bytes >= PAGE_BYTES
    }

    /// Adds an item.
    pub fn push(&mut self, item: T) {
        let mut size = Size(0);
        // What cannot be serialised shows when the page is.
        let _ = serde_json::to_writer(&mut size, &item);
        self.bytes += size.0;
        self.items.push(item);
    }

    /// The last item.
    pub fn last(&self) -> Option<&T> {
        self.items.last()
    }

    /// The items.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// The items of this page and, where there are more than fit, where the next one goes on.
    pub fn of<K>(all: impl IntoIterator<Item = T>, limit: usize, place: impl Fn(&T) -> K) -> (Vec<T>, Option<K>) {
        let mut page = Self::new(limit);
        for item in all {
            if page.is_full() {
                let next = page.last().map(place);
                return (page.items, next);
            }
            page.push(item);
        }
        (page.items, None)
    }
}

/// Counts what is written.
struct Size(usize);

impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_by_number_or_by_bytes_and_says_where_it_goes_on() {
        let check = |items: &[usize], limit, fits: usize| {
            let all: Vec<_> = items.iter().enumerate().map(|(at, len)| (at, "x".repeat(*len))).collect();
            let (page, next) = Page::of(all, limit, |(at, _)| *at);
            assert_eq!((page.len(), next), (fits, (fits < items.len()).then(|| fits - 1)), "{items:?} {limit}");
        };
        check(&[], 2, 0);
        check(&[1, 1], 2, 2);
        check(&[1, 1, 1], 2, 2);
        check(&[PAGE_BYTES, 1], 9, 1);
        check(&[PAGE_BYTES / 2, PAGE_BYTES / 2, 1], 9, 2);
        check(&[9 * PAGE_BYTES], 9, 1);
    }
}
