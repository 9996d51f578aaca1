//! What comes from outside: variables of the environment and where files are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use convoke_core::redact::is_secret_variable;

/// The environment, taken once at the start.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: HashMap<String, String>,
    home: PathBuf,
    launch_dir: PathBuf,
}

impl Environment {
    /// This process's own.
    pub fn of_process() -> Self {
        Self {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            home: dirs::home_dir().unwrap_or_default(),
            launch_dir: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// A variable that is set and not blank.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    /// The values of variables whose names say that they are secrets, and the passwords in addresses such as
    /// `DATABASE_URL`. What names an existing file is the place of a secret and none itself.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().filter_map(|(name, value)| {
            if is_secret_variable(name) {
                let is_place = Path::new(value).is_absolute() && Path::new(value).exists();
                return (!is_place).then_some(value.as_str());
            }
            let (_, address) = value.split_once("://")?;
            let (who, _) = address.split(['/', '?', '#']).next()?.rsplit_once('@')?;
            who.split_once(':').map(|(_, password)| password)
        })
    }

    /// The person's own directory.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The directory this process was started in.
    pub(crate) fn launch_dir(&self) -> &Path {
        &self.launch_dir
    }

    /// A path as a person writes it: `~` is their home, and a relative path begins at `base`.
    pub(crate) fn expand(&self, path: &str, base: &Path) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => self.home.join(rest.trim_start_matches('/')),
            _ => base.join(path),
        }
    }
}

/// Where this backend's files are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// `config.json`.
    pub(crate) config: PathBuf,
    /// The directory it is in; everything else is there too.
    pub(crate) dir: PathBuf,
    /// `auth.json`.
    pub(crate) auth: PathBuf,
}

impl Paths {
    pub(crate) fn new(environment: &Environment) -> Self {
        let base = environment.launch_dir();
        let config = match environment.get("KWARD_CONFIG_PATH") {
            Some(path) => environment.expand(path, base),
            None => environment.home.join(".kward").join("config.json"),
        };
        let dir = config.parent().map(Path::to_owned).unwrap_or_default();
        let auth = match environment.get("KWARD_AUTH_PATH") {
            Some(path) => environment.expand(path, base),
            None => dir.join("auth.json"),
        };
        Self { config, dir, auth }
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.dir.join("sessions")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }
}

/// A path as text. Bytes that are not text are replaced.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
impl Environment {
    /// A made-up environment, for tests.
    pub(crate) fn of(home: &Path, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { variables, home: home.to_owned(), launch_dir: home.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_the_names_of_their_variables() {
        let secret = [
            ("ANTHROPIC_API_KEY", "a"),
            ("GITHUB_TOKEN", "b"),
            ("AWS_SECRET_ACCESS_KEY", "c"),
            ("HF_TOKEN", "d"),
            ("PGPASSWORD", "e"),
            ("STRIPE_KEY", "f"),
            ("npm_config__authToken", "g"),
            ("DATABASE_URL", "postgres://bob:h@db/x?y=@z"),
        ];
        let other = [
            ("HOME", "/h"),
            ("TOKEN_FILE", "/run/token"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/"),
            ("GIT_ASKPASS", "/x"),
            ("SSH_AUTH_SOCK", "/s"),
            ("HTTP_PROXY", "http://proxy:3128"),
            ("PWD", "/w"),
        ];
        let all: Vec<(&str, &str)> = secret.iter().chain(&other).copied().collect();
        let environment = Environment::of(Path::new("/h"), &all);
        let mut found: Vec<&str> = environment.secrets().collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c", "d", "e", "f", "g", "h"]);
    }

    #[test]
    fn the_configuration_says_where_everything_is() {
        let home = Path::new("/h");
        let usual = Paths::new(&Environment::of(home, &[]));
        assert_eq!(usual.config, Path::new("/h/.kward/config.json"));
        assert_eq!(usual.auth, Path::new("/h/.kward/auth.json"));
        let other =
            Paths::new(&Environment::of(home, &[("KWARD_CONFIG_PATH", "~/x/c.json"), ("KWARD_AUTH_PATH", "a")]));
        assert_eq!(other.dir, Path::new("/h/x"));
        assert_eq!(other.auth, Path::new("/h/a"));
        assert_eq!(other.sessions(), Path::new("/h/x/sessions"));
    }
}
