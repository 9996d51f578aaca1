//! The slash commands of a session, and what a client shows at its start.

use convoke_kward::params;
use convoke_kward::results::{Command, Commands, Section, Startup};
use convoke_kward::rpc::RpcError;
use convoke_toolbox::skills;
use serde_json::json;

use crate::backend::Backend;
use crate::environment::shown;

impl Backend {
    /// `commands/list`: templates, skills, plugins.
    pub(crate) fn list_commands(&self, params: params::OfSession) -> Result<Commands, RpcError> {
        self.session(&params.session_id)?;
        let blank = |text: String| Some(text).filter(|text| !text.is_empty());
        let prompts = self.templates().into_iter().map(|template| Command {
            name: template.command,
            description: template.description,
            argument_hint: blank(template.argument_hint),
            source: "prompt".into(),
            location: Some("user".into()),
            path: Some(shown(&template.path)),
            executable: None,
            source_info: Some(json!({})),
        });
        let skills = skills::discover(&self.paths.dir.join("skills")).into_iter().map(|skill| Command {
            name: format!("skill:{}", skill.name),
            description: skill.description,
            argument_hint: None,
            source: "skill".into(),
            location: None,
            path: Some(shown(&skill.path)),
            executable: None,
            source_info: None,
        });
        let plugins = self.plugins().into_iter().map(|plugin| Command {
            name: plugin.name,
            description: plugin.description,
            argument_hint: blank(plugin.argument_hint),
            source: "plugin".into(),
            location: None,
            path: Some(shown(&plugin.path)),
            executable: Some(true),
            source_info: None,
        });
        Ok(Commands { commands: prompts.chain(skills).chain(plugins).collect() })
    }

    /// `resources/startup`: the sections that are not empty.
    pub(crate) fn startup(&self, params: params::OfSession) -> Result<Startup, RpcError> {
        let live = self.session(&params.session_id)?;
        let context = if self.has_rules(&live.root) { vec!["AGENTS.md".to_owned()] } else { Vec::new() };
        let skills = skills::discover(&self.paths.dir.join("skills")).into_iter().map(|skill| skill.name).collect();
        let prompts = self.templates().into_iter().map(|template| format!("/{}", template.command)).collect();
        let plugins = self.plugins().into_iter().map(|plugin| format!("/{}", plugin.name)).collect();
        let sections: [(&str, Vec<String>); 4] =
            [("Context", context), ("Skills", skills), ("Prompts", prompts), ("Plugins", plugins)];
        let filled = sections.into_iter().filter(|(_, items)| !items.is_empty());
        Ok(Startup { sections: filled.map(|(name, items)| Section { name: name.into(), items }).collect() })
    }
}
