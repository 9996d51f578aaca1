//! Which packs make sense here.

use convoke_sonde::manifest::Manifest;

use crate::Config;
use crate::context::find_program;

/// Any one match is enough; a pack that names nothing is always here.
pub(crate) fn is_here(config: &Config, pack: &Manifest) -> bool {
    let Some(detect) = &pack.detect else { return true };
    let at = |path: &str| config.root.join(path.trim_start_matches('/'));
    let service = |name: &String| {
        ["/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system"]
            .iter()
            .any(|dir| at(&format!("{dir}/{}.service", name.trim_end_matches(".service"))).exists())
    };
    detect.commands.iter().any(|name| find_program(config, name).is_some())
        || detect.files.iter().any(|path| at(path).exists())
        || detect.services.iter().any(service)
}
