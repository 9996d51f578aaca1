//! Frames as the Language Server Protocol has them: header lines, an empty line, a body of `Content-Length` bytes.
//!
//! A peer that miscounts must not silence the backend: after a header that makes no sense the decoder looks for the
//! next `Content-Length: N` line. It cannot be fooled by a body, since JSON has no raw line end inside a string.

use thiserror::Error;

/// The largest body that is taken: four images of 10 MiB in base64, and some text.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// The largest block of header lines.
pub const MAX_HEADER: usize = 8 * 1024;

/// A body beyond the limit is skipped up to this length; beyond it the length itself is taken for nonsense.
const MAX_SKIP: usize = 1024 * 1024 * 1024;

/// Above this an empty buffer is given back to the system.
const KEEP_BUFFER: usize = 256 * 1024;

/// How much of a bad line is quoted.
const QUOTED: usize = 120;

const LENGTH: &[u8] = b"content-length:";

/// What is wrong with the bytes of a peer. Each is answered by an error without id; the connection goes on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A header block without a usable length.
    #[error("Missing Content-Length header")]
    MissingLength,
    /// A line that is no header.
    #[error("Invalid JSON-RPC header: {0}")]
    BadHeader(String),
    /// Header lines without end.
    #[error("JSON-RPC header is longer than {MAX_HEADER} bytes")]
    HeaderTooLong,
    /// A body beyond the limit. It is skipped.
    #[error("JSON-RPC body of {length} bytes is over the limit of {limit} bytes")]
    TooLarge {
        /// What the header says.
        length: usize,
        /// What is taken.
        limit: usize,
    },
    /// The stream ended inside a frame.
    #[error("Unexpected EOF while reading JSON-RPC body")]
    Truncated,
}

/// Bytes in, bodies out.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the unread bytes begin.
    start: usize,
    state: State,
    max_body: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header {
        /// Bytes of this block so far, to bound it.
        seen: usize,
        length: Option<usize>,
    },
    Body(usize),
    Skip(usize),
    /// Out of step: looking for the next length line.
    Lost,
}

const AT_A_FRAME: State = State::Header { seen: 0, length: None };

impl Default for Decoder {
    fn default() -> Self {
        Self::new(MAX_BODY)
    }
}

impl Decoder {
    /// With a limit of its own for bodies.
    pub fn new(max_body: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, state: AT_A_FRAME, max_body }
    }

    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.buffer.len() || self.start > KEEP_BUFFER) {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_BUFFER {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next body or complaint; `None` until more bytes come.
    pub fn next_frame(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        loop {
            match self.state {
                State::Header { seen, length } => {
                    let Some(line) = self.line() else {
                        if seen + self.unread().len() <= MAX_HEADER {
                            return None;
                        }
                        self.state = State::Lost;
                        return Some(Err(FrameError::HeaderTooLong));
                    };
                    if let Some(result) = self.header_line(line, seen, length) {
                        return Some(Err(result));
                    }
                }
                State::Body(length) => {
                    if self.unread().len() < length {
                        return None;
                    }
                    let body = self.unread()[..length].to_vec();
                    self.start += length;
                    self.state = AT_A_FRAME;
                    return Some(Ok(body));
                }
                State::Skip(left) => {
                    let skipped = left.min(self.unread().len());
                    self.start += skipped;
                    if skipped < left {
                        self.state = State::Skip(left - skipped);
                        return None;
                    }
                    self.state = AT_A_FRAME;
                }
                State::Lost => {
                    if !self.find_length_line() {
                        return None;
                    }
                    self.state = AT_A_FRAME;
                }
            }
        }
    }

    /// The stream has ended: whether that was inside a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.state {
            State::Body(_) | State::Skip(_) | State::Header { length: Some(_), .. } => Err(FrameError::Truncated),
            _ => Ok(()),
        }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The next whole line: its length with the line end.
    fn line(&self) -> Option<usize> {
        self.unread().iter().position(|byte| *byte == b'\n').map(|at| at + 1)
    }

    /// Takes one header line. An empty one ends the block; without a block it is a stray one and harmless.
    fn header_line(&mut self, line: usize, seen: usize, length: Option<usize>) -> Option<FrameError> {
        let text = trim_end(&self.unread()[..line]);
        if seen + line > MAX_HEADER {
            self.state = State::Lost;
            return Some(FrameError::HeaderTooLong);
        }
        if text.is_empty() {
            self.start += line;
            return match length {
                Some(length) if (1..=self.max_body).contains(&length) => {
                    self.state = State::Body(length);
                    None
                }
                Some(length) if length > self.max_body => {
                    self.state = if length <= MAX_SKIP { State::Skip(length) } else { State::Lost };
                    Some(FrameError::TooLarge { length, limit: self.max_body })
                }
                None if seen == 0 => {
                    self.state = AT_A_FRAME;
                    None
                }
                _ => {
                    self.state = State::Lost;
                    Some(FrameError::MissingLength)
                }
            };
        }
        let Some((name, value)) = header(text) else {
            // The next frame's header may stand in this very line, behind the rest of a body: look from its start.
            let quoted = String::from_utf8_lossy(&text[..text.len().min(QUOTED)]).into_owned();
            self.state = State::Lost;
            // A line that holds nothing of use must not be quoted for ever.
            if !is_length_line_within(&self.unread()[..line]) {
                self.start += line;
            }
            return Some(FrameError::BadHeader(quoted));
        };
        let length = if name.eq_ignore_ascii_case(b"content-length") {
            // An invalid length counts as 0, which is refused at the end of the header block.
            Some(std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()).unwrap_or(0))
        } else {
            length
        };
        self.start += line;
        self.state = State::Header { seen: seen + line, length };
        None
    }

    /// Moves to the next `Content-Length: N` line, which may begin in the middle of one. Drops what is before it.
    fn find_length_line(&mut self) -> bool {
        let mut from = 0;
        while let Some(at) = find_ignoring_case(&self.unread()[from..], LENGTH) {
            let at = from + at;
            match length_line(&self.unread()[at..]) {
                Looks::Yes => {
                    self.start += at;
                    return true;
                }
                Looks::Undecided => {
                    self.start += at;
                    return false;
                }
                Looks::No => from = at + LENGTH.len(),
            }
        }
        // Keep what may be the beginning of the word.
        let keep = self.unread().len().min(LENGTH.len() - 1);
        self.start = self.buffer.len() - keep;
        false
    }
}

/// A frame around a body, ready to be written.
pub fn encode(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(body.len() + 32);
    frame.extend_from_slice(b"Content-Length: ");
    frame.extend_from_slice(body.len().to_string().as_bytes());
    frame.extend_from_slice(b"\r\n\r\n");
    frame.extend_from_slice(body);
    frame
}

/// For the fuzzer and properties: every byte sequence is decoded to its end, whatever it holds.
pub fn exercise(bytes: &[u8]) {
    let (limit, bytes) = match bytes.split_first() {
        Some((first, rest)) => (usize::from(*first) * 16 + 1, rest),
        None => (1, bytes),
    };
    let mut whole = Decoder::new(limit);
    whole.push(bytes);
    let mut frames = Vec::new();
    while let Some(frame) = whole.next_frame() {
        if let Ok(body) = &frame {
            assert!(body.len() <= limit, "a body is over its limit");
            crate::rpc::exercise(body);
        }
        frames.push(frame);
        assert!(frames.len() <= bytes.len() + 1, "frames come from nothing");
    }
    let mut split = Decoder::new(limit);
    let mut again = Vec::new();
    for chunk in bytes.chunks(3) {
        split.push(chunk);
        while let Some(frame) = split.next_frame() {
            again.push(frame);
        }
    }
    let bodies = |frames: &[Result<Vec<u8>, FrameError>]| -> Vec<Vec<u8>> {
        frames.iter().filter_map(|frame| frame.clone().ok()).collect()
    };
    // Complaints about overlong headers depend on how much is there; bodies never do.
    if frames.iter().chain(&again).all(|frame| *frame != Err(FrameError::HeaderTooLong)) {
        assert_eq!(bodies(&frames), bodies(&again), "bodies depend on how the bytes were cut");
    }
}

fn header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = line[..colon].trim_ascii();
    let is_name = !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    is_name.then(|| (name, line[colon + 1..].trim_ascii()))
}

fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

enum Looks {
    Yes,
    No,
    Undecided,
}

/// Whether a length line stands at the very beginning.
fn length_line(bytes: &[u8]) -> Looks {
    let rest = &bytes[LENGTH.len()..];
    let spaces = rest.iter().take_while(|b| **b == b' ').count();
    let digits = rest[spaces..].iter().take_while(|b| b.is_ascii_digit()).count();
    // No length has more digits, and without a bound a stream of digits would be kept for ever.
    if spaces > 16 || digits > 20 {
        return Looks::No;
    }
    match &rest[spaces + digits..] {
        [] | [b'\r'] => Looks::Undecided,
        [b'\n', ..] | [b'\r', b'\n', ..] if digits > 0 => Looks::Yes,
        _ => Looks::No,
    }
}

fn is_length_line_within(line: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = find_ignoring_case(&line[from..], LENGTH) {
        if matches!(length_line(&line[from + at..]), Looks::Yes) {
            return true;
        }
        from += at + LENGTH.len();
    }
    false
}

fn find_ignoring_case(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &str, expect: &[Result<&str, FrameError>]) {
        let mut decoder = Decoder::new(64);
        let mut got = Vec::new();
        // Byte by byte: nothing may depend on how the pipe cuts the stream.
        for byte in bytes.as_bytes() {
            decoder.push(&[*byte]);
            while let Some(frame) = decoder.next_frame() {
                got.push(frame.map(|body| String::from_utf8(body).unwrap()));
            }
        }
        let expect: Vec<_> = expect.iter().map(|frame| frame.clone().map(str::to_owned)).collect();
        assert_eq!(got, expect, "{bytes:?}");
    }

    #[test]
    fn frames_are_taken_as_clients_write_them() {
        check("Content-Length: 2\r\n\r\n{}", &[Ok("{}")]);
        check("content-length:2\n\n{}", &[Ok("{}")]);
        check("Content-Type: x; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}", &[Ok("{}")]);
        check("Content-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]", &[Ok("{}"), Ok("[]")]);
        check("Content-Length: 4\r\n\r\n\"é\"", &[Ok("\"é\"")]);
    }

    #[test]
    fn a_stray_blank_line_is_harmless() {
        check("\r\n\n\r\nContent-Length: 2\r\n\r\n{}\r\n\r\nContent-Length: 2\r\n\r\n[]", &[Ok("{}"), Ok("[]")]);
    }

    #[test]
    fn after_a_bad_header_the_next_frame_is_found() {
        let good = "Content-Length: 2\r\n\r\n[]";
        for (bad, why) in [
            ("Content-Length: 0\r\n\r\n", FrameError::MissingLength),
            ("Content-Length: -3\r\n\r\n", FrameError::MissingLength),
            ("Content-Length: many\r\n\r\n{\"a\":1}", FrameError::MissingLength),
            ("Content-Type: json\r\n\r\n{\"a\":1}", FrameError::MissingLength),
            ("hello\r\n", FrameError::BadHeader("hello".into())),
        ] {
            check(&format!("{bad}{good}"), &[Err(why), Ok("[]")]);
        }
    }

    #[test]
    fn a_length_that_is_too_small_costs_one_frame() {
        let sent = "Content-Length: 4\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n[]";
        check(sent, &[Ok("{\"a\""), Err(FrameError::BadHeader(":1}Content-Length: 2".into())), Ok("[]")]);
    }

    #[test]
    fn a_body_over_the_limit_is_skipped() {
        let sent = format!("Content-Length: 65\r\n\r\n{}Content-Length: 2\r\n\r\n[]", "x".repeat(65));
        check(&sent, &[Err(FrameError::TooLarge { length: 65, limit: 64 }), Ok("[]")]);
        let absurd = "Content-Length: 99999999999999\r\n\r\nxContent-Length: 2\r\n\r\n[]";
        check(absurd, &[Err(FrameError::TooLarge { length: 99_999_999_999_999, limit: 64 }), Ok("[]")]);
    }

    #[test]
    fn headers_without_end_are_bounded() {
        let mut decoder = Decoder::default();
        for _ in 0..100 {
            decoder.push(&[b'a'; 1024]);
            while let Some(frame) = decoder.next_frame() {
                assert_eq!(frame, Err(FrameError::HeaderTooLong));
            }
        }
        assert!(decoder.unread().len() < MAX_HEADER + 1024);
        decoder.push(b"Content-Length: 2\r\n\r\n[]");
        assert_eq!(decoder.next_frame(), Some(Ok(b"[]".to_vec())));
    }

    #[test]
    fn the_end_inside_a_frame_is_told() {
        let mut decoder = Decoder::default();
        decoder.push(b"Content-Length: 9\r\n\r\n{}");
        assert_eq!(decoder.next_frame(), None);
        assert_eq!(decoder.finish(), Err(FrameError::Truncated));
        assert_eq!(Decoder::default().finish(), Ok(()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..5), cut in 1usize..50) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| encode(body)).collect();
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for chunk in stream.chunks(cut) {
                decoder.push(chunk);
                while let Some(frame) = decoder.next_frame() {
                    got.push(frame.unwrap());
                }
            }
            prop_assert_eq!(got, bodies);
            prop_assert_eq!(decoder.finish(), Ok(()));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            exercise(&bytes);
        }

        #[test]
        fn garbage_that_is_almost_a_frame_is_survived(parts in prop::collection::vec(prop::sample::select(vec![
            "Content-Length: ", "2", "\r\n", "\n", "{}", "content-length:", "-", " ", ":", "x", "999999",
        ]), 0..40)) {
            exercise(parts.concat().as_bytes());
        }
    }
}
