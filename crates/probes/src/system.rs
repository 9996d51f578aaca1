//! The pack `system`.

use std::fs;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::context::{last_lines, needed, number};
use crate::{Context, ProbeError};

pub(crate) async fn disk(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let output = cx.run("df", &["-kP"]).await?;
    let filesystems = parse_df(&output.stdout);
    // One mount that cannot be looked at makes df fail, with all others printed.
    if filesystems.is_empty() && !output.success() {
        return Err(ProbeError::of_program("df", output.exit_code, &output.stderr, &output.stdout));
    }
    Ok(json!({ "filesystems": filesystems }))
}

fn parse_df(text: &str) -> Vec<Value> {
    static ROW: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(.*?)\s+(\d+)\s+(\d+)\s+(-?\d+)\s+(\d+)%\s+(.+)$").expect("a fixed pattern"));
    let row = |line: &str| {
        let found = ROW.captures(line)?;
        let number = |i: usize| found[i].parse::<i64>().ok();
        let filesystem = &found[1];
        if ["tmpfs", "devtmpfs", "none"].contains(&filesystem) {
            return None;
        }
        Some(json!({
            "filesystem": filesystem, "sizeKb": number(2)?, "usedKb": number(3)?, "availableKb": number(4)?,
            "usePct": number(5)?, "mountedOn": &found[6],
        }))
    };
    text.lines().skip(1).filter_map(row).collect()
}

pub(crate) fn memory(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let path = cx.file("/proc/meminfo");
    let text = fs::read_to_string(&path).map_err(|why| ProbeError::Failed(format!("{}: {why}", path.display())))?;
    parse_meminfo(&text).ok_or_else(|| ProbeError::unreadable("/proc/meminfo", "a number is missing"))
}

fn parse_meminfo(text: &str) -> Option<Value> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let (total, free) = (bytes("MemTotal")?, bytes("MemFree")?);
    // Kernels before 3.14 do not say.
    let available =
        bytes("MemAvailable").unwrap_or_else(|| free + bytes("Buffers").unwrap_or(0) + bytes("Cached").unwrap_or(0));
    let (swap, swap_free) = (bytes("SwapTotal")?, bytes("SwapFree")?);
    Some(json!({
        "totalBytes": total, "usedBytes": total.saturating_sub(available), "freeBytes": free,
        "availableBytes": available,
        "swap": { "totalBytes": swap, "usedBytes": swap.saturating_sub(swap_free), "freeBytes": swap_free },
    }))
}

pub(crate) fn cpu(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let path = cx.file("/proc/loadavg");
    let text = fs::read_to_string(&path).map_err(|why| ProbeError::Failed(format!("{}: {why}", path.display())))?;
    let mut loads = text.split(' ').map(|part| part.parse::<f64>().ok());
    let mut next =
        || loads.next().flatten().ok_or_else(|| ProbeError::unreadable("/proc/loadavg", "a number is missing"));
    let (one, five, fifteen) = (next()?, next()?, next()?);
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(json!({ "loadAvg1": one, "loadAvg5": five, "loadAvg15": fifteen, "cpuCount": count }))
}

pub(crate) async fn ping(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let host = needed(params, "host")?;
    let count = number(params, "count", 4).to_string();
    let output = cx.run("ping", &["-c", &count, "-W", "3", "--", host]).await?;
    // 1 says that nothing came back: that is what was asked.
    match parse_ping(host, &output.stdout) {
        Some(result) if output.exit_code <= 1 => Ok(result),
        _ => Err(ProbeError::of_program("ping", output.exit_code, &output.stderr, &output.stdout)),
    }
}

fn parse_ping(host: &str, text: &str) -> Option<Value> {
    static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(\d+) packets transmitted, (\d+) (?:packets )?received.*?([\d.]+)% packet loss")
            .expect("a fixed pattern")
    });
    static TIMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"= ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))? ms").expect("a fixed pattern"));
    let counts = COUNTS.captures(text)?;
    let mut result = json!({
        "host": host, "packetsTransmitted": counts[1].parse::<u64>().ok()?,
        "packetsReceived": counts[2].parse::<u64>().ok()?, "packetLossPercent": counts[3].parse::<f64>().ok()?,
    });
    if let Some(times) = TIMES.captures(text) {
        let time = |i: usize| times.get(i).and_then(|m| m.as_str().parse::<f64>().ok());
        result["rttMs"] = json!({ "min": time(1), "avg": time(2), "max": time(3), "stddev": time(4).unwrap_or(0.0) });
    }
    Some(result)
}

pub(crate) async fn traceroute(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let host = needed(params, "host")?;
    let hops = number(params, "maxHops", 30).to_string();
    let text = cx.output("traceroute", &["-n", "-m", &hops, "-w", "2", "--", host]).await?;
    Ok(json!({ "host": host, "hops": parse_traceroute(&text) }))
}

fn parse_traceroute(text: &str) -> Vec<Value> {
    let hop = |line: &str| {
        let mut words = line.split_whitespace();
        let hop: u64 = words.next()?.parse().ok()?;
        let (mut ip, mut times) = (Value::Null, Vec::new());
        let words: Vec<&str> = words.collect();
        for (i, word) in words.iter().enumerate() {
            if *word == "*" {
                times.push(Value::Null);
            } else if words.get(i + 1) == Some(&"ms") {
                times.push(word.parse::<f64>().ok().map_or(Value::Null, Value::from));
            } else if ip.is_null() && word.parse::<std::net::IpAddr>().is_ok() {
                ip = (*word).into();
            }
        }
        Some(json!({ "hop": hop, "ip": ip, "rttMs": times }))
    };
    text.lines().skip(1).filter_map(hop).collect()
}

pub(crate) async fn dmesg(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let text = cx.output("dmesg", &["--time-format", "iso"]).await?;
    let (lines, truncated) = last_lines(text.lines(), number(params, "lines", 50));
    let mut result = json!({ "lineCount": lines.len(), "lines": lines });
    if truncated {
        result["truncated"] = true.into();
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn df_with_spaces_and_pseudo_file_systems() {
        let text = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
            /dev/sda1         41152736 20000000  19000000      52% /\n\
            tmpfs              4000000        0   4000000       0% /dev/shm\n\
            //nas/my share   100 50 -1 51% /mnt/my share\n\
            udev - - - - /dev\n";
        let rows = parse_df(text);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[0],
            json!({"filesystem":"/dev/sda1","sizeKb":41152736,"usedKb":20000000,"availableKb":19000000,"usePct":52,"mountedOn":"/"})
        );
        assert_eq!(
            (&rows[1]["filesystem"], &rows[1]["mountedOn"], &rows[1]["availableKb"]),
            (&json!("//nas/my share"), &json!("/mnt/my share"), &json!(-1))
        );
    }

    #[test]
    fn a_dead_host_is_a_result() {
        let dead = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n\n--- 192.0.2.1 ping statistics ---\n4 packets transmitted, 0 received, 100% packet loss, time 3074ms\n\n";
        assert_eq!(
            parse_ping("192.0.2.1", dead),
            Some(json!({"host":"192.0.2.1","packetsTransmitted":4,"packetsReceived":0,"packetLossPercent":100.0}))
        );
        let alive = "2 packets transmitted, 2 received, 0% packet loss, time 1001ms\nrtt min/avg/max/mdev = 0.030/0.036/0.042/0.006 ms\n";
        assert_eq!(
            parse_ping("h", alive).expect("a result")["rttMs"],
            json!({"min":0.030,"avg":0.036,"max":0.042,"stddev":0.006})
        );
        let busybox =
            "4 packets transmitted, 4 packets received, 0% packet loss\nround-trip min/avg/max = 1.0/2.0/3.0 ms\n";
        assert_eq!(parse_ping("h", busybox).expect("a result")["packetsReceived"], 4);
        assert_eq!(parse_ping("h", "ping: h: Name or service not known"), None);
    }

    #[test]
    fn hops_with_and_without_answers() {
        let text = "traceroute to 192.0.2.1 (192.0.2.1), 30 hops max, 60 byte packets\n 1  10.0.0.1  0.512 ms  0.401 ms  0.390 ms\n 2  * * *\n 3  10.1.0.1  5.1 ms 10.1.0.2  5.3 ms !X *\n";
        assert_eq!(
            parse_traceroute(text),
            [
                json!({"hop":1,"ip":"10.0.0.1","rttMs":[0.512,0.401,0.390]}),
                json!({"hop":2,"ip":null,"rttMs":[null,null,null]}),
                json!({"hop":3,"ip":"10.1.0.1","rttMs":[5.1,5.3,null]}),
            ]
        );
    }

    #[test]
    fn memory_of_old_and_new_kernels() {
        let new = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nBuffers: 1 kB\nCached: 2 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n";
        let value = parse_meminfo(new).expect("numbers");
        assert_eq!((&value["usedBytes"], &value["swap"]["usedBytes"]), (&json!(600 * 1024), &json!(6 * 1024)));
        let old = new.replace("MemAvailable: 400 kB\n", "");
        assert_eq!(parse_meminfo(&old).expect("numbers")["availableBytes"], 103 * 1024);
    }
}
