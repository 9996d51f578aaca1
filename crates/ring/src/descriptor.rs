//! A ring's descriptor, to wait for it beside sockets.
//!
//! `a10` keeps it to itself. So the process looks which descriptor was new once the ring was there, and has the kernel make
//! another for the same ring. Whether it is the right one shows at the first use: it becomes readable, or the ring is not
//! used.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// One ring is made at a time, so that it is the only new one.
static MAKING: Mutex<()> = Mutex::new(());

/// How many rings are made at the most until one shows.
const ATTEMPTS: usize = 4;

/// Makes a ring and finds its descriptor.
pub(crate) fn of_new<T>(make: impl Fn() -> io::Result<T>) -> io::Result<(T, OwnedFd)> {
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    // One that took the number of a ring that was closed just then does not show. It is kept until the next one is made, so that
    // this gets another number.
    let mut hidden = Vec::new();
    while hidden.len() < ATTEMPTS {
        let before = rings()?;
        let ring = make()?;
        let mut new = rings()?.into_iter().filter(|fd| !before.contains(fd));
        match (new.next(), new.next()) {
            (Some(fd), None) => {
                let this = pidfd_open(getpid(), PidfdFlags::empty())?;
                return Ok((ring, pidfd_getfd(this, fd, PidfdGetfdFlags::empty())?));
            }
            _ => hidden.push(ring),
        }
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "the ring has no descriptor that can be found"))
}

/// The descriptors of this process that are rings.
fn rings() -> io::Result<BTreeSet<RawFd>> {
    let mut rings = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // One that was closed meanwhile is none.
        if fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:[io_uring]") {
            rings.extend(entry.file_name().to_str().and_then(|fd| fd.parse::<RawFd>().ok()));
        }
    }
    Ok(rings)
}

/// Whether a descriptor has something to read, at once or within some time.
pub(crate) fn is_readable(descriptor: &OwnedFd, patience: Duration) -> io::Result<bool> {
    let patience = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut all = [PollFd::new(descriptor, PollFlags::IN)];
    Ok(retry_on_intr(|| poll(&mut all, Some(&patience)))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ring_has_no_descriptor() {
        let made = of_new(io::pipe);
        assert_eq!(made.map(drop).expect_err("no ring").kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn a_ring_that_takes_the_number_of_one_that_was_just_closed_is_found() {
        let make = || a10::Ring::config().with_submission_queue_size(2).build();
        let Ok(closed) = make() else { return };
        let closed = std::cell::Cell::new(Some(closed));
        let (_ring, descriptor) = of_new(|| {
            drop(closed.take());
            make()
        })
        .expect("found");
        assert!(!is_readable(&descriptor, Duration::ZERO).expect("asked"));
    }

    #[test]
    fn what_cannot_be_made_says_why() {
        let made = of_new(|| io::Result::<()>::Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(made.map(drop).expect_err("not made").kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_pipe_is_readable_once_something_was_written() {
        let (from, mut to) = io::pipe().expect("a pipe");
        let from = OwnedFd::from(from);
        assert!(!is_readable(&from, Duration::ZERO).expect("asked"));
        io::Write::write_all(&mut to, b".").expect("written");
        assert!(is_readable(&from, Duration::ZERO).expect("asked"));
    }
}
