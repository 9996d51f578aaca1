//! Listing, reading, writing, editing.

use convoke_toolbox::limits::{FILE_BYTES, IMAGE_BYTES};
use serde_json::json;

use crate::Bench;

#[tokio::test]
async fn a_directory_is_listed_in_order() {
    let bench = Bench::new();
    bench.put("b.txt", "");
    bench.put("src/a.rs", "");
    bench.put(".hidden", "");
    std::os::unix::fs::symlink("src", bench.path("link")).unwrap();
    std::os::unix::fs::symlink("../..", bench.path("out")).unwrap();
    let listed = bench.run("list_directory", json!({ "path": "." })).await;
    assert_eq!(listed.content, ".hidden\nb.txt\nlink/\nout\nsrc/");
    assert_eq!(bench.run("list_directory", json!({ "path": "src" })).await.content, "a.rs");
    assert_eq!(bench.fails("list_directory", json!({ "path": "b.txt" })).await, "not a directory: b.txt");
    assert_eq!(bench.fails("list_directory", json!({ "path": ".." })).await, "path outside workspace: ..");
    assert_eq!(bench.fails("list_directory", json!({ "path": "out" })).await, "path outside workspace: out");
    assert_eq!(bench.fails("list_directory", json!({ "path": 5 })).await, "path must be a string");
}

#[tokio::test]
async fn a_crowded_directory_is_listed_in_part() {
    let bench = Bench::new();
    for number in 0..2_003 {
        bench.put(&format!("f{number:04}"), "");
    }
    let listed = bench.run("list_directory", json!({ "path": "." })).await.content;
    assert_eq!(listed.lines().next(), Some("f0000"));
    assert_eq!(listed.lines().nth(1_999), Some("f1999"));
    assert!(listed.ends_with("\n\n[3 more entries. List a subdirectory or use code_search.]"), "{listed}");
}

#[tokio::test]
async fn text_is_read_and_what_is_no_text_is_refused() {
    let bench = Bench::new();
    bench.put("a.txt", "one\ntwo\nthree\n");
    bench.put("zero", b"a\0b");
    bench.put("latin", b"caf\xe9");
    bench.put("crlf", "a\r\nb\r\n");
    assert_eq!(bench.run("read_file", json!({ "path": "a.txt" })).await.content, "one\ntwo\nthree\n");
    let part = bench.run("read_file", json!({ "path": "a.txt", "offset": "2", "limit": 1 })).await;
    assert_eq!(part.content, "two\n\n[2 more lines in file. Use offset=3 to continue.]");
    assert_eq!(bench.fails("read_file", json!({ "path": "zero" })).await, "not a text file: zero");
    assert_eq!(bench.fails("read_file", json!({ "path": "no" })).await, "no such file or directory: no");
    assert_eq!(bench.fails("read_file", json!({ "path": "." })).await, "not a file: .");
    assert_eq!(bench.fails("read_file", json!({})).await, "path is required");
    assert_eq!(bench.fails("read_file", json!({ "path": "a.txt", "limit": 0 })).await, "limit must be positive");
    assert!(
        bench.run("read_file", json!({ "path": "latin" })).await.content.starts_with("caf\u{fffd}\n\n[Some bytes")
    );
    assert_eq!(bench.run("read_file", json!({ "path": "crlf" })).await.content, "a\r\nb\r\n");
    let secret = bench.folder.path().join("secret.txt").display().to_string();
    assert_eq!(
        bench.fails("read_file", json!({ "path": secret })).await,
        format!("path outside workspace: {secret}")
    );
    let own = bench.path("a.txt").display().to_string();
    assert!(!bench.run("read_file", json!({ "path": own })).await.is_error, "its own absolute path is fine");
}

#[tokio::test]
async fn a_file_may_be_as_large_as_the_limit_and_not_one_byte_more() {
    let bench = Bench::new();
    let line = format!("{}\n", "x".repeat(1023));
    bench.put("fits", line.repeat(256));
    bench.put("over", format!("{}y", line.repeat(256)));
    assert!(!bench.run("read_file", json!({ "path": "fits" })).await.is_error);
    let expected = format!("file too large: over is {} bytes; limit is {FILE_BYTES} bytes", FILE_BYTES + 1);
    assert_eq!(bench.fails("read_file", json!({ "path": "over" })).await, expected);
}

#[tokio::test]
async fn a_picture_is_read_up_to_its_own_limit() {
    let bench = Bench::new();
    let most = usize::try_from(IMAGE_BYTES).unwrap();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    bench.put("small.dat", &png);
    png.resize(most, 0);
    bench.put("fits.png", &png);
    png.push(0);
    bench.put("over.png", &png);
    let small = bench.run("read_file", json!({ "path": "small.dat" })).await;
    assert_eq!(small.content, "Read image small.dat (image/png, 8 bytes)", "known by its bytes, not its name");
    assert_eq!((small.images[0].mime_type, small.images[0].data.as_str()), ("image/png", "iVBORw0KGgo="));
    let fits = bench.run("read_file", json!({ "path": "fits.png" })).await;
    assert_eq!(fits.images[0].data.len(), most.div_ceil(3) * 4);
    let over = bench.fails("read_file", json!({ "path": "over.png" })).await;
    assert_eq!(over, "file too large: over.png is 10485761 bytes; limit is 10485760 bytes");
    for (name, head, kind) in [
        ("a", &b"\xff\xd8\xff\xe0rest"[..], "image/jpeg"),
        ("b", b"GIF89a....", "image/gif"),
        ("c", b"RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"),
    ] {
        bench.put(name, head);
        assert_eq!(bench.run("read_file", json!({ "path": name })).await.images[0].mime_type, kind);
    }
}

#[tokio::test]
async fn a_new_file_is_written_and_an_old_one_only_after_it_was_read() {
    let bench = Bench::new();
    let new = bench.run("write_file", json!({ "path": "new.txt", "content": "häl\n" })).await;
    assert_eq!(new.content, "Wrote 5 bytes to new.txt");
    assert_eq!((new.diff, new.changed_files.as_slice()), (None, &["new.txt".to_owned()][..]));
    bench.put("old.txt", "one\ntwo\n");
    let write = json!({ "path": "old.txt", "content": "one\n2\n" });
    let refused = bench.fails("write_file", write.clone()).await;
    assert_eq!(refused, "existing file must be read before writing: old.txt");
    assert_eq!(bench.text("old.txt"), "one\ntwo\n");
    bench.run("read_file", json!({ "path": "./old.txt" })).await;
    let written = bench.run("write_file", write).await;
    let diff = "--- old.txt\n+++ old.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2";
    assert_eq!(written.content, format!("Wrote 6 bytes to old.txt\n{diff}"));
    assert_eq!((written.diff.as_deref(), written.first_changed_line), (Some(diff), Some(2)));
    assert_eq!(bench.text("old.txt"), "one\n2\n");
    let again = bench.run("write_file", json!({ "path": "new.txt", "content": "x" })).await;
    assert!(!again.is_error, "what it wrote itself it knows");
    let no_parent = bench.fails("write_file", json!({ "path": "no/such/x", "content": "" })).await;
    assert_eq!(no_parent, "no such file or directory: no/such/x");
    assert_eq!(bench.fails("write_file", json!({ "path": ".", "content": "" })).await, "not a file: .");
    let out = bench.fails("write_file", json!({ "path": "../x", "content": "" })).await;
    assert_eq!(out, "path outside workspace: ../x");
    assert_eq!(bench.fails("write_file", json!({ "path": "x" })).await, "content is required");
}

#[tokio::test]
async fn reads_are_remembered_restored_and_forgotten() {
    let bench = Bench::new();
    bench.put("a.txt", "1");
    bench.put("src/b.txt", "2");
    bench.run("read_file", json!({ "path": "src/../src/b.txt" })).await;
    bench.toolbox.mark_read("a.txt");
    bench.toolbox.mark_read("../secret.txt");
    bench.toolbox.mark_read("missing");
    assert_eq!(bench.toolbox.read_paths(), ["a.txt", "src/b.txt"]);
    bench.toolbox.forget_reads();
    assert!(bench.fails("write_file", json!({ "path": "a.txt", "content": "x" })).await.contains("must be read"));
}

#[tokio::test]
async fn edits_are_made_all_or_none() {
    let bench = Bench::new();
    bench.put("a.rs", "fn a() {}\nfn b() {}\n");
    let edit = json!({ "path": "a.rs", "edits": [{ "old_text": "fn a", "new_text": "pub fn a" }] });
    let refused = bench.fails("edit_file", edit.clone()).await;
    assert_eq!(refused, "existing file must be read before editing: a.rs");
    bench.run("read_file", json!({ "path": "a.rs" })).await;
    let half = json!({ "path": "a.rs", "edits": [
        { "old_text": "fn a", "new_text": "x" }, { "old_text": "fn c", "new_text": "y" },
    ]});
    assert!(bench.fails("edit_file", half).await.starts_with("edit 2: old_text was not found in a.rs"));
    assert_eq!(bench.text("a.rs"), "fn a() {}\nfn b() {}\n");
    let edited = bench.run("edit_file", edit).await;
    assert!(edited.content.starts_with("Edited a.rs: replaced 1 block(s)\n--- a.rs\n+++ a.rs\n@@"), "{edited:?}");
    assert_eq!((edited.first_changed_line, edited.changed_files.len()), (Some(1), 1));
    assert_eq!(bench.text("a.rs"), "pub fn a() {}\nfn b() {}\n");
}

#[tokio::test]
async fn many_writers_leave_one_whole_file() {
    let bench = std::sync::Arc::new(Bench::new());
    bench.put("f", "0");
    bench.toolbox.mark_read("f");
    let writers: Vec<_> = (0..8)
        .map(|n: u8| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let content = char::from(b'a' + n).to_string().repeat(10_000);
                bench.run("write_file", json!({ "path": "f", "content": content })).await
            })
        })
        .collect();
    for writer in writers {
        assert!(!writer.await.unwrap().is_error);
    }
    let text = bench.text("f");
    assert!(text.len() == 10_000 && text.bytes().all(|byte| byte == text.as_bytes()[0]));
    assert_eq!(std::fs::read_dir(bench.path("")).unwrap().count(), 1, "nothing is left beside it");
}
