//! What a writer opens it closes. A program of its own, since it counts all descriptors of the process.

#![cfg(target_os = "linux")]

use std::fs;

use convoke_ring::{PAGE, Writer};

#[tokio::test]
async fn a_writer_that_is_gone_leaves_no_descriptor() {
    // Beside the program, since a directory in memory may have no direct writes.
    let here = std::env::current_exe().expect("this program").parent().expect("its directory").to_owned();
    let dir = tempfile::tempdir_in(here).expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, [0; 2 * PAGE]).expect("written");
    let open_ones = || fs::read_dir("/proc/self/fd").expect("listed").count();
    let before = open_ones();
    for _ in 0..10 {
        let Ok(mut writer) = Writer::open(&path) else { return };
        writer.write(&[1; 10], 0).await.expect("written");
    }
    assert_eq!(open_ones(), before);
}
