//! The probes on real programs: this machine's own, servers from Debian's packages, and for what cannot run here
//! (Docker's daemon, a Proxmox node) programs that print what the real ones printed.

mod hostile;
mod machine;
#[cfg(unix)]
mod own;
#[cfg(target_os = "linux")]
mod paths;
mod recorded;
mod servers;
mod support;
