//! The clock, printers, the wireless network.

use convoke_core::health::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::round1;
use crate::facts::Facts;
use crate::{Section, text};

/// A clock that is further off than this confuses certificates and logs.
const MAX_OFFSET_SECS: f64 = 5.0;

/// What keeps the clock.
#[derive(Clone, Debug, PartialEq)]
struct Clock {
    synchronized: bool,
    source: Option<String>,
    offset_secs: Option<f64>,
}

pub(super) fn time_sync(facts: &Facts) -> Section {
    let clock = chrony(facts).or_else(|| ntpd(facts)).or_else(|| timesyncd(facts)).or_else(|| timedated(facts));
    let Some(clock) = clock else {
        // A container has its host's clock and cannot set it.
        let contained = facts.exists("run/systemd/container") || facts.exists(".dockerenv");
        let (status, summary) = match contained {
            true => (Status::Ok, "the host keeps the clock"),
            false => (Status::Warn, "no clock synchronisation found (looked for chrony, ntpd, systemd)"),
        };
        return Section::new(status, summary)
            .with("synchronized", Value::Null)
            .with("source", Value::Null)
            .with("offset_secs", Value::Null);
    };
    let off = clock.offset_secs.is_some_and(|offset| offset.abs() > MAX_OFFSET_SECS);
    let (status, summary) = match (clock.synchronized, off) {
        (false, _) => (Status::Warn, "the clock is not synchronised".to_owned()),
        (true, true) => (Status::Warn, format!("the clock is {:.0} s off", clock.offset_secs.unwrap_or(0.0))),
        (true, false) => {
            let by = clock.source.as_ref().map_or_else(String::new, |source| format!(" with {source}"));
            (Status::Ok, format!("the clock is synchronised{by}"))
        }
    };
    Section::new(status, summary)
        .with("synchronized", clock.synchronized)
        .with("source", clock.source)
        .with("offset_secs", clock.offset_secs)
}

fn chrony(facts: &Facts) -> Option<Clock> {
    parse_chrony(&facts.output("chronyc", &["-c", "-n", "tracking"])?)
}

/// Numbers and names between commas: the second is the source, the fifth the offset, the last whether all is well.
fn parse_chrony(text: &str) -> Option<Clock> {
    let cells: Vec<&str> = text.trim().split(',').collect();
    let leap = cells.get(13)?;
    let source = cells.get(1).filter(|name| !name.is_empty()).map(|name| text::one_line(name, 128));
    let offset = cells.get(4)?.parse().ok();
    Some(Clock { synchronized: !leap.contains("Not synchronised"), source, offset_secs: offset })
}

fn ntpd(facts: &Facts) -> Option<Clock> {
    let output = facts.command("ntpq", &["-pn"])?.ok()?;
    (output.success() && !output.stdout.trim().is_empty()).then(|| parse_ntpq(&output.stdout))
}

/// `*192.0.2.1  .GPS.  1 u  36  64  377  0.5  -1.234  0.1`: the star is the one that is followed; offsets are in ms.
fn parse_ntpq(text: &str) -> Clock {
    let followed = text.lines().find_map(|line| line.strip_prefix(['*', 'o']));
    let words: Vec<&str> = followed.unwrap_or_default().split_ascii_whitespace().collect();
    Clock {
        synchronized: followed.is_some(),
        source: words.first().map(|source| (*source).to_owned()),
        offset_secs: words.get(8).and_then(|ms| ms.parse::<f64>().ok()).map(|ms| ms / 1000.0),
    }
}

fn timesyncd(facts: &Facts) -> Option<Clock> {
    if !facts.exists("run/systemd/timesync") {
        return None;
    }
    // The file is touched when the clock is set; its being there means that it has been.
    let synchronized = facts.exists("run/systemd/timesync/synchronized");
    let status = facts.output("timedatectl", &["timesync-status", "--no-pager"]).unwrap_or_default();
    let (source, offset_secs) = parse_timesync_status(&status);
    Some(Clock { synchronized, source, offset_secs })
}

/// `Server: 192.0.2.1 (pool.example.org)` and `Offset: -1.234ms`.
fn parse_timesync_status(text: &str) -> (Option<String>, Option<f64>) {
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    let source =
        field("Server:").filter(|server| !server.starts_with("n/a")).map(|server| text::one_line(server, 128));
    (source, field("Offset:").and_then(parse_span))
}

/// `+1min 2.5s`, `-1.234ms`, `5us`.
fn parse_span(text: &str) -> Option<f64> {
    let negative = text.starts_with('-');
    let mut total = 0.0;
    for word in text.trim_start_matches(['+', '-']).split_ascii_whitespace() {
        let at = word.find(|c: char| c.is_alphabetic())?;
        let (number, unit) = word.split_at(at);
        let factor = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
    }
    Some(if negative { -total } else { total })
}

/// What the kernel knows, through systemd: another daemon may have set it.
fn timedated(facts: &Facts) -> Option<Clock> {
    if !facts.exists("run/systemd/system") {
        return None;
    }
    let text = facts.output("timedatectl", &["show", "--property=NTPSynchronized", "--property=NTP"])?;
    let is = |line: &str| text.lines().any(|other| other == line);
    Some(Clock { synchronized: is("NTPSynchronized=yes"), source: None, offset_secs: None })
}

/// Most printers told.
const MAX_PRINTERS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Printer {
    name: String,
    status: &'static str,
    message: Option<String>,
}

pub(super) fn printers(facts: &Facts) -> Section {
    let Some(output) = facts.command("lpstat", &["-p"]) else {
        return Section::ok("CUPS is not installed").with("printers", json!([]));
    };
    // `lpstat` fails with a message when CUPS does not run or has no printer.
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let mut printers = parse_lpstat(&text);
    printers.truncate(MAX_PRINTERS);
    let stopped: Vec<_> = printers.iter().filter(|printer| printer.status == "disabled").collect();
    let (status, summary) = match (stopped.first(), printers.len()) {
        (Some(printer), _) => {
            (Status::Warn, format!("{} of {} stopped: {}", stopped.len(), printers.len(), printer.name))
        }
        (None, 0) => (Status::Ok, "no printer".to_owned()),
        (None, count) => (Status::Ok, format!("{} ready", text::count(count, "printer"))),
    };
    Section::new(status, summary).with("printers", json!(printers))
}

/// `printer Office is idle.  enabled since …`, `printer X now printing X-5.  enabled since …`, `printer Old disabled
/// since … -`, each with the reason on the next line.
fn parse_lpstat(text: &str) -> Vec<Printer> {
    let mut printers: Vec<Printer> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("printer ") {
            let Some((name, state)) = rest.split_once(' ') else { continue };
            let status = match state {
                state if state.starts_with("is idle") => "idle",
                state if state.starts_with("now printing") => "printing",
                state if state.starts_with("disabled") => "disabled",
                _ => "unknown",
            };
            printers.push(Printer { name: text::one_line(name, 128), status, message: None });
        } else if let Some(printer) = printers.last_mut()
            && printer.message.is_none()
            && !line.trim().is_empty()
        {
            printer.message = Some(text::one_line(line, 200)).filter(|message| message != "reason unknown");
        }
    }
    printers
}

/// Signal under this is what people complain about.
const WEAK_PERCENT: f64 = 50.0;

/// A wireless connection.
#[derive(Clone, Debug, Default, PartialEq)]
struct Link {
    ssid: Option<String>,
    signal_percent: Option<f64>,
    frequency_mhz: Option<f64>,
}

pub(super) fn wifi_quality(facts: &Facts) -> Section {
    let adapters: Vec<_> = facts
        .names("sys/class/net")
        .into_iter()
        .filter(|name| {
            facts.exists(&format!("sys/class/net/{name}/wireless"))
                || facts.exists(&format!("sys/class/net/{name}/phy80211"))
        })
        .collect();
    let link = adapters.iter().find_map(|adapter| link(facts, adapter));
    let (status, summary) = match (&link, adapters.is_empty()) {
        (None, true) => (Status::Ok, "no wireless adapter".to_owned()),
        (None, false) => (Status::Ok, "not connected".to_owned()),
        (Some(link), _) => {
            let name = link.ssid.clone().unwrap_or_else(|| "a network".to_owned());
            match link.signal_percent {
                Some(signal) if signal < WEAK_PERCENT => (Status::Warn, format!("{name} at {signal:.0}%")),
                Some(signal) => (Status::Ok, format!("{name} at {signal:.0}%")),
                None => (Status::Ok, format!("connected to {name}")),
            }
        }
    };
    let found = link.clone().unwrap_or_default();
    Section::new(status, summary)
        .with("connected", link.is_some())
        .with("ssid", found.ssid)
        .with("signal_percent", found.signal_percent)
        .with("band", found.frequency_mhz.map(band))
}

fn link(facts: &Facts, adapter: &str) -> Option<Link> {
    if let Some(text) = facts.output("iw", &["dev", adapter, "link"]) {
        return parse_iw(&text);
    }
    if let Some(text) = facts.output(
        "nmcli",
        &["-t", "-f", "ACTIVE,SSID,SIGNAL,FREQ", "device", "wifi", "list", "ifname", adapter, "--rescan", "no"],
    ) {
        return parse_nmcli(&text);
    }
    parse_proc_wireless(&facts.read("proc/net/wireless").ok()?, adapter)
}

/// `Connected to …`, `SSID: x`, `freq: 5180`, `signal: -57 dBm`.
fn parse_iw(text: &str) -> Option<Link> {
    if !text.starts_with("Connected to") {
        return None;
    }
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    let number = |name: &str| field(name)?.split_ascii_whitespace().next()?.parse::<f64>().ok();
    Some(Link {
        ssid: field("SSID:").map(|ssid| text::one_line(ssid, 64)),
        signal_percent: number("signal:").map(percent_of_dbm),
        frequency_mhz: number("freq:"),
    })
}

/// `yes:My\:Net:71:5180 MHz`, a colon in a name behind a backslash.
fn parse_nmcli(text: &str) -> Option<Link> {
    let line = text.lines().find_map(|line| line.strip_prefix("yes:"))?;
    let plain = line.replace("\\:", "\u{0}");
    let cells: Vec<&str> = plain.split(':').collect();
    Some(Link {
        ssid: cells.first().map(|ssid| text::one_line(&ssid.replace('\u{0}', ":"), 64)),
        signal_percent: cells.get(1).and_then(|signal| signal.parse().ok()),
        frequency_mhz: cells.get(2).and_then(|freq| freq.split(' ').next()?.parse().ok()),
    })
}

/// `wlan0: 0000   54.  -56.  -256 …`: link quality of 70, level in dBm. The name of the network is not there.
fn parse_proc_wireless(text: &str, adapter: &str) -> Option<Link> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(adapter)?.strip_prefix(':'))?;
    let quality: f64 = line.split_ascii_whitespace().nth(1)?.trim_end_matches('.').parse().ok()?;
    Some(Link { signal_percent: Some(round1((quality / 70.0 * 100.0).clamp(0.0, 100.0))), ..Link::default() })
}

/// −50 dBm and better is full, −100 dBm is nothing: the scale that Windows uses.
fn percent_of_dbm(dbm: f64) -> f64 {
    round1((2.0 * (dbm + 100.0)).clamp(0.0, 100.0))
}

fn band(mhz: f64) -> &'static str {
    match mhz {
        mhz if mhz < 3000.0 => "2.4 GHz",
        mhz if mhz < 5925.0 => "5 GHz",
        _ => "6 GHz",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_read() {
        let chrony = "C0000201,192.0.2.1,2,1794742800.1,-0.000012,0.0,0.0,1.0,0.0,0.0,0.01,0.0,64.0,Normal\n";
        let clock = parse_chrony(chrony).unwrap();
        assert_eq!(
            (clock.synchronized, clock.source.as_deref(), clock.offset_secs),
            (true, Some("192.0.2.1"), Some(-0.000_012))
        );
        assert!(!parse_chrony(&chrony.replace("Normal", "Not synchronised")).unwrap().synchronized);
        assert!(parse_chrony("506 Cannot talk to daemon").is_none());
        let ntpq = "     remote   refid  st t when poll reach delay offset jitter\n====\n+a .X. 1 u 1 64 377 0.5 9 0.1\n\
                    *192.0.2.9 .GPS. 1 u 36 64 377 0.5 -1500 0.1\n";
        let clock = parse_ntpq(ntpq);
        assert_eq!((clock.source.as_deref(), clock.offset_secs), (Some("192.0.2.9"), Some(-1.5)));
        assert!(!parse_ntpq("remote\n").synchronized);
        let status = "       Server: 192.0.2.1 (pool.example.org)\n       Offset: -1.5ms\n";
        assert_eq!(parse_timesync_status(status), (Some("192.0.2.1 (pool.example.org)".into()), Some(-0.0015)));
        for (text, secs) in [("+1min 2.5s", Some(62.5)), ("5us", Some(5e-6)), ("n/a", None), ("", Some(0.0))] {
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(parse_span(text).zip(secs).map_or(parse_span(text) == secs, |(a, b)| near(a, b)), "{text}");
        }
    }

    #[test]
    fn printers_are_read() {
        let text = "printer Office is idle.  enabled since Tue 10 Nov 2026\nprinter Lab now printing Lab-5.  enabled since x\n\
                    printer Old disabled since Mon 09 Nov 2026 -\n\tPaused\nprinter Odd disabled since x -\n\treason unknown\n";
        let lines: Vec<_> =
            parse_lpstat(text).iter().map(|p| format!("{} {} {:?}", p.name, p.status, p.message)).collect();
        assert_eq!(
            lines,
            ["Office idle None", "Lab printing None", "Old disabled Some(\"Paused\")", "Odd disabled None"]
        );
    }

    #[test]
    fn wireless_links_are_read() {
        let iw = "Connected to 02:00:00:00:00:01 (on wlan0)\n\tSSID: Home net\n\tfreq: 5180.0\n\tsignal: -57 dBm\n";
        let link = parse_iw(iw).unwrap();
        assert_eq!(
            (link.ssid.as_deref(), link.signal_percent, link.frequency_mhz.map(band)),
            (Some("Home net"), Some(86.0), Some("5 GHz"))
        );
        assert_eq!(parse_iw("Not connected.\n"), None);
        let link = parse_nmcli("no:x:1:2412 MHz\nyes:My\\:Net:71:2437 MHz\n").unwrap();
        assert_eq!(
            (link.ssid.as_deref(), link.signal_percent, link.frequency_mhz.map(band)),
            (Some("My:Net"), Some(71.0), Some("2.4 GHz"))
        );
        let wireless = "Inter-| sta-|   Quality\n face | tus |\n wlan0: 0000   35.  -75.  -256        0\n";
        assert_eq!(parse_proc_wireless(wireless, "wlan0").and_then(|link| link.signal_percent), Some(50.0));
        assert_eq!(parse_proc_wireless(wireless, "wlan1"), None);
    }
}
