//! The command line as a type.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use convoke_cli::agent;

use crate::commands::{
    agents, approvals, audit, backup, call, calls, client, clients, completions, cp, enrol, exec, fleet_file, grants,
    hub, hubs, keys, logs, mcp, open, policy, probe, room, rpc, rules, shell, store, tokens, tools, users,
};

/// Machines, agent programs, people and coding sessions under one identity, one policy and one record.
#[derive(Debug, Parser)]
#[command(name = "convoke", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The hub's address, such as http://127.0.0.1:7410 [env: CONVOKE_HUB; default: the hub on this machine]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// The operator token; other users can see it here [env: CONVOKE_TOKEN; default: the local hub's own]
    #[arg(long, global = true, value_name = "TOKEN", allow_hyphen_values = true)]
    pub(crate) token: Option<String>,
    /// The hub's data directory [env: CONVOKE_DATA; default: the platform's]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print the API's JSON instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a hub with embedded defaults, and an agent for this machine
    Up(hub::UpArgs),
    /// Start a hub
    Hub(hub::HubArgs),
    /// Make this machine an agent of a hub, and run the agent
    Agent(Box<agent::AgentArgs>),
    /// List and manage agents
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Create a one-time token that lets an agent enrol
    EnrollToken(enrol::EnrolArgs),
    /// Show the hub, its machines, what waits for a person, the journal and the disk
    Status,
    /// Print a link that opens the page, signed in as the token's owner
    Open(open::OpenArgs),
    /// Run a command on a machine, or on many; ends with the command's own exit code
    Exec(exec::ExecArgs),
    /// Type commands for a machine, line by line; each is a call of its own
    Shell(shell::ShellArgs),
    /// List the tools and probes of a machine
    Tools(tools::ToolsArgs),
    /// Copy a file from a machine or to one
    Cp(cp::CpArgs),
    /// Call a tool of a machine
    Call(call::CallArgs),
    /// Show calls, and cancel waiting ones
    #[command(subcommand)]
    Calls(calls::CallsCommand),
    /// Approve or deny calls that wait for a person
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// Manage deny rules and confirm rules
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Run a Yonexus client on this machine
    #[command(subcommand)]
    Client(client::ClientCommand),
    /// List and manage Yonexus clients
    #[command(subcommand)]
    Clients(clients::ClientsCommand),
    /// List, approve and deny pairings of Yonexus clients
    #[command(subcommand)]
    Pairings(clients::PairingsCommand),
    /// Manage the rules that route clients' messages
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// List messages of clients, and send messages to clients
    #[command(subcommand)]
    Messages(rules::MessagesCommand),
    /// Manage rooms of people and agents, and take part in them
    #[command(subcommand)]
    Room(Box<room::RoomCommand>),
    /// Read, export and verify the journal
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// List, create and revoke operator tokens
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
    /// List, add and remove the people who sign in to the page
    #[command(subcommand)]
    Users(users::UsersCommand),
    /// List and end the sessions of people who are signed in
    #[command(subcommand)]
    Sessions(users::SessionsCommand),
    /// List the hubs that share a database
    #[command(subcommand)]
    Hubs(hubs::HubsCommand),
    /// Let assistants call a tool on a machine for a while without asking
    #[command(subcommand)]
    Grants(grants::GrantsCommand),
    /// Say where notices go of what waits for a person
    #[command(subcommand)]
    Notices(grants::NoticesCommand),
    /// Show log lines of agents
    Logs(logs::LogsArgs),
    /// Show the health of every agent
    Fleet,
    /// Make tags, policy, rules and rooms as a file says, after showing what changes
    Apply(fleet_file::ApplyArgs),
    /// Write tags, policy, rules and rooms as a file for `apply` (TOML)
    Export,
    /// Bridge standard input and output to the hub's MCP endpoint; set up assistants
    Mcp(mcp::McpArgs),
    /// Run a probe on a Sonde agent
    Probe(probe::ProbeArgs),
    /// List, run and check runbooks of probes
    #[command(subcommand)]
    Runbook(probe::RunbookCommand),
    /// Back up and restore a data directory
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Move a data directory to a database on a server
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Show the hub's public key, and rotate its data key
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Serve the coding backend (Kward protocol) on standard input and output
    Rpc(rpc::RpcArgs),
    /// Print the completions for a shell
    Completions(completions::CompletionsArgs),
    /// Measure what a hub costs on this machine
    Bench(crate::bench::BenchArgs),
    /// Run the simulated agents and servers that `bench` uses
    #[command(hide = true)]
    Sim(crate::bench::SimArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[track_caller]
    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// An argument of a verb with the name of a global one would silently take its value.
    #[test]
    fn no_argument_of_a_verb_hides_a_global_one() {
        fn walk(command: &clap::Command, path: &str) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                for arg in inner.get_arguments() {
                    let id = arg.get_id().as_str();
                    assert!(!["hub", "token", "data", "json"].contains(&id), "{path}: {id}");
                }
                walk(inner, &path);
            }
        }
        walk(&Cli::command(), "convoke");
    }

    #[test]
    fn global_flags_stand_before_and_after_the_verb() {
        for line in [
            "convoke --json --hub http://h --token t agents list",
            "convoke agents list --json --hub http://h --token t",
        ] {
            let cli = parse(line).expect("parses");
            assert!(cli.global.json);
            assert_eq!(cli.global.hub.as_deref(), Some("http://h"));
            assert_eq!(cli.global.token.as_deref(), Some("t"));
        }
    }

    #[test]
    fn every_verb_parses() {
        for line in [
            "convoke up --data d --listen 127.0.0.1:0 --set kenny.heartbeat_s=5 --set hub.drain_s=1",
            "convoke hub --print-json --reveal-token --config f.toml --insecure-listen",
            "convoke hub --tls-cert c --tls-key k",
            "convoke hub --check-config --json",
            "convoke up --no-agent",
            "convoke agent",
            "convoke agent enroll --hub https://h --id pc-1 --token t --hub-key k --state d --ca c.pem",
            "convoke agent run --state d --service --set telemetry_s=60",
            "convoke agent run --server ws://h/agent/ws --agent-id pc-1 --server-pubkey k --enroll-token t",
            "convoke agent run-service",
            "convoke agent status --state d --json",
            "convoke agent pause --state d",
            "convoke agent resume",
            "convoke agent install --state d --program p --print",
            "convoke agent uninstall --purge",
            "convoke agent logs -n 5 --follow",
            "convoke agent settings",
            "convoke agent enroll --sonde http://h --token t --name web-1",
            "convoke agent run --state d --allow-root",
            "convoke probe web-1 system.disk.usage --params {} --timeout 5",
            "convoke runbook list",
            "convoke runbook run system --agent web-1 --params {}",
            "convoke agents list --online --tag lab --protocol kenny",
            "convoke agents show pc-1",
            "convoke agents tag pc-1 lab floor:2",
            "convoke agents tag pc-1 --clear",
            "convoke agents revoke pc-1",
            "convoke agents remove pc-1 --yes",
            "convoke agents rotate-key pc-1",
            "convoke agents update pc-1",
            "convoke enroll-token pc-1",
            "convoke call pc-1 fs_list --args {} --timeout 2.5 --idempotency-key k --wait",
            "convoke status --json",
            "convoke open --user anna",
            "convoke exec pc-1 -- uptime",
            "convoke exec pc-1 --timeout 5 -- ls -l --json",
            "convoke exec --query tag:lab --yes -- uptime",
            "convoke shell pc-1",
            "convoke tools pc-1 --name fs_",
            "convoke cp pc-1:/var/log/syslog .",
            "convoke cp report.txt pc-1:/tmp/ --timeout 60 --json",
            "convoke cp pc-1:C:\\x -",
            "convoke call pc-1 fs_list path=/tmp --wait",
            "convoke calls list --state waiting --agent pc-1 --limit 5",
            "convoke calls show 0190f3a0-0000-7000-8000-000000000001 --wait",
            "convoke calls show 0190f3a0-0000-7000-8000-000000000001 --wait 5",
            "convoke approvals list --all",
            "convoke approvals approve 0190f3a0-0000-7000-8000-000000000001 --reason fine",
            "convoke approvals deny 0190f3a0-0000-7000-8000-000000000001",
            "convoke policy list",
            "convoke policy add --id x --applies-to posix --pattern reboot --reason no",
            "convoke policy remove x",
            "convoke policy confirm list",
            "convoke policy confirm add --id x --effects interact,manage --doors cli --tools shell_*",
            "convoke policy confirm add --id x --effects manage --second-person",
            "convoke policy confirm remove x",
            "convoke audit list --agent pc-1 --tool fs_list --kind call --after 3 --limit 10",
            "convoke audit list --since 2h --who anna --target pc-1 --decision denied --order oldest",
            "convoke audit show 12",
            "convoke audit show 0190f3a0-0000-7000-8000-000000000001 --json",
            "convoke audit export -",
            "convoke audit verify",
            "convoke tokens list",
            "convoke tokens create anna --role operator --effects observe --agents lab-* --approve --expires 30d",
            "convoke tokens create claude --role operator --for-assistant --owner anna",
            "convoke tokens create script --role viewer --doors http,cli",
            "convoke tokens revoke anna",
            "convoke users list",
            "convoke users add anna --role admin --approve --password",
            "convoke users add bert --role operator --agents lab-*",
            "convoke users change bert --role viewer --no-scopes",
            "convoke users link bert",
            "convoke users remove bert --yes",
            "convoke hubs list",
            "convoke sessions list --user anna",
            "convoke sessions end 0190f3a0-0000-7000-8000-000000000001",
            "convoke logs --agent pc-1 --level warn --follow --limit 5",
            "convoke fleet",
            "convoke apply -f fleet.toml --yes --prune",
            "convoke apply -f - --dry-run",
            "convoke export",
            "convoke mcp --hub http://h --token t",
            "convoke mcp install claude-code --dry-run",
            "convoke backup create f --with-key",
            "convoke backup restore f --data d",
            "convoke backup verify f",
            "convoke store migrate --from d --to postgres://h/d",
            "convoke keys show",
            "convoke keys rotate",
            "convoke rpc",
            "convoke rpc --schema",
            "convoke completions bash",
            "convoke client pair --hub ws://h:1/yonexus --id client-a --code H7KM-2QXR-9TDE",
            "convoke client run --id client-a --on chat=cat --heartbeat-s 60 --json",
            "convoke client send chat hello --state f.json",
            "convoke client status",
            "convoke clients list --online",
            "convoke clients show client-a",
            "convoke clients allow client-a",
            "convoke clients revoke client-a",
            "convoke clients rotate-key client-a",
            "convoke clients remove client-a --yes",
            "convoke pairings list",
            "convoke pairings approve client-a",
            "convoke pairings deny client-a",
            "convoke rules list",
            "convoke rules add chat --inbox",
            "convoke rules add chat --to a,b --with-sender --with-id --keep 1d",
            "convoke rules add chat --to-others",
            "convoke rules add chat --webhook http://h/x --secret-from SECRET --keep 1h",
            "convoke rules add chat --room standup",
            "convoke rules test chat hello --from client-a",
            "convoke room create standup --open --lobby --agent-key f.jwk",
            "convoke room list",
            "convoke room show standup",
            "convoke room remove standup --yes",
            "convoke room join --room standup --name Anna --transport relay",
            "convoke room observe --room standup --key f.jwk --backend Claude",
            "convoke room say --room standup --guest hello",
            "convoke room grant standup guest-1 --perceive read-chat --act send-chat,act --for 1h",
            "convoke room grant standup guest-1 --default",
            "convoke room revoke standup guest-1",
            "convoke room kick standup guest-1",
            "convoke room admit standup guest-1",
            "convoke room deny standup guest-1",
            "convoke room invite standup Anna --host --expires 1h",
            "convoke room key new f.jwk",
            "convoke room key show f.jwk",
            "convoke room key add standup f.jwk --act send-chat --label scribe",
            "convoke room key remove standup thumbprint",
            // Thumbprints are base64url: one in 64 begins with a hyphen.
            "convoke room key remove standup -qx_thumbprint --json",
            "convoke room key remove standup --x_thumbprint",
            "convoke room kick standup -qx --json",
            "convoke rules remove chat",
            "convoke messages list --rule chat --after 3 --limit 10",
            "convoke messages send chat hello --to a,b --keep 60s",
        ] {
            parse(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        }
    }

    #[test]
    fn mistakes_are_found_before_anything_is_tried() {
        for (line, expect) in [
            ("convoke agents show ..", "1 to 255 characters"),
            ("convoke agents list --online --offline", "cannot be used with"),
            ("convoke agents tag pc-1", "required"),
            ("convoke call pc-1 fs_list --timeout 0", "above 0"),
            ("convoke call pc-1 fs_list path", "NAME=VALUE"),
            ("convoke call pc-1 fs_list path=/ --args {}", "cannot be used with"),
            ("convoke exec pc-1", "required"),
            ("convoke exec -- uptime", "required"),
            ("convoke exec pc-1 --query tag:lab -- uptime", "cannot be used with"),
            ("convoke tokens create anna --role king", "possible values"),
            ("convoke tokens create anna --role admin --expires soon", "a number and a unit"),
            ("convoke policy add --id x --applies-to cmd --pattern p --reason r", "possible values"),
            ("convoke approvals approve nonsense", "invalid"),
            ("convoke hub --tls-cert c", "--tls-key"),
            ("convoke rules add builtin --inbox", "reserved"),
            ("convoke rules add chat", "required"),
            ("convoke rules add chat --room standup --with-sender", "cannot be used with"),
            ("convoke room grant standup guest-1", "required"),
            ("convoke room join", "--room"),
            ("convoke room say --room r --guest --key f x", "cannot be used with"),
            ("convoke rules add chat --inbox --to-others", "cannot be used with"),
            ("convoke clients allow a:b", "an id is letters"),
            ("convoke client run --on chat", "RULE=COMMAND"),
            ("convoke hub --set heartbeat", "name=value"),
        ] {
            let text = parse(line).expect_err(line).to_string();
            assert!(text.contains(expect), "{line}: {text}");
        }
    }
}
