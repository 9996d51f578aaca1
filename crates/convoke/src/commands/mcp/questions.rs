//! What the hub asks the client. Every session counts its questions from the start, and the client, which knows of one
//! connection only, would take the first of a new session for the first of the one before: a person's late yes to one
//! would be a yes to the other. So each has an id of the bridge's own, and is answered in its own session or not at all.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// Questions without an answer that are kept in mind; of one more, the oldest can no longer be answered.
const MAX_OPEN: usize = 1024;

const CANCELLED: &str = "notifications/cancelled";

#[derive(Default)]
pub(super) struct Questions(Mutex<State>);

#[derive(Default)]
struct State {
    asked: u64,
    /// By the number in the bridge's id.
    open: BTreeMap<u64, Question>,
}

struct Question {
    session: String,
    /// As the hub knows it.
    id: Value,
}

/// What becomes of a message of the client's.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// It is none.
    None,
    /// Answers a question of the session, by the id that the hub gave it.
    To(Value),
    /// Answers nothing that is still asked.
    Late,
}

impl Questions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message of the hub's in this session, as the client gets it.
    pub(super) fn pass(&self, session: &str, text: String) -> String {
        if !text.contains("\"method\"") {
            return text;
        }
        let Ok(mut message) = serde_json::from_str::<Value>(&text) else { return text };
        if message["method"] == CANCELLED {
            let Some(number) = self.state().withdraw(session, &message["params"]["requestId"]) else { return text };
            message["params"]["requestId"] = named(number);
        } else if let Some(id) = message.get("id").filter(|_| message["method"].is_string()).cloned() {
            message["id"] = named(self.state().ask(session, id));
        } else {
            return text;
        }
        message.to_string()
    }

    /// A message of the client's, which would go to this session.
    pub(super) fn answer(&self, session: Option<&str>, message: &Value) -> Answer {
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        let Some(id) = message.get("id").filter(|_| is_answer && message.get("method").is_none()) else {
            return Answer::None;
        };
        let number = id.as_str().and_then(|id| id.strip_prefix(PREFIX)?.parse().ok());
        let question = number.and_then(|number: u64| self.state().open.remove(&number));
        match question.filter(|question| Some(question.session.as_str()) == session) {
            Some(Question { id, .. }) => {
                let mut message = message.clone();
                message["id"] = id;
                Answer::To(message)
            }
            None => Answer::Late,
        }
    }

    /// All other sessions have ended. Returns the cancellations of their questions for the client.
    pub(super) fn end_all_but(&self, session: &str) -> Vec<String> {
        let ended = self.state().open.extract_if(.., |_, question| question.session != session).collect::<Vec<_>>();
        let cancel = |(number, _): (u64, Question)| {
            let params =
                json!({ "requestId": named(number), "reason": "the session that asked this question has ended" });
            json!({ "jsonrpc": "2.0", "method": CANCELLED, "params": params }).to_string()
        };
        ended.into_iter().map(cancel).collect()
    }
}

impl State {
    fn ask(&mut self, session: &str, id: Value) -> u64 {
        if self.open.len() >= MAX_OPEN {
            self.open.pop_first();
        }
        self.asked += 1;
        self.open.insert(self.asked, Question { session: session.to_owned(), id });
        self.asked
    }

    fn withdraw(&mut self, session: &str, id: &Value) -> Option<u64> {
        let asked = self.open.iter().find(|(_, question)| question.session == session && question.id == *id);
        let number = asked.map(|(number, _)| *number)?;
        self.open.remove(&number);
        Some(number)
    }
}

const PREFIX: &str = "hub-";

fn named(number: u64) -> Value {
    Value::from(format!("{PREFIX}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(questions: &Questions, session: &str, id: u64) -> Value {
        let text =
            json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": { "message": "?" } });
        let passed: Value = serde_json::from_str(&questions.pass(session, text.to_string())).expect("JSON");
        assert_eq!(passed["params"], text["params"]);
        passed["id"].clone()
    }

    fn yes(id: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } })
    }

    #[test]
    fn an_answer_goes_to_its_own_question_once() {
        let questions = Questions::default();
        let (first, second) = (ask(&questions, "a", 0), ask(&questions, "a", 1));
        assert_eq!(questions.answer(Some("a"), &yes(&second)), Answer::To(yes(&json!(1))));
        assert_eq!(questions.answer(Some("a"), &yes(&first)), Answer::To(yes(&json!(0))));
        for late in [&first, &json!(0), &json!("hub-99"), &Value::Null] {
            assert_eq!(questions.answer(Some("a"), &yes(late)), Answer::Late, "{late}");
        }
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(questions.answer(Some("a"), &note), Answer::None);
    }

    #[test]
    fn a_late_yes_is_none_to_the_question_of_another_session() {
        let questions = Questions::default();
        let old = ask(&questions, "a", 0);
        let other = ask(&questions, "a", 1);
        let told = questions.end_all_but("b");
        assert!(told.len() == 2 && told[0].contains(old.as_str().expect("a text")), "{told:?}");
        let new = ask(&questions, "b", 0);
        assert_ne!(old, new);
        assert_eq!(questions.answer(Some("b"), &yes(&old)), Answer::Late);
        assert_eq!(questions.answer(Some("b"), &yes(&other)), Answer::Late);
        assert_eq!(questions.answer(Some("b"), &yes(&new)), Answer::To(yes(&json!(0))));
        // Neither is one that comes before anybody has noticed.
        let old = ask(&questions, "b", 1);
        assert_eq!(questions.answer(Some("c"), &yes(&old)), Answer::Late);
    }

    #[test]
    fn the_hub_may_withdraw_a_question_and_all_else_passes_as_it_is() {
        let questions = Questions::default();
        let asked = ask(&questions, "a", 3);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#;
        assert_eq!(questions.pass("b", cancel.into()), cancel, "another session's is another question");
        let passed: Value = serde_json::from_str(&questions.pass("a", cancel.into())).expect("JSON");
        assert_eq!(passed["params"]["requestId"], asked);
        assert_eq!(questions.answer(Some("a"), &yes(&asked)), Answer::Late);
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"x":"\"method\""}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
            "\"method\"",
            "",
        ] {
            assert_eq!(questions.pass("a", text.into()), text);
        }
    }

    #[test]
    fn what_is_kept_of_them_is_bounded() {
        let questions = Questions::default();
        let first = ask(&questions, "a", 0);
        for id in 0..MAX_OPEN as u64 {
            ask(&questions, "a", id + 1);
        }
        assert_eq!(questions.state().open.len(), MAX_OPEN);
        assert_eq!(questions.answer(Some("a"), &yes(&first)), Answer::Late);
    }
}
