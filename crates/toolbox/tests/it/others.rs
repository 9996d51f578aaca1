//! The offer, skills, questions, and calls that nobody understands.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use convoke_kward::question::Question;
use convoke_toolbox::{Answer, Call, Output, QuestionHost, skills};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Bench, call};

/// Somebody who always takes the first option, or never answers.
#[derive(Debug, Default)]
struct Somebody {
    asked: Mutex<Vec<Question>>,
    is_silent: bool,
}

#[async_trait]
impl QuestionHost for Somebody {
    async fn ask(&self, questions: Vec<Question>, _: &CancellationToken) -> Option<Vec<Answer>> {
        *self.asked.lock().unwrap() = questions.clone();
        if self.is_silent {
            std::future::pending::<()>().await;
        }
        let first = |q: Question| Answer { answer: q.options[0].label.clone(), question: q.question };
        Some(questions.into_iter().map(first).collect())
    }
}

fn names(bench: &Bench) -> Vec<&'static str> {
    bench.toolbox.specs().iter().map(|spec| spec.name).collect()
}

#[test]
fn tools_are_offered_in_order_and_only_where_they_work() {
    let plain = Bench::new();
    let base = ["list_directory", "read_file", "write_file", "edit_file", "run_shell_command", "code_search"];
    assert_eq!(names(&plain), [&base[..], &["web_search", "fetch_content"]].concat());
    let offline = Bench::with(|settings| settings.web = false);
    assert_eq!(names(&offline), base);
    for spec in plain.toolbox.specs() {
        assert_eq!(spec.parameters["additionalProperties"], false, "{}", spec.name);
        assert_eq!(spec.to_json()["function"]["name"], spec.name);
        for required in spec.parameters["required"].as_array().unwrap() {
            assert!(spec.parameters["properties"].get(required.as_str().unwrap()).is_some(), "{}", spec.name);
        }
    }
}

#[tokio::test]
async fn skills_are_found_and_read_inside_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("review/SKILL.md", "---\nname: code-review\ndescription: \"Reviews: all\"\n---\nBe kind.\n");
    put("review/more/list.md", "1. Read\n");
    put("plain/SKILL.md", "No front matter.");
    put("empty/README.md", "not a skill");
    put("outside.md", "secret");
    put("big/SKILL.md", &"x".repeat(100_001));
    let found = skills::discover(folder.path());
    let shown: Vec<_> = found.iter().map(|skill| (skill.name.as_str(), skill.description.as_str())).collect();
    assert_eq!(shown, [("big", ""), ("code-review", "Reviews: all"), ("plain", "")]);
    let bench = Bench::with(|settings| settings.skills = found);
    assert!(names(&bench).contains(&"read_skill"));
    let text = bench.run("read_skill", json!({ "name": "code-review" })).await.content;
    assert!(text.ends_with("Be kind.\n"), "{text}");
    let more = bench.run("read_skill", json!({ "name": "code-review", "path": "more/list.md" })).await;
    assert_eq!(more.content, "1. Read\n");
    let out = bench.fails("read_skill", json!({ "name": "code-review", "path": "../outside.md" })).await;
    assert_eq!(out, "path outside skill: ../outside.md");
    assert!(
        bench.fails("read_skill", json!({ "name": "nope" })).await.starts_with("unknown skill: nope (known: big, ")
    );
    assert!(bench.fails("read_skill", json!({ "name": "big" })).await.starts_with("file too large"));
    assert!(skills::discover(&folder.path().join("missing")).is_empty());
}

#[tokio::test]
async fn questions_reach_the_user_and_answers_the_model() {
    let somebody = Arc::new(Somebody::default());
    let host = somebody.clone();
    let bench = Bench::with(|settings| settings.questions = Some(host));
    assert_eq!(names(&bench).last(), Some(&"ask_user_question"));
    let option = |label: &str| json!({ "label": label, "description": "d" });
    let question = |text: &str| json!({ "question": text, "header": "h", "options": [option("yes"), option("no")] });
    let asked = bench.run("ask_user_question", json!({ "questions": [question("Go?"), question("Now?")] })).await;
    assert_eq!(asked.content, "Go?: yes\nNow?: yes");
    assert_eq!(somebody.asked.lock().unwrap().len(), 2);
    let none = bench.fails("ask_user_question", json!({ "questions": [] })).await;
    assert_eq!(none, "ui/question requires 1-4 questions");
    let nobody = Bench::new();
    assert!(
        nobody.fails("ask_user_question", json!({ "questions": [question("Go?")] })).await.contains("cannot ask")
    );
}

#[tokio::test]
async fn a_question_ends_with_its_cancellation() {
    let host = Arc::new(Somebody { is_silent: true, ..Somebody::default() });
    let bench = Bench::with(|settings| settings.questions = Some(host));
    let option = json!({ "label": "a", "description": "d" });
    let questions = json!({ "questions": [{ "question": "q", "header": "h", "options": [option, option] }] });
    let cancel = CancellationToken::new();
    let call = call("ask_user_question", &questions);
    let mut live = |_: Output| {};
    let asking = bench.toolbox.run(&call, &mut live, &cancel);
    let (outcome, ()) = tokio::join!(asking, async { cancel.cancel() });
    assert_eq!((outcome.content.as_str(), outcome.cancelled), ("Cancelled.", true));
}

#[tokio::test]
async fn nonsense_is_answered_in_words() {
    let bench = Bench::new();
    let unknown = bench.run("fly", json!({})).await;
    assert_eq!((unknown.content.as_str(), unknown.is_error), ("Unknown tool: fly", false));
    for (arguments, words) in [
        ("{", "Error: the arguments are not valid JSON"),
        ("[1]", "Error: the arguments must be a JSON object"),
        ("", "Error: path is required"),
        ("null", "Error: the arguments must be a JSON object"),
    ] {
        let call = Call { id: "1".into(), name: "read_file".into(), arguments: arguments.into() };
        let outcome = bench.toolbox.run(&call, &mut |_: Output| {}, &CancellationToken::new()).await;
        assert!(outcome.is_error && outcome.content.starts_with(words), "{arguments}: {}", outcome.content);
    }
    let missing = convoke_toolbox::Toolbox::open(convoke_toolbox::Settings::new("/no/such/folder"));
    assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
