//! A conversation for reading elsewhere: Markdown, or a page with the same text.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use convoke_kward::params;
use convoke_kward::results::{Exported, Session};
use convoke_kward::rpc::RpcError;
use convoke_kward::transcript::{KnownShown, Shown, ShownPart, shown as as_shown};

use super::live::Live;
use crate::backend::{Backend, file_failed};
use crate::environment::shown;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Markdown,
    Html,
}

impl Format {
    fn of(name: Option<&str>) -> Result<Self, RpcError> {
        match name.map(|name| name.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "markdown" | "md") => Ok(Self::Markdown),
            Some("html") => Ok(Self::Html),
            Some(other) => Err(RpcError::failed("UnsupportedFormat", format!("Unsupported export format: {other}"))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Html => "html",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Html => "html",
        }
    }
}

impl Backend {
    pub(crate) fn export_session(&self, params: params::Export) -> Result<Exported, RpcError> {
        let live = self.session(&params.session_id)?;
        let format = Format::of(params.format.as_deref())?;
        let path = match params.path.as_deref().map(str::trim).filter(|path| !path.is_empty()) {
            None => live.path.with_extension(format.extension()),
            Some(path) => self.export_path(&live, path)?,
        };
        let messages = {
            let items = live.state().items.clone();
            as_shown(items.iter().map(|item| item.message.as_ref()))
        };
        let markdown = markdown(&live.shown(), &messages);
        let text = match format {
            Format::Markdown => markdown,
            Format::Html => html(&markdown),
        };
        std::fs::write(&path, self.redactor.text(&text).as_bytes()).map_err(file_failed)?;
        Ok(Exported { path: shown(&path), format: format.name().into() })
    }

    /// Where to write: links resolved, inside the workspace or the session directory.
    fn export_path(&self, live: &Live, given: &str) -> Result<PathBuf, RpcError> {
        let outside =
            || RpcError::invalid_params(format!("export path outside workspace or session directory: {given}"));
        let path = self.environment.expand(given, &live.root);
        let name = path.file_name().ok_or_else(outside)?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let Ok(parent) = std::fs::canonicalize(parent) else {
            let allowed = [live.root.clone(), self.paths.sessions()];
            let is_inside = !given.contains("..") && allowed.iter().any(|root| path.starts_with(root));
            let missing = format!("No such file or directory: {}", shown(parent));
            return Err(if is_inside { RpcError::failed("FileError", missing) } else { outside() });
        };
        // A link at the end would lead out just as well.
        let target = std::fs::canonicalize(parent.join(name)).unwrap_or_else(|_| parent.join(name));
        if std::fs::symlink_metadata(parent.join(name)).is_ok_and(|meta| meta.is_symlink()) && !target.exists() {
            return Err(outside());
        }
        let sessions = std::fs::canonicalize(self.paths.sessions()).unwrap_or_else(|_| self.paths.sessions());
        let is_inside = [live.root.as_path(), sessions.as_path()].iter().any(|root| target.starts_with(root));
        // A session's own file must not be replaced by a text about it, and what is no file cannot be replaced at all.
        let is_session =
            target.extension().is_some_and(|extension| extension == "jsonl") && target.starts_with(&sessions);
        if !is_inside || is_session || (target.exists() && !target.is_file()) {
            return Err(outside());
        }
        Ok(target)
    }
}

fn markdown(session: &Session, messages: &[Shown]) -> String {
    let mut out = String::new();
    let title = session.name.as_deref().unwrap_or("Kward session");
    // Writing into a text does not fail.
    let _ = write!(
        out,
        "# {title}\n\n- Session: {}\n- Workspace: {}\n- Created: {}\n",
        session.persistent_id, session.workspace_root, session.created_at
    );
    for message in messages {
        match message {
            Shown::Known(KnownShown::User { content }) => section(&mut out, "User", content),
            Shown::Known(KnownShown::Assistant { content, error_message }) => {
                section(&mut out, "Assistant", content);
                if let Some(why) = error_message {
                    let _ = write!(out, "\n*{why}*\n");
                }
            }
            Shown::Known(KnownShown::ToolResult { tool_name, is_error, content, .. }) => {
                let _ = write!(out, "\n## Tool result: {tool_name}{}\n", if *is_error { " (failed)" } else { "" });
                for part in content {
                    match part {
                        ShownPart::Text { text } => fenced(&mut out, "", text),
                        other => part_text(&mut out, other),
                    }
                }
            }
            Shown::Known(KnownShown::CompactionSummary { summary, .. }) => {
                let _ = write!(out, "\n## Summary of earlier conversation\n\n{summary}\n");
            }
            Shown::Other(message) => {
                let text = message.get("summary").or_else(|| message.get("content")).and_then(|text| text.as_str());
                let _ = write!(out, "\n## Note\n\n{}\n", text.unwrap_or_default());
            }
        }
    }
    out
}

fn section(out: &mut String, title: &str, content: &[ShownPart]) {
    let _ = write!(out, "\n## {title}\n");
    content.iter().for_each(|part| part_text(out, part));
}

fn part_text(out: &mut String, part: &ShownPart) {
    match part {
        ShownPart::Text { text } => {
            let _ = write!(out, "\n{text}\n");
        }
        ShownPart::Thinking { thinking } => {
            out.push('\n');
            for line in thinking.lines() {
                let _ = writeln!(out, "> {line}");
            }
        }
        ShownPart::Image { mime_type, alt, .. } => {
            let _ = write!(out, "\n[Image: {} ({mime_type})]\n", alt.as_deref().unwrap_or("attachment"));
        }
        ShownPart::ToolCall { name, arguments, .. } => {
            let _ = write!(out, "\n### Tool call: {name}\n");
            fenced(out, "json", &serde_json::to_string_pretty(arguments).unwrap_or_default());
        }
    }
}

/// A block whose fence is longer than any in it.
fn fenced(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = write!(out, "\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'));
}

fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    format!(
        "<!doctype html>\n<html>\n<head><meta charset=\"utf-8\"><title>Kward session</title></head>\n<body><pre>{escaped}</pre></body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_escaped() {
        assert!(html("<script>\"&'</script>").contains("<pre>&lt;script&gt;&quot;&amp;&#39;&lt;/script&gt;</pre>"));
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let mut out = String::new();
        fenced(&mut out, "", "a ```` b");
        assert_eq!(out, "\n`````\na ```` b\n`````\n");
    }
}
