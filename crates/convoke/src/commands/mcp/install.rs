//! `convoke mcp install`: writes an assistant's configuration, with a token that is good for MCP only.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use convoke_api::Client;
use convoke_api::tokens::{TokenMinted, TokenRequest};
use convoke_core::door::Door;
use convoke_core::grant::{Role, Scopes};
use convoke_core::secret::SecretText;
use serde_json::{Map, Value, json};

use super::super::{Verb, prompt};
use crate::connect;
use crate::exit::{Exit, usage};
use crate::parse;

/// The name of the server in the assistant's configuration.
const SERVER: &str = "convoke";

/// What stands for the token where the configuration is only shown.
const HIDDEN: &str = "cvk_...";

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The assistant
    assistant: Assistant,
    /// The token's name [default: the assistant's]
    #[arg(long)]
    name: Option<String>,
    /// The token's role
    #[arg(long, value_parser = parse::role(), default_value = "operator")]
    role: Role,
    /// Show what would be written, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// The assistants whose configuration is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Assistant {
    /// Claude Desktop
    Claude,
    ClaudeCode,
    Cursor,
    Vscode,
    Zed,
}

impl Assistant {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Zed => "zed",
        }
    }

    /// Its configuration file.
    fn file(self) -> Option<PathBuf> {
        let config = dirs::config_dir();
        match self {
            Self::Claude => Some(config?.join("Claude").join("claude_desktop_config.json")),
            Self::ClaudeCode => Some(dirs::home_dir()?.join(".claude.json")),
            Self::Cursor => Some(dirs::home_dir()?.join(".cursor").join("mcp.json")),
            Self::Vscode => Some(config?.join("Code").join("User").join("mcp.json")),
            Self::Zed if cfg!(windows) => Some(config?.join("Zed").join("settings.json")),
            Self::Zed => Some(dirs::home_dir()?.join(".config").join("zed").join("settings.json")),
        }
    }

    /// The object in it that lists MCP servers.
    fn servers(self) -> &'static str {
        match self {
            Self::Claude | Self::ClaudeCode | Self::Cursor => "mcpServers",
            Self::Vscode => "servers",
            Self::Zed => "context_servers",
        }
    }

    /// Its entry for this hub.
    fn entry(self, base: &str, token: &str) -> Value {
        let headers = json!({ "Authorization": format!("Bearer {token}") });
        let url = format!("{base}/mcp");
        match self {
            // Knows programs only: this one carries its messages to the hub.
            Self::Claude => json!({
                "command": program(), "args": ["mcp", "--hub", base], "env": { "CONVOKE_TOKEN": token },
            }),
            Self::ClaudeCode | Self::Vscode => json!({ "type": "http", "url": url, "headers": headers }),
            Self::Cursor | Self::Zed => json!({ "url": url, "headers": headers }),
        }
    }
}

/// This program, as another one starts it.
fn program() -> String {
    let path = std::env::current_exe().ok();
    path.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| "convoke".into())
}

pub(crate) async fn run(verb: Verb<'_>, args: InstallArgs) -> Result<Exit> {
    let assistant = args.assistant;
    let file = assistant.file().ok_or_else(|| usage("this account has no home directory"))?;
    // A link in its place is followed: whoever keeps such files elsewhere goes on keeping them there.
    let file = file.canonicalize().unwrap_or(file);
    let before = read(&file)?;
    let (base, _) = connect::hub(verb.global)?;
    let shown = with_entry(&before, assistant, assistant.entry(&base, HIDDEN))?;
    let output = verb.output;
    let replaces = if before.get(assistant.servers()).is_some_and(|servers| servers.get(SERVER).is_some()) {
        " (in place of the one that is there)"
    } else {
        ""
    };
    let entry = json!({ assistant.servers(): { SERVER: shown[assistant.servers()][SERVER].clone() } });
    output.note(format_args!("{} gets this entry{replaces}:\n{entry:#}", file.display()));
    output.note("The token is new, and good for MCP only; what it wants to change needs a person's yes.");
    if args.dry_run {
        return Ok(Exit::Done);
    }
    if !args.yes && !prompt::confirm("Write it?", "add --yes to write it, or --dry-run to only look")? {
        return Err(usage("nothing was written"));
    }
    let client = verb.client()?;
    let (name, minted) = mint(&client, args.name.as_deref(), assistant, args.role).await?;
    let written = with_entry(&before, assistant, assistant.entry(&base, &minted.token))
        .and_then(|config| write(&file, &config));
    if let Err(why) = written {
        // Nobody will ever use it.
        let revoked: Result<Value, _> = client.delete(&format!("/api/tokens/{}", minted.id)).await;
        let left = if revoked.is_ok() { "" } else { "; its token is left: convoke tokens revoke" };
        return Err(why.context(format!("cannot write {}{left}", file.display())));
    }
    if output.json {
        output.json(&json!({ "file": file, "token_id": minted.id, "token_name": name }))?;
    } else {
        output.text(&format!("written: {} (token {name})", file.display()))?;
        output.note(format_args!(
            "Restart {} to use it. To take it back: convoke tokens revoke {name}",
            assistant.name()
        ));
    }
    Ok(Exit::Done)
}

/// Makes the token. A name is good once: who installs again gets the next one.
async fn mint(
    client: &Client,
    named: Option<&str>,
    assistant: Assistant,
    role: Role,
) -> Result<(String, TokenMinted)> {
    const TRIES: usize = 50;
    for n in 1..=TRIES {
        let name = match named {
            Some(name) => name.to_owned(),
            None if n == 1 => assistant.name().to_owned(),
            None => format!("{}-{n}", assistant.name()),
        };
        let scopes = Scopes { doors: Some(vec![Door::Mcp]), ..Scopes::default() };
        let request =
            TokenRequest { name: name.clone(), role, scopes: Some(scopes), owner: None, expires_in_s: None };
        match client.post("/api/tokens", &request).await {
            Ok(minted) => return Ok((name, minted)),
            Err(convoke_api::ClientError::Refused { status: 409, .. }) if named.is_none() => {}
            Err(why) => return Err(why.into()),
        }
    }
    bail!("there are {TRIES} tokens of this assistant; give the new one a name with --name")
}

/// The configuration as it is; an empty one where there is none.
fn read(file: &Path) -> Result<Map<String, Value>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) if text.trim().is_empty() => return Ok(Map::new()),
        Ok(text) => text,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", file.display())),
    };
    serde_json::from_str(&text).map_err(|why| {
        usage(format!(
            "{} is not plain JSON ({why}); it may have comments. Add the entry by hand: `--dry-run` with another \
             HOME prints it, and `convoke tokens create NAME --role operator --for-assistant` makes its token",
            file.display()
        ))
    })
}

fn with_entry(before: &Map<String, Value>, assistant: Assistant, entry: Value) -> Result<Map<String, Value>> {
    let mut config = before.clone();
    let servers = config.entry(assistant.servers()).or_insert_with(|| json!({}));
    let Value::Object(servers) = servers else {
        bail!("`{}` in the configuration is not an object", assistant.servers());
    };
    servers.insert(SERVER.into(), entry);
    Ok(config)
}

/// Writes it for its owner alone: it holds the token.
fn write(file: &Path, config: &Map<String, Value>) -> Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let text = SecretText::new(format!("{:#}\n", Value::Object(config.clone())));
    Ok(convoke_files::replace(file, text.reveal().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_is_in_the_configuration_stays() {
        let before: Map<String, Value> =
            serde_json::from_str(r#"{"mcpServers":{"other":{"command":"x"}},"theme":"dark"}"#).expect("JSON");
        let assistant = Assistant::Cursor;
        let after = with_entry(&before, assistant, assistant.entry("http://h:1", "cvk_t")).expect("fits");
        assert_eq!(after["theme"], "dark");
        assert_eq!(after["mcpServers"]["other"]["command"], "x");
        assert_eq!(after["mcpServers"]["convoke"]["url"], "http://h:1/mcp");
        assert_eq!(after["mcpServers"]["convoke"]["headers"]["Authorization"], "Bearer cvk_t");
        let odd: Map<String, Value> = serde_json::from_str(r#"{"mcpServers":[]}"#).expect("JSON");
        assert!(with_entry(&odd, assistant, json!({})).is_err());
    }

    #[test]
    fn each_assistant_has_an_entry_with_the_token() {
        for assistant in Assistant::value_variants() {
            let entry = assistant.entry("http://h:1", "cvk_t").to_string();
            assert!(entry.contains("cvk_t") && entry.contains("http://h:1"), "{entry}");
        }
    }
}
