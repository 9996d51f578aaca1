//! What a stream wrote: its beginning and its end, and how much was in between.

use std::collections::VecDeque;

use crate::limits::SHELL_OUTPUT_BYTES;

/// Keeps at most twice the limit, however much is written.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: usize,
    decoder: Utf8,
}

impl Capture {
    pub(super) fn new() -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), total: 0, decoder: Utf8::default() }
    }

    /// How much was written.
    pub(super) fn len(&self) -> usize {
        self.total
    }

    /// Takes more, and gives it as text that is cut between characters.
    pub(super) fn take(&mut self, bytes: &[u8]) -> String {
        self.total += bytes.len();
        let room = SHELL_OUTPUT_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(SHELL_OUTPUT_BYTES)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(SHELL_OUTPUT_BYTES);
        self.tail.drain(..over);
        self.tail.extend(rest);
        self.decoder.take(bytes)
    }

    /// As text of about `room` bytes: the beginning, what was left out, and the end, where errors stand.
    pub(super) fn within(&self, room: usize) -> String {
        let kept: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
        if self.total <= room {
            return String::from_utf8_lossy(&kept).into_owned();
        }
        let (front, back) = (room / 2, room - room / 2);
        let until = boundary(&self.head, front);
        let head = &self.head[..word_around(&kept, until).map_or(until, |(begin, _)| begin)];
        let from = kept.len() - back.min(kept.len());
        let from = (from..kept.len()).find(|at| kept[*at] & 0xC0 != 0x80).unwrap_or(kept.len());
        let end = &kept[word_around(&kept, from).map_or(from, |(_, end)| end)..];
        let left_out = self.total - head.len() - end.len();
        format!(
            "{}\n... {left_out} bytes left out, output is truncated to {SHELL_OUTPUT_BYTES} bytes ...\n{}",
            String::from_utf8_lossy(head),
            String::from_utf8_lossy(end)
        )
    }
}

/// The last place at or before `wanted` at which no character is cut.
fn boundary(bytes: &[u8], wanted: usize) -> usize {
    let wanted = wanted.min(bytes.len());
    (0..=wanted).rev().find(|at| bytes.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80)).unwrap_or(0)
}

/// A word longer than this is cut all the same.
const LONGEST_WORD: usize = 4096;

/// Where the word begins and ends that would be cut here, if there is one. Half a secret would not be known as one, so
/// no word is cut.
fn word_around(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let begin = bytes[..at].iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    let rest = bytes[at..].iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len() - at);
    (begin < at && rest > 0 && at + rest - begin <= LONGEST_WORD).then_some((begin, at + rest))
}

/// Bytes to text, where a character may come in two pieces.
#[derive(Debug, Default)]
struct Utf8 {
    pending: Vec<u8>,
}

impl Utf8 {
    fn take(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.pending.len());
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(why) => {
                    let (valid, after) = rest.split_at(why.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    match why.error_len() {
                        Some(bad) => {
                            text.push('\u{fffd}');
                            rest = &after[bad..];
                        }
                        // The rest of the character is still to come.
                        None => {
                            rest = after;
                            break;
                        }
                    }
                }
            }
        }
        self.pending = rest.to_vec();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn little_is_kept_whole_and_much_keeps_both_ends() {
        let mut capture = Capture::new();
        capture.take(b"hello");
        assert_eq!(capture.within(SHELL_OUTPUT_BYTES), "hello");
        let mut capture = Capture::new();
        capture.take(b"BEGIN");
        for _ in 0..1_000 {
            capture.take("ä".repeat(500).as_bytes());
        }
        capture.take(b"END");
        let shown = capture.within(1_000);
        assert!(shown.starts_with("BEGIN") && shown.ends_with("END"), "{shown}");
        assert!(shown.len() < 1_200 && shown.contains("bytes left out"));
        assert!(!shown.contains('\u{fffd}'), "no character is cut");
        assert!(capture.head.len() + capture.tail.len() <= 2 * SHELL_OUTPUT_BYTES);
    }

    #[test]
    fn no_word_is_cut_in_half() {
        for padding in 0..60 {
            let mut capture = Capture::new();
            let line = |mark: &str| format!("{}{mark}-in-one-piece\n", " ".repeat(padding));
            capture.take((line("first") + &"word ".repeat(1_000) + &line("last")).as_bytes());
            let shown = capture.within(60);
            for mark in ["first-in-one-piece", "last-in-one-piece"] {
                assert!(shown.contains(mark) || !shown.contains(&mark[..5]), "{padding}: {shown}");
            }
        }
    }

    proptest! {
        #[test]
        fn text_is_the_same_in_any_pieces(text in "\\PC{0,60}", cuts in proptest::collection::vec(1_usize..5, 1..40)) {
            let mut decoder = Utf8::default();
            let (mut out, mut rest) = (String::new(), text.as_bytes());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                out.push_str(&decoder.take(piece));
                rest = after;
            }
            prop_assert_eq!(out, text);
        }

        #[test]
        fn anything_fits_into_its_room(bytes in proptest::collection::vec(any::<u8>(), 0..3000), room in 0_usize..2000) {
            let mut capture = Capture::new();
            capture.take(&bytes);
            // Each byte that is no text takes three.
            prop_assert!(capture.within(room).len() <= 3 * room + 120);
        }
    }
}
