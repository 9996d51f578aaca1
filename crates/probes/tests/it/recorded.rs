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

/// Lines with every field that the program prints, in its order and with its escapes.
const DOCKER: &str = r#"case "$1" in
ps) [ "$*" = "ps -a --format {{json .}}" ] || exit 9
    echo '{"Command":"\"/docker-entrypoint.…\"","CreatedAt":"2026-01-15 10:30:00 +0000 UTC","ID":"4bf5a1c2d3e4","Image":"nginx:1.27","Labels":"maintainer=NGINX","LocalVolumes":"0","Mounts":"","Names":"web","Networks":"bridge","Ports":"0.0.0.0:80-\u003e80/tcp, [::]:80-\u003e80/tcp","RunningFor":"3 hours ago","Size":"0B","State":"running","Status":"Up 3 hours (unhealthy)"}'
    echo '{"Command":"\"docker-entrypoint.s…\"","CreatedAt":"2026-01-12 09:00:00 +0000 UTC","ID":"aa11bb22cc33","Image":"redis","Labels":"","LocalVolumes":"1","Mounts":"data","Names":"cache","Networks":"bridge","Ports":"","RunningFor":"2 days ago","Size":"0B","State":"exited","Status":"Exited (0) 2 days ago"}';;
images) echo '{"Containers":"N/A","CreatedAt":"2026-01-02 08:00:00 +0000 UTC","CreatedSince":"2 weeks ago","Digest":"\u003cnone\u003e","ID":"1a2b3c4d5e6f","Repository":"nginx","SharedSize":"N/A","Size":"188MB","Tag":"1.27","UniqueSize":"N/A","VirtualSize":"188MB"}';;
info) echo '{"ID":"f1e2","Containers":2,"ContainersRunning":1,"ContainersPaused":0,"ContainersStopped":1,"Images":1,"Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]],"OperatingSystem":"Debian GNU/Linux 12 (bookworm)","NCPU":4,"MemTotal":8000000000,"ServerVersion":"28.2.2","Warnings":null,"ClientInfo":{"Debug":false,"Version":"28.2.2"}}';;
logs) [ "$4" = -- ] || exit 9; [ "$5" = web ] || { echo "Error response from daemon: No such container: $5" >&2; exit 1; }
    echo "to stdout"; echo "to stderr" >&2;;
esac"#;

/// The client alone, as it is installed without an engine: JSON on one side, the words and the exit code on the other.
const NO_ENGINE: &str = r#"[ "$1" = info ] && echo '{"ID":"","Containers":0,"Images":0,"Driver":"","OperatingSystem":"","NCPU":0,"MemTotal":0,"ServerVersion":"","ClientInfo":{"Version":"28.2.2"}}'
echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?' >&2; exit 1"#;

#[tokio::test]
async fn docker_without_an_engine() {
    let (_dir, probes) = with(&[("docker", NO_ENGINE)]);
    for probe in ["docker.containers.list", "docker.images.list", "docker.daemon.info"] {
        let failure = bad(ask(&probes, probe, json!({})).await);
        assert!(failure.message.contains("Cannot connect to the Docker daemon"), "{probe}: {failure:?}");
    }
}

#[tokio::test]
async fn docker() {
    let (_dir, probes) = with(&[("docker", DOCKER)]);
    let containers = good(ask(&probes, "docker.containers.list", json!({})).await);
    assert_eq!(names(&containers["containers"][0]), ["id", "image", "name", "ports", "state", "status"]);
    assert_eq!(
        containers["containers"][0],
        json!({"id":"4bf5a1c2d3e4","name":"web","image":"nginx:1.27","state":"running","status":"Up 3 hours (unhealthy)","ports":"0.0.0.0:80->80/tcp, [::]:80->80/tcp"})
    );
    assert_eq!(containers["containers"][1]["name"], "cache");
    let images = good(ask(&probes, "docker.images.list", json!({})).await);
    assert_eq!(
        images["images"],
        json!([{"id":"1a2b3c4d5e6f","repository":"nginx","tag":"1.27","size":"188MB","created":"2 weeks ago"}])
    );
    let info = good(ask(&probes, "docker.daemon.info", json!({})).await);
    assert_eq!(
        info,
        json!({"serverVersion":"28.2.2","containers":2,"images":1,"driver":"overlay2","os":"Debian GNU/Linux 12 (bookworm)","memoryBytes":8000000000u64,"cpus":4})
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
        json!({"timestamp":"1780596000123456","priority":6,"message":"Accepted password for bob","pid":"7","uid":"0"})
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
    let lvs = r#"echo '{"report":[{"lv":[{"lv_name":"data","vg_name":"pve","lv_size":"1000B","pool_lv":"","data_percent":"96.10","metadata_percent":"4.20","lv_attr":"twi-aotz--"}]}]}'"#;
    let vgs = r#"echo '{"report":[{"vg":[{"vg_name":"pve","vg_size":"2000B","vg_free":"0B","pv_count":"1","lv_count":"3"}]}]}'"#;
    let pvs = "echo 'Permission denied' >&2; exit 5";
    let ceph = r#"case "$1" in
status) echo '{"health":{"status":"HEALTH_WARN","checks":{"OSD_DOWN":{"summary":{"message":"1 osds down"}}}},"osdmap":{"num_osds":3,"num_up_osds":2,"num_in_osds":3},"pgmap":{"pgs_by_state":[{"state_name":"active+clean","count":128}],"bytes_total":30,"bytes_used":10,"bytes_avail":20}}';;
osd) echo '{"nodes":[{"id":-1,"name":"default","type":"root","children":[-3]},{"id":-3,"name":"pve1","type":"host","children":[0]},{"id":0,"name":"osd.0","type":"osd","status":"up","crush_weight":1.8,"reweight":1}]}';;
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
    assert_eq!(
        vm["disks"][0],
        json!({"key":"scsi0","storage":"local-lvm","volume":"vm-100-disk-0","format":"raw","size":"32G"}),
        "a `key` that is no secret is left alone"
    );
    assert_eq!(vm["warnings"].as_array().map(Vec::len), Some(2), "a lock and a local disk: {vm}");
    let lxc = good(ask(&probes, "proxmox-node.local.lxc.config", json!({"vmid": 101})).await);
    assert_eq!(names(&lxc), ["config", "mountpoints", "network", "rootfs", "vmid", "warnings"]);
    assert_eq!(lxc["network"][0], json!({"key":"net0","raw":"name=eth0,bridge=vmbr0"}));
    assert_eq!(
        lxc["mountpoints"][0],
        json!({"key":"mp0","storage":"local","volume":"101/vm-101-disk-1.raw","mountpoint":"/data","size":"4G"})
    );
    assert_eq!(lxc["rootfs"], json!({"storage":"local-lvm","volume":"vm-101-disk-0","size":"8G"}));
    let list = good(ask(&probes, "proxmox-node.local.lxc.list", json!({})).await);
    assert_eq!(list["containers"], json!([{"vmid":101,"status":"running","lock":"","name":"ct"}]));
    let ha = good(ask(&probes, "proxmox-node.local.ha.status", json!({})).await);
    assert_eq!(ha["resources"], json!([{"sid":"vm:100","state":"started","node":"node1","request":"none"}]));
    let lvm = good(ask(&probes, "proxmox-node.local.lvm", json!({})).await);
    assert_eq!(
        lvm["logicalVolumes"][0],
        json!({"name":"data","vgName":"pve","size":"1000B","attrs":"twi-aotz--","pool":"","dataPercent":"96.10","metadataPercent":"4.20"})
    );
    assert_eq!(lvm["volumeGroups"][0], json!({"name":"pve","size":"2000B","free":"0B","pvCount":1,"lvCount":3}));
    assert_eq!(lvm["warnings"].as_array().map(Vec::len), Some(3), "no disks told, a full pool, nothing free: {lvm}");
    let ceph = good(ask(&probes, "proxmox-node.local.ceph.status", json!({})).await);
    assert_eq!(
        names(&ceph),
        ["available", "health", "osdCount", "osdIn", "osdUp", "osds", "pgStates", "usage", "warnings"]
    );
    assert_eq!(ceph["warnings"], json!(["Ceph says HEALTH_WARN", "1 of 3 OSDs are down", "1 osds down"]));
    assert_eq!((&ceph["osdUp"], &ceph["usage"]), (&json!(2), &json!({"total":30,"used":10,"avail":20})));
    assert_eq!(
        ceph["osds"][0],
        json!({"id":0,"name":"osd.0","type":"osd","status":"up","crush_weight":1.8,"reweight":1,"host":"pve1"})
    );
    let cluster = good(ask(&probes, "proxmox-node.local.cluster.config", json!({})).await);
    assert_eq!((&cluster["quorate"], &cluster["expectedVotes"]), (&json!(false), &json!(3)));
    assert_eq!(cluster["nodes"], json!([{"nodeId":"0x00000001","name":"10.0.0.1","votes":1,"local":true}]));
    let locks = good(ask(&probes, "proxmox-node.local.vm.locks", json!({})).await);
    assert_eq!(locks["locks"], json!([{"vmid":100,"file":"lock-100.conf"}]));
    assert_eq!(locks["warnings"].as_array().map(Vec::len), Some(1));
}
