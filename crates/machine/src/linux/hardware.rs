//! Devices on the USB and PCI buses, and what disks say of their own health.

mod ids;
mod smart;

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::json;

use crate::facts::Facts;
use crate::{Section, text};
use ids::Ids;

pub(super) use smart::section as disk_smart;

/// Most devices told.
const MAX_DEVICES: usize = 200;

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Device {
    name: String,
    class: String,
    status: &'static str,
}

pub(super) fn peripherals(facts: &Facts) -> Section {
    let mut devices = usb(facts);
    let usb_count = devices.len();
    devices.extend(pci(facts));
    let (pci_count, total) = (devices.len() - usb_count, devices.len());
    devices.truncate(MAX_DEVICES);
    let bad: Vec<_> = devices.iter().filter(|device| device.status == "error").collect();
    let (status, summary) = match bad.first() {
        Some(device) => (Status::Warn, format!("{} of {total} devices in error: {}", bad.len(), device.name)),
        None => (Status::Ok, format!("{usb_count} USB and {} PCI devices, none in error", pci_count)),
    };
    Section::new(status, summary).with("devices", json!(devices))
}

/// Devices, not their interfaces (`1-1:1.0`) and not the buses' own roots (`usb1`).
fn usb(facts: &Facts) -> Vec<Device> {
    let ids = Ids::usb(facts);
    let folder = "sys/bus/usb/devices";
    let names = facts.names(folder).into_iter().filter(|name| !name.contains(':') && !name.starts_with("usb"));
    let device = |name: String| {
        let read = |file: &str| facts.word(&format!("{folder}/{name}/{file}"));
        let (vendor, product) = (read("idVendor")?, read("idProduct")?);
        let known = ids.name(&vendor, &product);
        // The device's own words are better than the list's, when it has any.
        let own = match (read("manufacturer"), read("product")) {
            (Some(maker), Some(product)) if product.starts_with(&maker) => Some(product),
            (Some(maker), Some(product)) => Some(format!("{maker} {product}")),
            (None, product) => product,
            (Some(_), None) => None,
        };
        let shown = own.or(known).unwrap_or_else(|| format!("USB device {vendor}:{product}"));
        Some(Device {
            name: text::one_line(&shown, 160),
            class: usb_class(facts, &name, read("bDeviceClass").as_deref()).to_owned(),
            // A device that the kernel refuses to talk to has this at 0.
            status: if read("authorized").as_deref() == Some("0") { "disabled" } else { "ok" },
        })
    };
    names.filter_map(device).collect()
}

/// What it is for. Most say it per interface; the first one that says something names it.
fn usb_class(facts: &Facts, name: &str, device: Option<&str>) -> &'static str {
    let by_code = |code: &str| {
        Some(match code {
            "01" => "Audio",
            "02" | "0a" => "Communications",
            "03" => "HID",
            "06" | "0e" => "Camera",
            "07" => "Printer",
            "08" => "Storage",
            "09" => "Hub",
            "0b" => "SmartCard",
            "e0" => "Wireless",
            _ => return None,
        })
    };
    if let Some(class) = device.and_then(by_code) {
        return class;
    }
    let prefix = format!("{name}:");
    let interfaces = facts.names("sys/bus/usb/devices").into_iter().filter(|other| other.starts_with(&prefix));
    interfaces
        .filter_map(|other| facts.word(&format!("sys/bus/usb/devices/{other}/bInterfaceClass")))
        .find_map(|code| by_code(&code))
        .unwrap_or("USB")
}

fn pci(facts: &Facts) -> Vec<Device> {
    let ids = Ids::pci(facts);
    let folder = "sys/bus/pci/devices";
    let device = |slot: String| {
        let hex = |file: &str| {
            let word = facts.word(&format!("{folder}/{slot}/{file}"))?;
            Some(word.trim_start_matches("0x").to_owned())
        };
        let (vendor, product, class) = (hex("vendor")?, hex("device")?, hex("class")?);
        let name = ids.name(&vendor, &product).unwrap_or_else(|| format!("PCI device {vendor}:{product}"));
        // An error that the device could not mend by itself.
        let fatal = facts.word(&format!("{folder}/{slot}/aer_dev_fatal")).is_some_and(|text| {
            text.lines().any(|line| line.strip_prefix("TOTAL_ERR_FATAL ").is_some_and(|count| count.trim() != "0"))
        });
        Some(Device {
            name: text::one_line(&name, 160),
            class: pci_class(&class).to_owned(),
            status: if fatal { "error" } else { "ok" },
        })
    };
    facts.names(folder).into_iter().filter_map(device).collect()
}

fn pci_class(code: &str) -> &'static str {
    match code.get(..2).unwrap_or_default() {
        "01" => "Storage",
        "02" => "Network",
        "03" => "Display",
        "04" => "Multimedia",
        "05" => "Memory",
        "06" => "Bridge",
        "07" => "Communications",
        "08" => "System",
        "09" => "Input",
        "0c" => "SerialBus",
        "0d" => "Wireless",
        "10" => "Encryption",
        "12" => "Accelerator",
        _ => "PCI",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::collected;

    #[test]
    fn devices_have_their_names_from_themselves_or_from_the_list() {
        let usb = "sys/bus/usb/devices";
        let pci = "sys/bus/pci/devices/0000:00:02.0";
        let files = [
            (format!("{usb}/usb1/idVendor"), "1d6b"),
            (format!("{usb}/1-1/idVendor"), "046d\n"),
            (format!("{usb}/1-1/idProduct"), "c31c\n"),
            (format!("{usb}/1-1/bDeviceClass"), "00\n"),
            (format!("{usb}/1-1:1.0/bInterfaceClass"), "03\n"),
            (format!("{usb}/1-2/idVendor"), "abcd\n"),
            (format!("{usb}/1-2/idProduct"), "0001\n"),
            (format!("{usb}/1-2/manufacturer"), "Acme\n"),
            (format!("{usb}/1-2/product"), "Acme Stick\n"),
            (format!("{usb}/1-2/authorized"), "0\n"),
            (format!("{pci}/vendor"), "0x8086\n"),
            (format!("{pci}/device"), "0x9a49\n"),
            (format!("{pci}/class"), "0x030000\n"),
            (format!("{pci}/aer_dev_fatal"), "RxOF 0\nTOTAL_ERR_FATAL 2\n"),
            (
                "usr/share/misc/usb.ids".into(),
                "# x\n046d  Logitech, Inc.\n\tc31c  Keyboard K120\n\n# List of classes\nC 00  x\n",
            ),
            ("usr/share/misc/pci.ids".into(), "8086  Intel Corporation\n\t9a49  Iris Xe\n\t\t1028 0a3e  sub\n"),
        ];
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let section = collected(peripherals, &files);
        let expect = json!([
            {"name": "Logitech, Inc. Keyboard K120", "class": "HID", "status": "ok"},
            {"name": "Acme Stick", "class": "USB", "status": "disabled"},
            {"name": "Intel Corporation Iris Xe", "class": "Display", "status": "error"},
        ]);
        assert_eq!(section["devices"], expect);
        assert_eq!(section["status"], "warn");
    }
}
