//! What cannot run here: programs that print what the real ones printed.

use convoke_probes::{Config, Probes};
use serde_json::json;

use crate::support::{ask, bad, good, names, probes, program};

fn with(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Probes) {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, script) in scripts {
        program(dir.path(), name, script);
    }
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("run/systemd/system")).expect("makes");
    let path = vec![dir.path().into(), "/usr/bin".into(), "/bin".into()];
    (dir, probes(Config { path, root, ..Config::default() }))
}

const DOCKER: &str = r#"case "$1" in
ps) echo '{"Command":"\"nginx\"","CreatedAt":"2026-01-01","ID":"4bf5","Image":"nginx:1.27","Names":"web","Ports":"0.0.0.0:80->80/tcp","State":"running","Status":"Up 3 hours (unhealthy)"}'
    echo '{"ID":"aa11","Image":"redis","Names":"cache","Ports":"","State":"exited","Status":"Exited (0) 2 days ago"}';;
images) echo '{"ID":"sha256:1","Repository":"nginx","Tag":"1.27","Size":"188MB","CreatedSince":"2 weeks ago"}';;
info) echo '{"ServerVersion":"27.1","Containers":2,"Images":1,"Driver":"overlay2","OperatingSystem":"Debian GNU/Linux 12","MemTotal":8000000000,"NCPU":4}';;
logs) [ "$4" = -- ] || exit 9; [ "$5" = web ] || { echo "Error: No such container: $5" >&2; exit 1; }
    echo "to stdout"; echo "to stderr" >&2;;
esac"#;

#[tokio::test]
async fn docker() {
    let (_dir, probes) = with(&[("docker", DOCKER)]);
    let containers = good(ask(&probes, "docker.containers.list", json!({})).await);
    assert_eq!(names(&containers["containers"][0]), ["id", "image", "name", "ports", "state", "status"]);
    assert_eq!(containers["containers"][1]["name"], "cache");
    let images = good(ask(&probes, "docker.images.list", json!({})).await);
    assert_eq!(
        images["images"],
        json!([{"id":"sha256:1","repository":"nginx","tag":"1.27","size":"188MB","created":"2 weeks ago"}])
    );
    let info = good(ask(&probes, "docker.daemon.info", json!({})).await);
    assert_eq!(
        info,
        json!({"serverVersion":"27.1","containers":2,"images":1,"driver":"overlay2","os":"Debian GNU/Linux 12","memoryBytes":8000000000u64,"cpus":4})
    );
    let logs = good(ask(&probes, "docker.logs.tail", json!({"container": "web"})).await);
    assert_eq!((&logs["lines"], &logs["lineCount"]), (&json!(["to stdout", "to stderr"]), &json!(2)));
    assert!(
        bad(ask(&probes, "docker.logs.tail", json!({"container": "gone"})).await)
            .message
            .contains("No such container")
    );
}

#[tokio::test]
async fn systemd() {
    let systemctl = r#"case "$1" in
list-units) echo '[{"unit":"ssh.service","load":"loaded","active":"active","sub":"running","description":"OpenBSD Secure Shell server"},{"unit":"bad.service","load":"loaded","active":"failed","sub":"failed","description":"Bad"}]';;
show) printf 'Id=ssh.service\nLoadState=loaded\nActiveState=active\nSubState=running\nMainPID=412\nMemoryCurrent=18446744073709551615\nNRestarts=0\n';;
esac"#;
    let journalctl = r#"for a in "$@"; do case "$a" in --unit=ssh) found=1;; esac; done; [ "$found" ] || exit 3
echo '{"__REALTIME_TIMESTAMP":"1780596000123456","PRIORITY":"6","MESSAGE":"Accepted password for bob","_PID":"7","_UID":"0","_SYSTEMD_UNIT":"ssh.service"}'"#;
    let (_dir, probes) = with(&[("systemctl", systemctl), ("journalctl", journalctl)]);
    let services = good(ask(&probes, "systemd.services.list", json!({})).await);
    assert_eq!(names(&services["services"][1]), ["active", "description", "load", "sub", "unit"]);
    let status = good(ask(&probes, "systemd.service.status", json!({"service": "ssh"})).await);
    assert_eq!(
        status,
        json!({"name":"ssh.service","loadState":"loaded","activeState":"active","subState":"running","mainPid":412,"memoryBytes":null,"restartCount":0})
    );
    let journal = good(ask(&probes, "systemd.journal.query", json!({"unit": "ssh", "lines": 5})).await);
    assert_eq!(
        journal["entries"][0],
        json!({"timestamp":"1780596000123456","priority":"6","message":"Accepted password for bob","pid":"7","uid":"0"})
    );
}

#[tokio::test]
async fn proxmox() {
    let qm = "echo 'boot: order=scsi0'; echo 'lock: backup'; echo 'name: web'; echo 'scsi0: local-lvm:vm-100-disk-0,size=32G'; echo 'ide2: none,media=cdrom'";
    let pct = r#"case "$1" in
config) echo 'hostname: ct'; echo 'net0: name=eth0,bridge=vmbr0'; echo 'rootfs: local-lvm:vm-101-disk-0,size=8G'; echo 'mp0: local:101/vm-101-disk-1.raw,mp=/data,size=4G';;
list) printf 'VMID       Status     Lock         Name\n101        running                 ct\n';;
esac"#;
    let ha = "echo 'quorum OK'; echo 'service vm:100 (node1, started)'";
    let pvecm = "printf 'Name:             lab\\nQuorate:          No\\nExpected votes:   3\\nTotal votes:      1\\n0x00000001          1 10.0.0.1 (local)\\n'";
    let lvs = r#"echo '{"report":[{"lv":[{"lv_name":"data","vg_name":"pve","lv_size":"1000","pool_lv":"","data_percent":"96.10","metadata_percent":"4.20","lv_attr":"twi-aotz--"}]}]}'"#;
    let vgs = r#"echo '{"report":[{"vg":[{"vg_name":"pve","vg_size":"2000","vg_free":"16","pv_count":"1","lv_count":"3"}]}]}'"#;
    let pvs = "echo 'Permission denied' >&2; exit 5";
    let ceph = r#"case "$1" in
status) echo '{"health":{"status":"HEALTH_WARN","checks":{"OSD_DOWN":{"summary":{"message":"1 osds down"}}}},"osdmap":{"num_osds":3,"num_up_osds":2,"num_in_osds":3},"pgmap":{"pgs_by_state":[{"state_name":"active+clean","count":128}],"bytes_total":30,"bytes_used":10,"bytes_avail":20}}';;
osd) echo '{"nodes":[{"id":-1,"type":"root"},{"id":0,"name":"osd.0","type":"osd","status":"up","reweight":1}]}';;
esac"#;
    let (dir, probes) = with(&[
        ("qm", qm),
        ("pct", pct),
        ("ha-manager", ha),
        ("pvecm", pvecm),
        ("lvs", lvs),
        ("vgs", vgs),
        ("pvs", pvs),
        ("ceph", ceph),
    ]);
    let locks = dir.path().join("root/run/lock/qemu-server");
    std::fs::create_dir_all(&locks).expect("makes");
    std::fs::write(locks.join("lock-100.conf"), "").expect("writes");
    let vm = good(ask(&probes, "proxmox-node.local.vm.config", json!({"vmid": 100})).await);
    assert_eq!(names(&vm), ["config", "disks", "vmid", "warnings"]);
    assert_eq!((&vm["disks"].as_array().map(Vec::len), &vm["disks"][0]["size"]), (&Some(1), &json!("32G")));
    assert_eq!(vm["disks"][0]["key"], "scsi0", "a `key` that is no secret is left alone");
    let lxc = good(ask(&probes, "proxmox-node.local.lxc.config", json!({"vmid": 101})).await);
    assert_eq!(names(&lxc), ["config", "mountpoints", "network", "rootfs", "vmid", "warnings"]);
    assert_eq!((&lxc["network"][0]["key"], &lxc["mountpoints"][0]["format"]), (&json!("net0"), &json!("raw")));
    let list = good(ask(&probes, "proxmox-node.local.lxc.list", json!({})).await);
    assert_eq!(list["containers"], json!([{"vmid":101,"status":"running","lock":null,"name":"ct"}]));
    let ha = good(ask(&probes, "proxmox-node.local.ha.status", json!({})).await);
    assert_eq!(ha["resources"], json!([{"sid":"vm:100","state":"started","node":"node1","request":null}]));
    let lvm = good(ask(&probes, "proxmox-node.local.lvm", json!({})).await);
    assert_eq!(
        (&lvm["logicalVolumes"][0]["dataPercent"], &lvm["warnings"].as_array().map(Vec::len)),
        (&json!(96.1), &Some(1))
    );
    let ceph = good(ask(&probes, "proxmox-node.local.ceph.status", json!({})).await);
    assert_eq!(
        names(&ceph),
        ["available", "health", "osdCount", "osdIn", "osdUp", "osds", "pgStates", "usage", "warnings"]
    );
    assert_eq!((&ceph["osdUp"], &ceph["warnings"][0]), (&json!(2), &json!("1 osds down")));
    let cluster = good(ask(&probes, "proxmox-node.local.cluster.config", json!({})).await);
    assert_eq!((&cluster["quorate"], &cluster["expectedVotes"]), (&json!(false), &json!(3)));
    let locks = good(ask(&probes, "proxmox-node.local.vm.locks", json!({})).await);
    assert_eq!(locks["locks"][0]["vmid"], 100);
}
