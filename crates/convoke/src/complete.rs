//! What a shell may put in for a word: names of machines, tools and rooms, asked of the hub while the person types.
//!
//! Nobody waits long for it, and what goes wrong is silence: a shell has no place for errors.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use anyhow::Result;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use convoke_api::Client;
use convoke_api::tools::ToolList;
use serde_json::Value;

use crate::args::Global;
use crate::connect;

/// How long a hub may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most names of one kind.
const MOST: u32 = 1000;

/// Names of machines.
pub(crate) fn machines() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        asked(async |client| {
            let list: Value = client.get("/api/agents", &serde_json::json!({ "limit": MOST })).await?;
            Ok(named(&list["agents"], "id", |agent| if agent["online"] == true { "online" } else { "offline" }))
        })
    })
}

/// Files here, and machines with a colon behind.
pub(crate) fn sides() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let mut found = PathCompleter::any().complete(typed);
        if !typed.to_string_lossy().contains([':', '/']) {
            let names =
                machines().candidates().into_iter().map(|name| name.get_value().to_string_lossy().into_owned());
            let begun = names.filter(|name| name.starts_with(&*typed.to_string_lossy()));
            found.extend(begun.map(|name| CompletionCandidate::new(format!("{name}:"))));
        }
        found
    })
}

/// Names of rooms.
pub(crate) fn rooms() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        asked(async |client| {
            let list: Value = client.get("/api/rooms", &serde_json::json!({})).await?;
            Ok(named(&list["rooms"], "name", |_| ""))
        })
    })
}

/// Names of the tools of the machine that stands before.
pub(crate) fn tools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_machine(false))
}

/// Names of its probes.
pub(crate) fn probes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| of_machine(true))
}

fn of_machine(probes: bool) -> Vec<CompletionCandidate> {
    let Some(machine) = Line::typed().words.get(1).cloned() else { return Vec::new() };
    let Ok(machine) = crate::parse::agent_name(&machine) else { return Vec::new() };
    asked(async move |client| {
        let found: ToolList = client.get(&format!("{}/tools", machine.path()), &serde_json::json!({})).await?;
        let tools = found.tools.into_iter().filter(|tool| tool.probe == probes);
        Ok(tools
            .map(|tool| CompletionCandidate::new(tool.name).help(Some(first(&tool.description).into())))
            .collect())
    })
}

/// The first sentence.
fn first(text: &str) -> String {
    crate::show::clean(text.split_once(". ").map_or(text, |(first, _)| first))
}

fn named(list: &Value, key: &str, about: fn(&Value) -> &'static str) -> Vec<CompletionCandidate> {
    let names = list.as_array().into_iter().flatten().filter_map(|item| Some((item[key].as_str()?, about(item))));
    // A name that would drive the terminal is not offered.
    let names = names.filter(|(name, _)| crate::show::clean(name) == *name);
    names
        .map(|(name, about)| CompletionCandidate::new(name).help((!about.is_empty()).then(|| about.into())))
        .collect()
}

/// Asks the hub that the command line means.
fn asked(ask: impl AsyncFnOnce(Client) -> Result<Vec<CompletionCandidate>>) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(client)) = (runtime, connect::client(&Line::typed().global)) else { return Vec::new() };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, ask(client)).await });
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

/// What is typed so far.
#[derive(Debug, Default)]
struct Line {
    global: Global,
    /// The verb, and what follows it but options.
    words: Vec<String>,
}

impl Line {
    /// Shells give it behind `--`, with the program's name first.
    fn typed() -> Self {
        Self::of(std::env::args_os().skip_while(|arg| arg != "--").skip(2))
    }

    fn of(args: impl Iterator<Item = OsString>) -> Self {
        let mut line = Self::default();
        let mut args = args.filter_map(|arg| arg.into_string().ok());
        while let Some(word) = args.next() {
            let (name, given) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (word, None),
            };
            let mut value = || given.clone().or_else(|| args.next());
            match name.as_str() {
                "--hub" => line.global.hub = value(),
                "--token" => line.global.token = value(),
                "--data" => line.global.data = value().map(Into::into),
                option if option.starts_with('-') => {}
                _ => line.words.push(name),
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_the_hub_and_the_machine() {
        let line = |text: &str| Line::of(text.split(' ').map(OsString::from));
        let found = line("--data d call --hub=http://h --json pc-1 fs_");
        assert_eq!(found.words, ["call", "pc-1", "fs_"]);
        assert_eq!((found.global.hub.as_deref(), found.global.data), (Some("http://h"), Some("d".into())));
        assert!(line("--token").global.token.is_none());
    }

    #[test]
    fn names_that_are_no_plain_text_are_not_offered() {
        let list = serde_json::json!([{ "id": "pc-1", "online": true }, { "id": "\u{1b}[2J" }, { "no": "id" }]);
        let found = named(&list, "id", |_| "online");
        assert_eq!(found.iter().map(|c| c.get_value().to_owned()).collect::<Vec<_>>(), ["pc-1"]);
    }
}
