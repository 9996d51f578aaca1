//! Prompt templates: `<config>/prompts/*.md`, called by a slash and their name. Skills are called by `/skill:<name>`.

use std::path::{Path, PathBuf};

use convoke_kward::params;
use convoke_kward::results::{Expanded, Prompt, Prompts};
use convoke_kward::rpc::RpcError;
use convoke_toolbox::skills;

use crate::backend::Backend;
use crate::environment::shown;
use crate::files;

/// Names that clients keep for themselves.
pub(crate) const RESERVED: &[&str] = &[
    "exit",
    "quit",
    "new",
    "resume",
    "name",
    "clone",
    "tree",
    "copy",
    "export",
    "compact",
    "redraw",
    "settings",
    "login",
    "model",
    "openrouter/catalog",
    "reasoning",
    "reload",
    "status",
    "stats",
    "memory",
];

/// The largest template.
const MAX_BYTES: u64 = 256 * 1024;

/// A template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) command: String,
    pub(crate) description: String,
    pub(crate) argument_hint: String,
    pub(crate) path: PathBuf,
    body: String,
}

impl Template {
    /// Every `$ARGUMENTS` becomes the arguments.
    pub(crate) fn expand(&self, arguments: &str) -> String {
        self.body.replace("$ARGUMENTS", arguments)
    }
}

/// The templates of a directory, by name. What cannot be read is left out.
pub(crate) fn discover(dir: &Path) -> Vec<Template> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut templates: Vec<Template> = entries.filter_map(|entry| template(&entry.path())).collect();
    templates.sort_by(|a, b| a.command.cmp(&b.command));
    templates
}

fn template(path: &Path) -> Option<Template> {
    let command = path.file_stem()?.to_str()?.to_owned();
    let fits = path.extension().is_some_and(|extension| extension == "md") && is_command_name(&command);
    if !fits || RESERVED.contains(&command.as_str()) || !path.is_file() {
        return None;
    }
    let text = files::read_text_up_to(path, MAX_BYTES)?;
    let (front, body) = front_matter(&text)?;
    let field =
        |name: &str| front.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone()).unwrap_or_default();
    Some(Template {
        command,
        description: field("description"),
        argument_hint: field("argument-hint"),
        path: path.to_owned(),
        body: body.trim().to_owned(),
    })
}

/// The fields between two `---` lines, and the text after them. `None` when the second line is missing.
fn front_matter(text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Some((Vec::new(), text));
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let fields = rest[..at].lines().filter_map(|line| {
                let (key, value) = line.split_once(':')?;
                let value = value.trim();
                let bare = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                let bare = bare.or_else(|| value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')));
                Some((key.trim(), bare.unwrap_or(value).to_owned()))
            });
            return Some((fields.collect(), &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// A name that can be called: a letter or digit, then letters, digits, `_` and `-`.
pub(crate) fn is_command_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// `/name rest` as its two parts. The rest may have several lines.
pub(crate) fn split_slash(input: &str) -> Option<(&str, &str)> {
    let input = input.strip_prefix('/')?;
    let end = input.find(char::is_whitespace).unwrap_or(input.len());
    let (name, rest) = input.split_at(end);
    (!name.is_empty()).then(|| (name, rest.trim()))
}

/// What a slash command stands for: a template with its arguments, or a skill's text. Unknown ones are just text.
pub(crate) fn expand_slash(config_dir: &Path, input: &str) -> Option<String> {
    let (name, arguments) = split_slash(input)?;
    if let Some(skill) = name.strip_prefix("skill:") {
        let skill = skills::discover(&config_dir.join("skills")).into_iter().find(|known| known.name == skill)?;
        let text = files::read_text_up_to(&skill.path, MAX_BYTES)?;
        let body = front_matter(&text).map_or(text.as_str(), |(_, body)| body).trim().to_owned();
        let mut out = format!("Use the skill \"{}\" (from {}):\n\n{body}", skill.name, shown(&skill.folder));
        if !arguments.is_empty() {
            out.push_str("\n\n");
            out.push_str(arguments);
        }
        return Some(out);
    }
    if !is_command_name(name) {
        return None;
    }
    template(&config_dir.join("prompts").join(format!("{name}.md"))).map(|template| template.expand(arguments))
}

impl Backend {
    pub(crate) fn templates(&self) -> Vec<Template> {
        discover(&self.paths.dir.join("prompts"))
    }

    pub(crate) fn list_prompts(&self) -> Result<Prompts, RpcError> {
        let prompt = |template: Template| Prompt {
            command: template.command,
            description: template.description,
            argument_hint: template.argument_hint,
            path: shown(&template.path),
        };
        Ok(Prompts { prompts: self.templates().into_iter().map(prompt).collect() })
    }

    pub(crate) fn expand_prompt(&self, params: params::ExpandPrompt) -> Result<Expanded, RpcError> {
        let command = params.command.trim().trim_start_matches('/');
        let found = self.templates().into_iter().find(|template| template.command == command);
        let template =
            found.ok_or_else(|| RpcError::failed("UnknownPrompt", format!("Unknown prompt template: {command}")))?;
        let text = template.expand(params.arguments.as_deref().unwrap_or_default());
        Ok(Expanded { command: template.command, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_with_and_without_front_matter() {
        let dir = tempfile::tempdir().unwrap();
        let prompts = dir.path().join("prompts");
        std::fs::create_dir(&prompts).unwrap();
        let write = |name: &str, text: &str| std::fs::write(prompts.join(name), text).unwrap();
        write(
            "plan.md",
            "---\ndescription: \"Make a plan\"\nargument-hint: <goal>\n---\nPlan: $ARGUMENTS, $ARGUMENTS\n",
        );
        write("bare.md", "Just $1");
        write("open.md", "---\ndescription: x\nno end");
        write("model.md", "reserved");
        write("-bad.md", "name");
        write("other.txt", "kind");
        let found = discover(&prompts);
        let names: Vec<_> = found.iter().map(|template| template.command.as_str()).collect();
        assert_eq!(names, ["bare", "plan"]);
        assert_eq!((found[1].description.as_str(), found[1].argument_hint.as_str()), ("Make a plan", "<goal>"));
        assert_eq!(expand_slash(dir.path(), "/plan fix\nbug").as_deref(), Some("Plan: fix\nbug, fix\nbug"));
        assert_eq!(expand_slash(dir.path(), "/bare").as_deref(), Some("Just $1"));
        for literal in ["/unknown x", "/etc/passwd", "plain", "/", "/ plan", "/../prompts/plan"] {
            assert_eq!(expand_slash(dir.path(), literal), None, "{literal}");
        }
    }

    #[test]
    fn names_that_can_be_called() {
        assert!(
            is_command_name("fix-it_2") && !is_command_name("") && !is_command_name("a.b") && !is_command_name("_a")
        );
        assert_eq!(split_slash("/a  b c "), Some(("a", "b c")));
    }
}
