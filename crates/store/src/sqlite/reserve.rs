//! A file that holds some of the disk's space. When the disk is full it is freed, so that what withdraws something can still
//! be written.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use std::time::{Duration, Instant};

use crate::files::touch_private;
use crate::seal::random;

/// What it holds.
const BYTES: u64 = 1 << 20;
/// It is written in pieces of this size.
const PIECE: usize = 64 << 10;

/// How often space is taken again that was freed, or that there was none of.
const REFILL_EVERY: Duration = Duration::from_secs(30);
/// What the disk must have left for that: nobody is to be short of it for the reserve's sake.
const REFILL_ABOVE: u64 = 16 * BYTES;

#[derive(Debug)]
pub(super) struct Reserve {
    file: PathBuf,
    /// When it was last looked at, where it does not hold all that it should.
    short_since: Option<Instant>,
}

impl Reserve {
    /// Takes the space, as far as there is any.
    pub(super) fn new(file: PathBuf) -> Self {
        let mut reserve = Self { file, short_since: None };
        reserve.fill();
        reserve
    }

    /// Frees the space. False when there was none.
    pub(super) fn free(&mut self) -> bool {
        self.short_since = Some(Instant::now());
        fs::metadata(&self.file).is_ok_and(|file| file.len() > 0) && fs::remove_file(&self.file).is_ok()
    }

    /// Takes the space again where it is short of it and the disk has some.
    pub(super) fn refill(&mut self) {
        if self.short_since.is_none_or(|since| since.elapsed() < REFILL_EVERY) {
            return;
        }
        self.short_since = Some(Instant::now());
        if crate::sql::admin::free_bytes(self.file.parent().unwrap_or(&self.file))
            .is_none_or(|free| free >= REFILL_ABOVE)
        {
            self.fill();
        }
    }

    fn is_full(&self) -> bool {
        fs::metadata(&self.file).is_ok_and(|file| file.len() >= BYTES)
    }

    /// Takes the space again, as much of it as fits.
    pub(super) fn fill(&mut self) {
        let written = if self.is_full() { Ok(()) } else { self.write().and_then(|file| file.sync_all()) };
        self.short_since = written.is_err().then(Instant::now);
        if let Err(error) = written
            && !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded)
        {
            tracing::warn!(%error, file = %self.file.display(), "cannot hold space in reserve for a full disk");
        }
    }

    fn write(&self) -> std::io::Result<File> {
        let mut file = touch_private(&self.file).map_err(std::io::Error::other)?;
        // Random, since some file systems keep nothing of zeros.
        let piece = random::<PIECE>().map_err(std::io::Error::other)?;
        for _ in 0..BYTES / PIECE as u64 {
            file.write_all(&piece)?;
        }
        Ok(file)
    }
}
