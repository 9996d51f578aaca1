//! The names of vendors and products, from the lists that distributions bring.

use crate::facts::Facts;

/// Names of those devices that were asked for: the lists have a megabyte, so they are read through and not kept.
#[derive(Debug, Default)]
pub(super) struct Ids {
    names: Vec<(String, String, String)>,
}

impl Ids {
    pub(super) fn usb(facts: &Facts) -> Self {
        Self::find(facts, "sys/bus/usb/devices", "idVendor", "idProduct", "usb.ids")
    }

    pub(super) fn pci(facts: &Facts) -> Self {
        Self::find(facts, "sys/bus/pci/devices", "vendor", "device", "pci.ids")
    }

    /// `Vendor Product`, or the vendor alone.
    pub(super) fn name(&self, vendor: &str, product: &str) -> Option<String> {
        let found = self.names.iter().find(|(v, p, _)| v == vendor && p == product);
        found.map(|(_, _, name)| name.clone())
    }

    fn find(facts: &Facts, folder: &str, vendor: &str, product: &str, list: &str) -> Self {
        let id = |device: &str, file: &str| {
            let word = facts.word(&format!("{folder}/{device}/{file}"))?;
            Some(word.trim_start_matches("0x").to_lowercase())
        };
        let wanted: Vec<(String, String)> = facts
            .names(folder)
            .iter()
            .filter_map(|device| Some((id(device, vendor)?, id(device, product)?)))
            .collect();
        if wanted.is_empty() {
            return Self::default();
        }
        let folders = ["usr/share/misc", "usr/share/hwdata", "var/lib/usbutils", "var/lib/pciutils"];
        let path = folders.iter().map(|folder| format!("{folder}/{list}")).find(|path| facts.exists(path));
        let lines = path.into_iter().flat_map(|path| facts.lines(&path));
        Self { names: pick(lines, &wanted) }
    }
}

/// `046d  Logitech, Inc.`, and below it, after a tab, `c31c  Keyboard K120`. Other kinds of lists follow, whose lines
/// begin with a letter and a space.
fn pick(lines: impl Iterator<Item = String>, wanted: &[(String, String)]) -> Vec<(String, String, String)> {
    let mut found: Vec<(String, String, String)> = Vec::new();
    let mut vendor: Option<(String, String)> = None;
    for line in lines {
        if line.starts_with('#') || line.trim().is_empty() || line.starts_with("\t\t") {
            continue;
        }
        let product = line.strip_prefix('\t');
        let Some((id, name)) = product.unwrap_or(&line).split_once("  ") else {
            vendor = None;
            continue;
        };
        match (product, &vendor) {
            (None, _) => {
                vendor = wanted.iter().any(|(v, _)| v == id).then(|| (id.to_owned(), name.trim().to_owned()));
                // Until its product is met, a device is known by its vendor alone.
                for (v, p) in wanted.iter().filter(|(v, _)| v == id) {
                    if !found.iter().any(|(a, b, _)| a == v && b == p) {
                        found.push((v.clone(), p.clone(), format!("{} device {p}", name.trim())));
                    }
                }
            }
            (Some(_), Some((vendor_id, vendor_name))) => {
                for entry in found.iter_mut().filter(|(v, p, _)| v == vendor_id && p == id) {
                    entry.2 = format!("{vendor_name} {}", name.trim());
                }
            }
            (Some(_), None) => {}
        }
    }
    found
}
