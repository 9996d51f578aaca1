//! Both outputs of a command, drained to the end and kept up to a cap.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{AbortOnDrop, Output};
use crate::text;

/// Read at once.
const CHUNK: usize = 16 * 1024;

/// What has come of one output.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    total: u64,
}

type Shared = Arc<Mutex<Kept>>;

/// The outputs of a running command.
pub(super) struct Capture {
    cap: usize,
    stdout: Shared,
    stderr: Shared,
    readers: Vec<AbortOnDrop<()>>,
}

impl Capture {
    pub(super) fn start(
        stdout: Option<impl AsyncRead + Unpin + Send + 'static>,
        stderr: Option<impl AsyncRead + Unpin + Send + 'static>,
        cap: usize,
    ) -> Self {
        let (out, err) = (Shared::default(), Shared::default());
        let mut readers = Vec::new();
        readers.extend(stdout.map(|pipe| AbortOnDrop(tokio::spawn(drain(pipe, out.clone(), cap)))));
        readers.extend(stderr.map(|pipe| AbortOnDrop(tokio::spawn(drain(pipe, err.clone(), cap)))));
        Self { cap, stdout: out, stderr: err, readers }
    }

    /// Resolves when both outputs have ended. Cancel-safe.
    pub(super) async fn drained(&mut self) {
        while let Some(AbortOnDrop(reader)) = self.readers.last_mut() {
            // A reader cannot fail other than by ending.
            let _ = reader.await;
            self.readers.pop();
        }
    }

    /// What has come until now. The pipes are closed.
    pub(super) fn finish(self) -> Output {
        drop(self.readers);
        let take = |kept: &Shared| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let (stdout, stderr) = (take(&self.stdout), take(&self.stderr));
        // Replacing what is no UTF-8 makes text longer, so the share of each is measured in text.
        let err = text::lossy(&stderr.bytes, self.cap);
        let out_share = self.cap - err.len().min(self.cap / 4);
        let out = text::lossy(&stdout.bytes, out_share);
        let err = text::cut(&err, self.cap - out.len()).to_owned();
        let whole = |text: &str, kept: &Kept| {
            kept.total == kept.bytes.len() as u64 && text.len() >= String::from_utf8_lossy(&kept.bytes).len()
        };
        let truncated = !whole(&out, &stdout) || !whole(&err, &stderr);
        Output {
            stdout: out,
            stderr: err,
            truncated,
            stdout_bytes: stdout.total,
            stderr_bytes: stderr.total,
            ..Output::default()
        }
    }
}

async fn drain(mut pipe: impl AsyncRead + Unpin, kept: Shared, cap: usize) {
    let mut chunk = vec![0; CHUNK];
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = cap.saturating_sub(kept.bytes.len()).min(read);
                kept.bytes.extend_from_slice(&chunk[..room]);
                kept.total += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(stdout: &[u8], stderr: &[u8], cap: usize) -> Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let pipe = |bytes: &[u8]| Some(std::io::Cursor::new(bytes.to_vec()));
            let mut capture = Capture::start(pipe(stdout), pipe(stderr), cap);
            capture.drained().await;
            capture.finish()
        })
    }

    #[test]
    fn standard_error_is_not_starved() {
        let output = captured(&[b'o'; 1000], &[b'e'; 1000], 100);
        assert_eq!((output.stdout.len(), output.stderr.len()), (75, 25));
        let output = captured(b"short", &[b'e'; 1000], 100);
        assert_eq!((output.stdout.as_str(), output.stderr.len()), ("short", 95));
        assert!(output.truncated);
        assert_eq!((output.stdout_bytes, output.stderr_bytes), (5, 1000));
    }

    proptest! {
        #[test]
        fn both_texts_fit_the_cap_and_what_is_missing_is_said(
            stdout: Vec<u8>, stderr: Vec<u8>, cap in 0_usize..200,
        ) {
            let output = captured(&stdout, &stderr, cap);
            prop_assert!(output.stdout.len() + output.stderr.len() <= cap);
            let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            prop_assert!(out.starts_with(&output.stdout) && err.starts_with(&output.stderr));
            prop_assert_eq!(output.truncated, out != output.stdout || err != output.stderr);
        }
    }
}
