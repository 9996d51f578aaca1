//! Whether something filters what comes in: firewalld, ufw, or rules of nftables or iptables by hand.

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Section;
use crate::facts::Facts;

/// One kind of firewall that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Profile {
    name: &'static str,
    /// Absent when it cannot be told without rights that the agent does not have.
    enabled: Option<bool>,
}

pub(in crate::linux) fn section(facts: &Facts) -> Section {
    let profiles: Vec<_> =
        [firewalld(facts), ufw(facts), nftables(facts), iptables(facts)].into_iter().flatten().collect();
    let on: Vec<_> = profiles.iter().filter(|profile| profile.enabled == Some(true)).map(|p| p.name).collect();
    let unknown = profiles.iter().any(|profile| profile.enabled.is_none());
    let (status, summary) = match (on.as_slice(), unknown) {
        ([], true) => (Status::Ok, "not known without root".to_owned()),
        ([], false) => (Status::Warn, "found no firewall that filters incoming traffic".to_owned()),
        (on, _) => (Status::Ok, format!("on: {}", on.join(", "))),
    };
    Section::new(status, summary).with("profiles", json!(profiles))
}

fn firewalld(facts: &Facts) -> Option<Profile> {
    let output = facts.command("firewall-cmd", &["--state"])?.ok()?;
    // 252 is "not running".
    let enabled = match (output.success(), output.exit_code) {
        (true, _) => Some(true),
        (false, 252) => Some(false),
        (false, _) => None,
    };
    Some(Profile { name: "firewalld", enabled })
}

fn ufw(facts: &Facts) -> Option<Profile> {
    let text = facts.read("etc/ufw/ufw.conf").ok()?;
    let value = text.lines().find_map(|line| line.trim().strip_prefix("ENABLED="))?;
    Some(Profile { name: "ufw", enabled: Some(value.trim().trim_matches('"').eq_ignore_ascii_case("yes")) })
}

fn nftables(facts: &Facts) -> Option<Profile> {
    let output = facts.command("nft", &["--json", "list", "ruleset"])?.ok()?;
    let enabled = output.success().then(|| parse_nft(&output.stdout)).flatten();
    Some(Profile { name: "nftables", enabled })
}

/// Whether a chain of the input hook does something: it drops by default, or has rules. Chains of containers forward and
/// translate, and filter nothing that comes to the machine itself.
fn parse_nft(text: &str) -> Option<bool> {
    let report: Value = serde_json::from_str(text).ok()?;
    let items = report["nftables"].as_array()?;
    let inputs: Vec<_> = items.iter().map(|item| &item["chain"]).filter(|chain| chain["hook"] == "input").collect();
    let has_rules = |chain: &Value| {
        let same = |rule: &Value| {
            ["family", "table"].iter().all(|key| rule[*key] == chain[*key]) && rule["chain"] == chain["name"]
        };
        items.iter().any(|item| item["rule"].is_object() && same(&item["rule"]))
    };
    Some(inputs.iter().any(|chain| chain["policy"] == "drop" || has_rules(chain)))
}

/// The older tables, which `nft` does not list.
fn iptables(facts: &Facts) -> Option<Profile> {
    let names = facts.word("proc/net/ip_tables_names")?;
    if !names.lines().any(|table| table == "filter") {
        return None;
    }
    let rules = ["iptables-legacy", "iptables"].iter().find_map(|program| facts.output(program, &["-S", "INPUT"]));
    Some(Profile { name: "iptables", enabled: rules.map(|rules| parse_iptables(&rules)) })
}

fn parse_iptables(text: &str) -> bool {
    text.lines().any(|line| line == "-P INPUT DROP" || line == "-P INPUT REJECT" || line.starts_with("-A INPUT "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    #[test]
    fn only_what_filters_input_counts() {
        let drop = r#"{"nftables":[{"metainfo":{}},{"chain":{"family":"inet","table":"f","name":"in","hook":"input","policy":"drop"}}]}"#;
        assert_eq!(parse_nft(drop), Some(true));
        let rule = r#"{"nftables":[{"chain":{"family":"ip","table":"f","name":"in","hook":"input","policy":"accept"}},
            {"rule":{"family":"ip","table":"f","chain":"in","expr":[]}}]}"#;
        assert_eq!(parse_nft(rule), Some(true));
        let containers = r#"{"nftables":[{"chain":{"family":"ip","table":"nat","name":"x","hook":"prerouting","policy":"accept"}},
            {"chain":{"family":"ip","table":"f","name":"in","hook":"input","policy":"accept"}},
            {"rule":{"family":"ip","table":"nat","chain":"x"}}]}"#;
        assert_eq!(parse_nft(containers), Some(false));
        assert_eq!(parse_nft("nonsense"), None);
        assert!(parse_iptables("-P INPUT ACCEPT\n-A INPUT -i lo -j ACCEPT\n"));
        assert!(!parse_iptables("-P INPUT ACCEPT\n"));
    }

    #[test]
    fn a_firewall_that_is_off_is_noticed() {
        let section = collected(super::section, &[("etc/ufw/ufw.conf", "# x\nENABLED=no\n")]);
        assert_eq!((&section["status"], &section["profiles"][0]["enabled"]), (&"warn".into(), &false.into()));
        let section = collected(super::section, &[("etc/ufw/ufw.conf", "ENABLED=yes\n")]);
        assert_eq!(section["summary"], "on: ufw");
    }
}
