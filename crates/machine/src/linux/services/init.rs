//! Services without systemd: OpenRC, or plain init scripts. No script is run to find out; a question must not act.

use super::Service;
use crate::facts::Facts;

/// Scripts that every init folder has and that are no service.
const NO_SERVICE: [&str; 8] = ["README", "skeleton", "rc", "rcS", "functions", "halt", "reboot", "single"];

pub(super) fn services(facts: &Facts) -> Option<(&'static str, Vec<Service>)> {
    let scripts: Vec<_> = facts
        .names("etc/init.d")
        .into_iter()
        .filter(|name| !NO_SERVICE.contains(&name.as_str()) && !name.starts_with('.') && !name.ends_with(".sh"))
        .collect();
    if scripts.is_empty() {
        return None;
    }
    if facts.exists("run/openrc") {
        return Some(("OpenRC", scripts.into_iter().map(|name| openrc(facts, name)).collect()));
    }
    Some(("init scripts", scripts.into_iter().map(|name| script(facts, name)).collect()))
}

fn openrc(facts: &Facts, name: String) -> Service {
    let state = |folder: &str| facts.path(&format!("run/openrc/{folder}")).join(&name).symlink_metadata().is_ok();
    let status = match () {
        () if state("failed") => "failed",
        () if state("starting") => "starting",
        () if state("stopping") => "stopping",
        () if state("started") => "running",
        () => "stopped",
    };
    let levels = facts.names("etc/runlevels");
    let auto = levels
        .iter()
        .any(|level| facts.path(&format!("etc/runlevels/{level}")).join(&name).symlink_metadata().is_ok());
    let display = description(&facts.read(&format!("etc/init.d/{name}")).unwrap_or_default(), "description=");
    Service {
        display: display.unwrap_or_else(|| name.clone()),
        name,
        status,
        start: if auto { "auto" } else { "manual" },
    }
}

fn script(facts: &Facts, name: String) -> Service {
    let text = facts.read(&format!("etc/init.d/{name}")).unwrap_or_default();
    let auto = (2..=5).any(|level| {
        let names = facts.names(&format!("etc/rc{level}.d"));
        names
            .iter()
            .any(|link| link.strip_prefix('S').is_some_and(|rest| rest.trim_start_matches(char::is_numeric) == name))
    });
    // A file with the number of a process that lives is as near to certain as one can get without asking the script.
    let pid = ["run", "var/run"].iter().find_map(|folder| {
        let direct = facts.number(&format!("{folder}/{name}.pid"));
        direct.or_else(|| facts.number(&format!("{folder}/{name}/{name}.pid")))
    });
    let status = match pid {
        Some(pid) if facts.exists(&format!("proc/{pid}/stat")) => "running",
        Some(_) => "stopped",
        None => "unknown",
    };
    Service {
        display: description(&text, "# Short-Description:").unwrap_or_else(|| name.clone()),
        name,
        status,
        start: if auto { "auto" } else { "manual" },
    }
}

fn description(script: &str, key: &str) -> Option<String> {
    let line = script.lines().find_map(|line| line.trim_start().strip_prefix(key))?;
    let text = crate::text::one_line(line.trim().trim_matches('"'), 256);
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::linux::services;
    use crate::linux::tests::collected;

    #[test]
    fn scripts_are_listed_with_what_can_be_known() {
        let section = collected(
            services::section,
            &[
                ("etc/init.d/README", ""),
                ("etc/init.d/cron", "#!/bin/sh\n# Short-Description: Runs things\n"),
                ("etc/init.d/ssh", "#!/bin/sh\n"),
                ("etc/init.d/off", "#!/bin/sh\n"),
                ("etc/rc2.d/S01cron", ""),
                ("run/cron.pid", "7\n"),
                ("proc/7/stat", "7 (cron) S"),
                ("run/ssh.pid", "8\n"),
            ],
        );
        let expect = serde_json::json!([
            {"name": "cron", "display": "Runs things", "status": "running", "start": "auto"},
            {"name": "off", "display": "off", "status": "unknown", "start": "manual"},
            {"name": "ssh", "display": "ssh", "status": "stopped", "start": "manual"},
        ]);
        assert_eq!(section["services"], expect);
    }

    #[test]
    fn openrc_says_what_has_started() {
        let section = collected(
            services::section,
            &[
                ("etc/init.d/nginx", "#!/sbin/openrc-run\ndescription=\"A web server\"\n"),
                ("etc/init.d/chronyd", ""),
                ("run/openrc/softlevel", "default"),
                ("run/openrc/failed/nginx", ""),
                ("run/openrc/started/chronyd", ""),
                ("etc/runlevels/default/nginx", ""),
            ],
        );
        assert_eq!(section["status"], "warn");
        assert_eq!(section["summary"], "nginx has failed");
        assert_eq!(section["services"][0]["display"], "A web server");
        assert_eq!(section["services"][1]["status"], "running");
    }
}
