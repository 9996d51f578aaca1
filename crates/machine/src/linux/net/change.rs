//! `net_dns_flush` and `net_adapter_reset`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::exec::{Command, Limits, Output};
use crate::facts::Facts;
use crate::{ToolError, text, tools};

/// The caches there may be, and how each forgets. All that run are told to.
const CACHES: &[Cache] = &[
    Cache { daemon: "systemd-resolve", program: "resolvectl", args: &["flush-caches"] },
    Cache { daemon: "systemd-resolve", program: "systemd-resolve", args: &["--flush-caches"] },
    Cache { daemon: "nscd", program: "nscd", args: &["--invalidate=hosts"] },
    Cache { daemon: "unbound", program: "unbound-control", args: &["flush_zone", "."] },
    Cache { daemon: "named", program: "rndc", args: &["flush"] },
    // A hang-up makes it read its files again, which empties the cache.
    Cache { daemon: "dnsmasq", program: "pkill", args: &["-HUP", "-x", "dnsmasq"] },
];

struct Cache {
    /// As the kernel names its process, which is at most 15 bytes.
    daemon: &'static str,
    program: &'static str,
    args: &'static [&'static str],
}

pub(in crate::linux) fn dns_flush(facts: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    let running = crate::linux::running_processes(facts);
    let mut flushed: Vec<&str> = Vec::new();
    let mut failed = Vec::new();
    for cache in CACHES {
        if flushed.contains(&cache.daemon) || !running.contains(cache.daemon) {
            continue;
        }
        match facts.command(cache.program, cache.args) {
            None => {}
            Some(Ok(output)) if output.success() => flushed.push(cache.daemon),
            Some(Ok(output)) => failed.push(complaint(cache.program, &output)),
            Some(Err(error)) => failed.push(error.to_string()),
        }
    }
    match (flushed.is_empty(), failed.is_empty()) {
        (false, _) => Ok(json!({"ok": true, "flushed": flushed})),
        (true, false) => Err(ToolError::failed(failed.join("; "))),
        (true, true) => Err(ToolError::unsupported(
            "no DNS cache runs on this machine (looked for systemd-resolved, nscd, unbound, named, dnsmasq)",
        )),
    }
}

/// How long an adapter may take to come back.
const RESET_TIME: Duration = Duration::from_secs(60);

/// Takes an interface down and up again, by whoever manages it, and otherwise by hand.
///
/// Once begun it is not broken off, by nobody: the call may well have come over the very interface that is down.
pub(in crate::linux) fn adapter_reset(facts: &Facts, args: &Map<String, Value>) -> Result<Value, ToolError> {
    let name = tools::text(args, "name")?;
    check_name(name)?;
    if !facts.exists(&format!("sys/class/net/{name}")) {
        return Err(ToolError::not_found(format!("network adapter {name} does not exist")));
    }
    if name == "lo" {
        return Err(ToolError::bad_args("lo is the loopback, which is not reset"));
    }
    let by = if facts.output("nmcli", &["-g", "GENERAL.STATE", "device", "show", name]).is_some_and(|state| {
        // 10 is "unmanaged".
        !state.trim_start().starts_with("10 ") && !state.trim().is_empty()
    }) {
        through(facts, "nmcli", &["device", "disconnect", name])?;
        through(facts, "nmcli", &["device", "connect", name])?;
        "NetworkManager"
    } else if facts.exists("run/systemd/netif/links") && is_networkds(facts, name) {
        by_hand(facts, name)?;
        through(facts, "networkctl", &["reconfigure", name])?;
        "systemd-networkd"
    } else if facts.program("ifup").is_some() && is_ifupdowns(facts, name) {
        through(facts, "ifdown", &["--force", name])?;
        through(facts, "ifup", &[name])?;
        "ifupdown"
    } else {
        by_hand(facts, name)?;
        "ip"
    };
    Ok(json!({"ok": true, "by": by}))
}

/// A name that the kernel could have given: no option, no path, no second word.
fn check_name(name: &str) -> Result<(), ToolError> {
    let plain = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
    let fits = (1..=15).contains(&name.len()) && name.chars().all(plain) && !name.starts_with(['-', '.']);
    if fits { Ok(()) } else { Err(ToolError::bad_args("name must be the name of a network adapter, such as eth0")) }
}

fn is_networkds(facts: &Facts, name: &str) -> bool {
    let index = facts.word(&format!("sys/class/net/{name}/ifindex")).unwrap_or_default();
    let state = facts.read(&format!("run/systemd/netif/links/{index}")).unwrap_or_default();
    state.lines().any(|line| line.starts_with("NETWORK_FILE=")) && facts.program("networkctl").is_some()
}

fn is_ifupdowns(facts: &Facts, name: &str) -> bool {
    let configured = facts.read("etc/network/interfaces").unwrap_or_default();
    configured.lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some("iface") && words.next() == Some(name)
    })
}

/// Down and up with `ip`. The kernel drops routes, and addresses of IPv6, of an interface that goes down; what is lost
/// is put back, because nobody else will.
fn by_hand(facts: &Facts, name: &str) -> Result<(), ToolError> {
    let routes: Vec<(&str, String)> = ["-4", "-6"]
        .into_iter()
        .flat_map(|family| {
            let table =
                run(facts, "ip", &[family, "route", "show", "dev", name]).map(|o| o.stdout).unwrap_or_default();
            table.lines().map(|line| (family, line.to_owned())).collect::<Vec<_>>()
        })
        .collect();
    let addresses = run(facts, "ip", &["-6", "-o", "addr", "show", "dev", name, "scope", "global", "permanent"]);
    let addresses = addresses.map(|output| parse_addresses(&output.stdout)).unwrap_or_default();
    through(facts, "ip", &["link", "set", "dev", name, "down"])?;
    through(facts, "ip", &["link", "set", "dev", name, "up"])?;
    for address in &addresses {
        let _ = run(facts, "ip", &["-6", "addr", "replace", address, "dev", name]);
    }
    for (family, route) in &routes {
        let words = route_words(route);
        let args: Vec<&str> = [*family, "route", "replace"].into_iter().chain(words).chain(["dev", name]).collect();
        // Those of the kernel's own come back by themselves; telling it twice does no harm.
        let _ = run(facts, "ip", &args);
    }
    Ok(())
}

/// A line of `ip route show` as words for `ip route replace`: without the flags that only describe.
fn route_words(line: &str) -> Vec<&str> {
    let described = |word: &&str| !matches!(*word, "linkdown" | "dead" | "onlink" | "pervasive" | "offload");
    let mut words: Vec<&str> = line.split_ascii_whitespace().filter(described).collect();
    // A route that was learnt has a life that cannot be given back.
    if let Some(at) = words.iter().position(|word| *word == "expires") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words
}

fn parse_addresses(text: &str) -> Vec<String> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "inet6");
        words.nth(1).map(str::to_owned)
    };
    text.lines().filter_map(address).collect()
}

/// Runs a program that must succeed.
fn through(facts: &Facts, program: &str, args: &[&str]) -> Result<(), ToolError> {
    let output = run(facts, program, args)?;
    if output.success() { Ok(()) } else { Err(ToolError::failed(complaint(program, &output))) }
}

fn run(facts: &Facts, program: &str, args: &[&str]) -> Result<Output, ToolError> {
    let path = facts.program(program).ok_or_else(|| ToolError::unsupported(format!("{program} is not installed")))?;
    let limits = Limits { timeout: RESET_TIME, cap: 64 * 1024, cancel: CancellationToken::new() };
    let command = Command::new(path).args(args).env("LC_ALL", "C");
    facts.wait(crate::exec::run(command, &limits)).map_err(|error| tools::exec_error(&error))
}

fn complaint(program: &str, output: &Output) -> String {
    let said = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    format!("{program}: {} (exit code {})", text::one_line(said, 300), output.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_option_no_path_and_no_command() {
        for name in ["eth0", "wlp3s0", "br-lan", "veth1a@x"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "-a", "--all", "a b", "../x", "a/b", "eth0;reboot now", "sixteen-letters-", ".", "a\n", "ü"]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn routes_can_be_put_back() {
        assert_eq!(
            route_words("default via 192.0.2.1 proto static linkdown"),
            ["default", "via", "192.0.2.1", "proto", "static"]
        );
        assert_eq!(
            route_words("::/0 via fe80::1 expires 1700sec mtu 1500"),
            ["::/0", "via", "fe80::1", "mtu", "1500"]
        );
        let text = "2: eth0    inet6 2001:db8::7/64 scope global \\       valid_lft forever\n2: eth0 nothing\n";
        assert_eq!(parse_addresses(text), ["2001:db8::7/64"]);
    }
}
