//! What `initialize` tells a client. Groups and names are the contract's, the values are true for this backend; lists
//! of methods are read from the table of methods, so that nothing is promised that nobody answers to.

use serde_json::{Value, json};

use crate::attachment;
use crate::events::name;
use crate::methods::Method;
use crate::question::MAX_QUESTIONS;
use crate::results::Initialized;

/// The protocol's version.
pub const PROTOCOL_VERSION: u32 = 1;

/// Events of a turn that are kept for replay.
pub const REPLAY_LIMIT: usize = 1000;

/// Categories of the log.
pub const LOG_CATEGORIES: [&str; 4] = ["tokens", "performance", "tools", "errors"];

/// A log file is closed when it has reached this size.
pub const LOG_MAX_BYTES: u64 = 10 * 1024 * 1024;

/// The answer to `initialize`.
pub fn initialized(log_directory: &str) -> Initialized {
    Initialized {
        protocol_version: PROTOCOL_VERSION,
        server_name: "kward".into(),
        experimental: true,
        capabilities: capabilities(log_directory),
    }
}

fn capabilities(log_directory: &str) -> Value {
    let mut groups = session_groups();
    let mut rest = other_groups(log_directory);
    let mut legacy = legacy();
    if let (Value::Object(groups), Value::Object(rest), Value::Object(legacy)) = (&mut groups, &mut rest, &mut legacy)
    {
        groups.append(rest);
        groups.append(legacy);
    }
    groups
}

fn cancellation() -> Value {
    json!({
        "behavior": "best-effort",
        "queuedTurns": "cancel-before-run",
        "runningTurns": "stop-emitting-events-when-possible",
    })
}

fn event_replay() -> Value {
    json!({ "behavior": "recent-in-memory", "persisted": false, "limit": REPLAY_LIMIT })
}

/// Sessions, turns and what comes from them.
fn session_groups() -> Value {
    json!({
        "framing": "content-length",
        "transcript": {
            "format": "tauren-transcript-v1", "messagesNormalized": true, "supportsImages": true,
            "supportsToolCalls": true, "supportsToolResults": true, "supportsCompactionSummaries": true,
            "supportsReasoningRestore": true,
        },
        "sessions": {
            // Older clients want it said of a group before they use its methods.
            "supported": true, "mode": "explicit", "persistence": "jsonl",
            "methods": Method::group("sessions"),
            "list": { "supported": true, "source": "rpc", "ancestry": true, "treeFields": true },
            "fork": {
                "supported": true, "methods": ["sessions/forkMessages", "sessions/fork"],
                "entryIdFormat": "message-index", "selectedMessage": "excludedFromForkComposerTextReturned",
            },
            "compact": {
                "supported": true, "method": "sessions/compact", "notification": name::SESSION,
                "events": ["compactionStart", "compactionEnd"], "automatic": true,
            },
            "import": { "supported": false },
            "tree": { "supported": false, "labels": false, "navigate": false, "summarize": false },
            "updates": { "supported": false, "notification": "session/updated" },
        },
        "turns": {
            "mode": "async", "perSessionConcurrency": 1,
            // Steering happens between two requests to the model, so every provider has it.
            "busyInput": {
                "steer": "native", "followUp": "queue", "defaultWhenIdle": "newTurn",
                "defaultWhenBusy": "steer",
            },
            "cancellation": cancellation(),
            "eventReplay": event_replay(),
        },
        "events": {
            "notification": name::TURN, "assistantText": "assistantDelta",
            "reasoning": { "start": false, "delta": true, "end": false, "boundary": "reasoningBoundary" },
            "modelRetry": { "supported": true, "event": "modelRetry" },
            "steering": { "supported": true, "event": "turnSteered", "mode": "native", "appliedEvent": "steeringApplied" },
            "tools": {
                "call": true, "update": true, "updateEvent": "toolUpdate", "result": true, "normalizedMetadata": true,
                "diffs": true, "changedFiles": false,
            },
            "errors": true, "sessionUpdates": false,
        },
        "attachments": { "input": {
            "supported": true, "method": "turns/start", "encoding": "base64",
            "mimeTypes": attachment::MIME_TYPES, "maxBytes": attachment::MAX_BYTES,
        } },
    })
}

/// Models, settings, memory, files around the conversation.
fn other_groups(log_directory: &str) -> Value {
    json!({
        "models": {
            "supported": true,
            "methods": ["models/list", "models/current", "models/set", "reasoning/set", "openrouter/catalog"],
            "fields": ["provider", "id", "name", "reasoning", "reasoningEffort", "contextWindow"],
            "providers": ["Codex", "OpenAI", "OpenRouter", "Local"],
            "scopedModels": false,
        },
        "runtime": {
            "supported": true, "methods": ["runtime/state", "runtime/stats"], "state": { "supported": true },
            "stats": { "messageCounts": true, "tokens": true, "cost": true, "contextUsage": true, "contextUsageEstimated": true },
        },
        "runtimeSettings": {
            "supported": true, "methods": ["runtime/updateSetting", "runtime/reload"],
            "settings": ["defaultModel", "defaultThinkingLevel"],
        },
        "auth": {
            "supported": true, "providerFormat": "tauren-auth-v1", "methods": Method::group("auth"),
            "oauthProviders": ["openai"],
            "unsupportedOAuthProviders": { "github": "GitHub sign-in is not offered by this backend." },
            "apiKeyProviders": ["openrouter"], "logout": true,
        },
        "memory": {
            "supported": true, "optIn": true, "defaultEnabled": false, "autoSummaryDefaultEnabled": false,
            "promptInjection": "interactive", "storage": { "core": "json", "soft": "jsonl", "events": "jsonl" },
            "methods": Method::group("memory"),
        },
        "commands": {
            "supported": true, "methods": Method::group("commands"), "method": "commands/list", "runMethod": "commands/run",
            "sources": ["prompt", "skill", "plugin"], "executableSources": ["plugin"],
        },
        "startupResources": { "supported": true, "method": "resources/startup" },
        "extensionUi": {
            "question": {
                "supported": true, "notification": name::QUESTION, "method": "ui/answerQuestion",
                "maxQuestions": MAX_QUESTIONS, "multiSelect": false, "preview": false,
            },
            "select": false, "confirm": false, "input": false, "editor": false, "widgets": false, "footer": false,
            "custom": false, "terminalInput": false,
        },
        "composer": {
            "sessionDiff": { "supported": false, "reason": "interactiveComposerOnly" },
            "copy": { "supported": false, "reason": "clientClipboardOwnedByUi" },
        },
        "security": { "workspaceMutationGuard": "none", "toolApproval": "none", "canRunShell": true, "canWriteFiles": true },
        "export": { "supported": true, "formats": ["markdown", "html"], "defaultFormat": "markdown" },
        "logging": {
            "supported": true, "defaultEnabled": false, "methods": Method::group("logging"),
            "stats": {
                "supported": true, "method": "logging/stats", "defaultRange": "1 week",
                "units": ["minutes", "hours", "days", "weeks", "months", "years"],
            },
            "usageCsv": {
                "supported": true, "method": "logging/tokenCsv", "defaultRange": "1 week",
                "buckets": ["second", "minute", "hour", "day", "week", "month", "year"],
            },
            "config": "logging", "envPrefix": "KWARD_LOGGING", "directory": log_directory, "format": "jsonl",
            "categories": LOG_CATEGORIES,
            "rotation": { "maxBytes": LOG_MAX_BYTES, "retention": "manual" },
            "content": "redacted-metadata-only",
        },
    })
}

/// What older clients look for.
fn legacy() -> Value {
    json!({
        "asyncTurns": true, "turnCancellation": "best-effort", "turnEventReplay": true, "uiQuestions": true,
        "authLogin": true, "configUpdate": true,
        "session": { "mode": "explicit", "persistence": "jsonl" },
        "cancellation": cancellation(),
        "eventReplay": event_replay(),
        "uiQuestion": {
            "supported": true, "method": "ui/answerQuestion", "notification": name::QUESTION,
            "maxQuestions": MAX_QUESTIONS, "multiSelect": false,
        },
        "prompts": { "supported": true, "methods": Method::group("prompts") },
        "skills": { "supported": true, "tool": "read_skill" },
        "tools": { "supported": true, "method": "tools/list", "eventMetadata": true },
        "config": { "supported": true, "methods": Method::group("config") },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_and_legacy_field_is_there() {
        let told = initialized("logs");
        let Value::Object(groups) = &told.capabilities else { panic!("an object") };
        for name in [
            "framing",
            "asyncTurns",
            "turnCancellation",
            "turnEventReplay",
            "uiQuestions",
            "authLogin",
            "configUpdate",
            "transcript",
            "sessions",
            "turns",
            "events",
            "attachments",
            "models",
            "runtime",
            "runtimeSettings",
            "auth",
            "memory",
            "commands",
            "startupResources",
            "extensionUi",
            "composer",
            "security",
            "export",
            "logging",
            "session",
            "cancellation",
            "eventReplay",
            "uiQuestion",
            "prompts",
            "skills",
            "tools",
            "config",
        ] {
            assert!(groups.contains_key(name), "{name}");
        }
        assert_eq!(groups.len(), 32);
    }

    /// The client takes a method for supported when its group lists it.
    #[test]
    fn every_promised_method_exists() {
        fn walk(value: &Value, seen: &mut Vec<String>) {
            match value {
                Value::Object(map) => map.values().for_each(|value| walk(value, seen)),
                Value::Array(items) => items.iter().for_each(|value| walk(value, seen)),
                Value::String(text)
                    if text.contains('/') && text.split('/').all(|part| part.chars().all(char::is_alphabetic)) =>
                {
                    seen.push(text.clone());
                }
                _ => {}
            }
        }
        let mut named = Vec::new();
        walk(&initialized("").capabilities, &mut named);
        let notices = [name::TURN, name::SESSION, name::QUESTION, "session/updated"];
        for name in named.iter().filter(|name| !name.starts_with("image/") && !notices.contains(&name.as_str())) {
            assert!(Method::of(name).is_some(), "{name}");
        }
    }
}
