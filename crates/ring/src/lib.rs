//! Writes to the disk itself, past the page cache and synced, without a thread that waits for them.
//!
//! Linux takes such writes through a ring that a program shares with the kernel (`io_uring`), and `a10` makes that safe: the
//! kernel reads a buffer that nobody has in hand until it is done with it. This crate adds what a runtime with sockets needs:
//! one file, one write at a time, waited for beside everything else.
//!
//! Where there is no ring (another system, an older kernel, a container that forbids it) or the file system has no direct
//! writes, [`Writer::open`] says so, and callers write in another way.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod descriptor;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "linux.rs"]
mod system;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
#[path = "none.rs"]
mod system;

pub use system::Writer;

/// What offsets and lengths of direct writes are multiples of. Some disks take less; all take this.
pub const PAGE: usize = 4_096;

/// Most bytes of one write.
pub const MAX_WRITE: usize = 1 << 20;
