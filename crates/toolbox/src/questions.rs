//! Questions that a model puts to the user.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The fewest and the most questions of one call.
pub const QUESTIONS: std::ops::RangeInclusive<usize> = 1..=4;
/// The fewest and the most options of a question.
pub const OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked.
    pub question: String,
    /// A short title.
    pub header: String,
    /// What may be chosen; the user may also answer freely.
    pub options: Vec<QuestionOption>,
}

/// One option of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// The choice.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Checks questions as a model wrote them.
pub fn validate(questions: &Value) -> Result<Vec<Question>, String> {
    let Some(items) = questions.as_array() else { return Err("questions must be an array".into()) };
    if !QUESTIONS.contains(&items.len()) {
        return Err("ui/question requires 1-4 questions".into());
    }
    items.iter().enumerate().map(|(index, item)| question(index + 1, item)).collect()
}

fn question(number: usize, item: &Value) -> Result<Question, String> {
    let (Some(question), Some(header)) = (text(item, "question"), text(item, "header")) else {
        return Err(format!("question {number} requires question and header"));
    };
    let given = item.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !OPTIONS.contains(&given.len()) {
        return Err(format!("question {number} requires 2-4 options"));
    }
    if item.get("multiSelect").or_else(|| item.get("multi_select")).is_some() {
        return Err(format!("question {number} multiSelect is unsupported"));
    }
    if item.get("preview").is_some() || given.iter().any(|option| option.get("preview").is_some()) {
        return Err(format!("question {number} preview is unsupported"));
    }
    let option = |(index, option): (usize, &Value)| match (text(option, "label"), text(option, "description")) {
        (Some(label), Some(description)) => Ok(QuestionOption { label, description }),
        _ => Err(format!("question {number} option {} requires label and description", index + 1)),
    };
    let options = given.iter().enumerate().map(option).collect::<Result<_, _>>()?;
    Ok(Question { question, header, options })
}

fn text(item: &Value, key: &str) -> Option<String> {
    item.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn option(label: &str) -> Value {
        json!({ "label": label, "description": "d" })
    }

    fn with(extra: Value) -> Value {
        let mut question = json!({ "question": "q", "header": "h", "options": [option("a"), option("b")] });
        for (key, value) in extra.as_object().unwrap() {
            question[key] = value.clone();
        }
        question
    }

    #[test]
    fn what_cannot_be_asked_is_said() {
        let check = |questions: Value, why: &str| assert_eq!(validate(&questions).unwrap_err(), why, "{questions}");
        check(json!({}), "questions must be an array");
        check(json!([]), "ui/question requires 1-4 questions");
        check(json!([with(json!({})), 1, 2, 3, 4]), "ui/question requires 1-4 questions");
        check(json!([with(json!({ "header": " " }))]), "question 1 requires question and header");
        check(json!([with(json!({})), with(json!({ "question": 5 }))]), "question 2 requires question and header");
        check(json!([with(json!({ "options": [option("a")] }))]), "question 1 requires 2-4 options");
        check(json!([with(json!({ "multiSelect": false }))]), "question 1 multiSelect is unsupported");
        check(json!([with(json!({ "preview": "x" }))]), "question 1 preview is unsupported");
        check(
            json!([with(json!({ "options": [option("a"), { "label": "b" }] }))]),
            "question 1 option 2 requires label and description",
        );
        check(json!(["hello"]), "question 1 requires question and header");
    }

    #[test]
    fn what_can_be_asked_is_kept() {
        let questions = validate(&json!([with(json!({}))])).unwrap();
        assert_eq!(questions[0].options[1].label, "b");
    }
}
