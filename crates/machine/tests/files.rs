//! The file tools on hostile file systems.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![cfg(unix)]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use convoke_kenny::frame::ErrorCode;
use convoke_machine::{Call, Machine, Options, ToolError};
use serde_json::{Value, json};

async fn call(options: Options, tool: &str, args: Value) -> Result<Value, ToolError> {
    Machine::new(options).run(tool, args.as_object().unwrap(), &Call::default()).await
}

async fn read(path: impl AsRef<Path>) -> Result<Value, ToolError> {
    call(Options::default(), "fs_read", json!({"path": path.as_ref()})).await
}

fn code(result: Result<Value, ToolError>) -> ErrorCode {
    result.unwrap_err().code
}

#[tokio::test]
async fn files_are_read_up_to_the_limit_and_whole_characters() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    fs::write(&file, "hällo").unwrap();
    assert_eq!(read(&file).await.unwrap(), json!({"content": "hällo", "truncated": false}));
    let small = Options { read_cap: 2, ..Options::default() };
    // The second byte is the first half of a character.
    let result = call(small, "fs_read", json!({"path": file})).await.unwrap();
    assert_eq!(result, json!({"content": "h", "truncated": true}));
    fs::write(&file, vec![b'x'; 256 * 1024 + 1]).unwrap();
    let result = read(&file).await.unwrap();
    assert_eq!((result["content"].as_str().unwrap().len(), &result["truncated"]), (256 * 1024, &true.into()));
    fs::write(&file, vec![b'x'; 256 * 1024]).unwrap();
    assert_eq!(read(&file).await.unwrap()["truncated"], false);
    fs::write(&file, vec![0xff; 256 * 1024]).unwrap();
    let result = read(&file).await.unwrap();
    assert!(result["content"].as_str().unwrap().len() <= 256 * 1024);
    assert_eq!(result["truncated"], true);
}

#[tokio::test]
async fn what_is_no_file_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    nix_mkfifo(&fifo);
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("link");
    symlink(&fifo, &link).unwrap();
    let circle = folder.path().join("circle");
    symlink(&circle, &circle).unwrap();
    for path in [&fifo, &socket, &link, &folder.path().to_owned(), &circle] {
        let error = read(path).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ExecFailed, "{error}");
    }
    for device in ["/dev/zero", "/dev/tty", "/dev/urandom"] {
        assert!(read(device).await.is_err(), "{device}");
    }
    assert_eq!(code(read(folder.path().join("none")).await), ErrorCode::NotFound);
    assert_eq!(code(read("").await), ErrorCode::BadArgs);
    assert_eq!(code(read("a\0b").await), ErrorCode::BadArgs);
}

fn nix_mkfifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_of_the_kernel_are_read_and_do_not_hang() {
    let content = |result: Value| result["content"].as_str().unwrap().to_owned();
    assert!(content(read("/proc/self/stat").await.unwrap()).contains(") "));
    assert!(content(read("/proc/meminfo").await.unwrap()).starts_with("MemTotal"));
    // These wait for something to happen, or have no end.
    for path in
        ["/proc/kmsg", "/proc/kcore", "/sys/kernel/debug/tracing/trace_pipe", "/proc/self/mem", "/proc/self/fd/0"]
    {
        let _ = read(path).await;
    }
}

#[tokio::test]
async fn folders_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b"), "123").unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    symlink("/", folder.path().join("c")).unwrap();
    fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"d\xff")), "").unwrap();
    let result = call(Options::default(), "fs_list", json!({"path": folder.path()})).await.unwrap();
    let entries = result["entries"].as_array().unwrap();
    assert_eq!(entries[0], json!({"name": "a", "is_dir": true, "bytes": 0}));
    assert_eq!(entries[1], json!({"name": "b", "is_dir": false, "bytes": 3}));
    assert_eq!((&entries[2]["is_dir"], &entries[2]["symlink"]), (&false.into(), &true.into()));
    assert_eq!(entries[3]["name"], "d\u{fffd}");
    let few = Options { list_cap: 2, ..Options::default() };
    let result = call(few, "fs_list", json!({"path": folder.path()})).await.unwrap();
    assert_eq!((result["entries"].as_array().unwrap().len(), &result["truncated"]), (2, &true.into()));
    assert_eq!(code(call(Options::default(), "fs_list", json!({"path": "/no/such"})).await), ErrorCode::NotFound);
}

async fn search(options: Options, root: &Path, pattern: &str) -> Value {
    call(options, "fs_search", json!({"root": root, "pattern": pattern})).await.unwrap()
}

#[tokio::test]
async fn names_are_found_without_following_links() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::write(root.join("sub/deep/Report-2026.TXT"), "").unwrap();
    fs::create_dir(root.join("report")).unwrap();
    symlink(root, root.join("sub/again")).unwrap();
    let result = search(Options::default(), root, "REPORT").await;
    let expect = json!([root.join("report"), root.join("sub/deep/Report-2026.TXT")]);
    assert_eq!(result, json!({"matches": expect}));
    assert_eq!(search(Options::default(), root, "no such").await, json!({"matches": []}));
    // A pattern is text and no expression.
    assert_eq!(search(Options::default(), root, ".*").await["matches"], json!([]));
    let one = search(Options { search_hits: 1, ..Options::default() }, root, "report").await;
    assert_eq!(one, json!({"matches": [root.join("report")], "truncated": true}));
    let none = search(Options { search_entries: 1, ..Options::default() }, root, "2026").await;
    assert_eq!(none, json!({"matches": [], "truncated": true}));
    let missing = call(Options::default(), "fs_search", json!({"root": "/no/such", "pattern": "x"})).await;
    assert_eq!(code(missing), ErrorCode::NotFound);
}

#[tokio::test]
async fn a_deep_folder_is_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    // Two halves that can be named are joined into a whole that cannot.
    let half: std::path::PathBuf = std::iter::repeat_n("deep-folder", 250).collect();
    let (upper, lower) = (folder.path().join("upper"), folder.path().join("lower"));
    fs::create_dir_all(upper.join(&half)).unwrap();
    fs::create_dir_all(lower.join(&half)).unwrap();
    fs::write(lower.join(&half).join("needle"), "").unwrap();
    fs::rename(&lower, upper.join(&half).join("lower")).unwrap();
    fs::write(folder.path().join("needle-in-sight"), "").unwrap();
    // What is too deep for a path is not found, and everything else is.
    let result = search(Options::default(), folder.path(), "needle").await;
    assert_eq!(result["matches"], json!([folder.path().join("needle-in-sight")]));
}
