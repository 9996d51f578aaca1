//! Finds a verb's hub and token: flags, then the environment, then the hub on this machine.

use std::any::Any;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_api::Client;
use convoke_core::secret::SecretText;
use convoke_dial::trust::Trust;
use convoke_endpoint::COMMAND_MARK;

use crate::args::Global;
use crate::exit::usage;
use crate::local::{self, Whereabouts};

/// A client of the hub that the command line, the environment or the data directory names.
pub(crate) fn client(global: &Global) -> Result<Client> {
    let (base, token) = hub(global)?;
    Ok(match tls(&base)? {
        Some(tls) => Client::with_tls(&base, token, tls)?,
        None => Client::new(&base, token)?,
    })
}

/// Whose certificates count, where the hub at this address has to show one.
pub(crate) fn tls(base: &str) -> Result<Option<impl Any + use<>>> {
    if !base.starts_with("https://") {
        return Ok(None);
    }
    let config = Trust::platform().and_then(Trust::config);
    config.map(Some).context("cannot use the platform's certificates")
}

/// The hub's address, and the token for it.
pub(crate) fn hub(global: &Global) -> Result<(String, SecretText)> {
    let data = local::data_dir(global.data.as_deref())?;
    choose(global, &environment("CONVOKE_HUB"), &environment("CONVOKE_TOKEN"), &data)
}

/// How a hub was found, kept by whoever talks to it for long.
#[derive(Clone, Debug)]
pub(crate) struct HubLocation {
    /// Its address, where that was given.
    address: Option<String>,
    /// The data directory that named it or holds the token for it.
    data_dir: Option<PathBuf>,
}

/// There is no hub where one was.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoHub(String);

impl HubLocation {
    /// As [`hub`] finds it.
    pub(crate) fn of(global: &Global) -> Result<Self> {
        let data = local::data_dir(global.data.as_deref())?;
        let address = named(global, environment("CONVOKE_HUB").as_ref()).map(|url| address(url)).transpose()?;
        let has_token = global.token.is_some() || environment("CONVOKE_TOKEN").is_some();
        let data_dir = (address.is_none() || !has_token).then_some(data);
        Ok(Self { address, data_dir })
    }

    /// One that was named, with a token for it.
    #[cfg(test)]
    pub(crate) fn named(address: &str) -> Self {
        Self { address: Some(address.to_owned()), data_dir: None }
    }

    /// Its address now. To be asked for before anything more is sent: the hub of a data directory may have stopped
    /// since, and another program on its port must not be sent the token.
    pub(crate) fn base(&self) -> Result<String, NoHub> {
        let Some(data) = &self.data_dir else { return Ok(self.address.clone().unwrap_or_default()) };
        let here = Whereabouts::read(data).map_err(|why| NoHub(format!("{why:#}")))?;
        let here = here.map(|here| here.http).filter(|http| self.address.as_ref().is_none_or(|given| given == http));
        here.ok_or_else(|| NoHub(no_hub(data)))
    }
}

/// The hub's address alone, for those who come with something other than a token.
pub(crate) fn base(global: &Global) -> Result<String> {
    let data = local::data_dir(global.data.as_deref())?;
    let here = Whereabouts::read(&data)?;
    let base = base_of(global, environment("CONVOKE_HUB").as_ref(), here.as_ref(), &data)?;
    know(here.as_ref(), &base)?;
    Ok(base)
}

/// A hub with a certificate of its own is known by its key: that of the hub on this machine, else the one that the
/// environment names.
fn know(here: Option<&Whereabouts>, base: &str) -> Result<()> {
    let own = here.filter(|here| here.http == base).and_then(|here| here.public_key.clone());
    let Some(key) = own.or_else(|| environment("CONVOKE_HUB_KEY")) else { return Ok(()) };
    let key = STANDARD.decode(key.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    convoke_dial::trust::know_hub(key.ok_or_else(|| usage("CONVOKE_HUB_KEY is not a hub's public key"))?);
    Ok(())
}

fn base_of(global: &Global, env_hub: Option<&String>, here: Option<&Whereabouts>, data: &Path) -> Result<String> {
    match (named(global, env_hub), here) {
        (Some(url), _) => address(url),
        (None, Some(here)) => Ok(here.http.clone()),
        (None, None) => Err(usage(no_hub(data))),
    }
}

/// The address that a hub is named by. A directory named on the command line says more than an address that was exported
/// once.
fn named<'a>(global: &'a Global, env_hub: Option<&'a String>) -> Option<&'a String> {
    global.hub.as_ref().or(env_hub.filter(|_| global.data.is_none()))
}

/// Whether a hub is named by its address, rather than by its data directory.
pub(crate) fn is_named(global: &Global) -> bool {
    named(global, environment("CONVOKE_HUB").as_ref()).is_some()
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn choose(
    global: &Global,
    env_hub: &Option<String>,
    env_token: &Option<String>,
    data: &Path,
) -> Result<(String, SecretText)> {
    let token = global.token.as_ref().or(env_token.as_ref()).map(SecretText::new);
    if token.as_ref().is_some_and(|token| !token.reveal().bytes().all(|b| b.is_ascii_graphic())) {
        let from = if global.token.is_some() { "--token" } else { "CONVOKE_TOKEN" };
        return Err(usage(format!(
            "{from} is not a token: it contains a line break, a space or another invalid character"
        )));
    }
    let here = Whereabouts::read(data)?;
    let base = base_of(global, env_hub.as_ref(), here.as_ref(), data)?;
    know(here.as_ref(), &base)?;
    let token = match token {
        Some(token) => token,
        // A command that an agent was asked for must not come back as the hub's owner: whoever may ask for commands on the
        // hub's own machine could then approve them as well. A hurdle against doing so by accident, not a wall: whoever
        // can read the data directory has the token, and the mark can be taken away.
        None if environment(COMMAND_MARK).is_some() => {
            return Err(usage(
                "inside an agent's command the operator token is not available; set CONVOKE_TOKEN to a token of your own",
            ));
        }
        // The local hub's token goes to the local hub and to nobody else.
        None if here.is_some_and(|here| here.http == base) => local::operator_token(data)
            .with_context(|| format!("cannot read the operator token in {}", data.display()))?,
        None => return Err(usage(format!("no token for {base}; set CONVOKE_TOKEN, or give --token"))),
    };
    Ok((base, token))
}

fn address(url: &str) -> Result<String> {
    let url = url.trim_end_matches('/');
    // Said without the address, which may have a password in it.
    if url.split('/').nth(2).is_some_and(|authority| authority.contains('@')) {
        return Err(usage("a hub's address must not contain a user or a password; use --token"));
    }
    let host = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    if host.is_some_and(|host| !host.is_empty() && !host.contains(['?', '#'])) {
        return Ok(url.to_owned());
    }
    Err(usage(format!("`{url}` is not an address of a hub; write it like http://127.0.0.1:7410")))
}

fn no_hub(data: &Path) -> String {
    format!(
        "no hub runs in {}; start one with `convoke up`, or name another with --data DIR, or with --hub URL \
         and a token",
        data.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(hub: Option<&str>, token: Option<&str>, data: bool) -> Global {
        let data = data.then(|| "named".into());
        Global { hub: hub.map(Into::into), token: token.map(Into::into), data, json: false }
    }

    #[track_caller]
    fn check(global: &Global, env_hub: Option<&str>, env_token: Option<&str>, expect: Result<(&str, &str), &str>) {
        let dir = tempfile::tempdir().expect("a directory");
        let here = Whereabouts { http: "http://127.0.0.1:1".into(), pid: std::process::id(), public_key: None };
        let _announced = here.announce(dir.path()).expect("announced");
        let held = std::fs::File::create(convoke_store::Paths::new(dir.path()).lock).expect("a file");
        held.lock().expect("held");
        let found = choose(global, &env_hub.map(Into::into), &env_token.map(Into::into), dir.path());
        match (found, expect) {
            (Ok((base, token)), Ok(expect)) => assert_eq!((base.as_str(), token.reveal()), expect),
            (Err(why), Err(expect)) => assert!(format!("{why:#}").contains(expect), "{why:#}"),
            (found, expect) => panic!("{found:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn flags_come_before_the_environment_and_that_before_the_local_hub() {
        let flags = global(Some("http://flag/"), Some("flag"), false);
        check(&flags, Some("http://env"), Some("env"), Ok(("http://flag", "flag")));
        check(&global(None, None, false), Some("http://env"), Some("env"), Ok(("http://env", "env")));
        check(&global(None, Some("flag"), false), None, None, Ok(("http://127.0.0.1:1", "flag")));
        check(&global(None, Some("flag"), true), Some("http://env"), None, Ok(("http://127.0.0.1:1", "flag")));
        check(&global(None, None, true), None, Some("env"), Ok(("http://127.0.0.1:1", "env")));
    }

    #[test]
    fn the_local_token_goes_to_no_other_hub() {
        check(&global(Some("http://elsewhere"), None, false), None, None, Err("no token for"));
        // There is no data in the directory, so the look for the token itself fails; that it looked is the point.
        check(&global(Some("http://127.0.0.1:1"), None, false), None, None, Err("cannot read the operator token"));
    }

    #[test]
    fn what_is_no_token_is_told_before_anyone_is_asked() {
        for bad in ["t\n", "a b", "ü", "\u{1b}"] {
            check(&global(None, Some(bad), false), None, None, Err("--token is not a token"));
            check(&global(None, None, false), None, Some(bad), Err("CONVOKE_TOKEN is not a token"));
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for bad in ["127.0.0.1:7410", "ftp://h", "http://", "http://h?x=1", "http://h/#x"] {
            check(&global(Some(bad), Some("t"), false), None, None, Err("is not an address of a hub"));
        }
        for bad in ["http://user:hunter2@h", "https://user@h/x", "http://:hunter2@h"] {
            check(&global(Some(bad), Some("t"), false), None, None, Err("must not contain a user or a password"));
            let why = address(bad).expect_err("refused").to_string();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }
}
