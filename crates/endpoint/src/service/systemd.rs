//! The unit for systemd.

use super::{NAME, Service};

/// Where it goes.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only systemd reads it"))]
pub(super) const PATH: &str = "/etc/systemd/system/convoke-agent.service";

/// The unit.
///
/// It is hardened as far as an agent can be whose work is to see and change the machine it runs on: a private `/tmp`, a
/// read-only `/usr` or a missing `/home` would make `fs_list` show another machine and `shell_exec` fail where a person
/// would succeed. What it need not have, it has not: no core dumps with keys in them, no foreign system calls, no
/// realtime, files for their owner alone.
///
/// Before each start the previous version, if an update has left one, counts the attempts and puts itself back in the
/// end: so even a new version that cannot be run at all does not cost the machine its agent.
pub fn unit(service: &Service) -> String {
    let program = quoted(&service.program.display().to_string());
    let previous = quoted(&format!("{}.previous", service.program.display()));
    let state = quoted(&service.state.display().to_string());
    format!(
        "[Unit]\n\
         Description=Convoke agent ({NAME})\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStartPre=-{previous} agent recover-update --state {state}\n\
         ExecStart={program} agent run --service --state {state}\n\
         Restart=always\n\
         RestartSec=2\n\
         TimeoutStopSec=20\n\
         KillMode=mixed\n\
         UMask=0077\n\
         LimitCORE=0\n\
         LockPersonality=yes\n\
         RestrictRealtime=yes\n\
         SystemCallArchitectures=native\n\
         KeyringMode=private\n\
         OOMScoreAdjust=-500\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

/// As systemd reads words: quoted, with its own specifiers and escapes made harmless.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cannot_break_out_of_their_words() {
        let service = Service { program: "/opt/a b/convoke".into(), state: "/var/lib/100%\"$x".into() };
        let unit = unit(&service);
        assert!(unit.contains("ExecStart=\"/opt/a b/convoke\" agent run --service"), "{unit}");
        assert!(unit.contains(r#"--state "/var/lib/100%%\"$$x""#), "{unit}");
        assert!(unit.contains("ExecStartPre=-\"/opt/a b/convoke.previous\" agent recover-update"), "{unit}");
        assert!(unit.contains("Restart=always"));
    }
}
