//! The pack `proxmox-node`: what a Proxmox node knows of itself, by its own tools. What one of them cannot tell is a
//! warning beside the rest.

use serde_json::{Map, Value, json};

use crate::context::number;
use crate::{Context, ProbeError};

pub(crate) async fn vm_config(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let vmid = number(params, "vmid", 0);
    let config = pairs(&cx.output("qm", &["config", &vmid.to_string()]).await?);
    let is_disk = |key: &str| {
        ["scsi", "virtio", "ide", "sata", "efidisk", "tpmstate", "unused"].iter().any(|kind| {
            key.strip_prefix(kind).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    let disks: Vec<Value> =
        config.iter().filter(|(key, _)| is_disk(key)).filter_map(|(key, value)| disk(key, value.as_str()?)).collect();
    let mut warnings: Vec<String> = Vec::new();
    if let Some(lock) = config.get("lock").and_then(Value::as_str) {
        warnings.push(format!("the machine is locked ({lock})"));
    }
    // Such a machine cannot move to another node while it runs.
    for disk in &disks {
        if let (Some(key), Some(storage @ ("local" | "local-lvm"))) = (disk["key"].as_str(), disk["storage"].as_str())
        {
            warnings.push(format!("disk {key} is on local storage ({storage})"));
        }
    }
    Ok(json!({ "vmid": vmid, "config": config, "disks": disks, "warnings": warnings }))
}

pub(crate) async fn lxc_config(cx: &Context<'_>, params: &Map<String, Value>) -> Result<Value, ProbeError> {
    let vmid = number(params, "vmid", 0);
    let config = pairs(&cx.output("pct", &["config", &vmid.to_string()]).await?);
    let numbered = |key: &str, kind: &str| {
        key.strip_prefix(kind).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mountpoint = |(key, value): (&String, &Value)| {
        let (storage, volume, option) = volume(value.as_str()?)?;
        let (mountpoint, size) = (option("mp").unwrap_or_default(), option("size").unwrap_or_default());
        Some(json!({ "key": key, "storage": storage, "volume": volume, "mountpoint": mountpoint, "size": size }))
    };
    let mountpoints: Vec<Value> = config.iter().filter(|(k, _)| numbered(k, "mp")).filter_map(mountpoint).collect();
    let network: Vec<Value> =
        config.iter().filter(|(k, _)| numbered(k, "net")).map(|(k, v)| json!({ "key": k, "raw": v })).collect();
    let rootfs = config.get("rootfs").and_then(Value::as_str).and_then(volume).map(|(storage, volume, option)| {
        json!({ "storage": storage, "volume": volume, "size": option("size").unwrap_or_default() })
    });
    let warnings: Vec<String> = config
        .get("lock")
        .and_then(Value::as_str)
        .map(|l| format!("the container is locked ({l})"))
        .into_iter()
        .collect();
    Ok(
        json!({ "vmid": vmid, "config": config, "rootfs": rootfs, "mountpoints": mountpoints, "network": network, "warnings": warnings }),
    )
}

pub(crate) async fn lxc_list(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let text = cx.output("pct", &["list"]).await?;
    Ok(json!({ "containers": parse_pct_list(&text) }))
}

/// `VMID Status Lock Name`: the lock is mostly absent, so columns are told apart by where the header's words begin.
fn parse_pct_list(text: &str) -> Vec<Value> {
    let mut lines = text.lines();
    let Some(header) = lines.next() else { return Vec::new() };
    let (lock_at, name_at) = (header.find("Lock"), header.find("Name"));
    lines
        .filter_map(|line| {
            let vmid: u64 = line.split_whitespace().next()?.parse().ok()?;
            let status = line.split_whitespace().nth(1)?;
            let part = |from: Option<usize>, to: Option<usize>| {
                let from = from?;
                line.get(from..to.unwrap_or(line.len()).min(line.len())).map(str::trim).filter(|t| !t.is_empty())
            };
            let (lock, name) = (part(lock_at, name_at).unwrap_or_default(), part(name_at, None).unwrap_or_default());
            Some(json!({ "vmid": vmid, "status": status, "lock": lock, "name": name }))
        })
        .collect()
}

pub(crate) async fn ha(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let text = cx.output("ha-manager", &["status"]).await?;
    let (resources, warnings) = parse_ha(&text);
    Ok(json!({ "resources": resources, "warnings": warnings }))
}

/// `service vm:100 (node1, started)`, with a request after it in some versions; or `vm:100 started node1 none`.
fn parse_ha(text: &str) -> (Vec<Value>, Vec<String>) {
    let mut resources = Vec::new();
    let mut warnings = Vec::new();
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (sid, node, state, request) = if let Some(rest) = line.strip_prefix("service ") {
            let Some((sid, inside)) = rest.split_once(' ') else { continue };
            let mut parts = inside.trim_matches(['(', ')']).split(',').map(str::trim);
            (sid, parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next())
        } else if let [sid, state, rest @ ..] = &words[..]
            && sid.contains(':')
            && !sid.ends_with(':')
        {
            (*sid, rest.first().copied().unwrap_or_default(), *state, rest.get(1).copied())
        } else {
            let no_quorum = line.starts_with("quorum") && !line.ends_with("OK");
            let lost_node = line.starts_with("lrm") && (line.contains("old timestamp") || line.contains("dead"));
            if no_quorum || lost_node {
                warnings.push(line.to_owned());
            }
            continue;
        };
        match state {
            "error" | "fence" => warnings.push(format!("{sid} is in state {state} on {node}")),
            "stopped" => warnings.push(format!("{sid} is stopped")),
            _ => {}
        }
        let request = request.unwrap_or("none");
        resources.push(json!({ "sid": sid, "state": state, "node": node, "request": request }));
    }
    (resources, warnings)
}

pub(crate) async fn lvm(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let mut warnings = Vec::new();
    let mut report = async |program: &str, key: &str, columns: &str| {
        let args = ["--reportformat", "json", "--units", "b", "-o", columns];
        match cx.output(program, &args).await {
            Ok(text) => {
                let value: Value = serde_json::from_str(&text).unwrap_or_default();
                value["report"][0][key].as_array().cloned().unwrap_or_default()
            }
            Err(why) => {
                warnings.push(match why {
                    ProbeError::Failed(words) | ProbeError::Forbidden(words) => words,
                    ProbeError::TimedOut(after) => format!("{program} took longer than {} s", after.as_secs()),
                });
                Vec::new()
            }
        }
    };
    let volumes = report("lvs", "lv", "lv_name,vg_name,lv_size,pool_lv,data_percent,metadata_percent,lv_attr").await;
    let groups = report("vgs", "vg", "vg_name,vg_size,vg_free,pv_count,lv_count").await;
    let disks = report("pvs", "pv", "pv_name,vg_name,pv_size,pv_free,pv_fmt").await;
    if warnings.len() == 3 {
        return Err(ProbeError::Failed(warnings.swap_remove(0)));
    }
    // Texts as the tools print them, which is what callers of the field's agents know.
    let count = |v: &Value| v.as_str().and_then(|t| t.parse::<u64>().ok()).unwrap_or_default();
    for volume in &volumes {
        let used = volume["data_percent"].as_str().and_then(|t| t.parse::<f64>().ok());
        if used.is_some_and(|used| used > 85.0) {
            warnings.push(format!(
                "the thin pool {} is {} % full",
                text(&volume["lv_name"]),
                text(&volume["data_percent"])
            ));
        }
    }
    for group in &groups {
        if text(&group["vg_free"]).trim_end_matches('B') == "0" {
            warnings.push(format!("the group {} has nothing free", text(&group["vg_name"])));
        }
    }
    let logical: Vec<Value> = volumes
        .iter()
        .map(|v| {
            json!({
                "name": v["lv_name"], "vgName": v["vg_name"], "size": v["lv_size"], "attrs": v["lv_attr"],
                "pool": v["pool_lv"], "dataPercent": v["data_percent"], "metadataPercent": v["metadata_percent"],
            })
        })
        .collect();
    let groups: Vec<Value> = groups
        .iter()
        .map(|v| {
            json!({
                "name": v["vg_name"], "size": v["vg_size"], "free": v["vg_free"],
                "pvCount": count(&v["pv_count"]), "lvCount": count(&v["lv_count"]),
            })
        })
        .collect();
    let disks: Vec<Value> = disks
        .iter()
        .map(|v| {
            json!({ "name": v["pv_name"], "vgName": v["vg_name"], "size": v["pv_size"], "free": v["pv_free"], "format": v["pv_fmt"] })
        })
        .collect();
    Ok(json!({ "logicalVolumes": logical, "volumeGroups": groups, "physicalVolumes": disks, "warnings": warnings }))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) async fn ceph(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let absent = |why: String| {
        json!({
            "available": false, "health": null, "osdCount": 0, "osdUp": 0, "osdIn": 0, "pgStates": [], "usage": {},
            "osds": [], "warnings": [why],
        })
    };
    // A node without Ceph is nothing out of the ordinary.
    if cx.program("ceph").is_none() {
        return Ok(absent("ceph is not installed on this node".into()));
    }
    let status = match cx.output("ceph", &["status", "--format", "json"]).await {
        Ok(text) => serde_json::from_str::<Value>(&text).map_err(|why| ProbeError::unreadable("ceph", why))?,
        Err(ProbeError::Failed(why)) => return Ok(absent(why)),
        Err(other) => return Err(other),
    };
    let mut warnings: Vec<String> = Vec::new();
    let tree = match cx.output("ceph", &["osd", "tree", "--format", "json"]).await {
        Ok(text) => serde_json::from_str::<Value>(&text).unwrap_or_default(),
        Err(_) => {
            warnings.push("the tree of OSDs cannot be read".into());
            Value::Null
        }
    };
    let nodes = tree["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    // An OSD does not say its host; the host says its OSDs.
    let host_of = |id: &Value| {
        let holds = |node: &&Value| node["children"].as_array().is_some_and(|children| children.contains(id));
        nodes.iter().filter(|node| node["type"] == "host").find(holds).map_or("", |host| text(&host["name"]))
    };
    let osds: Vec<Value> = nodes
        .iter()
        .filter(|node| node["type"] == "osd")
        .map(|node| {
            json!({
                "id": node["id"], "name": node["name"], "type": "osd", "status": node["status"],
                "crush_weight": node["crush_weight"], "reweight": node["reweight"], "host": host_of(&node["id"]),
            })
        })
        .collect();
    // Older versions have one more level.
    let osdmap = if status["osdmap"]["osdmap"].is_object() { &status["osdmap"]["osdmap"] } else { &status["osdmap"] };
    let pg = &status["pgmap"];
    let states: Vec<Value> = pg["pgs_by_state"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|s| json!({ "state": s["state_name"], "count": s["count"] }))
        .collect();
    let health = text(&status["health"]["status"]);
    if health != "HEALTH_OK" {
        warnings.push(format!("Ceph says {health}"));
    }
    let (all, up) = (osdmap["num_osds"].as_u64().unwrap_or(0), osdmap["num_up_osds"].as_u64().unwrap_or(0));
    if up < all {
        warnings.push(format!("{} of {all} OSDs are down", all - up));
    }
    let checks = status["health"]["checks"].as_object();
    warnings
        .extend(checks.into_iter().flatten().filter_map(|(_, c)| c["summary"]["message"].as_str().map(Into::into)));
    Ok(json!({
        "available": true, "health": status["health"]["status"], "osdCount": osdmap["num_osds"],
        "osdUp": osdmap["num_up_osds"], "osdIn": osdmap["num_in_osds"], "pgStates": states,
        "usage": { "total": pg["bytes_total"], "used": pg["bytes_used"], "avail": pg["bytes_avail"] },
        "osds": osds, "warnings": warnings,
    }))
}

pub(crate) async fn cluster(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let text = cx.output("pvecm", &["status"]).await?;
    Ok(parse_pvecm(&text))
}

fn parse_pvecm(text: &str) -> Value {
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let number = |name: &str| field(name).and_then(|v| v.parse::<u64>().ok());
    let nodes: Vec<Value> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            // In hexadecimal in newer versions.
            let is_id = |w: &&str| w.strip_prefix("0x").unwrap_or(w).bytes().all(|b| b.is_ascii_hexdigit());
            let id = words.next().filter(is_id)?;
            let votes: u64 = words.next()?.parse().ok()?;
            let name = words.find(|w| !w.chars().all(|c| "A,NVMWNR".contains(c)))?;
            Some(json!({ "nodeId": id, "name": name, "votes": votes, "local": line.contains("(local)") }))
        })
        .collect();
    let quorate = field("Quorate").map(|v| v.eq_ignore_ascii_case("yes"));
    let mut warnings: Vec<&str> = Vec::new();
    if quorate == Some(false) {
        warnings.push("the cluster has no quorum");
    }
    json!({
        "clusterName": field("Name"), "quorate": quorate, "totalVotes": number("Total votes"),
        "expectedVotes": number("Expected votes"), "nodes": nodes, "warnings": warnings,
    })
}

pub(crate) fn locks(cx: &Context<'_>) -> Result<Value, ProbeError> {
    let dir = cx.file("/run/lock/qemu-server");
    let mut locks = Vec::new();
    let mut warnings = Vec::new();
    match std::fs::read_dir(&dir) {
        Ok(entries) => {
            for entry in entries.flatten().take(10_000) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let vmid = name.strip_prefix("lock-").and_then(|n| n.strip_suffix(".conf")?.parse::<u64>().ok());
                if let Some(vmid) = vmid {
                    locks.push((vmid, json!({ "vmid": vmid, "file": name })));
                }
            }
        }
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
        Err(why) => warnings.push(format!("{}: {why}", dir.display())),
    }
    locks.sort_by_key(|(vmid, _)| *vmid);
    if !locks.is_empty() {
        let machines: Vec<String> = locks.iter().map(|(vmid, _)| vmid.to_string()).collect();
        warnings.push(format!("there are lock files for {}", machines.join(", ")));
    }
    let locks: Vec<Value> = locks.into_iter().map(|(_, lock)| lock).collect();
    Ok(json!({ "locks": locks, "warnings": warnings }))
}

/// `key: value` lines.
fn pairs(text: &str) -> Map<String, Value> {
    let pair = |line: &str| line.split_once(": ").map(|(key, value)| (key.trim().to_owned(), value.trim().into()));
    text.lines().filter_map(pair).collect()
}

/// `storage:volume,option=value,…`: the storage, the volume, and its options by name. An empty drive has nothing to tell.
fn volume(value: &str) -> Option<(&str, &str, impl Fn(&str) -> Option<String>)> {
    let (place, options) = value.split_once(',').unwrap_or((value, ""));
    if place == "none" {
        return None;
    }
    let option =
        move |name: &str| options.split(',').find_map(|o| o.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
    let (storage, volume) = place.split_once(':').unwrap_or(("", place));
    Some((storage, volume, option))
}

/// `storage:volume,format=raw,size=32G`.
fn disk(key: &str, value: &str) -> Option<Value> {
    let (storage, volume, option) = volume(value)?;
    let by_name = volume.rsplit_once('.').map(|(_, extension)| extension.to_owned());
    let by_name = by_name.filter(|e| ["raw", "qcow2", "vmdk"].contains(&e.as_str()));
    let format = option("format").or(by_name).unwrap_or_else(|| "raw".into());
    let size = option("size").unwrap_or_default();
    Some(json!({ "key": key, "storage": storage, "volume": volume, "format": format, "size": size }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_lists_are_read() {
        let pct = "VMID       Status     Lock         Name\n101        running                 web\n102        stopped    backup       my db\n";
        assert_eq!(
            parse_pct_list(pct),
            [
                json!({"vmid":101,"status":"running","lock":"","name":"web"}),
                json!({"vmid":102,"status":"stopped","lock":"backup","name":"my db"})
            ]
        );
        let ha = "quorum OK\nmaster node1 (active, Mon Jan  1 00:00:00 2026)\nlrm node1 (active, Mon Jan  1 00:00:00 2026)\nlrm node2 (old timestamp - dead?, Mon)\nservice vm:100 (node1, started)\nservice ct:101 (node2, error)\n";
        let (resources, warnings) = parse_ha(ha);
        assert_eq!(resources[1], json!({"sid":"ct:101","state":"error","node":"node2","request":"none"}));
        assert_eq!(warnings.len(), 2, "a lost node and a resource in error: {warnings:?}");
        let (resources, warnings) =
            parse_ha("quorum OK\nmaster n1 (10.0.0.1, 9dab)\nvm:100 started n1 none\nct:200 fence n2 migrate\n");
        assert_eq!(resources[1], json!({"sid":"ct:200","state":"fence","node":"n2","request":"migrate"}));
        assert_eq!((resources.len(), warnings.len()), (2, 1));
        let pvecm = "Cluster information\n-------------------\nName:             lab\nConfig Version:   3\n\nQuorum information\nQuorate:          Yes\n\nVotequorum information\nExpected votes:   3\nTotal votes:      2\n\nMembership information\n    Nodeid      Votes Name\n0x00000001          1 10.0.0.1 (local)\n0x00000002          1 A,NV,NMW 10.0.0.2\n";
        let cluster = parse_pvecm(pvecm);
        assert_eq!(
            (&cluster["clusterName"], &cluster["quorate"], &cluster["totalVotes"]),
            (&json!("lab"), &json!(true), &json!(2))
        );
        assert_eq!(
            cluster["nodes"],
            json!([{"nodeId":"0x00000001","votes":1,"name":"10.0.0.1","local":true},{"nodeId":"0x00000002","votes":1,"name":"10.0.0.2","local":false}])
        );
        let older = "Membership information\n    Nodeid      Votes Name\n         1          1 pve01 (local)\n         2          1 pve02\n";
        assert_eq!(parse_pvecm(older)["nodes"][1], json!({"nodeId":"2","votes":1,"name":"pve02","local":false}));
    }

    #[test]
    fn disks_are_taken_apart() {
        assert_eq!(
            disk("scsi0", "local-lvm:vm-100-disk-0,iothread=1,size=32G"),
            Some(json!({"key":"scsi0","storage":"local-lvm","volume":"vm-100-disk-0","format":"raw","size":"32G"}))
        );
        assert_eq!(disk("scsi1", "local:100/vm-100-disk-1.qcow2,size=8G").expect("a disk")["format"], "qcow2");
        assert_eq!(disk("ide2", "none,media=cdrom"), None);
    }
}
