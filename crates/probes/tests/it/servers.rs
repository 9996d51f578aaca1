//! Real servers from Debian's packages (`cargo xtask setup` installs them), each in a directory and on a port of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use convoke_probes::Config;
use serde_json::json;

use crate::support::{ask, bad, good, names, probes, program};

/// A server that ends with its test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No test waits longer than this for a server to come up.
const PATIENCE: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

async fn start(port: u16, mut command: Command) -> Server {
    let shown = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.unwrap_or_else(|why| panic!("{shown}: {why}; `cargo xtask setup` installs it"));
    let server = Server { child, port };
    let up = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, up).await.unwrap_or_else(|_| panic!("{shown} did not come up"));
    server
}

/// The command as this user: some servers refuse to run as root.
fn as_user(user: &str, program: &Path, dir: &Path) -> Command {
    if convoke_testing::is_root() {
        let chown = Command::new("chown").args(["-R", user]).arg(dir).status().expect("chown runs");
        assert!(chown.success());
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into(), "--".into()]);
        command.arg(program);
        return command;
    }
    Command::new(program)
}

/// A directory that a server's own user can get at.
fn directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("allows");
    dir
}

#[tokio::test]
async fn redis() {
    let port = free_port();
    let dir = directory();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(dir.path());
    let server = start(port, command).await;
    let set =
        Command::new("redis-cli").args(["-p", &port.to_string(), "SET", "a", "1"]).output().expect("redis-cli runs");
    assert!(set.status.success());
    let probes = probes(Config::default());
    let at = json!({"port": server.port});
    let info = good(ask(&probes, "redis.info", at.clone()).await);
    assert_eq!(
        names(&info),
        [
            "connectedClients",
            "raw",
            "role",
            "totalCommandsProcessed",
            "totalConnectionsReceived",
            "uptimeSeconds",
            "usedMemoryHuman",
            "usedMemoryPeakHuman",
            "version"
        ]
    );
    assert_eq!(info["role"], "master");
    let keys = good(ask(&probes, "redis.keys.count", at.clone()).await);
    assert_eq!(keys, json!({"databases": [{"db": 0, "keys": 1, "expires": 0}], "totalKeys": 1}));
    let memory = good(ask(&probes, "redis.memory.usage", at).await);
    assert_eq!(names(&memory).len(), 10, "{memory}");
    assert!(memory["usedMemory"].as_u64().is_some_and(|n| n > 0) && memory["maxmemoryPolicy"] == "noeviction");
    drop(server);
    let gone = bad(ask(&probes, "redis.info", json!({"port": port})).await);
    assert!(gone.message.contains("refused"), "{gone:?}");
}

#[tokio::test]
async fn postgres() {
    let dir = directory();
    let data = dir.path().join("data");
    let bin = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed: `cargo xtask setup`");
    let bin = bin.map(|e| e.expect("an entry").path().join("bin")).max().expect("a version");
    let init = as_user("postgres", &bin.join("initdb"), dir.path())
        .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
        .arg(&data)
        .output()
        .expect("initdb runs");
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let port = free_port();
    let mut command = as_user("postgres", &bin.join("postgres"), dir.path());
    command
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k"])
        .arg(dir.path());
    let _server = start(port, command).await;
    let probes = probes(Config::default());
    let at = json!({"host": "127.0.0.1", "port": port});
    let databases = tokio::time::timeout(PATIENCE, async {
        loop {
            let ran = ask(&probes, "postgres.databases.list", at.clone()).await;
            match &ran.outcome {
                Err(failure) if failure.message.contains("starting up") => {}
                _ => return good(ran),
            }
        }
    });
    let databases = databases.await.expect("in time");
    assert_eq!(names(&databases["databases"][0]), ["encoding", "name", "owner", "sizePretty"]);
    assert_eq!((&databases["count"], &databases["databases"][0]["owner"]), (&json!(1), &json!("postgres")));
    let mut sleeper = Command::new("psql")
        .args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-p",
            &port.to_string(),
            "-c",
            "SELECT pg_sleep(1000) -- password=hunter2",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("psql runs");
    let slow = tokio::time::timeout(PATIENCE, async {
        loop {
            let slow = good(
                ask(&probes, "postgres.query.slow", json!({"host": "127.0.0.1", "port": port, "thresholdMs": 0}))
                    .await,
            );
            if slow["count"] == 1 {
                return slow;
            }
        }
    });
    let slow = slow.await.expect("the query shows");
    assert_eq!(names(&slow["queries"][0]), ["database", "durationMs", "pid", "query", "state", "user"]);
    assert!(!slow.to_string().contains("hunter2"), "{slow}");
    let connections = good(ask(&probes, "postgres.connections.active", at).await);
    assert_eq!(
        names(&connections["connections"][0]),
        ["backendStart", "clientAddr", "database", "pid", "query", "state", "user"]
    );
    assert_eq!(connections["total"], 1);
    sleeper.kill().expect("ends");
    sleeper.wait().expect("ended");
    let refused = bad(ask(
        &probes,
        "postgres.databases.list",
        json!({"host": "127.0.0.1", "port": port, "user": "nobody-here"}),
    )
    .await);
    assert!(refused.message.contains("nobody-here"), "{refused:?}");
}

#[tokio::test]
async fn mariadb() {
    let dir = directory();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("makes");
    let init = as_user("mysql", Path::new("/usr/bin/mariadb-install-db"), dir.path())
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .arg(format!("--datadir={}", data.display()))
        .output()
        .expect("MariaDB is installed: `cargo xtask setup`");
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let port = free_port();
    let mut command = as_user("mysql", Path::new("/usr/sbin/mariadbd"), dir.path());
    command
        .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"])
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--socket={}", dir.path().join("s").display()))
        .arg(format!("--pid-file={}", dir.path().join("p").display()));
    let _server = start(port, command).await;
    let probes = probes(Config::default());
    let at = json!({"host": "127.0.0.1", "port": port});
    let databases = good(ask(&probes, "mysql.databases.list", at.clone()).await);
    assert!(
        databases["databases"]
            .as_array()
            .is_some_and(|d| d.iter().any(|d| d["name"] == "mysql" && d["tables"].as_u64() > Some(0))),
        "{databases}"
    );
    assert_eq!(names(&databases["databases"][0]), ["name", "sizeMb", "tables"]);
    let processes = good(ask(&probes, "mysql.processlist", at.clone()).await);
    assert_eq!(names(&processes), ["count", "processes"]);
    let status = good(ask(&probes, "mysql.status", at.clone()).await);
    assert_eq!(
        names(&status),
        ["openTables", "opens", "queriesPerSecondAvg", "questions", "slowQueries", "threads", "uptime", "variables"]
    );
    assert!(status["questions"].as_u64() > Some(0), "{status}");
    let refused =
        bad(ask(&probes, "mysql.status", json!({"host": "127.0.0.1", "port": port, "user": "nobody"})).await);
    assert!(refused.message.contains("denied"), "{refused:?}");
}

#[tokio::test]
async fn nginx() {
    let dir = directory();
    let config = dir.path().join("nginx.conf");
    // The real program, told where its files are: the probe itself takes no path.
    let real = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|p| Path::new(p).exists());
    let real = real.expect("nginx is installed: `cargo xtask setup`");
    let pid = dir.path().join("pid");
    program(
        dir.path(),
        "nginx",
        &format!("exec {real} -e stderr -c {} -g 'pid {};' \"$@\"", config.display(), pid.display()),
    );
    let log = dir.path().join("access.log");
    std::fs::write(&log, "127.0.0.1 - - \"GET /?token=abcdef HTTP/1.1\" 200\n").expect("writes");
    let path = vec![dir.path().into(), "/usr/bin".into(), "/bin".into()];
    let probes = probes(Config { path, nginx_log_dirs: vec![dir.path().into()], ..Config::default() });
    std::fs::write(&config, "events {}\n").expect("writes");
    let valid = good(ask(&probes, "nginx.config.test", json!({})).await);
    assert_eq!(valid["valid"], true, "{valid}");
    assert!(valid["output"].as_str().is_some_and(|o| o.contains("successful")), "{valid}");
    std::fs::write(&config, "events {}\nnonsense;\n").expect("writes");
    let invalid = good(ask(&probes, "nginx.config.test", json!({})).await);
    assert_eq!(invalid["valid"], false);
    assert!(invalid["output"].as_str().is_some_and(|o| o.contains("nonsense")), "{invalid}");
    let tail = good(ask(&probes, "nginx.access.log.tail", json!({"logPath": log})).await);
    assert_eq!(tail["lines"], json!(["127.0.0.1 - - \"GET /?token=[REDACTED] HTTP/1.1\" 200"]));
    assert_eq!(
        bad(ask(&probes, "nginx.error.log.tail", json!({"logPath": "/etc/passwd"})).await).code,
        "UNAUTHORIZED"
    );
}
