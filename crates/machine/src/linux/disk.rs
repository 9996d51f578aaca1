//! Volumes and how full they are, as `df` counts.

mod largest;

use std::path::Path;

use convoke_core::health::Status;
use nix::sys::statvfs::statvfs;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::percent;
use crate::facts::Facts;
use crate::{Section, ToolError};

/// One mounted volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Volume {
    pub(super) mount: String,
    pub(super) total_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) percent_used: f64,
    filesystem: String,
    pub(super) device: String,
}

impl Volume {
    /// The kind of its file system.
    pub(super) fn filesystem(&self) -> &str {
        &self.filesystem
    }
}

/// A mount as the kernel lists it.
#[derive(Debug, PartialEq)]
struct Mount {
    number: String,
    point: String,
    filesystem: String,
    source: String,
}

/// File systems on disks of this machine. Others hold no disk space (`tmpfs`, `proc`), are full by nature
/// (`squashfs`, `iso9660`), or are somewhere else (`nfs`, `cifs`): asking after one whose server is gone hangs.
const ON_DISK: [&str; 21] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs", "nilfs2", "ntfs", "ntfs3",
    "fuseblk", "vfat", "exfat", "msdos", "hfsplus", "ufs", "overlay", "apfs",
];

/// Most volumes told; a machine full of containers mounts one each.
const MAX_VOLUMES: usize = 100;

pub(super) fn usage(facts: &Facts, _: &Map<String, Value>) -> Result<Value, ToolError> {
    let volumes = volumes(facts).map_err(|error| ToolError::io("/proc/self/mountinfo", &error))?;
    Ok(json!({"volumes": volumes}))
}

pub(super) fn section(facts: &Facts) -> Section {
    let Ok(volumes) = volumes(facts) else {
        return Section::new(Status::Warn, "cannot read /proc/self/mountinfo").with("volumes", json!([]));
    };
    let fullest = volumes.iter().max_by(|a, b| a.percent_used.total_cmp(&b.percent_used));
    let (status, summary) = match fullest {
        None => (Status::Ok, "no volume on a disk of this machine".to_owned()),
        Some(volume) => (grade(volume.percent_used), format!("{} {:.0}% full", volume.mount, volume.percent_used)),
    };
    let largest = largest::section_fields(facts, &volumes);
    Section::new(status, summary)
        .with("volumes", json!(volumes))
        .with("top_dirs", largest["top_dirs"].clone())
        .with("top_dirs_complete", largest["complete"].clone())
}

/// The hub's own boundaries, so that a glance at the agent's word gives the same colour.
fn grade(percent_used: f64) -> Status {
    match percent_used {
        used if used >= 95.0 => Status::Crit,
        used if used > 80.0 => Status::Warn,
        _ => Status::Ok,
    }
}

pub(super) fn volumes(facts: &Facts) -> std::io::Result<Vec<Volume>> {
    let mounts = parse_mounts(&facts.read("proc/self/mountinfo")?);
    Ok(mounts.into_iter().take(MAX_VOLUMES).filter_map(measure).collect())
}

/// Each volume once, at the first place where it is mounted.
fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for mount in mountinfo.lines().filter_map(parse_mount) {
        let wanted = ON_DISK.contains(&mount.filesystem.as_str());
        // Containers' overlays repeat what the disk below them has; only the one that is this system's root counts.
        let hidden = mount.filesystem == "overlay" && mount.point != "/";
        let known = mounts.iter().any(|other| other.number == mount.number);
        if wanted && !hidden && !known {
            mounts.push(mount);
        }
    }
    mounts
}

/// `36 35 98:0 / /mnt rw,noatime shared:1 - ext3 /dev/root rw`, with any number of words before the dash.
fn parse_mount(line: &str) -> Option<Mount> {
    let (place, what) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let (number, _, point) = (place.next()?, place.next()?, place.next()?);
    let mut what = what.split(' ');
    let (filesystem, source) = (what.next()?, what.next()?);
    Some(Mount {
        number: number.to_owned(),
        point: unescape(point),
        filesystem: filesystem.to_owned(),
        source: unescape(source),
    })
}

/// The kernel writes a space in a path as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match (first, octal) {
            (b'\\', Some([a, b, c])) => {
                let value = u32::from(a - b'0') * 64 + u32::from(b - b'0') * 8 + u32::from(c - b'0');
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn measure(mount: Mount) -> Option<Volume> {
    let stat = statvfs(Path::new(&mount.point)).ok()?;
    let block = stat.fragment_size();
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    let (total, free, available) = (bytes(stat.blocks()), bytes(stat.blocks_free()), bytes(stat.blocks_available()));
    if total == 0 {
        return None;
    }
    let used = total.saturating_sub(free);
    Some(Volume {
        mount: mount.point,
        total_bytes: total,
        free_bytes: available,
        // What is set aside for root counts neither as used nor as free, as in df.
        percent_used: percent(used, used + available),
        filesystem: mount.filesystem,
        device: mount.source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = include_str!("../../../../fixtures/machine/linux/mountinfo.txt");

    #[test]
    fn only_disks_count_and_each_once() {
        let points: Vec<_> = parse_mounts(MOUNTINFO).into_iter().map(|mount| mount.point).collect();
        assert_eq!(points, ["/", "/boot/efi", "/srv/my disk"]);
    }

    #[test]
    fn escapes_are_undone() {
        for (text, expect) in
            [("/a\\040b", "/a b"), ("\\134x", "\\x"), ("\\9", "\\9"), ("\\", "\\"), ("\\777", "?"), ("/ü", "/ü")]
        {
            assert_eq!(unescape(text), expect);
        }
    }

    #[test]
    fn the_boundaries_are_the_hubs() {
        for (used, status) in [(80.0, Status::Ok), (80.1, Status::Warn), (94.9, Status::Warn), (95.0, Status::Crit)] {
            assert_eq!(grade(used), status, "{used}");
        }
    }
}
