//! The commands: one file per noun, each with its arguments and what it does.

pub(crate) mod agents;
pub(crate) mod approvals;
mod approvers;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod enrol;
pub(crate) mod exec;
pub(crate) mod fleet;
pub(crate) mod fleet_file;
pub(crate) mod grants;
pub(crate) mod hub;
pub(crate) mod hubs;
pub(crate) mod keys;
mod local_agent;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod open;
mod pages;
pub(crate) mod policy;
pub(crate) mod probe;
mod prompt;
mod reach;
mod remote;
mod result;
pub(crate) mod room;
pub(crate) mod rpc;
pub(crate) mod rules;
mod scope_args;
pub(crate) mod shell;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod users;
mod verdict;

use std::path::Path;
use std::pin::Pin;

use anyhow::{Context as _, Result};
use convoke_api::Client;
use convoke_cli::agent;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::args::{Cli, Command, Global};
use crate::connect;
use crate::exit::{Exit, usage};
use crate::output::Output;

/// What a verb works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb<'a> {
    /// Where results go.
    pub(crate) output: &'a Output,
    /// What every command takes.
    pub(crate) global: &'a Global,
}

impl Verb<'_> {
    /// A client of the hub in question.
    fn client(&self) -> Result<Client> {
        connect::client(self.global)
    }

    /// Refuses a hub's address for what works on files here: the answer would be about another hub than was meant.
    fn only_here(&self, what: &str) -> Result<()> {
        let flag =
            [("--hub", &self.global.hub), ("--token", &self.global.token)].into_iter().find(|(_, v)| v.is_some());
        match flag {
            None => Ok(()),
            Some((flag, _)) => Err(usage(format!(
                "`{what}` works on files of this machine and asks no hub; remove {flag}, and name the data directory \
                 with --data"
            ))),
        }
    }

    /// Says which directory it is about where the environment speaks of a hub elsewhere.
    fn note_directory(&self, data: &Path) {
        if connect::is_named(self.global) {
            self.output
                .remark(format_args!("using the data directory {}, not the hub in CONVOKE_HUB", data.display()));
        }
    }
}

/// Where a hub on this machine keeps its data. Without a place for it there is none.
fn hub_data(global: &Global) -> Option<agent::HubData> {
    let from = match (&global.data, std::env::var_os("CONVOKE_DATA")) {
        (Some(_), _) => agent::Named::Flag,
        (None, Some(dir)) if !dir.is_empty() => agent::Named::Variable,
        _ => agent::Named::Nobody,
    };
    let dir = crate::local::data_dir(global.data.as_deref()).ok()?;
    Some(agent::HubData { dir, from })
}

/// Does what the command line says.
pub(crate) fn run(cli: Cli, output: &Output) -> Result<Exit> {
    let Cli { global, command } = cli;
    let verb = Verb { output, global: &global };
    match command {
        Command::Up(args) => hub::up(verb, args),
        Command::Hub(args) => hub::run(verb, args),
        Command::Agent(args) => {
            let (hub, token) = (global.hub.as_deref(), global.token.as_deref());
            let data = hub_data(&global);
            agent::run(agent::Verb { output, program: "convoke agent", hub, token, hub_data: data.as_ref() }, *args)
        }
        Command::Agents(command) => against_a_hub(agents::run(verb, command)),
        Command::EnrollToken(args) => against_a_hub(enrol::run(verb, args)),
        Command::Call(args) => against_a_hub(call::run(verb, args)),
        Command::Status => against_a_hub(status::run(verb)),
        Command::Open(args) => against_a_hub(open::run(verb, args)),
        Command::Exec(args) => against_a_hub(exec::run(verb, args)),
        Command::Tools(args) => against_a_hub(tools::run(verb, args)),
        Command::Cp(args) => against_a_hub(cp::run(verb, args)),
        Command::Shell(args) => against_a_hub(shell::run(verb, args)),
        Command::Calls(command) => against_a_hub(calls::run(verb, command)),
        Command::Approvals(command) => against_a_hub(approvals::run(verb, command)),
        Command::Policy(command) => against_a_hub(policy::run(verb, command)),
        Command::Client(command) => against_a_hub(client::run(verb, command)),
        Command::Clients(command) => against_a_hub(clients::run(verb, command)),
        Command::Pairings(command) => against_a_hub(clients::pairings(verb, command)),
        Command::Rules(command) => against_a_hub(rules::run(verb, command)),
        Command::Messages(command) => against_a_hub(rules::messages(verb, command)),
        Command::Room(command) => against_a_hub(room::run(verb, *command)),
        Command::Audit(command) => against_a_hub(audit::run(verb, command)),
        Command::Tokens(command) => against_a_hub(tokens::run(verb, command)),
        Command::Users(command) => against_a_hub(users::users(verb, command)),
        Command::Sessions(command) => against_a_hub(users::sessions(verb, command)),
        Command::Hubs(command) => against_a_hub(hubs::run(verb, command)),
        Command::Grants(command) => against_a_hub(grants::grants(verb, command)),
        Command::Notices(command) => against_a_hub(grants::notices(verb, command)),
        Command::Logs(args) => against_a_hub(logs::run(verb, args)),
        Command::Apply(args) => against_a_hub(fleet_file::apply(verb, args)),
        Command::Export => against_a_hub(fleet_file::export(verb)),
        Command::Fleet => against_a_hub(fleet::run(verb)),
        Command::Mcp(args) => against_a_hub(mcp::run(verb, args)),
        Command::Probe(args) => against_a_hub(probe::run(verb, args)),
        Command::Runbook(command) => against_a_hub(probe::runbook(verb, command)),
        Command::Backup(command) => backup::run(verb, command),
        Command::Store(command) => store::run(verb, command),
        Command::Keys(command) => against_a_hub(keys::run(verb, command)),
        Command::Rpc(args) => rpc::run(&args),
        Command::Completions(args) => completions::run(verb, &args),
        Command::Bench(args) => on_all_threads(crate::bench::run(args, global.json)),
        Command::Sim(args) => on_all_threads(crate::bench::run_sim(args)),
    }
}

/// Runs a verb. One thread is enough for a client, and is there sooner.
fn against_a_hub<'a>(verb: impl Future<Output = Result<Exit>> + 'a) -> Result<Exit> {
    on_one_thread(Box::pin(verb))
}

/// Boxed, so that the runtime is compiled in once and not for each verb anew.
fn on_one_thread(work: Pin<Box<dyn Future<Output = Result<Exit>> + '_>>) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(work)
}

/// Runs what keeps the whole machine busy.
fn on_all_threads(work: impl Future<Output = Result<()>>) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(work).map(|()| Exit::Done)
}

/// Reads the hub's JSON as a type. The text itself is kept for `--json`, so that a newer hub's fields get through.
fn typed<T: DeserializeOwned>(json: &RawValue) -> Result<T> {
    serde_json::from_str(json.get()).context("cannot read the hub's answer; it may be a newer version")
}

/// No query.
const NO_QUERY: [(); 0] = [];
