//! The server's settings: where they come from, and `convoke hub --check-config`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_hub::HubOptions;
use convoke_hub::settings::{LogLevel, Settings, Sources};
use convoke_store::Data;
use serde_json::json;

use super::Verb;
use super::hub::ServeArgs;
use crate::args::Global;
use crate::exit::{Exit, usage};
use crate::table::{Field, Grid, Tone};
use crate::{local, logging};

/// What a server starts with.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// The data directory.
    pub(super) data: PathBuf,
    /// The settings in force.
    pub(super) settings: Settings,
}

impl Config {
    /// Reads flags, environment and file.
    pub(super) fn read(global: &Global, args: &ServeArgs) -> Result<Self> {
        let (data, sources) = sources(global, args)?;
        let mut sources = sources;
        let resolve = |sources: &Sources| Settings::resolve(sources).map_err(|why| usage(why.to_string()));
        let mut settings = resolve(&sources)?;
        if args.lan {
            // What somebody said holds; what nobody said is meant for the network.
            let said = |name: &str| sources.flags.iter().any(|(said, _)| said == name);
            if !said("hub.listen") && settings.hub.listen.ip().is_loopback() {
                sources.flags.push(("hub.listen".into(), format!("0.0.0.0:{}", settings.hub.listen.port())));
                settings = resolve(&sources)?;
            }
            let listen = settings.hub.listen;
            if settings.hub.public_url.is_none()
                && listen.ip().is_unspecified()
                && listen.port() != 0
                && let Some(address) = convoke_hub::lan_address()
            {
                sources
                    .flags
                    .push(("hub.public_url".into(), format!("https://{}", SocketAddr::new(address, listen.port()))));
                settings = resolve(&sources)?;
            }
        }
        Ok(Self { data, settings })
    }

    /// With the secrets that only the environment has.
    pub(super) fn into_options(self) -> Result<HubOptions> {
        let Self { data, settings } = self;
        let Secrets { data_key, hub_seed, operator_token } = Secrets::read();
        let (data_key, hub_seed, operator_token) = (data_key?, hub_seed?, operator_token?);
        Ok(HubOptions { data, settings, data_key, hub_seed, operator_token })
    }
}

/// The secrets that only the environment has, each for itself: the check tells all that is wrong with them.
struct Secrets {
    data_key: Result<Option<SecretBytes>>,
    hub_seed: Result<Option<SecretBytes>>,
    operator_token: Result<Option<SecretText>>,
}

impl Secrets {
    fn read() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        Self {
            data_key: local::data_key(),
            hub_seed: variable("CONVOKE_KENNY_PRIVATE_KEY").map(|text| hub_seed(&text)).transpose(),
            operator_token: variable("CONVOKE_OPERATOR_TOKEN").map(|text| operator_token(&text)).transpose(),
        }
    }

    fn mistakes(self) -> impl Iterator<Item = anyhow::Error> {
        [self.data_key.err(), self.hub_seed.err(), self.operator_token.err()].into_iter().flatten()
    }
}

fn hub_seed(text: &str) -> Result<SecretBytes> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| usage("CONVOKE_KENNY_PRIVATE_KEY is not base64"))?;
    let seed = SecretBytes::new(bytes);
    convoke_hub::check_seed(&seed).map_err(|why| usage(why.to_string()))?;
    Ok(seed)
}

/// A token that can be sent. Files with secrets commonly end with a line break, which is not meant.
fn operator_token(text: &str) -> Result<SecretText> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(usage("CONVOKE_OPERATOR_TOKEN must be printable ASCII without spaces"));
    }
    if is_short(text) {
        tracing::warn!("{SHORT}");
    }
    Ok(SecretText::new(text))
}

/// Said of a token that works and should not be used.
const SHORT: &str = "CONVOKE_OPERATOR_TOKEN is so short that it can be guessed";

const fn is_short(token: &str) -> bool {
    token.len() < 16
}

fn sources(global: &Global, args: &ServeArgs) -> Result<(PathBuf, Sources)> {
    let data = local::data_dir(global.data.as_deref())?;
    if std::fs::metadata(&data).is_ok_and(|found| !found.is_dir()) {
        return Err(usage(format!(
            "the data directory {} is not a directory; name another with --data",
            data.display()
        )));
    }
    let mut flags = args.set.clone();
    let mut flag =
        |name: &str, value: Option<&str>| flags.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    flag("hub.listen", args.listen.as_deref());
    flag("hub.insecure_listen", args.insecure_listen.then_some("true"));
    flag("tls.own", args.lan.then_some("true"));
    flag("tls.cert", args.tls_cert.as_deref());
    flag("tls.key", args.tls_key.as_deref());
    // A variable that is not UTF-8 is none of ours.
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let named = args.config.clone().or_else(|| std::env::var_os("CONVOKE_CONFIG").map(PathBuf::from));
    let file = file(named.as_deref(), &data)?;
    Ok((data, Sources { flags, env: env.collect(), file }))
}

/// The data of the hub on this machine: in its directory, or on the server that the environment or the settings file names.
pub(crate) fn store(data: &Path) -> Data {
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let named = std::env::var_os("CONVOKE_CONFIG").map(PathBuf::from);
    let file = file(named.as_deref(), data).ok().flatten();
    // With settings that are no good no hub runs, and the directory is all there is.
    let settings = Settings::resolve(&Sources { flags: Vec::new(), env: env.collect(), file }).ok();
    let url = settings.and_then(|settings| settings.store.url);
    Data { dir: data.to_owned(), server: url.and_then(|url| url.reveal().parse().ok()) }
}

/// The settings file: one that is named must be there, the default one need not.
fn file(named: Option<&Path>, data: &Path) -> Result<Option<(PathBuf, String)>> {
    let named = named.filter(|path| !path.as_os_str().is_empty());
    let path = named.map_or_else(|| data.join("convoke.toml"), Path::to_owned);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(why) if named.is_none() && why.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(usage(format!("cannot read the settings file {}: {why}", path.display()))),
    }
}

/// Lists every setting, or every mistake.
pub(super) fn check(verb: Verb<'_>, args: &ServeArgs) -> Result<Exit> {
    let (data, sources) = sources(verb.global, args)?;
    let file = sources.file.as_ref().map(|(path, _)| path.clone());
    let (settings, mut mistakes) = match Settings::resolve(&sources) {
        Ok(settings) => {
            let mistakes = refusals(&settings);
            (Some(settings), mistakes)
        }
        Err(why) => (None, why.0.iter().map(ToString::to_string).collect()),
    };
    let secrets = Secrets::read();
    let token = secrets.operator_token.as_ref().ok().and_then(Option::as_ref);
    let ignored = settings.iter().flat_map(Settings::warnings).map(String::as_str);
    let short = token.filter(|token| is_short(token.reveal())).map(|_| SHORT);
    let warnings: Vec<&str> = ignored.chain(short).collect();
    mistakes.extend(secrets.mistakes().map(|why| why.to_string()));
    let level = settings.as_ref().map_or(LogLevel::Info, |settings| settings.hub.log_level);
    mistakes.extend(logging::check(level).err().map(|why| why.to_string()));
    let exit = if mistakes.is_empty() { Exit::Done } else { Exit::Usage };
    if verb.output.json {
        let listed = settings.iter().flat_map(Settings::listing).map(|(setting, value, source)| {
            json!({ "name": setting.name, "value": value, "source": source.to_string(), "default": setting.default,
                    "allowed": setting.kind.allowed(), "about": setting.doc })
        });
        let listed: Vec<_> = listed.collect();
        verb.output.json(&json!({
            "ok": mistakes.is_empty(), "data": data, "config": file, "settings": listed, "errors": mistakes,
            "warnings": warnings,
        }))?;
        return Ok(exit);
    }
    let file = file.map_or_else(|| "none".into(), |path| path.display().to_string());
    verb.output.note(format_args!("data directory: {}\nsettings file: {file}\n", data.display()));
    if let Some(settings) = &settings {
        verb.output.table(&table(settings), "")?;
    }
    for warning in &warnings {
        verb.output.note(format_args!("warning: {warning}"));
    }
    for mistake in &mistakes {
        verb.output.note(format_args!("error: {mistake}"));
    }
    Ok(exit)
}

/// What is well-formed and would still be refused at the start.
fn refusals(settings: &Settings) -> Vec<String> {
    convoke_hub::check_settings(settings).iter().map(ToString::to_string).collect()
}

fn table(settings: &Settings) -> Grid {
    let mut grid = Grid::new(&["SETTING", "VALUE", "FROM"]);
    for (setting, value, source) in settings.listing() {
        let value = if value.is_empty() { Field::new("-", Tone::Dim) } else { value.into() };
        let source = source.to_string();
        let tone = if source == "default" { Tone::Dim } else { Tone::Plain };
        grid.row([setting.name.into(), value, Field::new(source, tone)]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_cannot_be_sent_is_refused() {
        assert_eq!(operator_token(" cvk_abc\n").expect("fits").reveal(), "cvk_abc");
        for text in [" \n", "a b", "a\nb", "t\u{f6}k\u{e9}n"] {
            assert!(operator_token(text).is_err(), "{text:?}");
        }
    }
    use crate::exit;

    #[test]
    fn a_named_file_must_be_there_and_the_default_one_need_not() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(file(None, dir.path()).expect("no file is fine"), None);
        let why = file(Some(&dir.path().join("x.toml")), dir.path()).expect_err("named and not there");
        assert_eq!(exit::of(&why), Exit::Usage);
        std::fs::write(dir.path().join("convoke.toml"), "[kenny]\n").expect("written");
        assert!(file(None, dir.path()).expect("readable").is_some());
    }

    #[test]
    fn plain_http_for_everyone_is_found_before_the_start() {
        let resolve = |flags: &[(&str, &str)]| {
            let flags = flags.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            Settings::resolve(&Sources { flags, ..Sources::default() }).expect("well-formed")
        };
        assert!(refusals(&resolve(&[])).is_empty());
        assert_eq!(refusals(&resolve(&[("hub.listen", "0.0.0.0:1")])).len(), 1);
        assert!(refusals(&resolve(&[("hub.listen", "0.0.0.0:1"), ("hub.insecure_listen", "true")])).is_empty());
        assert_eq!(refusals(&resolve(&[("tls.cert", "/no/c"), ("tls.key", "/no/k")])).len(), 2);
    }
}
