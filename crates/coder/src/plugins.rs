//! Plugins: programs in `<config>/plugins` that a person may call by a slash command.
//!
//! A plugin is an executable file whose name (without extension) is its command. A file beside it with the extension
//! `.json` may describe it: `{"description": "…", "argumentHint": "…"}`. It is started in the workspace, gets one line of
//! JSON on its standard input (`{"type":"run","command","arguments","sessionId","sessionFile","workspaceRoot"}`) and
//! answers with lines of JSON: `{"type":"output","text"}` as often as it likes, `{"type":"result","value"}` at most once,
//! `{"type":"error","message"}` when it failed. A line that is not JSON counts as output.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use convoke_kward::params;
use convoke_kward::results::CommandRun;
use convoke_kward::rpc::RpcError;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::environment::shown;
use crate::files;
use crate::prompts::{RESERVED, is_command_name, split_slash};
use crate::sessions::live::Live;

/// How long a plugin may run.
const LONGEST: Duration = Duration::from_secs(300);

/// How much a plugin may print.
const MAX_OUTPUT: usize = 1024 * 1024;

/// How much of its standard error is shown.
const MAX_STDERR: u64 = 4096;

/// A plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) argument_hint: String,
    pub(crate) path: PathBuf,
}

/// The result of a plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ran {
    pub(crate) output: Vec<String>,
    pub(crate) result: Option<Value>,
}

/// The plugins of a directory, by name.
pub(crate) fn discover(dir: &Path) -> Vec<Plugin> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut plugins: Vec<Plugin> = entries.filter_map(|entry| plugin(entry.path())).collect();
    plugins.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.path.cmp(&b.path)));
    plugins.dedup_by(|a, b| a.name == b.name);
    plugins
}

fn plugin(path: PathBuf) -> Option<Plugin> {
    let name = path.file_stem()?.to_str()?.to_owned();
    if !is_command_name(&name) || RESERVED.contains(&name.as_str()) || !is_executable(&path) {
        return None;
    }
    let about = files::read_text_up_to(&path.with_extension("json"), MAX_STDERR);
    let about: Value = about.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let text = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|key| about.get(*key).and_then(Value::as_str));
        found.unwrap_or_default().to_owned()
    };
    Some(Plugin {
        description: text(["description", "description"]),
        argument_hint: text(["argumentHint", "argument-hint"]),
        name,
        path,
    })
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("exe"))
}

impl Backend {
    pub(crate) fn plugins(&self) -> Vec<Plugin> {
        discover(&self.paths.dir.join("plugins"))
    }

    /// The plugin that an input calls, and its arguments.
    pub(crate) fn plugin_command(&self, input: &str) -> Option<(String, String)> {
        let (name, arguments) = split_slash(input)?;
        let known = self.plugins().into_iter().any(|plugin| plugin.name == name);
        known.then(|| (name.to_owned(), arguments.to_owned()))
    }

    /// `commands/run`.
    pub(crate) async fn run_command(&self, params: params::RunCommand) -> Result<CommandRun, RpcError> {
        let live = self.session(&params.session_id)?;
        let name = params.name.trim().trim_start_matches('/');
        if name == "copy" {
            return Ok(CommandRun::Unsupported {
                ok: false,
                error: "unsupported".into(),
                reason: "clientClipboardOwnedByUi".into(),
            });
        }
        if !self.plugins().iter().any(|plugin| plugin.name == name) {
            return Err(RpcError::invalid_params(format!("Unknown plugin command: {name}")));
        }
        let arguments = params.arguments.unwrap_or_default();
        let ran = self.run_plugin(&live, name, &arguments, &mut |_| {}, &self.end.child_token()).await;
        let ran = ran.map_err(|why| RpcError::failed("PluginError", self.redactor.text(&why)))?;
        Ok(CommandRun::Ran { command: name.to_owned(), output: ran.output, result: ran.result })
    }

    /// Runs a plugin and passes its output on as it arrives.
    pub(crate) async fn run_plugin(
        &self,
        live: &Live,
        name: &str,
        arguments: &str,
        tell: &mut (dyn FnMut(&str) + Send),
        cancel: &CancellationToken,
    ) -> Result<Ran, String> {
        let plugin = self.plugins().into_iter().find(|plugin| plugin.name == name);
        let plugin = plugin.ok_or_else(|| format!("Unknown plugin command: {name}"))?;
        let task = json!({
            "type": "run", "command": name, "arguments": arguments, "sessionId": live.id,
            "sessionFile": shown(&live.path), "workspaceRoot": shown(&live.root),
        });
        let mut command = Command::new(&plugin.path);
        command.current_dir(&live.root).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        // A group of its own, so that what it started ends with it.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|why| format!("The plugin {name} cannot be started: {why}"))?;
        let group = Group(child.id());
        let work = async {
            let mut stdin = child.stdin.take();
            let mut stderr = child.stderr.take();
            let stdout = child.stdout.take();
            let feed = async {
                if let Some(stdin) = &mut stdin {
                    // A plugin need not read its task.
                    let _ = stdin.write_all(format!("{task}\n").as_bytes()).await;
                }
                drop(stdin.take());
            };
            let complaints = async {
                let mut bytes = Vec::new();
                if let Some(stderr) = &mut stderr {
                    let _ = stderr.take(MAX_STDERR).read_to_end(&mut bytes).await;
                    // The rest is read and dropped: a full pipe would block the plugin.
                    let _ = tokio::io::copy(stderr, &mut tokio::io::sink()).await;
                }
                String::from_utf8_lossy(&bytes).trim().to_owned()
            };
            let answers = async {
                match stdout {
                    Some(stdout) => read_answers(name, stdout, tell).await,
                    None => Ok(Ran::default()),
                }
            };
            let ((), complaints, ran) = tokio::join!(feed, complaints, answers);
            let status = child.wait().await.map_err(|why| format!("cannot wait for the plugin {name}: {why}"))?;
            let ran = ran?;
            if !status.success() {
                return Err(format!("The plugin {name} failed ({status}). {complaints}").trim().to_owned());
            }
            Ok(ran)
        };
        let ended = tokio::select! {
            ended = tokio::time::timeout(LONGEST, work) => {
                ended.unwrap_or_else(|_| Err(format!("The plugin {name} took longer than {} seconds.", LONGEST.as_secs())))
            }
            () = cancel.cancelled() => Err("Cancelled.".to_owned()),
        };
        drop(group);
        ended
    }
}

/// Ends a plugin's whole group when it is dropped.
struct Group(#[cfg_attr(not(unix), expect(dead_code, reason = "groups are ended by signals"))] Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw) {
            // An error means that the group has ended already.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

async fn read_answers(
    name: &str,
    stdout: tokio::process::ChildStdout,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<Ran, String> {
    let mut lines = BufReader::new(stdout.take(MAX_OUTPUT as u64 + 1));
    let mut ran = Ran::default();
    let mut failed = None;
    let mut total = 0;
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.unwrap_or(0) > 0 {
        total += line.len();
        if total > MAX_OUTPUT {
            return Err(format!("The plugin {name} printed more than {MAX_OUTPUT} bytes."));
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(answer)) => {
                let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                match answer.get("type").and_then(Value::as_str) {
                    Some("output") => {
                        tell(&text("text"));
                        ran.output.push(text("text"));
                    }
                    Some("result") => ran.result = answer.get("value").cloned(),
                    Some("error") => failed = Some(text("message")),
                    _ => {}
                }
            }
            _ => {
                tell(&text);
                ran.output.push(text);
            }
        }
    }
    match failed {
        Some(why) => Err(why),
        None => Ok(ran),
    }
}
