//! The packs and runbooks that come with the program, as data.

use std::sync::LazyLock;

use crate::manifest::{Manifest, ProbeSpec};
use crate::runbook::Runbook;

macro_rules! files {
    ($($path:literal),* $(,)?) => { [$(include_str!(concat!("../", $path))),*] };
}

static PACKS: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
    let texts = files![
        "packs/system.json",
        "packs/docker.json",
        "packs/systemd.json",
        "packs/nginx.json",
        "packs/postgres.json",
        "packs/redis.json",
        "packs/mysql.json",
        "packs/proxmox-node.json",
    ];
    texts.iter().map(|text| Manifest::parse(text).expect("a test reads every built-in pack")).collect()
});

static RUNBOOKS: LazyLock<Vec<Runbook>> = LazyLock::new(|| {
    let texts = files![
        "runbooks/system.toml",
        "runbooks/docker.toml",
        "runbooks/systemd.toml",
        "runbooks/nginx.toml",
        "runbooks/postgres.toml",
        "runbooks/mysql.toml",
        "runbooks/redis.toml",
        "runbooks/proxmox.toml",
        "runbooks/proxmox-vm.toml",
        "runbooks/proxmox-cluster.toml",
        "runbooks/proxmox-storage.toml",
        "runbooks/nutanix-cluster-health.toml",
        "runbooks/nutanix-vm-health.toml",
        "runbooks/nutanix-capacity-planning.toml",
        "runbooks/nutanix-storefront-investigate.toml",
    ];
    texts.iter().map(|text| Runbook::parse(text).expect("a test reads every built-in runbook")).collect()
});

/// The built-in packs.
pub fn packs() -> &'static [Manifest] {
    &PACKS
}

/// The built-in runbooks.
pub fn runbooks() -> &'static [Runbook] {
    &RUNBOOKS
}

/// A built-in probe by its full name, with its pack.
pub fn find(probe: &str) -> Option<(&'static Manifest, &'static ProbeSpec)> {
    let pack = probe.split('.').next()?;
    let manifest = packs().iter().find(|m| m.name == pack)?;
    Some((manifest, manifest.find(probe)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes of the field's pack `nutanix` (field facts, section 16).
    const NUTANIX: [&str; 20] = [
        "clusters.list",
        "hosts.list",
        "vms.list",
        "vm.detail",
        "vm.stats",
        "alerts.list",
        "alerts.summary",
        "storage.containers",
        "categories.list",
        "categories.entities",
        "networks.list",
        "tasks.recent",
        "cluster.health",
        "vm.snapshots",
        "protection.policies",
        "lifecycle.status",
        "host.stats",
        "cluster.stats",
        "images.list",
        "vms.by_host",
    ];

    #[test]
    fn there_are_eight_packs_with_thirty_five_probes_and_all_only_look() {
        assert_eq!(packs().len(), 8);
        let probes: Vec<_> = packs().iter().flat_map(|m| &m.probes).collect();
        assert_eq!(probes.len(), 35);
        assert!(probes.iter().all(|p| p.capability == convoke_core::effect::Effect::Observe));
        assert!(find("proxmox-node.local.vm.locks").is_some() && find("system.nothing").is_none());
    }

    #[test]
    fn every_text_that_reaches_a_program_has_a_form() {
        for pack in packs() {
            for probe in &pack.probes {
                for (name, spec) in &probe.params {
                    let is_text = spec.kind == crate::params::ParamType::String;
                    let bound = spec.format.is_some() || !spec.one_of.is_empty();
                    assert!(!is_text || bound, "{}.{}: {name}", pack.name, probe.name);
                }
            }
        }
    }

    #[test]
    fn every_runbook_asks_for_probes_that_exist_with_parameters_they_take() {
        let mut categories = std::collections::HashSet::new();
        for runbook in runbooks() {
            assert!(categories.insert(&runbook.category), "{} is there twice", runbook.category);
            for step in &runbook.steps {
                // Nobody has this pack built in: an agent may bring it, with the field's names.
                if let Some(name) = step.probe.strip_prefix("nutanix.") {
                    assert!(NUTANIX.contains(&name), "{name}");
                    continue;
                }
                let (_, probe) = find(&step.probe).unwrap_or_else(|| panic!("{} does not exist", step.probe));
                for name in step.params.keys() {
                    assert!(probe.params.contains_key(name), "{}: {name}", step.probe);
                }
            }
        }
        for pack in packs() {
            let category = &pack.runbook.as_ref().expect("every built-in pack has one").category;
            assert!(categories.contains(category), "{category}");
        }
    }
}
