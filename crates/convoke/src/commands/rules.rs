//! `convoke rules` and `convoke messages`: route clients' messages, read the inbox, send messages.

use anyhow::{Context as _, Result};
use clap::{ArgGroup, Args, Subcommand};
use convoke_api::calls::CallPending;
use convoke_api::yonexus::{
    MessageQuery, MessageView, Rule, RuleList, RuleTest, SendMessage, Sent, Target, TestRule, ToClients, ToWebhook,
};
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use super::pages::{Pages, joined};
use super::{NO_QUERY, Verb, call, typed};
use crate::exit::Exit;
use crate::parse;
use crate::table::Grid;
use crate::when;

const RULES: &str = "/api/rules";

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List the rules, in order
    List,
    /// Add a rule, or replace the rule with the same identifier
    Add(AddArgs),
    /// Remove a rule
    Remove {
        #[arg(value_parser = parse::rule_identifier)]
        rule: String,
    },
    /// Show where a message would go, without sending it
    Test {
        #[arg(value_parser = parse::rule_identifier)]
        rule: String,
        #[arg(allow_hyphen_values = true)]
        content: String,
        /// The client that would send it
        #[arg(long, value_parser = parse::identifier)]
        from: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("where").required(true).args(["inbox", "to", "to_others", "webhook", "room"]))]
pub(crate) struct AddArgs {
    /// The rule identifier, matched exactly
    #[arg(value_parser = parse::rule_identifier)]
    rule: String,
    /// Put messages into the inbox, for operators and assistants
    #[arg(long)]
    inbox: bool,
    /// Send messages to these clients
    #[arg(long, value_delimiter = ',', value_name = "CLIENTS", value_parser = parse::identifier)]
    to: Option<Vec<String>>,
    /// Send messages to all clients except the sender
    #[arg(long)]
    to_others: bool,
    /// Post messages to this address
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Say messages in this room
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// Put the sender and `::` before the content
    #[arg(long, conflicts_with_all = ["inbox", "webhook", "room"])]
    with_sender: bool,
    /// Put the message's id and `::` before that; needs --keep
    #[arg(long, conflicts_with_all = ["inbox", "webhook", "room"], requires = "keep")]
    with_id: bool,
    /// How long to keep messages for clients that are away: 90s, 15m, 12h, 30d
    #[arg(long, value_name = "SPAN", value_parser = parse::span, conflicts_with_all = ["inbox", "room"])]
    keep: Option<std::time::Duration>,
    /// The environment variable with the secret that signs the requests
    #[arg(long, value_name = "VARIABLE", requires = "webhook")]
    secret_from: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MessagesCommand {
    /// List messages in the inbox, oldest first
    List {
        /// Only messages of this rule
        #[arg(long, value_parser = parse::rule_identifier)]
        rule: Option<String>,
        /// Only messages after this id
        #[arg(long)]
        after: Option<i64>,
        /// Show at most N messages
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Send a message to clients
    Send {
        #[arg(value_parser = parse::rule_identifier)]
        rule: String,
        /// The content; `-` reads it from standard input
        #[arg(allow_hyphen_values = true)]
        content: String,
        /// The receiving clients
        #[arg(long, value_delimiter = ',', required = true, value_parser = parse::identifier)]
        to: Vec<String>,
        /// How long to keep it for clients that are away: 90s, 15m, 12h, 30d
        #[arg(long, value_name = "SPAN", value_parser = parse::span)]
        keep: Option<std::time::Duration>,
    },
}

pub(crate) async fn run(verb: Verb<'_>, command: RulesCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    let (json, said): (Box<RawValue>, String) = match command {
        RulesCommand::List => {
            let json: Box<RawValue> = client.get(RULES, &NO_QUERY).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&list(&typed(&json)?), "no rules; messages of clients are counted and dropped")?;
            }
            return Ok(Exit::Done);
        }
        RulesCommand::Add(args) => {
            let rule = rule(args)?;
            let before: RuleList = client.get(RULES, &NO_QUERY).await?;
            if let Some(before) = before.rules.iter().find(|before| before.rule == rule.rule) {
                let (was, is) = (described(&before.target).0, described(&rule.target).0);
                if was != is {
                    output.remark(format_args!(
                        "warning: rule `{}` went to {was} before; it now goes to {is}",
                        rule.rule
                    ));
                }
            }
            (client.post(RULES, &rule).await?, format!("rule `{}` is in force", rule.rule))
        }
        RulesCommand::Remove { rule } => {
            (client.delete(&format!("{RULES}/{}", parse::segment(&rule))).await?, format!("removed rule `{rule}`"))
        }
        RulesCommand::Test { rule, content, from } => {
            let path = format!("{RULES}/{}/test", parse::segment(&rule));
            let json: Box<RawValue> = client.post(&path, &TestRule { content, from }).await?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                output.table(&tested(&typed(&json)?), "")?;
            }
            return Ok(Exit::Done);
        }
    };
    if output.json {
        output.raw_json(&json)?;
    } else {
        output.text(&said)?;
    }
    Ok(Exit::Done)
}

fn rule(args: AddArgs) -> Result<Rule> {
    let keep_s = args.keep.map(|span| span.as_secs());
    if let Some(room) = args.room {
        return Ok(Rule { rule: args.rule, target: Target::Room { room } });
    }
    let target = match (args.inbox, args.webhook) {
        (true, _) => Target::Inbox {},
        (false, Some(url)) => {
            let secret =
                args.secret_from.map(|name| std::env::var(&name).with_context(|| format!("${name} is not set")));
            Target::Webhook(ToWebhook { url, secret: secret.transpose()?, keep_s })
        }
        (false, None) => {
            Target::Clients(ToClients { to: args.to, with_sender: args.with_sender, with_id: args.with_id, keep_s })
        }
    };
    Ok(Rule { rule: args.rule, target })
}

pub(crate) async fn messages(verb: Verb<'_>, command: MessagesCommand) -> Result<Exit> {
    let client = verb.client()?;
    let output = verb.output;
    match command {
        MessagesCommand::List { rule, after, limit } => {
            let query = MessageQuery { rule, after, limit: None };
            let items = Pages::new(&client, "/api/messages", "messages", &query, limit)?.all().await?;
            if output.json {
                output.json(&joined("messages", &items))?;
                return Ok(Exit::Done);
            }
            let messages = items.iter().map(|item| typed(item)).collect::<Result<Vec<MessageView>>>()?;
            output.table(&inbox(&messages, when::now()), "no messages")?;
            Ok(Exit::Done)
        }
        MessagesCommand::Send { rule, content, to, keep } => {
            let content = match content.as_str() {
                "-" => std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?,
                _ => content,
            };
            let keep_s = keep.map(|span| span.as_secs());
            let known: RuleList = client.get(RULES, &NO_QUERY).await?;
            if !known.rules.iter().any(|known| known.rule == rule) {
                output.remark(format_args!(
                    "warning: this hub has no rule `{rule}`; clients act on the message only if they run with `--on {rule}=…`, \
                     and what they answer under it is dropped"
                ));
            }
            let json: Box<RawValue> =
                client.post("/api/messages", &SendMessage { rule, content, to, keep_s }).await?;
            if let Ok(waits) = serde_json::from_str::<CallPending>(json.get()) {
                return call::pending(verb, &json, &waits);
            }
            let sent: Sent = typed(&json)?;
            if output.json {
                output.raw_json(&json)?;
            } else {
                for (what, names) in [("sent to", &sent.sent), ("kept for", &sent.kept)] {
                    if !names.is_empty() {
                        output.text(&format!("{what} {}", names.join(", ")))?;
                    }
                }
                if !sent.offline.is_empty() {
                    output.note(format_args!("not delivered, offline: {}", sent.offline.join(", ")));
                }
            }
            Ok(if sent.offline.is_empty() { Exit::Done } else { Exit::Failed })
        }
    }
}

fn list(rules: &RuleList) -> Grid {
    let mut grid = Grid::new(&["RULE", "GOES TO", "OPTIONS"]);
    for rule in &rules.rules {
        let (to, options) = described(&rule.target);
        grid.row([rule.rule.as_str().into(), to.into(), options.into()]);
    }
    grid
}

fn described(target: &Target) -> (String, String) {
    let kept =
        |keep_s: Option<u64>| keep_s.map(|s| format!("kept {}", when::span(std::time::Duration::from_secs(s))));
    match target {
        Target::Inbox {} => ("inbox".into(), "-".into()),
        Target::Clients(to) => {
            let names = to.to.as_ref().map_or_else(|| "all others".to_owned(), |names| names.join(", "));
            let options = [
                to.with_sender.then(|| "with sender".to_owned()),
                to.with_id.then(|| "with id".to_owned()),
                kept(to.keep_s),
            ];
            let options: Vec<_> = options.into_iter().flatten().collect();
            (names, if options.is_empty() { "-".into() } else { options.join(", ") })
        }
        Target::Webhook(to) => (to.url.clone(), kept(to.keep_s).unwrap_or_else(|| "-".into())),
        Target::Room { room } => (format!("room {room}"), "-".into()),
    }
}

fn tested(test: &RuleTest) -> Grid {
    let mut grid = Grid::facts();
    grid.fact("matches", if test.matched { "yes" } else { "no; the message would be counted and dropped" });
    grid.fact("as the hub sees it", test.message.as_str());
    grid.fact_if("goes to", test.target.as_ref().map(|target| described(target).0));
    grid.fact_if("as clients get it", test.delivered.as_deref());
    grid.fact_if("now", (!test.online.is_empty()).then(|| test.online.join(", ")));
    grid.fact_if("offline", (!test.offline.is_empty()).then(|| test.offline.join(", ")));
    grid
}

fn inbox(messages: &[MessageView], now: Timestamp) -> Grid {
    let mut grid = Grid::new(&["ID", "WHEN", "RULE", "FROM", "CONTENT"]);
    for message in messages {
        grid.row([
            message.id.to_string().into(),
            when::shown(message.at, now).into(),
            message.rule.as_str().into(),
            message.sender.as_str().into(),
            message.content.as_str().into(),
        ]);
    }
    grid
}
