//! The tools as a model is offered them.

use serde_json::{Value, json};

use crate::{Settings, ToolSpec};

/// The tools on offer, in the order in which clients show them.
pub(crate) fn specs(settings: &Settings) -> Vec<ToolSpec> {
    let mut specs =
        vec![list_directory(), read_file(), write_file(), edit_file(), run_shell_command(), code_search()];
    if settings.web {
        specs.extend([web_search(), fetch_content()]);
    }
    if !settings.skills.is_empty() {
        specs.push(read_skill());
    }
    if settings.questions.is_some() {
        specs.push(ask_user_question());
    }
    specs
}

fn spec(name: &'static str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    ToolSpec { name, description: description.to_owned(), parameters }
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(description: &str) -> Value {
    json!({ "type": "integer", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn list_directory() -> ToolSpec {
    let properties = json!({ "path": text("Directory, relative to the workspace; \".\" is its root.") });
    spec(
        "list_directory",
        "List what is in a workspace directory. Directories end with a slash.",
        properties,
        &["path"],
    )
}

fn read_file() -> ToolSpec {
    let properties = json!({
        "path": text("File, relative to the workspace."),
        "offset": number("First line to read, counted from 1."),
        "limit": number("How many lines to read."),
    });
    let description = "Read a text file of the workspace, or look at a PNG, JPEG, GIF or WebP image. Long files come in \
                       parts; the result says how to continue.";
    spec("read_file", description, properties, &["path"])
}

fn write_file() -> ToolSpec {
    let properties = json!({
        "path": text("File, relative to the workspace. Its directory must exist."),
        "content": text("The whole new content."),
    });
    let description = "Create a workspace file or replace it whole. An existing file must have been read first.";
    spec("write_file", description, properties, &["path", "content"])
}

fn edit_file() -> ToolSpec {
    let edit = json!({
        "type": "object",
        "properties": {
            "old_text": text("Text that occurs exactly once in the file."),
            "new_text": text("What takes its place."),
        },
        "required": ["old_text", "new_text"],
        "additionalProperties": false,
    });
    let properties = json!({
        "path": text("File, relative to the workspace."),
        "edits": { "type": "array", "items": edit,
                   "description": "Replacements, each against the original content. They must not overlap." },
    });
    let description = "Change a workspace file that has been read, by exact replacements. All are made or none.";
    spec("edit_file", description, properties, &["path", "edits"])
}

fn run_shell_command() -> ToolSpec {
    let properties = json!({
        "command": text("The command, for sh -c."),
        "timeout_seconds": number("When to end it; 30 if not given."),
    });
    let description = "Run a shell command in the workspace's root. Standard input is empty. The command and everything \
                       it has started end when the time is up.";
    spec("run_shell_command", description, properties, &["command"])
}

fn code_search() -> ToolSpec {
    let properties = json!({
        "action": { "type": "string", "enum": ["search", "files"],
                    "description": "search (default): lines that match query. files: names that match glob." },
        "query": text("Regular expression, in ripgrep's syntax. Lower case matches any case."),
        "literal": flag("Take query as plain text."),
        "case_sensitive": flag("Match case exactly."),
        "path": text("Directory or file to search; the whole workspace if not given."),
        "glob": text("Only files like this, such as *.rs or src/**/*.ts."),
        "context_lines": number("Lines to show around each match; at most 5."),
        "max_results": number("How many results; 50 if not given, at most 500."),
    });
    let description = "Search the workspace's code by content, or find files by name. What .gitignore names, hidden files \
                       and binary files are left out.";
    spec("code_search", description, properties, &[])
}

fn web_search() -> ToolSpec {
    let properties = json!({
        "queries": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 4,
                     "description": "1 to 4 different queries." },
        "max_results": number("Results per query; 5 if not given, at most 20."),
        "provider": { "type": "string", "enum": ["auto", "exa"], "description": "Who is asked; auto if not given." },
        "recency_filter": { "type": "string", "enum": ["day", "week", "month", "year"],
                            "description": "How recent results must be." },
        "domain_filter": { "type": "array", "items": { "type": "string" },
                           "description": "Domains to search in; with a leading - to leave out." },
    });
    spec("web_search", "Search the web.", properties, &["queries"])
}

fn fetch_content() -> ToolSpec {
    let properties = json!({
        "url": text("An http or https address."),
        "max_bytes": number("How much to return; 16384 if not given, at most 131072."),
        "extract": { "type": "string", "enum": ["auto", "text", "raw"],
                     "description": "auto and text: a page's text. raw: as it is." },
    });
    spec("fetch_content", "Fetch a web page or document as text.", properties, &["url"])
}

fn read_skill() -> ToolSpec {
    let properties = json!({
        "name": text("The skill."),
        "path": text("A file in the skill's folder; SKILL.md if not given."),
    });
    spec("read_skill", "Read a skill's instructions, or another file of its folder.", properties, &["name"])
}

fn ask_user_question() -> ToolSpec {
    let option = json!({
        "type": "object",
        "properties": { "label": text("The choice."), "description": text("What it means.") },
        "required": ["label", "description"],
        "additionalProperties": false,
    });
    let question = json!({
        "type": "object",
        "properties": {
            "question": text("What is asked."),
            "header": text("A short title."),
            "options": { "type": "array", "items": option, "minItems": 2, "maxItems": 4 },
        },
        "required": ["question", "header", "options"],
        "additionalProperties": false,
    });
    let properties = json!({ "questions": { "type": "array", "items": question, "minItems": 1, "maxItems": 4 } });
    let description = "Ask the user 1 to 4 questions with 2 to 4 choices each. The user may also answer freely.";
    spec("ask_user_question", description, properties, &["questions"])
}
