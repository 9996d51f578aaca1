//! Fetching another version, checking it, and putting it in place.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use convoke_machine::ToolError;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::trial::Record;
use crate::net::Dialler;
use crate::state::StateDir;

/// Largest program that is fetched.
const MAX_BYTES: u64 = 256 << 20;
/// How long that may take. The hubs wait 120 s for the answer.
const DOWNLOAD: Duration = Duration::from_secs(100);
/// How long the new program may take to say what it is.
const CHECK: Duration = Duration::from_secs(10);
/// What an agent says when it is asked with [`CHECK_ARGS`]. Part of what versions promise each other.
pub const CHECK_ANSWER: &str = "convoke-agent ready";
/// How it is asked.
pub const CHECK_ARGS: [&str; 2] = ["agent", "self-check"];

/// An update as it was ordered.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) version: String,
    pub(super) url: Url,
    /// Lower-case hex.
    pub(super) sha256: String,
    /// The program to replace.
    pub(super) program: PathBuf,
    pub(super) trial_s: u64,
}

/// A file that goes away unless it was put to use.
struct Draft(Option<PathBuf>);

impl Draft {
    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

pub(super) async fn run(
    dialler: &Dialler,
    state: &StateDir,
    order: &Order,
    allowed: impl Fn(&Url) -> Result<(), String>,
) -> Result<(), ToolError> {
    if order.sha256.len() != 64 || !order.sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(ToolError::bad_args("agent_update.sha256 must be 64 hexadecimal digits"));
    }
    let draft = Draft(Some(beside(&order.program, "new")));
    let hash = fetch(dialler, order, draft.path(), allowed).await?;
    if hash != order.sha256 {
        return Err(ToolError::failed(format!(
            "the download has the SHA-256 {hash}, not the announced one; nothing was changed"
        )));
    }
    make_executable(draft.path())
        .map_err(|why| ToolError::failed(format!("cannot make the update executable: {why}")))?;
    same_kind(&order.program, draft.path())?;
    answers(draft.path()).await?;
    put_in_place(state, order, draft)
}

/// Only what has the announced hash may be run.
#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

async fn fetch(
    dialler: &Dialler,
    order: &Order,
    to: &Path,
    allowed: impl Fn(&Url) -> Result<(), String>,
) -> Result<String, ToolError> {
    let kept = |why: io::Error| ToolError::failed(format!("cannot write {}: {why}", to.display()));
    let _ = fs::remove_file(to);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(to).map_err(kept)?;
    let mut hasher = Sha256::new();
    let sink = |chunk: &[u8]| {
        hasher.update(chunk);
        file.write_all(chunk)
    };
    let status = dialler
        .download(&order.url, MAX_BYTES, DOWNLOAD, allowed, sink)
        .await
        .map_err(|why| ToolError::failed(format!("cannot download the update: {why}")))?;
    if status != 200 {
        return Err(ToolError::failed(format!("cannot download the update: the server answers {status}")));
    }
    file.sync_all().map_err(kept)?;
    Ok(hex::encode(hasher.finalize()))
}

/// Whether the new file is a program of the same kind as the present one. A page that says "not found", or the program
/// for another processor, is told apart here and not by a machine that stays silent.
fn same_kind(present: &Path, new: &Path) -> Result<(), ToolError> {
    let kind = |path: &Path| -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        File::open(path)?.take(4096).read_to_end(&mut head)?;
        Ok(kind_of(&head))
    };
    match (kind(present), kind(new)) {
        (Ok(present), Ok(new)) if present == new => Ok(()),
        (Ok(_), Ok(_)) => Err(ToolError::failed("the download is not a program for this platform")),
        (Err(why), _) | (_, Err(why)) => Err(ToolError::failed(format!("cannot compare the programs: {why}"))),
    }
}

/// What a program is for: format and processor.
fn kind_of(head: &[u8]) -> Vec<u8> {
    match head {
        // ELF: class, byte order, then the machine at offset 18.
        [0x7f, b'E', b'L', b'F', class, order, ..] if head.len() >= 20 => {
            vec![b'E', *class, *order, head[18], head[19]]
        }
        // PE: the machine follows the signature that offset 0x3c points to.
        [b'M', b'Z', ..] if head.len() >= 0x40 => {
            let at = u32::from_le_bytes([head[0x3c], head[0x3d], head[0x3e], head[0x3f]]) as usize;
            let machine = at.checked_add(4).and_then(|at| head.get(at..at.checked_add(2)?));
            machine.map_or_else(|| vec![b'M'], |machine| vec![b'M', machine[0], machine[1]])
        }
        // Mach-O, thin or fat: magic and processor.
        [0xcf | 0xce | 0xca, ..] if head.len() >= 8 => head[..8].to_vec(),
        other => other.iter().take(4).copied().collect(),
    }
}

/// Whether it runs here, and is an agent. One that would not even start could not put the previous one back.
async fn answers(program: &Path) -> Result<(), ToolError> {
    let mut command = tokio::process::Command::new(program);
    command.args(CHECK_ARGS).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let failed =
        |why: String| ToolError::failed(format!("the new program does not run as an agent on this machine: {why}"));
    // Linux says "text file busy" for a moment when another thread has just forked while the file was open for writing.
    let mut tries = 0;
    let child = loop {
        match command.spawn() {
            Err(why) if why.kind() == io::ErrorKind::ExecutableFileBusy && tries < 50 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => break other.map_err(|why| failed(why.to_string()))?,
        }
    };
    let output = tokio::time::timeout(CHECK, child.wait_with_output())
        .await
        .map_err(|_| failed(format!("it printed nothing for {} s", CHECK.as_secs())))?
        .map_err(|why| failed(why.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.trim_start().starts_with(CHECK_ANSWER) {
        Ok(())
    } else {
        Err(failed(format!("it exited with {} without reporting that it is one", output.status)))
    }
}

/// The swap. At every moment there is a whole program in the place, and from the record on a way back.
fn put_in_place(state: &StateDir, order: &Order, mut draft: Draft) -> Result<(), ToolError> {
    let failed = |what: &str, why: String| ToolError::failed(format!("{what}: {why}; nothing was changed"));
    let previous = beside(&order.program, "previous");
    let _ = fs::remove_file(&previous);
    // The same file under a second name, where the file system can; else a copy.
    fs::hard_link(&order.program, &previous)
        .or_else(|_| fs::copy(&order.program, &previous).map(drop))
        .map_err(|why| failed("cannot keep a copy of the present program", why.to_string()))?;
    let record = Record::new(order.version.clone(), order.program.clone(), previous.clone(), order.trial_s);
    record.write(state).map_err(|why| failed("cannot record the update", why.to_string()))?;
    match swap(draft.path(), &order.program, &previous) {
        Ok(()) => {
            draft.0 = None;
            // Put in place it is; a failed sync only costs what a power cut may undo.
            let _ = order.program.parent().map(convoke_files::sync_dir);
            Ok(())
        }
        Err(why) => {
            Record::remove(state);
            let _ = fs::remove_file(&previous);
            Err(failed("cannot install the new program", why.to_string()))
        }
    }
}

#[cfg(not(windows))]
fn swap(new: &Path, program: &Path, _: &Path) -> io::Result<()> {
    fs::rename(new, program)
}

/// Windows lets a running program be renamed, not replaced.
#[cfg(windows)]
fn swap(new: &Path, program: &Path, previous: &Path) -> io::Result<()> {
    fs::remove_file(previous)?;
    fs::rename(program, previous)?;
    fs::rename(new, program).inspect_err(|_| {
        let _ = fs::rename(previous, program);
    })
}

/// A name beside the program, on the same file system.
pub(super) fn beside(program: &Path, what: &str) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    program.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart_by_format_and_processor() {
        let elf = |machine: u8| {
            let mut head = vec![0; 64];
            head[..6].copy_from_slice(b"\x7fELF\x02\x01");
            head[18] = machine;
            kind_of(&head)
        };
        assert_eq!(elf(0x3e), elf(0x3e));
        assert_ne!(elf(0x3e), elf(0xb7));
        assert_ne!(elf(0x3e), kind_of(b"<html>not found</html>"));
        let mut pe = vec![0xff; 64];
        pe[..2].copy_from_slice(b"MZ");
        assert_eq!(kind_of(&pe), b"M", "an offset beyond the file is survived");
        let own = std::env::current_exe().expect("this program");
        assert!(same_kind(&own, &own).is_ok());
    }
}
