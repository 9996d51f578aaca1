//! Server-sent events from bytes, bounded.
//!
//! A decoder of our own because a stream comes from a stranger: no line and no event may grow beyond a limit,
//! wherever the chunks happen to be cut. Comments and retry times are read over; carriage returns, byte order
//! marks and missing spaces are taken as the standard says.

/// A line or an event grew beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line or an event is longer than {0} bytes")]
pub struct TooLong(pub usize);

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its name; empty if it has none.
    pub name: &'a str,
    /// Its data lines, joined by line feeds.
    pub data: &'a str,
    /// The last id that the stream has given, with this event or before; empty if there was none.
    pub id: &'a str,
}

/// Takes chunks, gives events.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// A line whose end has not come yet.
    line: Vec<u8>,
    name: String,
    data: String,
    id: String,
    has_data: bool,
    /// The last byte was a carriage return: a line feed right after it ends no further line.
    after_return: bool,
    at_start: bool,
}

impl Decoder {
    /// A decoder that keeps at most `limit` bytes of a line and of an event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            id: String::new(),
            has_data: false,
            after_return: false,
            at_start: true,
        }
    }

    /// Takes the next chunk and hands every event that it completes to `each`, which may stop with an error.
    pub fn feed<E: From<TooLong>>(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_return) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.keep(chunk)?;
                return Ok(());
            };
            self.after_return = chunk[end] == b'\r';
            let rest = &chunk[end + 1..];
            if self.line.is_empty() {
                if end > self.limit {
                    return Err(TooLong(self.limit).into());
                }
                self.end_line(&chunk[..end], &mut each)?;
            } else {
                self.keep(&chunk[..end])?;
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, &mut each)?;
                self.line = line;
                self.line.clear();
                // One huge event must not hold its memory for the rest of the stream.
                self.line.shrink_to(64 * 1024);
            }
            chunk = rest;
        }
        Ok(())
    }

    /// The stream has ended. An event whose lines are whole but which no empty line has closed is still handed over:
    /// some servers forget it after their last event. A line that was cut is not.
    pub fn finish<E: From<TooLong>>(&mut self, mut each: impl FnMut(Message<'_>) -> Result<(), E>) -> Result<(), E> {
        self.line.clear();
        self.dispatch(&mut each)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(TooLong(self.limit));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            return self.dispatch(each);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() + 1 > self.limit {
                    return Err(TooLong(self.limit).into());
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.id = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E: From<TooLong>>(&mut self, each: &mut impl FnMut(Message<'_>) -> Result<(), E>) -> Result<(), E> {
        let done = if std::mem::take(&mut self.has_data) {
            each(Message { name: &self.name, data: &self.data, id: &self.id })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        self.data.shrink_to(64 * 1024);
        done
    }
}

/// For the fuzz target: decodes the bytes whole and in pieces of a length that they choose themselves, and checks that
/// the events are the same and none is over the limit.
pub fn exercise(bytes: &[u8]) {
    const LIMIT: usize = 256;
    let Some((&step, stream)) = bytes.split_first() else { return };
    let whole = decode(stream, stream.len().max(1), LIMIT);
    let pieces = decode(stream, usize::from(step).max(1), LIMIT);
    assert_eq!(whole.0, pieces.0, "events depend on where chunks are cut");
    assert_eq!(whole.1, pieces.1, "the end depends on where chunks are cut");
    // An invalid byte becomes a replacement character of three bytes.
    assert!(whole.0.iter().all(|(_, data)| data.len() <= 3 * LIMIT), "an event is over the limit");
}

type Decoded = (Vec<(String, String)>, Result<(), TooLong>);

fn decode(stream: &[u8], step: usize, limit: usize) -> Decoded {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    let mut take = |message: Message<'_>| {
        events.push((message.name.to_owned(), message.data.to_owned()));
        Ok::<(), TooLong>(())
    };
    let end = stream.chunks(step).try_for_each(|chunk| decoder.feed(chunk, &mut take));
    let end = end.and_then(|()| decoder.finish(&mut take));
    (events, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(stream: &str, expected: &[(&str, &str)]) {
        for step in 1..=stream.len().max(1) {
            let (events, end) = decode(stream.as_bytes(), step, 1000);
            let events: Vec<_> = events.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(events, expected, "in pieces of {step}: {stream:?}");
            assert_eq!(end, Ok(()));
        }
    }

    #[test]
    fn events_are_read_wherever_the_chunks_are_cut() {
        check("", &[]);
        check("data: a\n\n", &[("", "a")]);
        check("data:a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check("event: x\ndata: a\n\ndata: b\n\n", &[("x", "a"), ("", "b")]);
        check("data: a\ndata:  b\ndata\n\n", &[("", "a\n b\n")]);
        check("data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", &[("", "a"), ("", "b"), ("", "c")]);
        check(": OPENROUTER PROCESSING\n\ndata: ä€\n\n", &[("", "ä€")]);
        check("id: 1\nretry: 5\nevent: only-a-name\n\ndata: a\n\n", &[("", "a")]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
    }

    #[test]
    fn an_id_holds_until_another_comes() {
        let mut ids = Vec::new();
        let stream = "data: a\n\nid: 1\ndata:\n\ndata: b\n\nid: x\0\ndata: c\n\nid: 2\n\ndata: d\n\nid\ndata: e\n\n";
        let end = Decoder::new(100).feed(stream.as_bytes(), |message| {
            ids.push(message.id.to_owned());
            Ok::<(), TooLong>(())
        });
        assert_eq!((end, ids), (Ok(()), ["", "1", "1", "1", "2", ""].map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_last_event_may_lack_its_empty_line_but_not_the_end_of_its_own() {
        check("data: [DONE]\n", &[("", "[DONE]")]);
        check("data: {\"half", &[]);
    }

    #[test]
    fn nothing_grows_beyond_the_limit() {
        let long_line = format!("data: {}", "x".repeat(100));
        assert_eq!(decode(long_line.as_bytes(), 7, 50).1, Err(TooLong(50)));
        let many_lines = "data: 0123456789\n".repeat(10);
        assert_eq!(decode(many_lines.as_bytes(), 7, 50).1, Err(TooLong(50)));
        assert_eq!(decode(format!("{long_line}\n\n").as_bytes(), 1000, 50).1, Err(TooLong(50)), "in one chunk too");
    }

    #[test]
    fn an_error_of_the_receiver_stops_the_decoder() {
        let mut seen = 0;
        let end = Decoder::new(100).feed(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            Err(TooLong(0))
        });
        assert_eq!((end, seen), (Err(TooLong(0)), 1));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_events(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            exercise(&bytes);
        }

        #[test]
        fn likely_bytes_too(text in "(data|event|: |:|\n|\r|\r\n|a|é| ){0,120}", step in 1_u8..20) {
            let mut bytes = vec![step];
            bytes.extend_from_slice(text.as_bytes());
            exercise(&bytes);
        }
    }
}
