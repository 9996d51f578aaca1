//! `convoke cp`: a file from a machine or to one, in one call.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use convoke_api::Client;
use convoke_api::agents::Agent;
use convoke_api::calls::CallRequest;
use convoke_api::files::{FileLink, FileQuery, FileState};
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use super::Verb;
use super::remote::{self, Answered};
use crate::complete;
use crate::exit::{Exit, usage};
use crate::parse::{self, AgentName};
use crate::show::{self, clean};

/// How long a copy may take if the person says nothing.
const PATIENCE_S: f64 = 3600.0;
/// How long one question for the machine waits.
const ONE_WAIT_S: f64 = 25.0;
/// How much is read and sent at once.
const PIECE: usize = 64 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "Either FROM or TO is MACHINE:PATH, with the whole path: convoke cp pc-1:/var/log/syslog .\n\
A file is there whole or not at all, and replaces one of its name. TO may be a folder here, or - for standard output; \
a folder on a machine ends with a slash: convoke cp report.txt pc-1:/tmp/")]
pub(crate) struct CpArgs {
    /// The file to copy
    #[arg(value_parser = side, add = complete::sides())]
    from: Side,
    /// Where to
    #[arg(value_parser = side, add = complete::sides())]
    to: Side,
    /// Give up after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds, default_value_t = PATIENCE_S)]
    timeout: f64,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Here(PathBuf),
    There(AgentName, String),
}

/// `MACHINE:PATH`, or a path here. One with a colon is written `./a:b`.
fn side(text: &str) -> Result<Side, String> {
    let here = || Ok(Side::Here(text.into()));
    let Some((machine, path)) = text.split_once(':') else { return here() };
    if machine.is_empty() || machine.contains(['/', '\\']) || (cfg!(windows) && machine.len() == 1) {
        return here();
    }
    if !is_whole(path) {
        return Err(format!("write the whole path on the machine, as in {machine}:/tmp/file"));
    }
    Ok(Side::There(parse::agent_name(machine)?, path.into()))
}

/// Whether a path begins at a root, of whatever system.
fn is_whole(path: &str) -> bool {
    let drive = |path: &str| path.get(1..3).is_some_and(|rest| rest == ":\\" || rest == ":/");
    path.starts_with('/') || path.starts_with("\\\\") || drive(path)
}

/// The last part of a path, of whatever system.
fn name_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

pub(crate) async fn run(verb: Verb<'_>, args: CpArgs) -> Result<Exit> {
    let CpArgs { from, to, timeout } = args;
    match (from, to) {
        (Side::There(machine, path), Side::Here(to)) => get(verb, &machine, &path, &to, timeout).await,
        (Side::Here(from), Side::There(machine, path)) => put(verb, &from, &machine, &path, timeout).await,
        (Side::Here(_), Side::Here(_)) => {
            Err(usage("neither is on a machine: write MACHINE:PATH, as in convoke cp pc-1:/var/log/syslog ."))
        }
        (Side::There(..), Side::There(..)) => {
            Err(usage("both are on machines: copy the file here first, then from here to the other machine"))
        }
    }
}

/// What the machine says of the file.
#[derive(Deserialize)]
struct Copied {
    size: u64,
    sha256: String,
}

/// How far a copy is.
#[derive(Debug, Default)]
struct Meter {
    done: AtomicU64,
    all: AtomicU64,
}

impl Meter {
    fn add(&self, bytes: usize) {
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn shown(&self, seconds: u64) -> String {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        if done == 0 {
            return format!("waiting for the machine: {seconds} s");
        }
        let speed = show::bytes(done / seconds.max(1));
        let percent = done.saturating_mul(100) / all.max(done).max(1);
        format!("{} of {} ({percent} %), {speed}/s", show::bytes(done), show::bytes(all.max(done)))
    }
}

async fn get(verb: Verb<'_>, machine: &AgentName, path: &str, to: &Path, timeout: f64) -> Result<Exit> {
    let name = name_of(path);
    if name.is_empty() {
        return Err(usage(format!("`{path}` is a folder; name a file in it, or pack the folder first with `tar`")));
    }
    let to_stdout = to == Path::new("-");
    let to = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let mut place = Place::open(&to, to_stdout)?;
    let client = verb.client()?;
    let agent = remote::find(&client, machine).await?;
    let meter = Meter::default();
    let link = link(&client, &agent).await?;
    let request = call("file_get", json!({ "path": path, "url": link.url }), timeout)?;
    let data = async {
        opened(&client, &agent, &link).await?;
        let mut file = client.download(&format!("{}/data", door(&agent, &link))).await?;
        meter.all.store(file.size().unwrap_or_default(), Ordering::Relaxed);
        while let Some(piece) = file.next().await? {
            place.write(&piece)?;
            meter.add(piece.len());
        }
        Ok(())
    };
    let Some((answered, copied)) = meet(verb, &client, &agent, &request, data, &meter).await? else {
        return Ok(Exit::Pending);
    };
    let (size, sha256) = place.so_far();
    if (size, sha256.as_str()) != (copied.size, copied.sha256.as_str()) {
        bail!(
            "what arrived is not the file that the machine sent: {size} of {} bytes; nothing was kept",
            copied.size
        );
    }
    place.keep(&to)?;
    let from = format!("{}:{}", clean(&agent.id), clean(path));
    tell(verb, &answered, &from, &to.display().to_string(), size, to_stdout)
}

async fn put(verb: Verb<'_>, from: &Path, machine: &AgentName, path: &str, timeout: f64) -> Result<Exit> {
    let cannot = || format!("cannot read {}", from.display());
    let mut file = std::fs::File::open(from).map_err(|why| usage(format!("{}: {why}", cannot())))?;
    if !file.metadata().with_context(cannot)?.is_file() {
        return Err(usage(format!("{} is no file; a folder can be packed first with `tar`", from.display())));
    }
    let path = if path.ends_with(['/', '\\']) {
        let name = from.file_name().and_then(|name| name.to_str()).context("the file's name is no text")?;
        format!("{path}{name}")
    } else {
        path.to_owned()
    };
    let (size, sha256) = digest(&mut file).with_context(cannot)?;
    let client = verb.client()?;
    let agent = remote::find(&client, machine).await?;
    let meter = Meter { all: size.into(), ..Meter::default() };
    let meter = std::sync::Arc::new(meter);
    let link = link(&client, &agent).await?;
    let args = json!({ "path": path, "url": link.url, "sha256": sha256, "size": size });
    let request = call("file_put", args, timeout)?;
    let data = async {
        opened(&client, &agent, &link).await?;
        let file = tokio::fs::File::open(from).await.with_context(cannot)?;
        let state = (file, size, std::sync::Arc::clone(&meter));
        let pieces = stream::unfold(state, async |(mut file, left, meter)| {
            let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
            match file.read(&mut piece).await {
                Ok(0) => None,
                Ok(read) => {
                    piece.truncate(read);
                    meter.add(read);
                    Some((Ok(piece), (file, left - read as u64, meter)))
                }
                Err(why) => Some((Err(why), (file, 0, meter))),
            }
        });
        let door = format!("{}/data", door(&agent, &link));
        let _: serde_json::Value = client.upload(&door, reqwest::Body::wrap_stream(pieces), size).await?;
        Ok(())
    };
    let Some((answered, copied)) = meet(verb, &client, &agent, &request, data, &meter).await? else {
        return Ok(Exit::Pending);
    };
    let to = format!("{}:{}", clean(&agent.id), clean(&path));
    tell(verb, &answered, &from.display().to_string(), &to, copied.size, false)
}

fn call(tool: &str, args: serde_json::Value, timeout: f64) -> Result<CallRequest> {
    let args = Some(to_raw_value(&args)?);
    Ok(CallRequest { tool: tool.into(), args, timeout_s: Some(timeout), idempotency_key: None })
}

async fn link(client: &Client, agent: &Agent) -> Result<FileLink> {
    Ok(client.post(&format!("/api/agents/{}/files", agent.id), &json!({})).await?)
}

fn door(agent: &Agent, link: &FileLink) -> String {
    format!("/api/agents/{}/files/{}", agent.id, link.id)
}

/// Waits until the machine has come for the file: a call may wait for a person before.
async fn opened(client: &Client, agent: &Agent, link: &FileLink) -> Result<()> {
    loop {
        let query = FileQuery { wait_s: Some(ONE_WAIT_S) };
        let FileState { state } = client.get(&door(agent, link), &query).await?;
        if state == "open" {
            return Ok(());
        }
    }
}

/// Runs the call and the copy side by side. Nothing if the person stopped waiting.
async fn meet(
    verb: Verb<'_>,
    client: &Client,
    agent: &Agent,
    request: &CallRequest,
    data: impl Future<Output = Result<()>>,
    meter: &Meter,
) -> Result<Option<(Answered, Copied)>> {
    let shown = |seconds| meter.shown(seconds);
    let mut call = std::pin::pin!(remote::place(verb, client, agent, request, Some(&shown)));
    let mut data = std::pin::pin!(data);
    let mut copied = None;
    let answered = loop {
        tokio::select! {
            answered = &mut call => break answered?,
            ended = &mut data, if copied.is_none() => {
                // What went wrong here is what the person must know; the machine only sees that nobody is there.
                if matches!(&ended, Err(why) if !is_over(why)) {
                    return Err(ended.err().unwrap_or_else(|| anyhow!("the copy failed")));
                }
                copied = Some(ended);
            }
        }
    };
    let Some(answered) = answered else { return Ok(None) };
    if let Some(failure) = &answered.error {
        if verb.output.json {
            verb.output.raw_json(&answered.json)?;
        }
        let hint = if failure.code == "timeout" { "; --timeout SECONDS gives it longer" } else { "" };
        bail!("{} ({}){hint}", failure.message, failure.code);
    }
    match copied {
        Some(ended) => ended?,
        None => data.await?,
    }
    let result = answered.result.as_deref().context("the machine's answer is empty")?;
    let about = serde_json::from_str(result.get()).context("cannot read the machine's answer")?;
    Ok(Some((answered, about)))
}

/// Whether the hub says that the call has ended: how, the call tells.
fn is_over(why: &anyhow::Error) -> bool {
    use convoke_api::ClientError;
    matches!(why.downcast_ref(), Some(ClientError::Refused { status: 404 | 409, .. } | ClientError::Lost { .. }))
}

fn tell(verb: Verb<'_>, answered: &Answered, from: &str, to: &str, size: u64, to_stdout: bool) -> Result<Exit> {
    if to_stdout {
        verb.output.remark(format_args!("copied {from} ({})", show::bytes(size)));
    } else if verb.output.json {
        verb.output.raw_json(&answered.json)?;
    } else {
        verb.output.text(&format!("copied {from} to {to} ({})", show::bytes(size)))?;
    }
    Ok(Exit::Done)
}

/// Where a file from a machine is written: beside its place until it is whole.
struct Place {
    draft: Option<tempfile::NamedTempFile>,
    hasher: Sha256,
    size: u64,
}

impl Place {
    fn open(to: &Path, to_stdout: bool) -> Result<Self> {
        let draft = if to_stdout {
            None
        } else {
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut builder = tempfile::Builder::new();
            builder.prefix(".convoke-");
            // As a file that is made here usually is; the person's own mask takes away what they want.
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let draft = builder.tempfile_in(folder);
            Some(draft.map_err(|why| usage(format!("cannot write in {}: {why}", folder.display())))?)
        };
        Ok(Self { draft, hasher: Sha256::new(), size: 0 })
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.hasher.update(piece);
        self.size += piece.len() as u64;
        match &mut self.draft {
            Some(draft) => draft.write_all(piece).context("cannot write the file")?,
            None => std::io::stdout().lock().write_all(piece)?,
        }
        Ok(())
    }

    fn so_far(&self) -> (u64, String) {
        (self.size, hex::encode(self.hasher.clone().finalize()))
    }

    fn keep(self, to: &Path) -> Result<()> {
        match self.draft {
            Some(draft) => drop(draft.persist(to).with_context(|| format!("cannot write {}", to.display()))?),
            None => std::io::stdout().lock().flush()?,
        }
        Ok(())
    }
}

fn digest(file: &mut std::fs::File) -> std::io::Result<(u64, String)> {
    let (mut hasher, mut size, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((size, hex::encode(hasher.finalize()))),
            read => {
                size += read as u64;
                hasher.update(&piece[..read]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_here_or_on_a_machine() {
        let there = |text: &str| match side(text) {
            Ok(Side::There(machine, path)) => Some((machine.to_string(), path)),
            _ => None,
        };
        assert_eq!(there("pc-1:/tmp/x"), Some(("pc-1".into(), "/tmp/x".into())));
        assert_eq!(there("pc-1:C:\\x\\y"), Some(("pc-1".into(), "C:\\x\\y".into())));
        assert_eq!(there("Anna's PC:C:/x"), Some(("Anna's PC".into(), "C:/x".into())));
        for here in [".", "-", "x", "/a/b:c", "./a:b", ":x"] {
            assert_eq!(side(here), Ok(Side::Here(here.into())), "{here}");
        }
        for bad in ["pc-1:", "pc-1:x", "pc-1:~/x", "pc-1:./x"] {
            assert!(side(bad).is_err_and(|why| why.contains("whole path")), "{bad}");
        }
    }

    #[test]
    fn the_last_part_of_a_path_is_its_name() {
        for (path, name) in [("/a/b", "b"), ("C:\\x\\y.txt", "y.txt"), ("/a/", ""), ("/", "")] {
            assert_eq!(name_of(path), name);
        }
    }

    #[test]
    fn progress_is_told_in_bytes() {
        let meter = Meter::default();
        assert_eq!(meter.shown(3), "waiting for the machine: 3 s");
        meter.all.store(4096, Ordering::Relaxed);
        meter.add(1024);
        assert_eq!(meter.shown(1), "1.0 KiB of 4.0 KiB (25 %), 1.0 KiB/s");
    }
}
