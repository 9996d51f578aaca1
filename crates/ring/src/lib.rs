//! Writes to the disk itself, past the page cache and synced, without a thread that waits for them.
//!
//! Linux takes such writes through a ring that a program shares with the kernel (`io_uring`). The crates for it are
//! either `unsafe` to submit to, because the kernel reads a buffer that the program must leave alone until then, or bound
//! to one thread. This one does little and is small enough to be checked by reading: one file, one write at a time, and
//! the buffer belongs to the [`Writer`] until the kernel is done with it. All `unsafe` code of the project is two
//! expressions in `linux.rs`: one hands the buffer to the kernel, the other the ring's descriptor to tokio.
//!
//! Where there is no ring (another system, a container that forbids it) or the file system has no direct writes,
//! [`Writer::open`] says so, and callers write in another way.

mod pages;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "linux.rs"]
mod system;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
#[path = "none.rs"]
mod system;

pub use pages::{PAGE, Pages};
pub use system::Writer;
