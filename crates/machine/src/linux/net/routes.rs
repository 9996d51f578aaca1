//! The section `routing`, from the kernel's two tables.

use std::net::{Ipv4Addr, Ipv6Addr};

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::json;

use crate::Section;
use crate::facts::Facts;

/// Most routes told. A machine that speaks a routing protocol may have hundreds of thousands.
const MAX_ROUTES: usize = 200;

/// One route, in the words of the section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Route {
    destination: String,
    next_hop: String,
    interface: String,
    metric: u32,
}

impl Route {
    fn is_default(&self) -> bool {
        matches!(self.destination.as_str(), "0.0.0.0/0" | "::/0")
    }
}

pub(in crate::linux) fn section(facts: &Facts) -> Section {
    let mut routes = parse_v4(&facts.read("proc/net/route").unwrap_or_default());
    routes.extend(parse_v6(&facts.read("proc/net/ipv6_route").unwrap_or_default()));
    // Default routes first, so that the limit cannot hide them.
    routes.sort_by_key(|route| !route.is_default());
    let best = routes.iter().filter(|route| route.is_default()).min_by_key(|route| {
        // Of equal ones, the one that most of the world is reached by.
        (route.destination != "0.0.0.0/0", route.metric)
    });
    let (status, summary) = match best {
        None => (Status::Warn, "no default route".to_owned()),
        Some(route) if route.next_hop == "0.0.0.0" || route.next_hop == "::" => {
            (Status::Ok, format!("default via {}", route.interface))
        }
        Some(route) => (Status::Ok, format!("default via {} on {}", route.next_hop, route.interface)),
    };
    let interface = best.map(|route| route.interface.clone());
    let total = routes.len();
    routes.truncate(MAX_ROUTES);
    let section = Section::new(status, summary).with("default_interface", interface).with("routes", json!(routes));
    if total > MAX_ROUTES { section.with("routes_total", total) } else { section }
}

/// `/proc/net/route`: addresses as hexadecimal words in the machine's byte order.
fn parse_v4(text: &str) -> Vec<Route> {
    let address = |word: &str| u32::from_str_radix(word, 16).ok().map(|bits| Ipv4Addr::from(bits.to_ne_bytes()));
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [interface, destination, gateway, flags, _, _, metric, mask, ..] = words.as_slice() else { return None };
        if u32::from_str_radix(flags, 16).ok()? & RTF_UP == 0 {
            return None;
        }
        let length = u32::from_str_radix(mask, 16).ok()?.count_ones();
        Some(Route {
            destination: format!("{}/{length}", address(destination)?),
            next_hop: address(gateway)?.to_string(),
            interface: (*interface).to_owned(),
            metric: metric.parse().ok()?,
        })
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// The route can be used.
const RTF_UP: u32 = 1;
/// The route is unreachable.
const RTF_REJECT: u32 = 0x0200;
/// It leads to the machine itself.
const RTF_LOCAL: u32 = 0x8000_0000;

/// `/proc/net/ipv6_route`: destination, length, source, length, next hop, metric, two counters, flags, interface.
fn parse_v6(text: &str) -> Vec<Route> {
    let address = |word: &str| u128::from_str_radix(word, 16).ok().map(Ipv6Addr::from_bits);
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [destination, length, _, _, next_hop, metric, _, _, flags, interface] = words.as_slice() else {
            return None;
        };
        let flags = u32::from_str_radix(flags, 16).ok()?;
        let destination = address(destination)?;
        if flags & RTF_UP == 0 || flags & (RTF_REJECT | RTF_LOCAL) != 0 || destination.is_multicast() {
            return None;
        }
        Some(Route {
            destination: format!("{destination}/{}", u32::from_str_radix(length, 16).ok()?),
            next_hop: address(next_hop)?.to_string(),
            interface: (*interface).to_owned(),
            metric: u32::from_str_radix(metric, 16).ok()?,
        })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use crate::linux::tests::collected;

    const ROUTE: &str = include_str!("../../../../../fixtures/machine/linux/route.txt");
    const IPV6_ROUTE: &str = include_str!("../../../../../fixtures/machine/linux/ipv6_route.txt");

    #[test]
    fn both_tables_are_read() {
        let section = collected(super::section, &[("proc/net/route", ROUTE), ("proc/net/ipv6_route", IPV6_ROUTE)]);
        assert_eq!(section["summary"], "default via 192.0.2.1 on eth0");
        assert_eq!(section["default_interface"], "eth0");
        let routes: Vec<_> = section["routes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| format!("{} {} {} {}", r["destination"], r["next_hop"], r["interface"], r["metric"]))
            .map(|line| line.replace('"', ""))
            .collect();
        assert_eq!(
            routes,
            [
                "0.0.0.0/0 192.0.2.1 eth0 100",
                "::/0 fe80::1 eth0 1024",
                "192.0.2.0/24 0.0.0.0 eth0 100",
                "fe80::/64 :: eth0 256",
            ]
        );
    }

    #[test]
    fn a_machine_without_a_way_out_is_noticed() {
        let section = collected(super::section, &[("proc/net/route", "Iface\nnonsense\n")]);
        assert_eq!((&section["status"], &section["default_interface"]), (&"warn".into(), &serde_json::Value::Null));
    }
}
