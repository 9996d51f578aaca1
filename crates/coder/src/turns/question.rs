//! Questions to the person: sent as a notification, answered by a request, withdrawn by a cancel.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, Weak};

use async_trait::async_trait;
use convoke_kward::events::{QuestionAsked, name};
use convoke_kward::params;
use convoke_kward::question::{self, Question};
use convoke_kward::results::Ok as Done;
use convoke_kward::rpc::{self, RpcError};
use convoke_toolbox::{Answer, QuestionHost};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::clock;

/// Questions that wait for the person.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<HashMap<String, Waiting>>);

#[derive(Debug)]
struct Waiting {
    session_id: String,
    answer: oneshot::Sender<Vec<Value>>,
}

/// Asks on behalf of a session.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) session_id: String,
    pub(crate) backend: Weak<Backend>,
}

#[async_trait]
impl QuestionHost for Asker {
    async fn ask(&self, questions: Vec<Question>, cancel: &CancellationToken) -> Option<Vec<Answer>> {
        let backend = self.backend.upgrade()?;
        let id = clock::unique_id();
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { session_id: self.session_id.clone(), answer };
        backend.questions.lock().insert(id.clone(), waiting);
        let forget = Forget { questions: &backend.questions, id: &id };
        let told = QuestionAsked { session_id: self.session_id.clone(), question_request_id: id.clone(), questions };
        backend.out.send(rpc::notification(name::QUESTION, &told));
        let answers = tokio::select! {
            answers = answered => answers.ok(),
            () = cancel.cancelled() => None,
        };
        drop(forget);
        let answers = answers?;
        let of = |(index, question): (usize, &Question)| Answer {
            question: question.question.clone(),
            answer: question::answer_of(index, question, &answers).unwrap_or_else(|| "(no answer)".into()),
        };
        Some(told.questions.iter().enumerate().map(of).collect())
    }
}

/// Takes a question off the list, however the wait for it ends.
struct Forget<'a> {
    questions: &'a Questions,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.questions.lock().remove(self.id);
    }
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Backend {
    /// `ui/answerQuestion`. An answer to a withdrawn question is no error: it may have crossed a cancel.
    pub(crate) fn answer_question(&self, params: params::AnswerQuestion) -> Result<Done, RpcError> {
        let mut waiting = self.questions.lock();
        let is_asked = waiting.get(&params.question_request_id).is_some_and(|w| w.session_id == params.session_id);
        if let Some(one) = is_asked.then(|| waiting.remove(&params.question_request_id)).flatten() {
            // The turn may have ended in this very moment.
            let _ = one.answer.send(params.answers);
        }
        Ok(Done { ok: true })
    }
}
