//! `file_get` and `file_put`: a file that comes or goes over a link of the hub, whole or not at all.
//!
//! The bytes take their own HTTP connection to the hub that asked: its address is the one that the tunnel was opened to,
//! and of the link only the last part is taken. What may be read is what `fs_read` may read, decided on the opened file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoke_kenny::tools::{FILE_GET, FILE_PUT};
use convoke_machine::ToolError;
use convoke_machine::open::{self, NewFile, Refused, Rules, Shows};
use http_body_util::channel::{Channel, Sender};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::address::HubAddress;
use crate::net::Dialler;
use crate::net::http::Answer;

/// Where a hub has its links to files.
const DOOR: &str = "/d/file/";
/// How much is sent at once.
const PIECE: usize = 64 * 1024;
/// Pieces that wait to be sent.
const PIECES: usize = 4;
/// Most of a hub's answer that is read.
const ANSWER: u64 = 16 * 1024;

/// Copies files between this machine and its hub.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    hub: HubAddress,
    dialler: Dialler,
    /// The agent's own files, which are nobody's to write.
    own: Vec<PathBuf>,
}

/// Whether a tool is one of these.
pub(crate) fn is_one(tool: &str) -> bool {
    [FILE_GET, FILE_PUT].contains(&tool)
}

impl Files {
    pub(crate) fn new(hub: HubAddress, dialler: Dialler, state: &Path) -> Self {
        let own = [state.canonicalize().ok(), std::env::current_exe().ok()];
        Self { hub, dialler, own: own.into_iter().flatten().collect() }
    }

    /// Runs one of the tools, at most for so long.
    pub(crate) async fn run(
        &self,
        tool: &str,
        args: &Map<String, Value>,
        rules: Arc<dyn Rules>,
        patience: Duration,
    ) -> Result<Value, ToolError> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = PathBuf::from(text("path"));
        if text("path").is_empty() || text("path").contains('\0') {
            return Err(ToolError::bad_args("path must be the path of a file"));
        }
        let link = self.link(text("url"))?;
        let copied = async {
            if tool == FILE_GET {
                return self.send(&path, &link, rules, patience).await;
            }
            let size = args.get("size").and_then(Value::as_u64).unwrap_or_default();
            let rules: Arc<dyn Rules> = Arc::new(NotOwn { rules, own: self.own.clone() });
            self.write(&path, &link, (size, &text("sha256").to_ascii_lowercase()), rules, patience).await
        };
        let Copied { size, sha256 } =
            tokio::time::timeout(patience, copied).await.map_err(|_| ToolError::timeout(patience))??;
        Ok(json!({ "size": size, "sha256": sha256 }))
    }

    /// The link at the hub's own address, however the hub calls itself.
    fn link(&self, text: &str) -> Result<Url, ToolError> {
        let path = Url::parse(text).ok().map(|url| url.path().to_owned());
        let name = path.as_deref().and_then(|path| path.rsplit_once(DOOR)).map(|(_, name)| name);
        let fits =
            |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        match name.filter(fits) {
            Some(name) if name != "." && name != ".." => Ok(self.hub.http(&format!("{DOOR}{name}"))),
            _ => Err(ToolError::bad_args("url is no link of this hub")),
        }
    }

    async fn send(
        &self,
        path: &Path,
        link: &Url,
        rules: Arc<dyn Rules>,
        patience: Duration,
    ) -> Result<Copied, ToolError> {
        let opened = path.to_owned();
        // Twice through the file: what is in it decides whether it may be sent.
        let (file, size, sha256) = blocking(move || {
            let failed = |why| ToolError::open(opened.display(), &why);
            let mut hasher = Sha256::new();
            let file = open::file(&opened, Some(&*rules)).map_err(failed)?;
            let whole = file.whole(|piece| {
                hasher.update(piece);
                Ok(())
            });
            let (file, size) = whole.map_err(failed)?;
            Ok((file, size, hex::encode(hasher.finalize())))
        })
        .await?;
        let (sender, body) = Channel::new(PIECES);
        let pump = pump(tokio::fs::File::from_std(file), size, sender);
        let (answer, sent) = tokio::join!(self.dialler.upload(link, (body, size), ANSWER, patience), pump);
        accepted(&answer.map_err(|why| ToolError::failed(format!("cannot send the file: {why}")))?)?;
        match sent {
            Ok(sent) if sent == sha256 => Ok(Copied { size, sha256 }),
            Ok(_) => Err(ToolError::failed(format!("{} changed while it was sent", path.display()))),
            Err(why) => Err(ToolError::io(path.display(), &why)),
        }
    }

    async fn write(
        &self,
        path: &Path,
        link: &Url,
        (size, expect): (u64, &str),
        rules: Arc<dyn Rules>,
        patience: Duration,
    ) -> Result<Copied, ToolError> {
        let place = path.to_owned();
        let mut file: NewFile = blocking(move || {
            open::new_file(&place, Some(&*rules)).map_err(|why| ToolError::open(place.display(), &why))
        })
        .await?;
        let (mut hasher, mut got) = (Sha256::new(), 0);
        let only = |url: &Url| if url == link { Ok(()) } else { Err("the hub sends the agent elsewhere".to_owned()) };
        let sink = |piece: &[u8]| {
            hasher.update(piece);
            got += piece.len() as u64;
            file.write_all(piece)
        };
        let status = self.dialler.download(link, size, patience, only, sink).await;
        match status.map_err(|why| ToolError::failed(format!("cannot fetch the file: {why}")))? {
            200 => {}
            status => return Err(ToolError::failed(format!("cannot fetch the file: the hub answers {status}"))),
        }
        let sha256 = hex::encode(hasher.finalize());
        if (got, sha256.as_str()) != (size, expect) {
            return Err(ToolError::failed("what arrived is not the file that was announced; nothing was changed"));
        }
        let place = path.to_owned();
        blocking(move || file.finish().map_err(|why| ToolError::io(place.display(), &why))).await?;
        Ok(Copied { size, sha256 })
    }
}

struct Copied {
    size: u64,
    sha256: String,
}

/// Reads a file into the body of a request; answers the SHA-256 of what it read.
async fn pump(mut file: tokio::fs::File, size: u64, mut sender: Sender<Bytes>) -> io::Result<String> {
    use tokio::io::AsyncReadExt as _;
    let mut hasher = Sha256::new();
    let mut left = size;
    while left > 0 {
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        let read = file.read(&mut piece).await?;
        if read == 0 {
            return Err(io::Error::other("it became shorter while it was sent"));
        }
        piece.truncate(read);
        left -= read as u64;
        hasher.update(&piece);
        // Whoever does not want any more says why in the answer.
        if sender.send_data(piece.into()).await.is_err() {
            break;
        }
    }
    Ok(hex::encode(hasher.finalize()))
}

/// What the hub says when it does not take a file.
fn accepted(answer: &Answer) -> Result<(), ToolError> {
    if answer.status == 200 {
        return Ok(());
    }
    let said = serde_json::from_slice::<Value>(&answer.body).ok();
    let said = said.as_ref().and_then(|body| body["error"]["message"].as_str()).unwrap_or("no reason given");
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    Err(ToolError::failed(format!("the hub does not take the file: {said} ({})", answer.status)))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ToolError::internal("the agent failed in this call; its log has more")))
}

/// The rules of a call, and that nobody writes the agent's own files: who could do so would be its master.
#[derive(Debug)]
struct NotOwn {
    rules: Arc<dyn Rules>,
    own: Vec<PathBuf>,
}

impl Rules for NotOwn {
    fn refusal(&self, real: &str, shows: Shows) -> Option<Refused> {
        let is_own = self.own.iter().any(|own| Path::new(real).starts_with(own));
        let refused = || Refused { rule: "agent_files".into(), reason: "It is one of the agent's own files.".into() };
        if is_own { Some(refused()) } else { self.rules.refusal(real, shows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_hub_that_asks_and_nowhere_else() {
        let files = |hub: &str| Files {
            hub: HubAddress::parse(hub).expect("an address"),
            dialler: Dialler::new(None, Duration::from_secs(1)),
            own: Vec::new(),
        };
        let link = |hub: &str, url: &str| files(hub).link(url).map(|url| url.to_string()).ok();
        let there = Some("https://hub.example/convoke/d/file/a.b".to_owned());
        assert_eq!(link("wss://hub.example/convoke", "http://127.0.0.1:7410/d/file/a.b"), there);
        assert_eq!(link("wss://hub.example/convoke", "https://evil.example/d/file/a.b"), there);
        for url in [
            "https://hub.example/d/binary/x",
            "https://hub.example/d/file/",
            "/d/file/x",
            "nonsense",
            "https://hub.example/d/file/../x",
            "https://hub.example/d/file/a/b",
            "https://hub.example/d/file/%2e%2e",
        ] {
            assert_eq!(link("wss://hub.example", url), None, "{url}");
        }
    }
}
