//! The table of methods. Name, parameters, result, what it must not overtake and what it costs stand in one line each;
//! the dispatcher, the capabilities and the schema are read from it.

use serde_json::Value;

use crate::params as p;
use crate::results as r;
use crate::rpc::RpcError;

/// What a request waits for. Requests of the same scope are carried out in the order in which they came; requests of
/// different scopes never wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Waits for nothing: looks at state, or must get through while something slow is at work.
    Free,
    /// Requests of one session, by its `sessionId`.
    Session,
    /// Requests that write the configuration or credentials.
    Config,
    /// Requests that write memories.
    Memory,
    /// Requests that make or close sessions.
    Sessions,
}

/// What a request costs, which decides where it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// State in memory.
    Light,
    /// Files.
    Disk,
    /// The network, a model or another program.
    Slow,
}

macro_rules! methods {
    ($($name:literal $variant:ident($params:ty) -> $result:ty, $scope:ident, $weight:ident;)*) => {
        /// A method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = $name] $variant,)*
        }

        impl Method {
            /// All of them, in the contract's order.
            pub const ALL: &[Method] = &[$(Method::$variant,)*];

            /// By name.
            pub fn of(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it waits for.
            pub const fn scope(self) -> Scope {
                match self { $(Self::$variant => Scope::$scope,)* }
            }

            /// What it costs.
            pub const fn weight(self) -> Weight {
                match self { $(Self::$variant => Weight::$weight,)* }
            }

            /// Whether parameters are of its type.
            pub fn check(self, params: Value) -> Result<(), RpcError> {
                match self { $(Self::$variant => p::decode::<$params>(params).map(drop),)* }
            }

            /// The schemas of its parameters and of its result.
            pub fn schemas(self, generator: &mut schemars::SchemaGenerator) -> (schemars::Schema, schemars::Schema) {
                match self {
                    $(Self::$variant => (generator.subschema_for::<$params>(), generator.subschema_for::<$result>()),)*
                }
            }
        }
    };
}

methods! {
    "initialize" Initialize(p::Nothing) -> r::Initialized, Free, Light;
    "shutdown" Shutdown(p::Nothing) -> r::Ok, Free, Light;
    "workspace/validate" WorkspaceValidate(p::Workspace) -> r::WorkspaceRoot, Free, Light;
    "workspace/info" WorkspaceInfo(p::Workspace) -> r::WorkspaceInfo, Free, Light;
    "sessions/create" SessionsCreate(p::Create) -> r::Session, Sessions, Disk;
    "sessions/resume" SessionsResume(p::Resume) -> r::Session, Sessions, Disk;
    "sessions/list" SessionsList(p::List) -> r::Sessions, Free, Disk;
    "sessions/rename" SessionsRename(p::Rename) -> r::Session, Session, Disk;
    "sessions/clone" SessionsClone(p::OfSession) -> r::Session, Session, Disk;
    "sessions/compact" SessionsCompact(p::Compact) -> r::Compacted, Session, Slow;
    "sessions/forkMessages" SessionsForkMessages(p::OfSession) -> r::ForkMessages, Free, Light;
    "sessions/fork" SessionsFork(p::Fork) -> r::Forked, Session, Disk;
    "sessions/export" SessionsExport(p::Export) -> r::Exported, Session, Disk;
    "sessions/delete" SessionsDelete(p::OfSession) -> r::Deleted, Free, Slow;
    "sessions/close" SessionsClose(p::OfSession) -> r::Closed, Free, Slow;
    "sessions/transcript" SessionsTranscript(p::OfSession) -> r::Transcript, Free, Disk;
    "turns/start" TurnsStart(p::StartTurn) -> r::Turn, Session, Disk;
    "turns/cancel" TurnsCancel(p::OfTurn) -> r::Turn, Free, Light;
    "turns/status" TurnsStatus(p::OfTurn) -> r::Turn, Free, Light;
    "turns/events" TurnsEvents(p::TurnEvents) -> r::TurnEvents, Free, Light;
    "ui/answerQuestion" AnswerQuestion(p::AnswerQuestion) -> r::Ok, Free, Light;
    "runtime/state" RuntimeState(p::OfSession) -> r::RuntimeState, Free, Light;
    "runtime/stats" RuntimeStats(p::OfSession) -> r::RuntimeStats, Free, Light;
    "runtime/updateSetting" RuntimeUpdateSetting(p::UpdateSetting) -> r::SettingApplied, Config, Disk;
    "runtime/reload" RuntimeReload(p::OfSession) -> r::OkMessage, Config, Disk;
    "logging/stats" LoggingStats(p::LogStats) -> r::LogStats, Free, Disk;
    "logging/tokenCsv" LoggingTokenCsv(p::TokenCsv) -> r::Csv, Free, Disk;
    "memory/status" MemoryStatus(p::Nothing) -> r::MemoryStatus, Free, Disk;
    "memory/enable" MemoryEnable(p::Nothing) -> r::MemorySwitched, Memory, Disk;
    "memory/disable" MemoryDisable(p::Nothing) -> r::MemorySwitched, Memory, Disk;
    "memory/autoSummary/enable" AutoSummaryEnable(p::Nothing) -> r::MemorySwitched, Memory, Disk;
    "memory/autoSummary/disable" AutoSummaryDisable(p::Nothing) -> r::MemorySwitched, Memory, Disk;
    "memory/list" MemoryList(p::MemoryList) -> r::MemoryList, Memory, Disk;
    "memory/add" MemoryAdd(p::MemoryAdd) -> r::OneMemory, Memory, Disk;
    "memory/addCore" MemoryAddCore(p::MemoryAdd) -> r::OneMemory, Memory, Disk;
    "memory/forget" MemoryForget(p::OfMemory) -> r::Forgotten, Memory, Disk;
    "memory/promote" MemoryPromote(p::OfMemory) -> r::OneMemory, Memory, Disk;
    "memory/relax" MemoryRelax(p::MemoryRelax) -> r::OneMemory, Memory, Disk;
    "memory/inspect" MemoryInspect(p::Nothing) -> r::MemoryInspect, Memory, Disk;
    "memory/why" MemoryWhy(p::MemoryWhy) -> r::MemoryWhy, Free, Light;
    "memory/summarize" MemorySummarize(p::OfSession) -> r::Memories, Memory, Slow;
    "models/list" ModelsList(p::Nothing) -> r::Models, Free, Slow;
    "openrouter/catalog" OpenRouterCatalog(p::Nothing) -> r::Models, Free, Slow;
    "models/current" ModelsCurrent(p::Nothing) -> r::Model, Free, Disk;
    "models/set" ModelsSet(p::SetModel) -> r::Model, Config, Disk;
    "reasoning/set" ReasoningSet(p::SetReasoning) -> r::Model, Config, Disk;
    "tools/list" ToolsList(p::Tools) -> r::Tools, Free, Disk;
    "commands/list" CommandsList(p::OfSession) -> r::Commands, Free, Disk;
    "commands/run" CommandsRun(p::RunCommand) -> r::CommandRun, Free, Slow;
    "resources/startup" ResourcesStartup(p::OfSession) -> r::Startup, Free, Disk;
    "prompts/list" PromptsList(p::Nothing) -> r::Prompts, Free, Disk;
    "prompts/expand" PromptsExpand(p::ExpandPrompt) -> r::Expanded, Free, Disk;
    "config/read" ConfigRead(p::ReadConfig) -> r::Config, Config, Disk;
    "config/update" ConfigUpdate(p::UpdateConfig) -> r::Config, Config, Disk;
    "auth/status" AuthStatus(p::Nothing) -> r::AuthStatus, Config, Disk;
    "auth/providers" AuthProviders(p::Nothing) -> r::AuthProviders, Config, Disk;
    "auth/loginWithApiKey" LoginWithApiKey(p::ApiKeyLogin) -> r::ProviderMessage, Config, Disk;
    "auth/logoutProvider" LogoutProvider(p::OfProvider) -> r::ProviderMessage, Config, Disk;
    "auth/loginWithOAuth" LoginWithOauth(p::OauthLogin) -> r::LoginStarted, Free, Slow;
    "auth/startOpenAILogin" StartOpenAiLogin(p::StartLogin) -> r::LoginStarted, Free, Slow;
    "auth/submitOpenAICode" SubmitOpenAiCode(p::SubmitCode) -> r::Login, Free, Slow;
    "auth/loginStatus" AuthLoginStatus(p::OfLogin) -> r::Login, Free, Light;
}

impl Method {
    /// The names of a group, such as `sessions`.
    pub fn group(prefix: &str) -> Vec<&'static str> {
        let is_in = |name: &&str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        Self::ALL.iter().map(|method| method.name()).filter(is_in).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for method in Method::ALL {
            assert_eq!(Method::of(method.name()), Some(*method));
        }
        assert_eq!(Method::of("sessions/import"), None);
    }

    #[test]
    fn the_groups_have_the_contracts_size() {
        for (group, size) in [
            ("workspace", 2),
            ("sessions", 12),
            ("turns", 4),
            ("runtime", 4),
            ("logging", 2),
            ("memory", 14),
            ("models", 3),
            ("commands", 2),
            ("prompts", 2),
            ("config", 2),
            ("auth", 8),
        ] {
            assert_eq!(Method::group(group).len(), size, "{group}");
        }
    }

    /// What a person does to stop or answer something must get through while that something is at work.
    #[test]
    fn cancel_status_and_answers_wait_for_nothing() {
        for method in [
            Method::TurnsCancel,
            Method::TurnsStatus,
            Method::TurnsEvents,
            Method::AnswerQuestion,
            Method::RuntimeState,
            Method::AuthLoginStatus,
            Method::Shutdown,
        ] {
            assert_eq!((method.scope(), method.weight()), (Scope::Free, Weight::Light), "{}", method.name());
        }
    }

    #[test]
    fn a_slow_method_shares_no_scope_with_a_quick_one_but_its_sessions_own() {
        for slow in Method::ALL.iter().filter(|method| method.weight() == Weight::Slow) {
            assert!(
                matches!(slow.scope(), Scope::Free | Scope::Session | Scope::Memory),
                "{} would hold up others",
                slow.name()
            );
        }
    }
}
