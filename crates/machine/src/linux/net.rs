//! Interfaces, name servers, routes.

mod change;
mod routes;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use convoke_core::health::Status;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::facts::Facts;
use crate::{Section, ToolError, text};

pub(super) use change::{adapter_reset, dns_flush};
pub(super) use routes::section as routing;

/// Most interfaces told; a machine full of containers has one each.
const MAX_INTERFACES: usize = 200;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Interface {
    name: String,
    mac: String,
    ips: Vec<String>,
    up: bool,
}

pub(super) fn config(facts: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    let interfaces = interfaces(facts).map_err(|error| ToolError::failed(format!("getifaddrs: {error}")))?;
    Ok(json!({"interfaces": interfaces, "dns": name_servers(facts)}))
}

pub(super) fn section(facts: &Facts) -> Section {
    let dns = name_servers(facts);
    let Ok(interfaces) = interfaces(facts) else {
        return Section::new(Status::Warn, "cannot list the interfaces")
            .with("interfaces", json!([]))
            .with("dns", dns);
    };
    let up = interfaces.iter().filter(|interface| interface.up && interface.name != "lo").count();
    let (status, summary) = match up {
        0 => (Status::Warn, "no interface is up".to_owned()),
        up => (Status::Ok, format!("{} up, {}", text::count(up, "interface"), text::count(dns.len(), "name server"))),
    };
    Section::new(status, summary).with("interfaces", json!(interfaces)).with("dns", dns)
}

fn interfaces(facts: &Facts) -> nix::Result<Vec<Interface>> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for address in getifaddrs()? {
        let name = address.interface_name;
        let interface = found.entry(name.clone()).or_insert_with(|| Interface {
            mac: mac(facts, &name),
            name,
            ..Interface::default()
        });
        interface.up = address.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
        interface.ips.extend(address.address.and_then(|ip| shown(&ip, address.netmask.as_ref())));
    }
    let mut list: Vec<_> = found.into_values().collect();
    // What carries addresses first, so that the limit leaves out what matters least.
    list.sort_by_key(|interface| (interface.ips.is_empty(), interface.name.starts_with("veth")));
    list.truncate(MAX_INTERFACES);
    Ok(list)
}

fn mac(facts: &Facts, name: &str) -> String {
    // The kernel's name for an interface holds no slash.
    facts.word(&format!("sys/class/net/{name}/address")).unwrap_or_default()
}

/// `192.0.2.7/24`.
fn shown(address: &SockaddrStorage, mask: Option<&SockaddrStorage>) -> Option<String> {
    if let Some(address) = address.as_sockaddr_in() {
        let mask = mask.and_then(SockaddrStorage::as_sockaddr_in).map_or(32, |mask| ones(&mask.ip().octets()));
        return Some(format!("{}/{mask}", address.ip()));
    }
    let address = address.as_sockaddr_in6()?;
    let mask = mask.and_then(SockaddrStorage::as_sockaddr_in6).map_or(128, |mask| ones(&mask.ip().octets()));
    Some(format!("{}/{mask}", address.ip()))
}

fn ones(mask: &[u8]) -> u32 {
    mask.iter().map(|byte| byte.count_ones()).sum()
}

/// The name servers that are really asked: systemd's own local one is not told, those behind it are.
fn name_servers(facts: &Facts) -> Vec<String> {
    let listed = parse_resolv_conf(&facts.read("etc/resolv.conf").unwrap_or_default());
    if listed.iter().any(|server| server == "127.0.0.53") {
        let behind = parse_resolv_conf(&facts.read("run/systemd/resolve/resolv.conf").unwrap_or_default());
        if !behind.is_empty() {
            return behind;
        }
    }
    listed
}

fn parse_resolv_conf(text: &str) -> Vec<String> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("nameserver")
            && let Some(server) = words.next().filter(|server| is_address(server))
            && !servers.iter().any(|known| known == server)
        {
            servers.push(server.to_owned());
        }
    }
    servers
}

/// Whether it is an address, with or without a zone.
fn is_address(text: &str) -> bool {
    let bare = text.split('%').next().unwrap_or(text);
    bare.parse::<Ipv4Addr>().is_ok() || bare.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read() {
        let text = "# x\nsearch lan\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\n\
                    nameserver nonsense\nnameserver\n";
        assert_eq!(parse_resolv_conf(text), ["192.0.2.1", "fe80::1%eth0"]);
    }

    #[test]
    fn masks_are_counted() {
        assert_eq!(ones(&[255, 255, 240, 0]), 20);
        assert_eq!(ones(&[0; 4]), 0);
    }
}
