//! Bytes that may go to a disk as they are.

/// What offsets, lengths and addresses of direct writes are multiples of. Some disks take less; all take this.
pub const PAGE: usize = 4_096;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

const EMPTY: Page = Page([0; PAGE]);

/// A run of bytes in whole pages; what is behind its end is zero.
#[derive(Clone, Default)]
pub struct Pages {
    pages: Vec<Page>,
    len: usize,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Pages {
    /// How many bytes were put in.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many pages that makes.
    pub const fn pages(&self) -> usize {
        self.len.div_ceil(PAGE)
    }

    /// Puts bytes behind what is there.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.put(self.len, bytes);
        self.len += bytes.len();
    }

    /// Writes over what is there.
    ///
    /// # Panics
    ///
    /// Where that is more than is there.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len, "only what is there is written over");
        self.put(at, bytes);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        for page in &mut self.pages[..self.len.div_ceil(PAGE)] {
            let used = self.len.min(PAGE);
            page.0[..used].fill(0);
            self.len -= used;
        }
    }

    fn put(&mut self, mut at: usize, mut bytes: &[u8]) {
        let needed = (at + bytes.len()).div_ceil(PAGE);
        if self.pages.len() < needed {
            self.pages.resize(needed, EMPTY);
        }
        while !bytes.is_empty() {
            let (page, from) = (at / PAGE, at % PAGE);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - from));
            self.pages[page].0[from..from + now.len()].copy_from_slice(now);
            at += now.len();
            bytes = later;
        }
    }

    /// Where the first page is: as many bytes as [`Self::pages`] makes can be read from there.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn start(&self) -> *const u8 {
        self.pages.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pages: &Pages) -> Vec<u8> {
        pages.pages.iter().flat_map(|page| page.0).collect()
    }

    #[test]
    fn what_is_put_in_stands_there_across_pages_and_the_rest_is_zero() {
        let mut pages = Pages::default();
        assert!(pages.is_empty() && pages.pages() == 0);
        pages.extend(&[1; 4_000]);
        pages.extend(&[2; 5_000]);
        pages.overwrite(3_999, &[3; 200]);
        assert_eq!((pages.len(), pages.pages()), (9_000, 3));
        let all = bytes(&pages);
        assert_eq!(all.len(), 3 * PAGE);
        assert!(all[..3_999].iter().all(|b| *b == 1) && all[3_999..4_199].iter().all(|b| *b == 3));
        assert!(all[4_199..9_000].iter().all(|b| *b == 2) && all[9_000..].iter().all(|b| *b == 0));
        assert_eq!(pages.start().align_offset(PAGE), 0);
        pages.clear();
        pages.extend(&[4]);
        assert_eq!((pages.len(), pages.pages()), (1, 1));
        assert!(bytes(&pages)[1..].iter().all(|b| *b == 0), "nothing of what was there before is left");
    }

    #[test]
    #[should_panic(expected = "only what is there")]
    fn what_is_not_there_is_not_written_over() {
        Pages::default().overwrite(0, &[1]);
    }
}
