//! The agent as a service of a real systemd: a small Debian, booted in a container, with a hub in it.
//!
//! Needs root and the Debian that `cargo xtask setup` makes; without root it is skipped.

use std::path::Path;

use convoke_testing::container;

/// What a person would type, from nothing to an agent that starts with the machine, and back to nothing.
const SCRIPT: &str = r#"
c() { /opt/test/convoke "$@"; }
mkfifo /srv/ready /srv/journal
# Does something, and waits until the agent has said after it that it is connected.
until_connected() {
  since=$(journalctl --quiet --lines=1 --show-cursor | sed -n 's/^-- cursor: //p')
  "$@"
  journalctl --follow --no-tail --after-cursor="$since" --unit=convoke-agent --output=cat >/srv/journal &
  grep --max-count=1 'run: connected' /srv/journal
  kill $! || true # it may have ended with the line that was waited for
  c agent status
}
c hub --print-json --listen 127.0.0.1:7410 --data /srv/hub >/srv/ready 2>/srv/hub.log &
read -r ready </srv/ready
c agent install && exit 1
c enroll-token pc-1 --data /srv/hub --json >/srv/token
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/" /srv/token; }
c agent enroll --hub http://127.0.0.1:7410 --id pc-1 --token "$(field token)" --hub-key "$(field hub_public_key)"
until_connected c agent install
c agent status | grep service
systemctl is-active convoke-agent
systemctl is-enabled convoke-agent
systemctl status --no-pager convoke-agent
systemd-analyze verify /etc/systemd/system/convoke-agent.service
c call pc-1 shell_exec --args '{"command":"id -u"}' --data /srv/hub | grep -x 0
c call pc-1 shell_exec --args '{"command":"systemctl stop convoke-agent"}' --data /srv/hub && exit 1
# Killed, it is back.
until_connected kill -KILL "$(systemctl show -P MainPID convoke-agent)"
# A program in its place that cannot even be run: the previous version puts itself back.
printf '{"version":"9","program":"/opt/convoke-agent/bin/convoke","previous":"/opt/convoke-agent/bin/convoke.previous","trial_s":300,"starts":0,"attempts":0,"rolled_back":false}' >/var/lib/convoke-agent/update.json
ln /opt/convoke-agent/bin/convoke /opt/convoke-agent/bin/convoke.previous
echo broken >/srv/broken && chmod 755 /srv/broken && mv /srv/broken /opt/convoke-agent/bin/convoke
restart() { systemctl restart convoke-agent || true; }
until_connected restart
cmp /opt/test/convoke /opt/convoke-agent/bin/convoke
c agent logs | grep 'undid an update'
c agent uninstall
systemctl is-active convoke-agent && exit 1
test ! -e /opt/convoke-agent && test -e /var/lib/convoke-agent/convoke-agent.key
c agent uninstall --purge
test ! -e /var/lib/convoke-agent
echo everything was done
"#;

#[test]
fn a_service_is_installed_survives_and_is_removed() {
    let program = ("convoke", Path::new(env!("CARGO_BIN_EXE_convoke")));
    let Some(log) = container::run(SCRIPT, &[program], &[]) else { return };
    assert!(log.contains("everything was done"), "{log}");
}
