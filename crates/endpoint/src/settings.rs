//! The agent's settings: one table, from which come reading, bounds and what the documentation lists.

use std::collections::BTreeMap;
use std::time::Duration;

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in `agent.toml` and after `--set`. The environment has it as `CONVOKE_AGENT_` and the name in capitals.
    pub name: &'static str,
    /// The original agent's variable for the same.
    pub kenny: Option<&'static str>,
    /// What it may be.
    pub kind: Kind,
    /// What it is unless told otherwise.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number between these.
    Number(u64, u64),
    /// Seconds between these; fractions are fine.
    Seconds(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Texts with commas between.
    List,
}

const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
const DAY: f64 = 86_400.0;

/// All settings.
#[rustfmt::skip]
pub const TABLE: &[Setting] = &[
    setting("call_timeout_s", None, Kind::Seconds(1.0, DAY), "30", "How long a call may run that gives no `timeout_s`."),
    setting("challenge_timeout_s", None, Kind::Seconds(0.1, 600.0), "10", "How long the hub may take to prove itself."),
    setting("connect_timeout_s", None, Kind::Seconds(0.1, 600.0), "20", "How long each step of connecting may take: TCP, proxy, TLS, WebSocket."),
    setting("heartbeat_s", None, Kind::Seconds(0.05, 600.0), "30", "Seconds between pings; after three silent intervals the hub counts as gone."),
    setting("log_file_bytes", None, Kind::Number(4096, 1 << 30), "1048576", "Size at which the local log file is rotated."),
    setting("log_files", None, Kind::Number(1, 100), "5", "Local log files kept, including the present one."),
    setting("log_forward_level", Some("KENNY_LOG_FORWARD_LEVEL"), Kind::Word(LEVELS), "info", "Log lines of this level and above go to the hub."),
    setting("log_level", None, Kind::Word(LEVELS), "debug", "Log lines of this level and above go to the local file."),
    setting("max_calls", None, Kind::Number(1, 1024), "64", "Most calls that run at once; others wait."),
    setting("max_frame_bytes", None, Kind::Number(0, 64 << 20), "0", "Largest frame to send. 0: what the hub announces, else 262144, beyond which kenny servers of version 0.8 drop frames silently."),
    setting("max_waiting", None, Kind::Number(0, 65_536), "960", "Most calls that wait; others are refused."),
    setting("output_bytes", None, Kind::Number(1024, 32 << 20), "1048576", "Most bytes of a command's output in a result; the result says when there was more."),
    setting("probe_ceiling", None, Kind::Word(&["observe", "interact", "manage"]), "observe", "The most that a probe asked for over this tunnel may do."),
    setting("reconnect_max_s", None, Kind::Seconds(0.2, 3600.0), "60", "Longest pause between two attempts to connect. Pauses are random, and shorter at first."),
    setting("switch_poll_s", None, Kind::Seconds(0.005, 60.0), "1", "How often the agent reads the kill switch's file, to tell the hub of a change. Each call reads it, too."),
    setting("telemetry_s", Some("KENNY_TELEMETRY_INTERVAL_SECS"), Kind::Seconds(1.0, 7.0 * DAY), "900", "Seconds between telemetry snapshots."),
    setting("update_hosts", None, Kind::List, "", "Hosts that updates may come from, besides the hub's own `/d/binary/`; a name includes its subdomains."),
    setting("update_trial_s", None, Kind::Seconds(1.0, DAY), "300", "How long an updated agent may take to authenticate at the hub before the previous version is restored."),
];

const fn setting(
    name: &'static str,
    kenny: Option<&'static str>,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    Setting { name, kenny, kind, default, doc }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The table.
    Default,
    /// `agent.toml`.
    File,
    /// This variable.
    Variable(String),
    /// The command line.
    Flag,
}

/// Values for settings, by name, from each place that may have some.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--set name=value`.
    pub flags: Vec<(String, String)>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The top level of `agent.toml`, without what says who the agent is.
    pub file: BTreeMap<String, String>,
}

/// Every setting with its value.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Setting {
    /// Its variable.
    pub fn variable(&self) -> String {
        format!("CONVOKE_AGENT_{}", self.name.to_ascii_uppercase())
    }

    fn check(&self, value: &str) -> Result<(), String> {
        let fits = match self.kind {
            Kind::Number(least, most) => value.parse::<u64>().is_ok_and(|n| (least..=most).contains(&n)),
            Kind::Seconds(least, most) => value.parse::<f64>().is_ok_and(|n| (least..=most).contains(&n)),
            Kind::Word(words) => words.contains(&value),
            Kind::List => true,
        };
        if fits { Ok(()) } else { Err(format!("`{}` cannot be `{value}`: {}", self.name, self.kind.allowed())) }
    }
}

impl Kind {
    /// What is allowed, in words.
    pub fn allowed(self) -> String {
        match self {
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Seconds(least, most) => format!("seconds from {least} to {most}"),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::List => "texts with commas between".to_owned(),
        }
    }
}

impl Settings {
    /// The values in force: flags, then the environment, then the file, then the defaults. Or every mistake.
    pub fn resolve(sources: &Sources) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        let known = |name: &str| TABLE.iter().any(|setting| setting.name == name);
        for (name, _) in sources.flags.iter().filter(|(name, _)| !known(name)) {
            mistakes.push(format!("the agent has no setting `{name}`"));
        }
        for name in sources.file.keys().filter(|name| !known(name)) {
            mistakes.push(format!("agent.toml: the agent has no setting `{name}`"));
        }
        let mut values = BTreeMap::new();
        for setting in TABLE {
            let (value, origin) = sources.find(setting);
            // The original spells levels as it likes.
            let value = if matches!(setting.kind, Kind::Word(_)) { value.to_ascii_lowercase() } else { value };
            match setting.check(&value) {
                Ok(()) => drop(values.insert(setting.name, (value, origin))),
                Err(why) => mistakes.push(match origin {
                    Origin::Variable(name) => format!("{name}: {why}"),
                    Origin::File => format!("agent.toml: {why}"),
                    _ => why,
                }),
            }
        }
        if mistakes.is_empty() { Ok(Self { values }) } else { Err(mistakes) }
    }

    /// Every setting with its value and where that came from.
    pub fn listing(&self) -> impl Iterator<Item = (&'static Setting, &str, &Origin)> {
        TABLE.iter().filter_map(|setting| {
            let (value, origin) = self.values.get(setting.name)?;
            Some((setting, value.as_str(), origin))
        })
    }

    /// The text of a setting.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |(value, _)| value)
    }

    /// A whole number.
    pub fn number(&self, name: &str) -> usize {
        self.text(name).parse().unwrap_or(0)
    }

    /// A duration.
    pub fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.text(name).parse().unwrap_or(0.0))
    }

    /// A list.
    pub fn list(&self, name: &str) -> Vec<String> {
        let parts = self.text(name).split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }
}

impl Default for Settings {
    fn default() -> Self {
        let values = TABLE.iter().map(|s| (s.name, (s.default.to_owned(), Origin::Default))).collect();
        Self { values }
    }
}

impl Sources {
    fn find(&self, setting: &Setting) -> (String, Origin) {
        if let Some((_, value)) = self.flags.iter().rev().find(|(name, _)| name == setting.name) {
            return (value.clone(), Origin::Flag);
        }
        for variable in [Some(setting.variable()), setting.kenny.map(str::to_owned)].into_iter().flatten() {
            if let Some(value) = self.env.get(&variable).filter(|value| !value.is_empty()) {
                return (value.clone(), Origin::Variable(variable));
            }
        }
        match self.file.get(setting.name) {
            Some(value) => (value.clone(), Origin::File),
            None => (setting.default.to_owned(), Origin::Default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn every_default_is_allowed() {
        let settings = Settings::resolve(&Sources::default()).expect("the defaults fit");
        assert_eq!(settings.seconds("telemetry_s"), Duration::from_secs(900));
        assert_eq!(settings.number("output_bytes"), 1 << 20);
        assert_eq!(settings.listing().count(), TABLE.len());
    }

    #[test]
    fn flags_win_over_variables_and_these_over_the_file() {
        let mut sources = Sources { file: pairs(&[("telemetry_s", "10")]), ..Sources::default() };
        let value = |sources: &Sources| Settings::resolve(sources).expect("fits").text("telemetry_s").to_owned();
        assert_eq!(value(&sources), "10");
        sources.env = pairs(&[("KENNY_TELEMETRY_INTERVAL_SECS", "20"), ("KENNY_LOG_FORWARD_LEVEL", "WARN")]);
        assert_eq!(value(&sources), "20");
        assert_eq!(Settings::resolve(&sources).expect("fits").text("log_forward_level"), "warn");
        sources.env.insert("CONVOKE_AGENT_TELEMETRY_S".into(), "30".into());
        assert_eq!(value(&sources), "30");
        sources.flags.push(("telemetry_s".into(), "40".into()));
        assert_eq!(value(&sources), "40");
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let sources = Sources {
            flags: vec![("nonsense".into(), "1".into())],
            env: pairs(&[("CONVOKE_AGENT_MAX_CALLS", "0"), ("KENNY_LOG_FORWARD_LEVEL", "loud")]),
            file: pairs(&[("heartbeat_s", "soon")]),
        };
        let mistakes = Settings::resolve(&sources).expect_err("mistakes").join("\n");
        for expect in
            ["`nonsense`", "CONVOKE_AGENT_MAX_CALLS", "KENNY_LOG_FORWARD_LEVEL", "agent.toml: `heartbeat_s`"]
        {
            assert!(mistakes.contains(expect), "no {expect} in {mistakes}");
        }
    }
}
