//! Which pages of the tail are free. Frames stand one behind another and begin again at the start; a frame's pages are
//! free once the database has its records.

use std::collections::VecDeque;

use super::format::PAGES;

/// The pages of the file, from 0 (the one behind the page that says whose file it is).
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Where the next frame goes.
    next: u64,
    /// Frames whose records the database may not have, the oldest first.
    held: VecDeque<Held>,
}

#[derive(Debug)]
struct Held {
    at: u64,
    /// The last record in it.
    last: u64,
}

impl Room {
    /// Where a frame of so many pages goes, with `last` as its last record. None while there is no room.
    pub(super) fn take(&mut self, pages: u64, last: u64) -> Option<u64> {
        let at = self.place(pages)?;
        self.next = at + pages;
        self.held.push_back(Held { at, last });
        Some(at)
    }

    fn place(&self, pages: u64) -> Option<u64> {
        let Some(oldest) = self.held.front() else {
            return if self.next + pages <= PAGES { Some(self.next) } else { (pages <= PAGES).then_some(0) };
        };
        if self.next > oldest.at {
            // Up to the end, or from the start up to the oldest; which it must not reach, or all would look free.
            let fits = self.next + pages <= PAGES;
            return if fits { Some(self.next) } else { (pages < oldest.at).then_some(0) };
        }
        (self.next + pages < oldest.at).then_some(self.next)
    }

    /// The database has all records up to this one.
    pub(super) fn free_up_to(&mut self, seq: u64) {
        while self.held.front().is_some_and(|frame| frame.last <= seq) {
            self.held.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_round_and_never_over_what_is_held() {
        let mut room = Room::default();
        let mut held: VecDeque<(u64, u64, u64)> = VecDeque::new();
        let (mut record, mut refused, mut rounds) = (0, 0, 0);
        for step in 0_u64..20_000 {
            let pages = 1 + step * 7 % 23;
            record += 1;
            if let Some(at) = room.take(pages, record) {
                assert!(at + pages <= PAGES);
                assert!(held.iter().all(|(from, length, _)| at + pages <= *from || from + length <= at), "{step}");
                rounds += u64::from(at == 0);
                held.push_back((at, pages, record));
            } else {
                refused += 1;
            }
            // The database catches up now and then.
            if step % 127 == 0 {
                let up_to = record - step % 5;
                room.free_up_to(up_to);
                held.retain(|(_, _, last)| *last > up_to);
            }
        }
        assert!(refused > 0 && rounds > 50, "{refused} refused, {rounds} rounds");
    }

    #[test]
    fn all_pages_can_be_had_once_and_a_frame_that_fits_nowhere_is_refused() {
        let mut room = Room::default();
        assert_eq!(room.take(PAGES + 1, 1), None);
        for page in 0..PAGES {
            assert_eq!(room.take(1, page + 1), Some(page));
        }
        assert_eq!(room.take(1, PAGES + 1), None);
        room.free_up_to(1);
        assert_eq!(room.take(1, PAGES + 1), None, "the oldest is not reached");
        room.free_up_to(3);
        assert_eq!(room.take(1, PAGES + 1), Some(0));
        room.free_up_to(PAGES + 1);
        assert_eq!(room.take(PAGES, PAGES + 2), Some(0));
    }
}
