//! `convoke up` and `convoke hub`: start, announce and stop the hub.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use convoke_core::secret::SecretText;
use convoke_hub::Hub;
use convoke_hub::{OPERATOR_TOKEN_SECRET, Running, StartError, clock};
use serde_json::json;
use tokio::sync::oneshot;

use super::Verb;
use super::config::{self, Config};
use super::local_agent::{ID as LOCAL, LocalAgent};
use crate::exit::{Exit, usage};
use crate::local::Whereabouts;
use crate::table::Grid;
use crate::{logging, parse};
use convoke_cli::signals::Signals;

/// How long a stop waits for somebody who is just reading the welcome.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// The pause between two tries to start a hub that was fenced.
const NEXT_START: Duration = Duration::from_secs(2);

/// What a server takes.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<String>,
    /// The settings file (TOML) [env: CONVOKE_CONFIG; default: convoke.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<std::path::PathBuf>,
    /// Set one setting; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::assignment)]
    pub(super) set: Vec<(String, String)>,
    /// Serve the local network: listen on every address, with a certificate of the hub's own that agents know by its key
    #[arg(long, conflicts_with_all = ["insecure_listen", "tls_cert"])]
    pub(super) lan: bool,
    /// Allow HTTP without TLS on an address that other machines can reach
    #[arg(long)]
    pub(super) insecure_listen: bool,
    /// The certificate chain for TLS (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", value_parser = NonEmptyStringValueParser::new())]
    pub(super) tls_cert: Option<String>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_parser = NonEmptyStringValueParser::new())]
    pub(super) tls_key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// When ready, print one line of JSON: http, data, operator_token, kenny_public_key, sonde_tls, welcome
    #[arg(long, conflicts_with = "check_config")]
    print_json: bool,
    /// Show the first operator's token again, not only on the first start
    #[arg(long, conflicts_with = "check_config")]
    reveal_token: bool,
    /// List every setting with its value and source, and exit
    #[arg(long)]
    check_config: bool,
    /// Serve the fixtures of the MCP conformance suite
    #[cfg(feature = "conformance")]
    #[arg(long)]
    conformance: bool,
}

/// How a server tells that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announce {
    /// To a person who has just started, with an agent for this machine or without.
    Welcome { agent: bool },
    /// In its log.
    Log,
    /// To a program.
    Json,
}

/// What `up` takes.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Start no agent for this machine
    #[arg(long)]
    no_agent: bool,
}

pub(crate) fn up(verb: Verb<'_>, args: UpArgs) -> Result<Exit> {
    let config = Config::read(verb.global, &args.serve)?;
    serve(verb, config, Announce::Welcome { agent: !args.no_agent }, false)
}

pub(crate) fn run(verb: Verb<'_>, args: HubArgs) -> Result<Exit> {
    if args.check_config {
        return config::check(verb, &args.serve);
    }
    #[cfg(feature = "conformance")]
    if args.conformance {
        convoke_hub::mcp::mount_conformance_fixtures();
    }
    let config = Config::read(verb.global, &args.serve)?;
    let announce = if args.print_json { Announce::Json } else { Announce::Log };
    serve(verb, config, announce, args.reveal_token)
}

fn serve(verb: Verb<'_>, mut config: Config, announce: Announce, reveal_token: bool) -> Result<Exit> {
    let last_lines = logging::start(config.settings.hub.log_level)?;
    #[cfg(unix)]
    let open_files = convoke_cli::open_files::raise(config.settings.hub.max_connections);
    #[cfg(not(unix))]
    let open_files = None;
    let runtime = crate::workers::runtime(config.settings.hub.workers);
    runtime.context("cannot start the runtime")?.block_on(async {
        // From the first moment on, so that a stop during a long start is a clean one.
        let mut signals = Signals::listen()?;
        let started = tokio::select! {
            started = convoke_hub::start(config.clone().into_options()?) => started,
            () = signals.next() => return Ok(Exit::Done),
        };
        let mut running = started.map_err(|why| refused(why, &config.data))?;
        let has_agent = announce == Announce::Welcome { agent: true };
        let mut way = Way { announce, reveal_token, has_agent, open_files };
        loop {
            // Port 0 means the one that the first start got.
            config.settings.hub.listen = running.hub.listen;
            if run_until_ended(verb, running, &config.data, &mut signals, way, &last_lines).await? == Ended::Stopped {
                return Ok(Exit::Done);
            }
            tracing::warn!("starting the hub anew: another hub had ended it, since its lease was over");
            way = Way { announce: Announce::Log, reveal_token: false, ..way };
            let Some(again) = start_again(&config, &mut signals).await? else { return Ok(Exit::Done) };
            running = again;
        }
    })
}

/// Starts a hub that was fenced, as soon as that can be done. None when it was stopped before.
async fn start_again(config: &Config, signals: &mut Signals) -> Result<Option<Running>> {
    loop {
        let start = async {
            let started = convoke_hub::start(config.clone().into_options()?).await;
            if let Err(why) = &started {
                tracing::error!("cannot start the hub anew; trying again: {why}");
                tokio::time::sleep(NEXT_START).await;
            }
            anyhow::Ok(started.ok())
        };
        tokio::select! {
            started = start => if let Some(running) = started? {
                return Ok(Some(running));
            },
            () = signals.next() => return Ok(None),
        }
    }
}

/// How a hub is run.
#[derive(Clone, Copy)]
struct Way {
    announce: Announce,
    reveal_token: bool,
    /// With an agent for this machine.
    has_agent: bool,
    /// How many files this process could have open before it raised that.
    open_files: Option<u64>,
}

/// Why a hub has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Stopped,
    /// Another hub has ended its lease.
    Fenced,
}

async fn run_until_ended(
    verb: Verb<'_>,
    running: Running,
    data: &Path,
    signals: &mut Signals,
    way: Way,
    last_lines: &convoke_endpoint::logs::LastLines,
) -> Result<Ended> {
    let Way { announce, reveal_token, has_agent, open_files } = way;
    let own_tls = running.hub.settings.tls.own && running.hub.settings.tls.cert.is_none();
    let public_key = own_tls.then(|| running.hub.public_key());
    let here = Whereabouts { http: reachable_here(&running.hub), pid: std::process::id(), public_key };
    let announced = here.announce(data)?;
    // Who set it in the environment has it, and what a person is shown stays in a terminal's history and in logs.
    let is_given = std::env::var_os("CONVOKE_OPERATOR_TOKEN").is_some_and(|value| !value.is_empty());
    let token = match announce {
        Announce::Welcome { .. } | Announce::Log if is_given && !reveal_token => None,
        _ => token(&running, reveal_token).await?,
    };
    let told = tell(verb, &running, data, token.as_ref(), announce)?;
    let local = has_agent.then(|| LocalAgent::start(&running.hub, data, reachable_here(&running.hub), open_files));

    // Where nobody reads it, it has not been shown, and the next start shows it.
    let (hub, is_first) = (running.hub.clone(), running.first_token.is_some());
    let shown = async move {
        if told.await.is_ok() && is_first {
            convoke_hub::note_token_shown(&hub).await.context("cannot record that the operator token was shown")?;
        }
        anyhow::Ok(())
    };
    let mut shown = Box::pin(shown);
    let mut is_noted = false;
    let hub = running.hub.clone();
    let ended = loop {
        tokio::select! {
            noted = &mut shown, if !is_noted => {
                // No reason to end a hub that serves: the next start shows the token once more.
                if let Err(why) = noted {
                    tracing::error!("{why:#}");
                }
                is_noted = true;
            }
            () = signals.next() => break Ended::Stopped,
            () = hub.fenced() => break Ended::Fenced,
        }
    };
    drop(hub);
    if ended == Ended::Stopped {
        tracing::info!("stopping; a second signal stops at once");
    }
    drop(announced);
    let stop = async {
        // Who stops it as soon as they have read the token has read it.
        let noted = if is_noted { Ok(()) } else { tokio::time::timeout(LAST_LOOK, shown).await.unwrap_or(Ok(())) };
        // The agent goes after its calls.
        let local = async {
            if let Some(local) = local {
                local.stop().await;
            }
        };
        running.stop_with(local).await.context("the store did not close cleanly")?;
        noted
    };
    tokio::select! {
        stopped = stop => stopped?,
        () = signals.next() => {
            tracing::warn!("stopped at once; running calls are recorded as `interrupted` at the next start");
            last_lines.write();
            std::process::exit(i32::from(Exit::Failed.code()));
        }
    }
    tracing::info!("stopped");
    Ok(ended)
}

/// What is a mistake in the settings, and what the machine said no to.
fn refused(why: StartError, data: &Path) -> anyhow::Error {
    match why {
        StartError::Insecure(_) | StartError::Tls(_) | StartError::Key(_) => usage(why.to_string()),
        StartError::Listen { address, why } if why.kind() == std::io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "cannot listen on {address}: another program, perhaps another hub, has that port; choose one with --listen, \
             such as --listen {}:0 for any that is free",
            address.ip()
        ),
        StartError::Store(_) => {
            anyhow::Error::new(why).context(format!("cannot open the data directory {}", data.display()))
        }
        other => other.into(),
    }
}

/// The first operator's token: when it was made just now, or when it is asked for.
async fn token(running: &Running, reveal: bool) -> Result<Option<SecretText>> {
    if running.first_token.is_some() || !reveal {
        return Ok(running.first_token.clone());
    }
    let sealed = running.hub.store.secret(OPERATOR_TOKEN_SECRET).await.context("cannot read the operator token")?;
    let text = sealed.and_then(|bytes| String::from_utf8(bytes.reveal().to_vec()).ok()).map(SecretText::new);
    // One that was revoked since opens nothing.
    Ok(text.filter(|token| running.hub.operators.is_in_force(token.hash(), clock::now())))
}

/// Where the hub listens, as a program on this machine writes it.
fn listening(hub: &Hub) -> String {
    let mut address = hub.listen;
    if address.ip().is_unspecified() {
        let loopback: std::net::IpAddr = match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    format!("{}://{address}", if hub.tls { "https" } else { "http" })
}

/// How the commands on this machine reach the hub. A certificate is for the public name, if there is one.
fn reachable_here(hub: &Hub) -> String {
    match hub.settings.hub.public_url.as_deref() {
        Some(url) if hub.tls => url.to_owned(),
        _ => listening(hub),
    }
}

/// Tells that the hub is ready. What comes back says when it was told: a person may not read it yet, and the hub serves all
/// the same, and can be stopped.
fn tell(
    verb: Verb<'_>,
    running: &Running,
    data: &Path,
    token: Option<&SecretText>,
    announce: Announce,
) -> Result<oneshot::Receiver<()>> {
    let (told, is_told) = oneshot::channel();
    let http = listening(&running.hub);
    let key = running.hub.public_key();
    match announce {
        Announce::Json => {
            let mut line = json!({ "http": http, "data": data, "kenny_public_key": key });
            if let Some(address) = running.sonde_tls {
                line["sonde_tls"] = address.to_string().into();
            }
            if let Some(secret) = &running.welcome {
                line["welcome"] = format!("{http}/welcome#{}", secret.reveal()).into();
            }
            if let Some(token) = token {
                line["operator_token"] = token.reveal().into();
            }
            verb.output.json(&line)?;
            let _ = told.send(());
        }
        Announce::Welcome { agent } => {
            let (page, http) = (running.hub.page_url(), reachable_here(&running.hub));
            let known = Known { page, http, data, key: &key, token, agent };
            show(verb, welcome(verb, &known), welcome_link(running), told);
        }
        Announce::Log => match token {
            // A log that is kept is no place for a token: it is only told to a person who looks on.
            Some(token) if std::io::stderr().is_terminal() => {
                show(verb, format!("operator token: {}", token.reveal()), welcome_link(running), told);
            }
            other => {
                if other.is_some() {
                    tracing::info!(
                        "the first operator's token is sealed in the data directory; commands on this machine use it, \
                         and `convoke hub --print-json --reveal-token` shows it"
                    );
                }
                show(verb, String::new(), welcome_link(running), told);
            }
        },
    }
    tracing::info!(http, data = %data.display(), kenny_public_key = key, "ready");
    Ok(is_told)
}

/// The link behind which the first admin is made. On standard output only: the log may be kept, and is no place for it.
fn welcome_link(running: &Running) -> Option<SecretText> {
    let secret = running.welcome.as_ref()?;
    Some(SecretText::new(format!(
        "Open this link in a browser and make yourself the hub's admin. It works once, within an hour:\n\n  {}/welcome#{}\n",
        running.hub.page_url(),
        secret.reveal()
    )))
}

/// Shows a person something that may hold a secret, without waiting for them.
fn show(verb: Verb<'_>, text: String, link: Option<SecretText>, told: oneshot::Sender<()>) {
    let (output, text) = (*verb.output, SecretText::new(text));
    std::thread::spawn(move || {
        if !text.reveal().is_empty() {
            output.note(text.reveal());
        }
        if let Some(link) = link {
            // Nobody may read standard output: then the next start makes another one.
            let _ = output.text(link.reveal());
        }
        let _ = told.send(());
    });
}

/// What a person is told who has just started a hub.
struct Known<'a> {
    page: String,
    http: String,
    data: &'a Path,
    key: &'a str,
    token: Option<&'a SecretText>,
    agent: bool,
}

fn welcome(verb: Verb<'_>, known: &Known<'_>) -> String {
    let mut facts = Grid::facts();
    facts.fact("  page", &*known.page);
    facts.fact("  address", &*known.http);
    facts.fact("  data directory", known.data.display().to_string());
    facts.fact("  public key", known.key);
    if let Some(token) = known.token {
        facts.fact("  operator token", token.reveal());
    }
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("Convoke {version} is running.\n\n{}\n\n", facts.render_plain());
    if known.token.is_some() {
        text.push_str("The token is shown only now. Commands on this machine find it by themselves.\n\n");
    }
    let at = verb.global.data.as_ref().map(|dir| format!(" --data {}", dir.display())).unwrap_or_default();
    if known.agent {
        text.push_str(&format!(
            "This machine is its first agent, `{LOCAL}`. Try it in another terminal:\n\n\
             \x20 convoke call {LOCAL} fs_list --args '{{\"path\":\"/\"}}'{at}\n\n"
        ));
    }
    text.push_str(&format!(
        "Next, in another terminal:\n\n\
         \x20 convoke enroll-token my-pc{at}    creates a token for another machine\n\
         \x20 convoke agents list{at}           lists the agents\n\n\
         Ctrl-C stops it.\n"
    ));
    text
}
