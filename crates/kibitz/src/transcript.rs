//! What an agent that asks now and then has missed: everything that happens in a room gets the next number, and who asks
//! with the number of its last look is shown what came after it.

use std::collections::VecDeque;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::frame::Member;
use crate::participant::{Event, KnownSchema, Participant, Said};

/// Lines of chat that are kept, and their bytes; beyond either the oldest goes.
const MAX_LINES: usize = 500;
const MAX_BYTES: usize = 512 * 1024;

/// What happened in a room, as far as it is kept.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The number of the latest thing that happened.
    now: u64,
    lines: VecDeque<(u64, Said)>,
    bytes: usize,
    /// The number of the newest line that is not kept any more.
    dropped: u64,
    view: u64,
    roster: u64,
    schemas: u64,
}

/// What there is in a room.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The latest state of the application.
    pub view: Option<&'a RawValue>,
    /// Who is there.
    pub roster: &'a [Member],
    /// How to read the view.
    pub schemas: &'a [KnownSchema],
}

/// What is new since a look: what did not change is absent.
#[derive(Debug, Serialize)]
pub struct News<'a> {
    /// Lines of chat, oldest first.
    pub chat: Vec<Line<'a>>,
    /// Lines were said that are not kept any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    /// The state of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<&'a RawValue>,
    /// Who is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roster: Option<Vec<Person<'a>>>,
    /// How to read the view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schemas: Option<Vec<Shape<'a>>>,
    /// The number to ask with next time.
    pub next: u64,
}

/// A line of chat.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// Its number.
    pub seq: u64,
    /// The sender.
    pub from: &'a str,
    /// The name in the roster.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// The rule that it came by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// The client that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<&'a str>,
}

/// Somebody in the roster.
#[derive(Debug, Serialize)]
pub struct Person<'a> {
    /// Their id.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// What else they tell everyone; an agent's has `role`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a RawValue>,
}

/// A schema.
#[derive(Debug, Serialize)]
pub struct Shape<'a> {
    /// The sender.
    pub from: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The schema.
    pub schema: &'a RawValue,
}

impl<'a> Scene<'a> {
    /// As this participant knows it.
    pub fn of(participant: &'a Participant) -> Self {
        Self { view: participant.view(), roster: participant.roster(), schemas: participant.schemas() }
    }
}

impl Transcript {
    /// Something happened. Whether it is something to look at.
    pub fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::Chat(said) => self.say(said.clone()),
            Event::View => self.view = self.next(),
            Event::Roster | Event::Joined { .. } => self.roster = self.next(),
            Event::Schema(_) => self.schemas = self.next(),
            Event::Reset => {
                self.next();
                (self.lines, self.bytes) = (VecDeque::new(), 0);
            }
            _ => return false,
        }
        true
    }

    /// The number of the latest thing that happened.
    pub const fn now(&self) -> u64 {
        self.now
    }

    const fn next(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn say(&mut self, said: Said) {
        let seq = self.next();
        self.bytes += size(&said);
        self.lines.push_back((seq, said));
        while self.lines.len() > MAX_LINES || (self.bytes > MAX_BYTES && self.lines.len() > 1) {
            if let Some((seq, said)) = self.lines.pop_front() {
                (self.dropped, self.bytes) = (seq, self.bytes - size(&said));
            }
        }
    }

    /// What is new since `after`, with at most so many lines. Without `after` everything there is, with the newest lines.
    pub fn since<'a>(&'a self, after: Option<u64>, limit: usize, scene: Scene<'a>) -> News<'a> {
        let seen = after.unwrap_or(0);
        let new = self.lines.iter().filter(|(seq, _)| *seq > seen);
        let skipped = if after.is_none() { new.clone().count().saturating_sub(limit) } else { 0 };
        let rest = new.clone().count() - skipped;
        let chat: Vec<Line<'_>> = new.skip(skipped).take(limit).map(line).collect();
        // The next look begins after the last line that is shown: the rest comes then.
        let next = chat.last().filter(|_| rest > limit).map_or(self.now, |last| last.seq);
        let shape = |known: &'a KnownSchema| Shape {
            from: &known.from,
            name: &known.name,
            version: &known.version,
            schema: &known.schema,
        };
        News {
            chat,
            missed: after.is_some_and(|after| self.dropped > after),
            view: scene.view.filter(|_| self.view > seen),
            roster: (self.roster > seen).then(|| scene.roster.iter().map(person).collect()),
            schemas: (self.schemas > seen).then(|| scene.schemas.iter().map(shape).collect()),
            next,
        }
    }
}

fn size(said: &Said) -> usize {
    said.from.len() + said.name.len() + said.text.len() + size_of::<Said>()
}

fn line((seq, said): &(u64, Said)) -> Line<'_> {
    Line {
        seq: *seq,
        from: &said.from,
        name: &said.name,
        text: &said.text,
        rule: said.rule.as_deref(),
        sender: said.sender.as_deref(),
    }
}

fn person(member: &Member) -> Person<'_> {
    Person { id: &member.id, name: &member.name, meta: member.meta.as_deref() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn said(text: &str) -> Event {
        let (from, name) = ("a".into(), "Anna".into());
        Event::Chat(Said { from, name, text: text.into(), rule: None, sender: None, part: None })
    }

    fn look(transcript: &Transcript, after: Option<u64>, limit: usize) -> Value {
        let view = RawValue::from_string("{\"n\":1}".into()).expect("JSON");
        let scene = Scene { view: Some(&view), roster: &[], schemas: &[] };
        serde_json::to_value(transcript.since(after, limit, scene)).expect("JSON")
    }

    fn texts(news: &Value) -> Vec<&str> {
        news["chat"].as_array().expect("lines").iter().map(|line| line["text"].as_str().expect("text")).collect()
    }

    #[test]
    fn who_follows_next_sees_every_line_once_and_a_view_when_it_changes() {
        let mut transcript = Transcript::default();
        for text in ["1", "2", "3"] {
            assert!(transcript.note(&said(text)));
        }
        transcript.note(&Event::View);
        assert!(!transcript.note(&Event::Kicked));
        let first = look(&transcript, Some(0), 2);
        assert_eq!(texts(&first), ["1", "2"]);
        assert_eq!(first["next"], 2);
        let second = look(&transcript, first["next"].as_u64(), 2);
        assert_eq!((texts(&second), &second["next"]), (vec!["3"], &Value::from(4)));
        assert_eq!(second["view"]["n"], 1);
        let third = look(&transcript, second["next"].as_u64(), 2);
        assert_eq!(third, serde_json::json!({ "chat": [], "next": 4 }));
        assert_eq!(texts(&look(&transcript, None, 2)), ["2", "3"], "the first look shows the newest");
        transcript.note(&Event::Reset);
        assert_eq!(texts(&look(&transcript, None, 9)), [""; 0]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_who_missed_something_is_told() {
        let mut transcript = Transcript::default();
        for n in 0..=MAX_LINES {
            transcript.note(&said(&n.to_string()));
        }
        let news = look(&transcript, Some(0), 1);
        assert_eq!((texts(&news), &news["missed"]), (vec!["1"], &Value::Bool(true)));
        assert!(look(&transcript, Some(1), 1)["missed"].is_null());
        transcript.note(&said(&"x".repeat(MAX_BYTES)));
        assert_eq!(transcript.lines.len(), 1, "one that is larger than all stands alone");
        transcript.note(&said("y"));
        assert_eq!(texts(&look(&transcript, None, 9)), ["y"]);
    }
}
