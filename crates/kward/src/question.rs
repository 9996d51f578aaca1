//! What a model may ask a person: one to four questions with two to four options each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most questions at once.
pub const MAX_QUESTIONS: usize = 4;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The question.
    pub question: String,
    /// Two or three words for it.
    pub header: String,
    /// What can be answered; a person may also write something else.
    pub options: Vec<Choice>,
}

/// An answer to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// The answer.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// Reads the model's questions; the text says what is wrong with them.
pub fn parse(questions: Option<&Value>) -> Result<Vec<Question>, String> {
    let Some(Value::Array(questions)) = questions else {
        return Err("questions must be an array".into());
    };
    if questions.is_empty() || questions.len() > MAX_QUESTIONS {
        return Err("ui/question requires 1-4 questions".into());
    }
    questions.iter().enumerate().map(|(index, question)| one(index + 1, question)).collect()
}

fn one(number: usize, question: &Value) -> Result<Question, String> {
    let text = |key: &str| question.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let (Some(asked), Some(header)) = (text("question"), text("header")) else {
        return Err(format!("question {number} requires question and header"));
    };
    let options = question.get("options").and_then(Value::as_array);
    let Some(options) = options.filter(|options| (2..=4).contains(&options.len())) else {
        return Err(format!("question {number} requires 2-4 options"));
    };
    if question.get("multiSelect").or_else(|| question.get("multi_select")).is_some() {
        return Err(format!("question {number} multiSelect is unsupported"));
    }
    if question.get("preview").is_some() || options.iter().any(|option| option.get("preview").is_some()) {
        return Err(format!("question {number} preview is unsupported"));
    }
    let option = |(index, option): (usize, &Value)| {
        let text = |key: &str| option.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        match (text("label"), text("description")) {
            (Some(label), Some(description)) => Ok(Choice { label: label.into(), description: description.into() }),
            _ => Err(format!("question {number} option {} requires label and description", index + 1)),
        }
    };
    let options = options.iter().enumerate().map(option).collect::<Result<_, _>>()?;
    Ok(Question { question: asked.into(), header: header.into(), options })
}

/// The answer to a question, found by the question's own text or by its place. An answer is a text or
/// `{question, answer}`.
pub fn answer_of(index: usize, question: &Question, answers: &[Value]) -> Option<String> {
    let named = answers.iter().find(|a| a.get("question").and_then(Value::as_str) == Some(&question.question));
    let answer = named.or_else(|| answers.get(index).filter(|a| a.get("question").is_none()))?;
    let answer = answer.get("answer").or_else(|| answer.get("text")).unwrap_or(answer);
    match answer {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(count: usize) -> Vec<Value> {
        vec![json!({ "label": "a", "description": "b" }); count]
    }

    #[test]
    fn questions_are_checked_in_the_contracts_words() {
        let ask = |q: Value| parse(Some(&json!([q]))).unwrap_err();
        assert_eq!(parse(None).unwrap_err(), "questions must be an array");
        assert_eq!(parse(Some(&json!([]))).unwrap_err(), "ui/question requires 1-4 questions");
        assert_eq!(parse(Some(&json!([1, 2, 3, 4, 5]))).unwrap_err(), "ui/question requires 1-4 questions");
        assert_eq!(ask(json!({})), "question 1 requires question and header");
        let asked = |extra: Value| {
            let mut question = json!({ "question": "q", "header": "h", "options": options(2) });
            question.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            question
        };
        assert_eq!(ask(asked(json!({ "options": options(1) }))), "question 1 requires 2-4 options");
        assert_eq!(ask(asked(json!({ "options": options(5) }))), "question 1 requires 2-4 options");
        assert_eq!(ask(asked(json!({ "multiSelect": false }))), "question 1 multiSelect is unsupported");
        assert_eq!(ask(asked(json!({ "preview": "x" }))), "question 1 preview is unsupported");
        let bad = json!([{ "label": "a", "description": "b" }, { "label": "a" }]);
        assert_eq!(ask(asked(json!({ "options": bad }))), "question 1 option 2 requires label and description");
        assert_eq!(parse(Some(&json!([asked(json!({}))]))).unwrap().len(), 1);
    }

    #[test]
    fn answers_are_found_by_question_or_by_place() {
        let question = |text: &str| Question { question: text.into(), header: "h".into(), options: Vec::new() };
        let named =
            [json!({ "question": "When?", "answer": "now" }), json!({ "question": "Which?", "answer": "this" })];
        assert_eq!(answer_of(0, &question("Which?"), &named).as_deref(), Some("this"));
        assert_eq!(answer_of(1, &question("When?"), &named).as_deref(), Some("now"));
        assert_eq!(answer_of(0, &question("Which?"), &[json!("this")]).as_deref(), Some("this"));
        assert_eq!(answer_of(1, &question("When?"), &[json!("this")]), None);
    }
}
