//! The methods on the configuration.

use convoke_kward::params;
use convoke_kward::results::Config as Shown;
use convoke_kward::rpc::RpcError;
use serde_json::Value;

use crate::backend::Backend;
use crate::config::ConfigError;
use crate::dispatch::{Answered, Reply};
use crate::environment::shown;
use crate::redact;

impl Backend {
    /// `config/read`. Unredacted on request: it is the person's own file.
    pub(crate) fn config_read(&self, params: params::ReadConfig) -> Answered {
        let config = Value::Object(self.read_config()?.0.clone());
        let path = shown(self.config.path());
        Ok(match params.redacted {
            Some(false) => Reply::new(&Shown { path, config }).with_secrets(),
            _ => Reply::new(&Shown { path, config: redact::config(&config) }),
        })
    }

    /// `config/update`: the given keys are replaced, the others stay.
    pub(crate) fn config_update(&self, params: params::UpdateConfig) -> Result<Shown, RpcError> {
        let Value::Object(values) = params.values else { return Err(ConfigError::NotAnObject.into()) };
        self.redactor.learn_from(&Value::Object(values.clone()));
        let config = self.config.update(|map| map.extend(values))?;
        let config = redact::config(&Value::Object(config.0.clone()));
        Ok(Shown { path: shown(self.config.path()), config })
    }
}
