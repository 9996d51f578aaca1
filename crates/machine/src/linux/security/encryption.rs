//! Whether volumes lie on encrypted disks: a mapping of dm-crypt (LUKS) anywhere below them, or ZFS' own.

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::json;

use crate::Section;
use crate::facts::Facts;
use crate::linux::disk::{self, Volume};

/// How deep devices are stacked: a volume group on RAID on LUKS is three.
const MAX_DEPTH: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Encrypted {
    mount: String,
    /// 1 is encrypted, 0 is not: Windows' numbers, which the field knows.
    protection_status: u8,
    method: Option<&'static str>,
}

pub(in crate::linux) fn section(facts: &Facts) -> Section {
    let volumes: Vec<_> = disk::volumes(facts).unwrap_or_default().iter().filter_map(|v| look(facts, v)).collect();
    let root = volumes.iter().find(|volume| volume.mount == "/");
    let (status, summary) = match root.map(|root| root.protection_status) {
        Some(1) => (Status::Ok, "/ is encrypted".to_owned()),
        // A disk that leaves the house with its machine needs it; one in a rack is a matter of taste.
        Some(_) if is_portable(facts) => {
            (Status::Warn, "/ is not encrypted, and this machine is portable".to_owned())
        }
        Some(_) => (Status::Ok, "/ is not encrypted".to_owned()),
        None => (Status::Ok, "cannot determine the disk below /".to_owned()),
    };
    Section::new(status, summary).with("volumes", json!(volumes))
}

fn look(facts: &Facts, volume: &Volume) -> Option<Encrypted> {
    let method = if volume.filesystem() == "zfs" {
        let value = facts.output("zfs", &["get", "-H", "-o", "value", "encryption", "--", &volume.device])?;
        (!matches!(value.trim(), "off" | "-")).then_some("zfs")
    } else {
        let device = volume.device.strip_prefix("/dev/")?;
        // `/dev/mapper/x` is a link to `/dev/dm-0`.
        let path = facts.path("dev").join(device);
        let name = path.canonicalize().ok()?.file_name()?.to_str()?.to_owned();
        method(facts, &name, 0)
    };
    Some(Encrypted { mount: volume.mount.clone(), protection_status: method.is_some().into(), method })
}

/// How a block device, or one below it, is encrypted.
fn method(facts: &Facts, device: &str, depth: usize) -> Option<&'static str> {
    let folder = format!("sys/class/block/{device}");
    match facts.word(&format!("{folder}/dm/uuid")).as_deref() {
        Some(uuid) if uuid.starts_with("CRYPT-LUKS2") => return Some("LUKS2"),
        Some(uuid) if uuid.starts_with("CRYPT-LUKS1") => return Some("LUKS1"),
        Some(uuid) if uuid.starts_with("CRYPT-") => return Some("dm-crypt"),
        _ => {}
    }
    if depth >= MAX_DEPTH {
        return None;
    }
    let below = facts.names(&format!("{folder}/slaves"));
    // Of a mirror, one half in the clear is enough to read it.
    let found: Vec<_> = below.iter().map(|device| method(facts, device, depth + 1)).collect();
    found.iter().all(Option::is_some).then(|| found.first().copied().flatten()).flatten()
}

/// By what the firmware says of its case, or by its battery.
fn is_portable(facts: &Facts) -> bool {
    let case = facts.number("sys/class/dmi/id/chassis_type");
    let carried = [8, 9, 10, 11, 14, 30, 31, 32];
    case.is_some_and(|case| carried.contains(&case))
        || facts.names("sys/class/power_supply").iter().any(|name| name.starts_with("BAT"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::linux::tests::{facts, root};

    #[test]
    fn encryption_is_found_below_other_layers() {
        let root = root(&[
            ("sys/class/block/dm-1/dm/uuid", "LVM-abc\n"),
            ("sys/class/block/dm-1/slaves/dm-0/x", ""),
            ("sys/class/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123-x\n"),
            ("sys/class/block/dm-0/slaves/sda2/x", ""),
            ("sys/class/block/md0/slaves/dm-0/x", ""),
            ("sys/class/block/md0/slaves/sdb1/x", ""),
            ("sys/class/block/loopy/slaves/loopy/x", ""),
        ]);
        let (_runtime, facts) = facts(Options { root: root.path().to_owned(), ..Options::default() });
        assert_eq!(method(&facts, "dm-1", 0), Some("LUKS2"));
        assert_eq!(method(&facts, "sda2", 0), None);
        assert_eq!(method(&facts, "md0", 0), None, "one half of the mirror is in the clear");
        assert_eq!(method(&facts, "loopy", 0), None);
    }
}
