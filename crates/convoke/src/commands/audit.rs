//! `convoke audit`: list, export and verify the journal.

mod list;
mod story;

use std::fs;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use convoke_api::Client;
use convoke_api::record::{CheckpointQuery, JournalQuery};
use convoke_core::id::HubId;
use convoke_core::journal::{Anchor, Checkpoint, Expected, ExportHeader, Verifier, checkpoint_line};
use convoke_store::audit::{self, Export, Verdict};
use convoke_store::{Data, Server};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::pages::Pages;
use super::{NO_QUERY, Verb, config, verdict};
use crate::exit::{Exit, usage};
use crate::{connect, local, when};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List records, newest first
    List(list::ListArgs),
    /// Tell the story of one call: who asked, which rule, who agreed, what ran, how it ended; or show one record
    Show {
        /// A record's number, or a call's id
        #[arg(value_name = "SEQ|CALL")]
        what: story::What,
    },
    /// Write the whole journal to a file that anyone can verify
    Export {
        /// The new file, or - for standard output
        file: PathBuf,
    },
    /// Find changed, missing and reordered records in a data directory or an export
    Verify {
        /// The data directory, export, or database (postgres://…) [default: the local hub's data]
        path: Option<PathBuf>,
        /// The hub's public key (base64), as you noted it elsewhere; signatures of other keys are refused
        #[arg(long, value_name = "KEY", value_parser = public_key)]
        public_key: Vec<[u8; 32]>,
        /// A place in the journal, as you noted it elsewhere; a journal that ends before it is refused
        #[arg(long, value_name = "SEQ:HASH")]
        checkpoint: Vec<Anchor>,
    },
}

fn public_key(text: &str) -> Result<[u8; 32], String> {
    let bytes = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "a public key is 32 bytes in base64, as `convoke keys show` prints it".into())
}

pub(crate) async fn run(verb: Verb<'_>, command: AuditCommand) -> Result<Exit> {
    match command {
        AuditCommand::List(args) => list::run(verb, args).await,
        AuditCommand::Show { what } => story::run(verb, what).await,
        AuditCommand::Export { file } => export(verb, &file).await,
        AuditCommand::Verify { path, public_key, checkpoint } => {
            let expected = Expected { hub_id: None, keys: public_key, kept: checkpoint };
            verify(verb, path.as_deref(), expected)
        }
    }
}

async fn export(verb: Verb<'_>, file: &Path) -> Result<Exit> {
    // A token is for a hub: who comes with one wants what that token may see.
    let client =
        if connect::is_named(verb.global) || verb.global.token.is_some() { Some(verb.client()?) } else { None };
    let data = local::data_dir(verb.global.data.as_deref())?;
    let to_stdout = file == Path::new("-");
    let out: Box<dyn Write + Send> = if to_stdout {
        Box::new(std::io::stdout())
    } else {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        // Who asked whom for what is nobody else's business.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Box::new(options.open(file).with_context(|| format!("cannot create the file {}", file.display()))?)
    };
    let mut out = BufWriter::new(out);
    let records = match client {
        Some(client) => export_over_http(&client, &mut out).await,
        None => match local::blocking(|| audit::export(config::store(&data), &mut out, when::now())) {
            Ok(Export::Written { records }) => Ok(records),
            // Not on standard output, where the export belongs.
            Ok(Export::Refused(verdict)) => Err(anyhow!(verdict::found(&data.display(), &verdict))),
            Err(why) => Err(why.into()),
        },
    };
    let records = match records.and_then(|records| Ok(out.flush().map(|()| records)?)) {
        Ok(records) => records,
        Err(why) => {
            if !to_stdout {
                // Half an export would be taken for one.
                let _ = fs::remove_file(file);
            }
            return Err(why);
        }
    };
    verb.output.remark(format_args!("{records} records"));
    Ok(Exit::Done)
}

async fn export_over_http(client: &Client, out: &mut impl Write) -> Result<u64> {
    #[derive(Deserialize)]
    struct About {
        hub_id: HubId,
        kenny_public_key: String,
    }
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    let about: About = client.get("/api/hub", &NO_QUERY).await?;
    let key =
        public_key(&about.kenny_public_key).map_err(|why| anyhow!("cannot read the hub's public key: {why}"))?;
    let mut lines = Lines { out, verifier: Verifier::new(Expected::default()) };
    lines.write(&ExportHeader::new(about.hub_id, key, when::now()).line())?;
    // Asked for first: what is signed while the records are fetched could cover some that are not in the export.
    let path = "/api/journal/checkpoints";
    let signed = Pages::new(client, path, "checkpoints", &CheckpointQuery::default(), None)?.all().await?;
    let signed = signed.iter().map(|item| super::typed(item)).collect::<Result<Vec<Checkpoint>>>()?;
    let mut signed = signed.into_iter().peekable();
    let mut pages = Pages::new(client, "/api/journal", "records", &JournalQuery::default(), None)?;
    let mut records = 0;
    while let Some(page) = pages.next().await? {
        for record in &page {
            records += 1;
            let Numbered { seq } = super::typed(record)?;
            if seq != records {
                return Err(parts_only());
            }
            // The exact text: its hash is over it.
            lines.write(RawValue::get(record))?;
            while let Some(checkpoint) = signed.next_if(|checkpoint| checkpoint.seq <= seq) {
                lines.write(&checkpoint_line(&checkpoint))?;
            }
        }
    }
    // Every journal begins with the hub's own start.
    if records == 0 {
        return Err(parts_only());
    }
    // What was signed before the records were asked for must be among them: what is left says that the end is gone.
    for checkpoint in signed {
        lines.write(&checkpoint_line(&checkpoint))?;
    }
    lines.finish(client.base())?;
    Ok(records)
}

/// The lines of an export, checked as they are written.
struct Lines<W> {
    out: W,
    verifier: Verifier,
}

impl<W: Write> Lines<W> {
    fn write(&mut self, line: &str) -> Result<()> {
        self.verifier.line(line.as_bytes());
        Ok(writeln!(self.out, "{line}")?)
    }

    /// An export is for keeping: one that does not hold is told now and not when it is needed.
    fn finish(self, source: &str) -> Result<()> {
        match self.verifier.finish() {
            Ok(_) => Ok(()),
            Err(finding) => Err(anyhow!(verdict::found(&source, &Verdict::Bad(finding)))),
        }
    }
}

/// A journal with gaps would be taken for one that somebody tampered with.
fn parts_only() -> anyhow::Error {
    anyhow!(
        "cannot export the journal: records are missing. If this token sees only some agents, use another token, or \
         `audit list`. Otherwise the journal is damaged: run `audit verify` on the hub's machine"
    )
}

fn verify(verb: Verb<'_>, path: Option<&Path>, expected: Expected) -> Result<Exit> {
    verb.only_here("audit verify")?;
    let path = match path {
        Some(path) => path.to_owned(),
        None => {
            let data = local::data_dir(verb.global.data.as_deref())?;
            verb.note_directory(&data);
            data
        }
    };
    let server = path.to_str().filter(|text| text.starts_with("postgres"));
    let data = match server.and_then(|url| url.parse::<Server>().ok()) {
        Some(server) => Data { dir: PathBuf::new(), server: Some(server) },
        None => config::store(&path),
    };
    if let Some(server) = &data.server {
        let verdicts = local::blocking(|| audit::verify_all(data.clone(), &expected))?;
        let mut exit = Exit::Done;
        for (hub, verdict) in verdicts {
            let place = PathBuf::from(format!("{server}, hub {hub},"));
            if verdict::show(verb.output, &place, &verdict)? != Exit::Done {
                exit = Exit::Failed;
            }
        }
        return Ok(exit);
    }
    let found = fs::metadata(&path).map_err(|why| usage(format!("cannot read {}: {why}", path.display())))?;
    let verdict = if found.is_dir() {
        audit::verify_dir(&path, expected)?
    } else {
        let file = fs::File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        audit::verify_export(BufReader::new(file), expected)?
    };
    verdict::show(verb.output, &path, &verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_whose_end_is_gone_is_refused() {
        use convoke_core::journal::{Chain, Draft, Kind, shown};
        use convoke_core::time::Timestamp;
        let hub = HubId::new(uuid::Uuid::from_u128(7));
        let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
        let mut chain = Chain::new(hub);
        let now = Timestamp::from_millis(0);
        let records = [1, 2].map(|_| chain.seal(&Draft::new(now, Kind::Hub)));
        let signed = Checkpoint::sign(&key, hub, chain.seq(), *chain.head(), now);
        let header = ExportHeader::new(hub, key.verifying_key().to_bytes(), now);
        for (kept, holds) in [(2, true), (1, false)] {
            let mut lines = Lines { out: Vec::new(), verifier: Verifier::new(Expected::default()) };
            lines.write(&header.line()).expect("writes");
            for record in &records[..kept] {
                lines.write(&shown(&record.body, &record.hash)).expect("writes");
            }
            lines.write(&checkpoint_line(&signed)).expect("writes");
            match lines.finish("http://hub") {
                Ok(()) => assert!(holds),
                Err(why) => {
                    assert!(!holds && why.to_string().contains("the journal at http://hub does not hold"), "{why}");
                    assert!(why.to_string().contains("its end was cut off"), "{why}");
                }
            }
        }
    }

    #[test]
    fn a_public_key_is_32_bytes() {
        assert!(public_key(&STANDARD.encode([7; 32])).is_ok());
        assert!(public_key(&STANDARD.encode([7; 31])).is_err());
        assert!(public_key("nonsense!").is_err());
    }
}
