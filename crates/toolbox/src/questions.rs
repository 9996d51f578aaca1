//! Questions that a model puts to the user. How they are written and checked is the protocol's.

use async_trait::async_trait;
use convoke_kward::question::Question;
use tokio_util::sync::CancellationToken;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question it belongs to.
    pub question: String,
    /// The option's label, or the user's own words.
    pub answer: String,
}

/// Whoever can put questions to the user.
#[async_trait]
pub trait QuestionHost: Send + Sync + std::fmt::Debug {
    /// Asks and waits. `None`: there will be no answer. The questions have been checked.
    async fn ask(&self, questions: Vec<Question>, cancel: &CancellationToken) -> Option<Vec<Answer>>;
}
