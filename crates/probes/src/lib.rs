//! Sonde's packs on a machine: which of them make sense here, and their probes, run safely.
//!
//! What a probe takes and may do is in its manifest, as data; here is how it finds out. A caller's value reaches a program
//! only after it has the form that the manifest demands, never as something that could be read as an option, and never
//! through a shell. A log is read only inside the directories that are allowed, wherever links point; a database only on
//! the hosts that are allowed. Whatever comes out, errors too, is scrubbed of secrets and bounded in size.
//!
//! The agent's own ceiling is checked here again, whatever the hub decided.

mod context;
mod detect;
mod docker;
mod failure;
mod journal;
mod mysql;
mod nginx;
mod own;
mod postgres;
mod proxmox;
mod redis;
mod surfaces;
mod system;
mod systemd;
mod tail;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoke_core::effect::Effect;
use convoke_machine::Call;
use convoke_sonde::agent::{Failure, Ran, unknown_pack};
use convoke_sonde::manifest::{Manifest, ProbeSpec};
use convoke_sonde::probe::{Metadata, Status, code};
use convoke_sonde::register::PackInfo;
use convoke_sonde::scrub::Scrubber;
use convoke_sonde::{builtin, params};
use serde_json::{Map, Value};

pub(crate) use context::Context;
pub(crate) use failure::ProbeError;
use own::OwnPack;

/// Reads the file of an owner's pack as loading it would, and says what is in it or what is wrong with it.
pub fn check_pack(path: &Path) -> Result<Manifest, String> {
    own::check(path)
}

/// Reads a directory of packs as loading it would: what is in it, and what is wrong with the rest.
pub fn check_packs(dir: &Path) -> (Vec<Manifest>, Vec<String>) {
    let (packs, problems) = own::read(dir);
    (packs.into_iter().map(|pack| pack.manifest).collect(), problems)
}

/// What an agent allows.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most that a probe may do.
    pub ceiling: Effect,
    /// Directories below which `system.logs.tail` may read.
    pub log_dirs: Vec<PathBuf>,
    /// Directories below which nginx' logs may be read.
    pub nginx_log_dirs: Vec<PathBuf>,
    /// Hosts besides this machine itself on which databases may be asked.
    pub database_hosts: Vec<String>,
    /// Packs that are not to be loaded.
    pub disabled_packs: Vec<String>,
    /// Where the owner's own packs are; none when nothing is said.
    pub packs_dir: Option<PathBuf>,
    /// Where programs are looked for.
    pub path: Vec<PathBuf>,
    /// Patterns of the operator's own for what must not leave the machine.
    pub scrub: Vec<String>,
    /// Where the agent looks for things of the machine: `/`, except in tests.
    pub root: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let mut path: Vec<PathBuf> = std::env::split_paths(&inherited).collect();
        // An ordinary user's path often lacks where the servers' own tools are.
        for usual in ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
            if !path.iter().any(|p| p.as_os_str() == usual) {
                path.push(usual.into());
            }
        }
        Self {
            ceiling: Effect::Observe,
            log_dirs: vec!["/var/log".into(), "/tmp".into()],
            nginx_log_dirs: vec!["/var/log/nginx".into()],
            database_hosts: Vec::new(),
            disabled_packs: Vec::new(),
            packs_dir: None,
            path,
            scrub: Vec::new(),
            root: "/".into(),
        }
    }
}

/// The packs that are loaded, ready to be asked.
#[derive(Debug)]
pub struct Probes {
    config: Config,
    packs: Vec<&'static Manifest>,
    own: Vec<OwnPack>,
    problems: Vec<String>,
    scrubber: Scrubber,
    version: String,
}

impl Probes {
    /// Loads the packs that make sense on this machine. An error names a scrub pattern that cannot be used: going on
    /// without it would leak what it was meant to hide.
    pub fn load(config: Config, version: &str) -> Result<Self, convoke_sonde::scrub::BadPattern> {
        let scrubber = Scrubber::new(&config.scrub)?;
        let wanted = |pack: &&Manifest| !config.disabled_packs.contains(&pack.name) && detect::is_here(&config, pack);
        let packs = builtin::packs().iter().filter(wanted).collect();
        let (mut own, problems) = config.packs_dir.as_deref().map(own::read).unwrap_or_default();
        own.retain(|pack| wanted(&&pack.manifest));
        Ok(Self { packs, own, problems, scrubber, version: version.into(), config })
    }

    /// The packs, as a registration names them.
    pub fn packs(&self) -> Vec<PackInfo> {
        let info = |pack: &&Manifest| PackInfo {
            name: pack.name.clone(),
            version: pack.version.clone(),
            status: "active".into(),
        };
        self.manifests().map(|m| info(&m)).collect()
    }

    /// The probes, by their full names.
    pub fn capabilities(&self) -> Vec<String> {
        self.manifests().flat_map(|m| m.probes.iter().map(|p| format!("{}.{}", m.name, p.name))).collect()
    }

    fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.packs.iter().copied().chain(self.own.iter().map(|pack| &pack.manifest))
    }

    /// The manifests of the owner's own packs: nobody else knows them.
    pub fn own_manifests(&self) -> Vec<Manifest> {
        self.own.iter().map(|pack| pack.manifest.clone()).collect()
    }

    /// What the owner's own packs say, commands and all; empty when there are none.
    pub fn own_text(&self) -> String {
        self.own.iter().map(|pack| pack.text.as_str()).collect()
    }

    /// What is wrong with the owner's packs that are not loaded.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// A text without its secrets.
    pub fn scrub(&self, text: &str) -> String {
        self.scrubber.text(text)
    }

    /// Runs a probe to its end: a result, or a failure with its status, code and words. Never longer than the asker's
    /// time and the manifest's.
    pub async fn run(&self, probe: &str, given: Option<&str>, call: &Call) -> Ran {
        let started = Instant::now();
        let (metadata, outcome) = match self.find(probe) {
            Err(failure) => (self.unknown(), Err(failure)),
            Ok((pack, spec)) => (self.metadata(pack, spec), self.run_known(probe, spec, given, call).await),
        };
        let outcome = match outcome {
            Ok(mut value) => {
                self.scrubber.value(&mut value);
                serde_json::value::to_raw_value(&value).map_err(|why| Failure {
                    status: Status::Error,
                    code: code::FAILED,
                    message: format!("the result cannot be written: {why}"),
                })
            }
            Err(failure) => Err(Failure { message: self.scrubber.text(&failure.message), ..failure }),
        };
        Ran { outcome, duration: started.elapsed(), metadata }
    }

    /// The answer to a probe that is not run.
    pub fn refused(&self, probe: &str, failure: Failure) -> Ran {
        let metadata = self.find(probe).map_or_else(|_| self.unknown(), |(pack, spec)| self.metadata(pack, spec));
        Ran { outcome: Err(failure), duration: Duration::ZERO, metadata }
    }

    /// What a probe may do to this machine; nothing when no pack has it.
    pub fn effect(&self, probe: &str) -> Option<Effect> {
        self.find(probe).ok().map(|(_, spec)| spec.capability)
    }

    /// Why the ceiling forbids a probe, if it does.
    pub fn over_ceiling(&self, probe: &str) -> Option<String> {
        let (needs, most) = (self.effect(probe)?, self.config.ceiling);
        (needs > most).then(|| format!("{probe} needs {needs}, and this agent allows {most} at most"))
    }

    fn own_pack(&self, probe: &str) -> Option<&OwnPack> {
        self.own.iter().find(|pack| pack.manifest.find(probe).is_some())
    }

    fn unknown(&self) -> Metadata {
        Metadata { agent_version: self.version.clone(), ..unknown_pack() }
    }

    fn metadata(&self, pack: &Manifest, spec: &ProbeSpec) -> Metadata {
        Metadata {
            agent_version: self.version.clone(),
            pack_name: pack.name.clone(),
            pack_version: pack.version.clone(),
            capability_level: spec.capability,
        }
    }

    fn find(&self, probe: &str) -> Result<(&Manifest, &ProbeSpec), Failure> {
        let not_found = |message: String| Failure { status: Status::Error, code: code::NOT_FOUND, message };
        let name = &probe[..probe.floor_char_boundary(128)];
        let pack = name.split('.').next().unwrap_or_default();
        let Some(manifest) = self.manifests().find(|m| m.name == pack) else {
            return Err(not_found(format!("Pack '{pack}' not loaded")));
        };
        match manifest.find(probe) {
            Some(spec) => Ok((manifest, spec)),
            None => Err(not_found(format!("Unknown probe: {name}"))),
        }
    }

    async fn run_known(
        &self,
        probe: &str,
        spec: &ProbeSpec,
        given: Option<&str>,
        call: &Call,
    ) -> Result<Value, Failure> {
        if let Some(message) = self.over_ceiling(probe) {
            return Err(Failure { status: Status::Unauthorized, code: code::UNAUTHORIZED, message });
        }
        let params = params::validate(&spec.params, given).map_err(|why| Failure {
            status: Status::Error,
            code: code::INVALID_PARAMS,
            message: why.to_string(),
        })?;
        let most = Duration::from_millis(spec.timeout);
        let timeout = call.timeout.map_or(most, |asked| asked.min(most));
        let context = Context::new(&self.config, timeout, call);
        context.check_named(self.named_paths(probe, spec, &params)).await?;
        // The programs have the same limit; this one is for what is no program.
        let run = async {
            match self.own_pack(probe) {
                Some(pack) => pack.run(&context, probe, &params).await,
                None => dispatch(&context, probe, &params).await,
            }
        };
        match tokio::time::timeout(timeout + Duration::from_secs(2), run).await {
            Ok(result) => result.map_err(Failure::from),
            Err(_) => Err(ProbeError::TimedOut(timeout).into()),
        }
    }
}

/// One line per probe: a manifest's probe without one fails a test.
async fn dispatch(cx: &Context<'_>, probe: &str, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    match probe {
        "system.disk.usage" => system::disk(cx).await,
        "system.memory.usage" => system::memory(cx),
        "system.cpu.usage" => system::cpu(cx),
        "system.network.ping" => system::ping(cx, params).await,
        "system.network.traceroute" => system::traceroute(cx, params).await,
        "system.logs.journal" => journal::system(cx, params).await,
        "system.logs.dmesg" => system::dmesg(cx, params).await,
        "system.logs.tail" => tail::system(cx, params).await,
        "docker.containers.list" => docker::containers(cx).await,
        "docker.logs.tail" => docker::logs(cx, params).await,
        "docker.images.list" => docker::images(cx).await,
        "docker.daemon.info" => docker::info(cx).await,
        "systemd.services.list" => systemd::services(cx).await,
        "systemd.service.status" => systemd::status(cx, params).await,
        "systemd.journal.query" => journal::unit(cx, params).await,
        "nginx.config.test" => nginx::test(cx).await,
        "nginx.access.log.tail" | "nginx.error.log.tail" => tail::nginx(cx, params).await,
        "postgres.databases.list" => postgres::databases(cx, params).await,
        "postgres.connections.active" => postgres::connections(cx, params).await,
        "postgres.query.slow" => postgres::slow(cx, params).await,
        "redis.info" => redis::info(cx, params).await,
        "redis.keys.count" => redis::keys(cx, params).await,
        "redis.memory.usage" => redis::memory(cx, params).await,
        "mysql.databases.list" => mysql::databases(cx, params).await,
        "mysql.processlist" => mysql::processes(cx, params).await,
        "mysql.status" => mysql::status(cx, params).await,
        "proxmox-node.local.vm.config" => proxmox::vm_config(cx, params).await,
        "proxmox-node.local.lxc.config" => proxmox::lxc_config(cx, params).await,
        "proxmox-node.local.lxc.list" => proxmox::lxc_list(cx).await,
        "proxmox-node.local.ha.status" => proxmox::ha(cx).await,
        "proxmox-node.local.lvm" => proxmox::lvm(cx).await,
        "proxmox-node.local.ceph.status" => proxmox::ceph(cx).await,
        "proxmox-node.local.cluster.config" => proxmox::cluster(cx).await,
        "proxmox-node.local.vm.locks" => proxmox::locks(cx),
        _ => Err(ProbeError::Failed(format!("{probe} is in a manifest but cannot be run"))),
    }
}
