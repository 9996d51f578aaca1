//! `code_search`: ripgrep's own engine on the workspace.

use std::path::Path;
use std::time::Instant;

use globset::{Glob, GlobSet, GlobSetBuilder};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::files::{Located, Workspace};
use crate::limits::{
    SEARCH_CONTEXT, SEARCH_FILE_BYTES, SEARCH_LINE_CHARS, SEARCH_OUTPUT_BYTES, SEARCH_RESULTS, SEARCH_RESULTS_MOST,
    SEARCH_TIME,
};

/// What is looked for.
#[derive(Debug)]
struct Query {
    /// Without one, files are listed by name.
    pattern: Option<RegexMatcher>,
    globs: Option<GlobSet>,
    results: usize,
    context: usize,
}

/// Lines that match a pattern, or files whose names match a glob. What version control ignores, hidden files and
/// binary files are left out. Blocks: for a thread of its own.
pub(crate) fn code_search(
    workspace: &Workspace,
    arguments: &Arguments,
    cancel: &CancellationToken,
) -> Result<Outcome, String> {
    let query = read_query(arguments)?;
    let path = arguments.optional_text("path")?.unwrap_or(".");
    let place = workspace.locate(path).map_err(|why| why.to_string())?;
    let mut found = Found::new(query.results, cancel.clone());
    walk(workspace, &place, &query, &mut found);
    if cancel.is_cancelled() {
        return Ok(Outcome::cancelled());
    }
    Ok(Outcome::text(found.report(query.pattern.is_some())))
}

fn read_query(arguments: &Arguments) -> Result<Query, String> {
    let action = arguments.optional_text("action")?.unwrap_or("search");
    let pattern = match action {
        "search" => {
            let query = arguments.text("query")?;
            if query.is_empty() {
                return Err("query must not be empty".into());
            }
            let is_literal = arguments.flag("literal")?;
            let is_exact = arguments.flag("case_sensitive")?;
            let mut builder = RegexMatcherBuilder::new();
            // As in ripgrep: a pattern in lower case also matches upper case.
            builder.case_smart(!is_exact).fixed_strings(is_literal).line_terminator(Some(b'\n'));
            builder.size_limit(10 << 20).dfa_size_limit(16 << 20);
            let built = builder.build(query);
            Some(built.map_err(|why| {
                format!("query is not a valid pattern: {why}; set literal to search for it as it is")
            })?)
        }
        "files" => None,
        other => return Err(format!("action must be search or files, not {other}")),
    };
    let globs = arguments.texts("glob")?;
    let globs = if globs.is_empty() { None } else { Some(glob_set(&globs)?) };
    let results = arguments.optional_number("max_results")?.unwrap_or(SEARCH_RESULTS as i64);
    let context = arguments.optional_number("context_lines")?.unwrap_or(0);
    Ok(Query {
        pattern,
        globs,
        results: usize::try_from(results).unwrap_or(1).clamp(1, SEARCH_RESULTS_MOST),
        context: usize::try_from(context).unwrap_or(0).min(SEARCH_CONTEXT),
    })
}

/// A glob without a slash is about names anywhere.
fn glob_set(globs: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let anywhere =
            if glob.contains('/') { glob.trim_start_matches('/').to_owned() } else { format!("**/{glob}") };
        set.add(Glob::new(&anywhere).map_err(|why| format!("glob is not valid: {why}"))?);
    }
    set.build().map_err(|why| format!("glob is not valid: {why}"))
}

/// The names come from a walk over paths, which somebody may swap for links meanwhile. What is read or told is opened below
/// the workspace's own handle, which no link leads out of.
fn walk(workspace: &Workspace, place: &Located, query: &Query, found: &mut Found) {
    let root = workspace.root();
    let files = WalkBuilder::new(root.join(&place.relative))
        .follow_links(false)
        .require_git(false)
        .max_filesize(query.pattern.is_some().then_some(SEARCH_FILE_BYTES))
        .sort_by_file_path(Path::cmp)
        .build();
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .before_context(query.context)
        .after_context(query.context)
        .build();
    for entry in files.flatten() {
        if found.is_over() {
            return;
        }
        // Neither pipes nor devices, and no links: a link may lead out.
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(relative) = entry.path().strip_prefix(root) else { continue };
        if query.globs.as_ref().is_some_and(|globs| !globs.is_match(relative)) {
            continue;
        }
        let name = relative.to_string_lossy();
        let inside = Located { relative: relative.to_owned(), named: name.clone().into_owned(), exists: true };
        match &query.pattern {
            None if workspace.has_file(&inside) => found.add_file(&name),
            None => {}
            Some(pattern) => {
                // A file that cannot be read is as one that does not match.
                let Ok((file, _)) = workspace.file(&inside) else { continue };
                let sink = FileSink { name: &name, found };
                let _ = searcher.search_file(pattern, &file.into_std(), sink);
            }
        }
    }
}

/// The results so far, and whether to go on.
struct Found {
    text: String,
    results: usize,
    most: usize,
    end: Option<&'static str>,
    deadline: Instant,
    cancel: CancellationToken,
}

impl Found {
    fn new(most: usize, cancel: CancellationToken) -> Self {
        let deadline = Instant::now() + SEARCH_TIME;
        Self { text: String::new(), results: 0, most, end: None, deadline, cancel }
    }

    fn is_over(&mut self) -> bool {
        if self.end.is_none() && Instant::now() >= self.deadline {
            self.end = Some("The search took too long; narrow it with path or glob.");
        }
        self.end.is_some() || self.cancel.is_cancelled()
    }

    fn add_file(&mut self, name: &str) {
        if self.has_room() {
            self.results += 1;
            self.push(&format!("{name}\n"));
        }
    }

    /// Whether one more result is wanted.
    fn has_room(&mut self) -> bool {
        if self.results >= self.most {
            self.end.get_or_insert("There are more; raise max_results or narrow the search.");
        }
        self.end.is_none()
    }

    fn push(&mut self, line: &str) {
        if self.text.len() + line.len() > SEARCH_OUTPUT_BYTES {
            self.end.get_or_insert("There is more than can be shown; narrow the search.");
        } else {
            self.text.push_str(line);
        }
    }

    fn report(self, by_content: bool) -> String {
        let what = if by_content { "matches" } else { "files" };
        if self.results == 0 {
            return format!("No {what} found.{}", self.end.map(|end| format!(" {end}")).unwrap_or_default());
        }
        let note = self.end.map(|end| format!("\n\n[{} {what} shown. {end}]", self.results)).unwrap_or_default();
        format!("{}{note}", self.text.trim_end_matches('\n'))
    }
}

struct FileSink<'a> {
    name: &'a str,
    found: &'a mut Found,
}

impl FileSink<'_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        let mut shown: String = text.chars().take(SEARCH_LINE_CHARS).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        let line = format!("{}{mark}{}{mark} {shown}\n", self.name, number.unwrap_or(0));
        self.found.push(&line);
    }
}

impl Sink for FileSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if !self.found.has_room() || self.found.is_over() {
            return Ok(false);
        }
        self.found.results += 1;
        for (index, line) in matched.lines().enumerate() {
            self.line(matched.line_number().map(|number| number + index as u64), ':', line);
        }
        Ok(!self.found.is_over())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.line(context.line_number(), '-', context.bytes());
        Ok(!self.found.is_over())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.found.push("--\n");
        Ok(true)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_becomes_a_link_during_a_search_shows_nothing_of_what_is_outside() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("ws"), folder.path().join("out"));
        std::fs::create_dir_all(inside.join("src")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("f"), "canary").unwrap();
        let workspace = Workspace::open(&inside).unwrap();
        let place = workspace.locate("src").unwrap();
        std::fs::remove_dir(inside.join("src")).unwrap();
        std::os::unix::fs::symlink("../out", inside.join("src")).unwrap();
        for pattern in [Some("canary"), None] {
            let pattern = pattern.map(|text| RegexMatcherBuilder::new().build(text).unwrap());
            let query = Query { pattern, globs: None, results: 5, context: 0 };
            let mut found = Found::new(5, CancellationToken::new());
            walk(&workspace, &place, &query, &mut found);
            assert_eq!((found.results, found.text.as_str()), (0, ""));
        }
    }
}
