//! The network of a run: a namespace for each part, joined by a bridge in the namespace of this process, and the packets
//! that vanish between them.
//!
//! All of it is inside a network, mount and process namespace that the run was started in: when that ends, however it does,
//! nothing of it is left.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::ClusterError;
use super::faults::{Drops, Place};

/// Where callers ask from.
const CALLERS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Where agents come from.
const AGENTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const BRIDGE: &str = "parts";

/// Where the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// All on loopback: nothing can be cut off.
    Loopback,
    /// Each in a namespace of its own.
    Namespaces,
}

impl Ground {
    /// The address of a part.
    pub(super) fn address(self, place: Place) -> Ipv4Addr {
        match (self, place) {
            (Self::Loopback, _) => Ipv4Addr::LOCALHOST,
            (Self::Namespaces, Place::Hub(hub)) => Ipv4Addr::new(10, 77, 0, 11 + u8::try_from(hub).unwrap_or(0)),
            (Self::Namespaces, Place::Postgres) => Ipv4Addr::new(10, 77, 0, 41),
            (Self::Namespaces, Place::Nats) => Ipv4Addr::new(10, 77, 0, 42),
            (Self::Namespaces, Place::Agents) => AGENTS,
        }
    }

    /// A part's address with a port for it: one that is free, where others have ports too.
    pub(super) fn socket(self, place: Place, port: u16) -> io::Result<SocketAddr> {
        let address = self.address(place);
        match self {
            Self::Namespaces => Ok((address, port).into()),
            Self::Loopback => std::net::TcpListener::bind((address, 0))?.local_addr(),
        }
    }

    /// Where agents connect from, if that is not the system's choice.
    pub(super) fn source_of_agents(self) -> Option<IpAddr> {
        (self == Self::Namespaces).then_some(IpAddr::V4(AGENTS))
    }

    /// A program that runs where the part is.
    pub(super) fn command(self, place: Place, program: impl AsRef<std::ffi::OsStr>) -> Command {
        match self {
            Self::Loopback => Command::new(program),
            Self::Namespaces => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &namespace(place)]).arg(program);
                command
            }
        }
    }
}

fn namespace(place: Place) -> String {
    match place {
        Place::Hub(hub) => format!("hub{}", hub + 1),
        Place::Postgres => "postgres".into(),
        Place::Nats => "nats".into(),
        // They live in the namespace of this process.
        Place::Agents => "agents".into(),
    }
}

/// Makes the bridge and the namespaces.
pub(super) async fn make(places: &[Place]) -> Result<(), ClusterError> {
    // Names of namespaces are files, which must not be left behind.
    std::fs::create_dir_all("/run/netns").map_err(|why| ClusterError::io("make /run/netns", why))?;
    run("mount", &["-t", "tmpfs", "namespaces", "/run/netns"]).await?;
    // Shared memory, too: PostgreSQL leaves some of it when it is killed.
    run("mount", &["-t", "tmpfs", "shared-memory", "/dev/shm"]).await?;
    ip("link set lo up").await?;
    ip(&format!("link add {BRIDGE} type bridge")).await?;
    for address in [CALLERS, AGENTS] {
        ip(&format!("address add {address}/24 dev {BRIDGE}")).await?;
    }
    ip(&format!("link set {BRIDGE} up")).await?;
    for place in places {
        let (name, address) = (namespace(*place), Ground::Namespaces.address(*place));
        ip(&format!("netns add {name}")).await?;
        ip(&format!("link add to-{name} type veth peer name eth0 netns {name}")).await?;
        ip(&format!("link set to-{name} master {BRIDGE} up")).await?;
        for rest in [format!("address add {address}/24 dev eth0"), "link set eth0 up".into(), "link set lo up".into()]
        {
            ip(&format!("-n {name} {rest}")).await?;
        }
    }
    Ok(())
}

/// Puts these drops in place of those before.
pub(super) async fn set_drops(places: &[Place], drops: &[Drops]) -> Result<(), ClusterError> {
    for place in places {
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &namespace(*place), "nft", "-f", "-"]);
        nft.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let failed = |why| ClusterError::io("run nft", why);
        let mut child = nft.spawn().map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(rules(*place, drops).as_bytes()).await.map_err(failed)?;
        }
        let done = child.wait_with_output().await.map_err(failed)?;
        if !done.status.success() {
            return Err(ClusterError::Program("nft".into(), String::from_utf8_lossy(&done.stderr).trim().to_owned()));
        }
    }
    Ok(())
}

/// The rules of one namespace. What leaves it is dropped there only if it goes to where there are no rules.
fn rules(place: Place, drops: &[Drops]) -> String {
    let mut text = String::from("flush ruleset\ntable ip faults {\n");
    let mut chains = [("input", String::new()), ("output", String::new())];
    for drop in drops {
        let ways = [(drop.from, drop.to), (drop.to, drop.from)];
        for (from, to) in ways.iter().take(if drop.back_too { 2 } else { 1 }) {
            let share =
                if drop.percent < 100 { format!("numgen random mod 100 < {} ", drop.percent) } else { String::new() };
            if *to == place {
                let _ = writeln!(chains[0].1, "ip saddr {} {share}drop", Ground::Namespaces.address(*from));
            } else if *from == place && *to == Place::Agents {
                let _ = writeln!(chains[1].1, "ip daddr {AGENTS} {share}drop");
            }
        }
    }
    for (hook, rules) in chains {
        let _ = writeln!(text, "chain {hook} {{\ntype filter hook {hook} priority 0;\n{rules}}}");
    }
    text.push_str("}\n");
    text
}

async fn ip(line: &str) -> Result<(), ClusterError> {
    run("ip", &line.split(' ').collect::<Vec<_>>()).await
}

pub(super) async fn run(program: &str, args: &[&str]) -> Result<(), ClusterError> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().await;
    let output = output.map_err(|why| ClusterError::io(program, why))?;
    if output.status.success() {
        return Ok(());
    }
    let line = format!("{program} {}", args.join(" "));
    Err(ClusterError::Program(line, String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// What a run in namespaces lacks on this machine.
pub(super) fn lacking() -> Option<&'static str> {
    let is_there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|folder| folder.join(name).is_file())
    };
    let programs = [
        ("unshare", "unshare (util-linux) is not installed"),
        ("ip", "ip (iproute2) is not installed"),
        ("nft", "nft (nftables) is not installed"),
        ("nats-server", "nats-server is not installed"),
    ];
    if let Some((_, why)) = programs.into_iter().find(|(name, _)| !is_there(name)) {
        return Some(why);
    }
    if !Path::new("/usr/lib/postgresql").is_dir() {
        return Some("PostgreSQL is not installed");
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    (!is_root).then_some("making network namespaces needs root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_dropped_where_they_arrive() {
        let drops = [Drops { from: Place::Hub(0), to: Place::Postgres, back_too: false, percent: 100 }];
        assert!(rules(Place::Postgres, &drops).contains("ip saddr 10.77.0.11 drop"));
        assert!(!rules(Place::Hub(0), &drops).contains("drop"));
        let both = [Drops { back_too: true, percent: 20, ..drops[0] }];
        assert!(rules(Place::Hub(0), &both).contains("ip saddr 10.77.0.41 numgen random mod 100 < 20 drop"));
        let agents = [Drops { from: Place::Hub(1), to: Place::Agents, back_too: false, percent: 100 }];
        assert!(rules(Place::Hub(1), &agents).contains("output priority 0;\nip daddr 10.77.0.2 drop"));
        assert!(!rules(Place::Hub(0), &agents).contains("drop"));
    }
}
