//! What is known of models without asking anybody.

use super::Model;
use crate::ProviderKind;

/// The reasoning efforts that are offered, weakest first. Others are passed on as they are.
pub const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh"];

/// The models that are offered for an OpenAI account, the default first.
const OPENAI: &[&str] = &["gpt-5.5", "gpt-5.4", "gpt-5.4-mini", "gpt-5.3-codex-spark"];

/// How many tokens fit, by the beginning of the model's name; the first that fits counts.
const WINDOWS: &[(&str, u64)] = &[
    ("gpt-5.6", 1_050_000),
    ("gpt-5.4-mini", 400_000),
    ("gpt-5.4-nano", 400_000),
    ("gpt-5.4", 1_050_000),
    ("gpt-5.3-codex-spark", 128_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4", 128_000),
    ("gpt-3.5-turbo", 16_385),
    ("o3", 200_000),
    ("o4", 200_000),
];

/// What fits with a key where that is more than with a sign-in.
const WINDOWS_BY_KEY: &[(&str, u64)] = &[("gpt-5.5", 1_050_000)];

/// Models that take a reasoning effort, by the beginning of their name.
const REASONING: &[&str] = &["gpt-5", "gpt-oss", "o1", "o3", "o4", "codex"];

/// Models that see no pictures.
const BLIND: &[&str] = &["gpt-5.3-codex-spark", "gpt-3.5-turbo"];

/// The model that is used when configuration names none. A server of one's own has no default: it has what was put
/// there, see [`super::Catalogue::models`].
pub fn default_model(provider: ProviderKind) -> Option<&'static str> {
    match provider {
        ProviderKind::Codex | ProviderKind::OpenAi => Some("gpt-5.5"),
        ProviderKind::OpenRouter => Some("openai/gpt-5.5"),
        ProviderKind::Local => None,
    }
}

/// The effort that is used when configuration names none.
pub fn default_effort(model: &Model) -> Option<&'static str> {
    (model.reasoning && model.provider != ProviderKind::Local).then_some("medium")
}

/// The models that are offered without asking the provider.
pub fn known_models(provider: ProviderKind) -> Vec<Model> {
    let prefix = match provider {
        ProviderKind::Codex | ProviderKind::OpenAi => "",
        ProviderKind::OpenRouter => "openai/",
        ProviderKind::Local => return Vec::new(),
    };
    OPENAI.iter().map(|id| facts(provider, &format!("{prefix}{id}"))).collect()
}

/// What is known of a model by its name alone. OpenRouter and a local server tell the window of theirs themselves,
/// so a name is not trusted there.
pub fn facts(provider: ProviderKind, id: &str) -> Model {
    let bare = id.rsplit('/').next().unwrap_or(id);
    let is_openai = matches!(provider, ProviderKind::Codex | ProviderKind::OpenAi);
    let by_key = if provider == ProviderKind::OpenAi { WINDOWS_BY_KEY } else { &[] };
    let mut windows = by_key.iter().chain(WINDOWS);
    let window = windows.find(|(prefix, _)| bare.starts_with(prefix)).map(|(_, window)| *window);
    let is_named = window.is_some() || REASONING.iter().any(|prefix| bare.starts_with(prefix));
    Model {
        provider,
        id: id.to_owned(),
        name: id.to_owned(),
        reasoning: REASONING.iter().any(|prefix| bare.starts_with(prefix)),
        images: is_named.then(|| !BLIND.iter().any(|prefix| bare.starts_with(prefix))),
        context_window: window.filter(|_| is_openai),
        price: is_openai.then(|| super::prices::openai(bare)).flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_the_name() {
        let check = |id: &str, window| assert_eq!(facts(ProviderKind::Codex, id).context_window, window, "{id}");
        check("gpt-5.5", Some(400_000));
        check("gpt-5.4", Some(1_050_000));
        check("gpt-5.4-mini", Some(400_000));
        assert_eq!(facts(ProviderKind::OpenAi, "gpt-5.5").context_window, Some(1_050_000));
        check("gpt-5.3-codex-spark", Some(128_000));
        check("gpt-4.1-mini", Some(1_047_576));
        check("gpt-4o", Some(128_000));
        check("gpt-4-turbo", Some(128_000));
        check("gpt-3.5-turbo-16k", Some(16_385));
        check("o4-mini", Some(200_000));
        check("llama3.2", None);
        assert_eq!(facts(ProviderKind::OpenRouter, "openai/gpt-5.5").context_window, None);
    }

    #[test]
    fn every_default_is_offered() {
        for provider in ProviderKind::ALL {
            let offered = known_models(provider);
            assert!(
                default_model(provider).is_none_or(|id| offered.iter().any(|model| model.id == id)),
                "{provider}"
            );
        }
    }

    #[test]
    fn a_model_that_sees_nothing_is_known_as_such() {
        assert_eq!(facts(ProviderKind::Codex, "gpt-5.3-codex-spark").images, Some(false));
        assert_eq!(facts(ProviderKind::Codex, "gpt-5.5").images, Some(true));
        assert_eq!(facts(ProviderKind::Local, "llama3.2").images, None);
    }
}
