//! Firewall, encrypted volumes, scanners of other makers, and the two sections that are Windows' alone.

mod antivirus;
mod encryption;
mod firewall;

use serde_json::{Value, json};

use crate::Section;
use crate::facts::Facts;

pub(super) use antivirus::section as av_thirdparty;
pub(super) use encryption::section as encryption;
pub(super) use firewall::section as firewall;

/// Defender is Windows'. Its fields are null and not false: false would say that protection is off.
pub(super) fn defender(_: &Facts) -> Section {
    let fields = [
        "enabled",
        "realtime_protection",
        "last_scan",
        "last_scan_type",
        "last_signature_update",
        "threats_found",
        "action_needed",
    ];
    let section = Section::ok("n/a on this platform: Microsoft Defender is a part of Windows");
    fields.iter().fold(section, |section, field| section.with(field, Value::Null))
}

pub(super) fn defender_quarantine(_: &Facts) -> Section {
    Section::ok("n/a on this platform: Microsoft Defender is a part of Windows").with("items", json!([]))
}
