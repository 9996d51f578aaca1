//! Every probe that takes a path decides on what the path leads to.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use convoke_machine::Call;
use convoke_machine::open::{Refused, Rules, Shows};
use convoke_probes::Config;
use convoke_sonde::builtin;
use convoke_sonde::params::Format;
use serde_json::json;

use crate::support::{bad, probes, program};

/// Refuses what has this name.
#[derive(Debug)]
struct Named(&'static str);

impl Rules for Named {
    fn refusal(&self, real: &str, _: Shows) -> Option<Refused> {
        real.ends_with(self.0).then(|| Refused { rule: "named".into(), reason: "because".into() })
    }
}

#[tokio::test]
async fn no_probe_shows_through_a_link_what_a_rule_protects() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("secret.log"), "hunter2\n").expect("writes");
    let link = dir.path().join("plain.log");
    symlink(dir.path().join("secret.log"), &link).expect("links");
    let shown = "#!/bin/sh\ncat \"$@\"";
    for command in builtin::packs().iter().flat_map(|pack| pack.detect.iter().flat_map(|detect| &detect.commands)) {
        program(dir.path(), command, shown);
    }
    let dirs = vec![dir.path().to_owned()];
    let path = vec![dir.path().into(), "/usr/bin".into(), "/bin".into()];
    let probes = probes(Config { path, log_dirs: dirs.clone(), nginx_log_dirs: dirs, ..Config::default() });
    let call = Call { rules: Some(Arc::new(Named("secret.log"))), ..Call::default() };
    let mut tried = 0;
    for pack in builtin::packs() {
        for spec in &pack.probes {
            let is_path = |name: &str, format: Option<Format>| {
                format == Some(Format::Path) || name.to_ascii_lowercase().ends_with("path")
            };
            for (name, _) in spec.params.iter().filter(|(name, param)| is_path(name, param.format)) {
                let probe = format!("{}.{}", pack.name, spec.name);
                let params = json!({ name: link }).to_string();
                let failure = bad(probes.run(&probe, Some(&params), &call).await);
                assert_eq!(failure.code, "UNAUTHORIZED", "{probe}: {}", failure.message);
                assert!(failure.message.contains("(rule named)"), "{probe}: {}", failure.message);
                tried += 1;
            }
        }
    }
    assert!(tried >= 3, "{tried}");
}
