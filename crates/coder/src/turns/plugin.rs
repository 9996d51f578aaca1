//! A turn that runs a plugin's command: its output is sent, no model is asked, nothing is written to the session.

use std::sync::Arc;

use convoke_kward::events::TurnHappening;

use super::run::Stopped;
use super::turn::Turn;
use crate::backend::Backend;
use crate::sessions::live::Live;

impl Backend {
    pub(crate) async fn plugin_turn(
        &self,
        live: &Arc<Live>,
        turn: &Arc<Turn>,
        name: &str,
        arguments: &str,
    ) -> Result<(), Stopped> {
        let mut tell = |text: &str| turn.emit(TurnHappening::AssistantDelta { delta: text.to_owned() });
        let ran = self.run_plugin(live, name, arguments, &mut tell, &turn.cancel).await;
        let ran = ran.map_err(|why| Stopped::new("plugin_error", why))?;
        let content = match (&ran.output[..], &ran.result) {
            ([], Some(result)) => result.as_str().map_or_else(|| result.to_string(), str::to_owned),
            (output, _) => output.concat(),
        };
        turn.emit(TurnHappening::Answer { content });
        Ok(())
    }
}
