//! Lanes: requests of one lane are carried out one after another in the order in which they came; lanes do not wait for
//! each other.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::backend::Backend;

/// A job.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Which lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Session(String),
    Sessions,
    Config,
    Memory,
}

/// The lanes that have a running job, and what waits in each.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<Lane, VecDeque<Job>>>);

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<Lane, VecDeque<Job>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn next(&self, lane: &Lane) -> Option<Job> {
        let mut lanes = self.lock();
        let next = lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            lanes.remove(lane);
        }
        next
    }
}

impl Backend {
    /// Runs a job: at once, or after the jobs before it in its lane.
    pub(crate) fn submit(self: &Arc<Self>, lane: Option<Lane>, job: Job) {
        let Some(lane) = lane else { return self.spawn(job) };
        {
            let mut lanes = self.lanes.lock();
            if let Some(waiting) = lanes.get_mut(&lane) {
                return waiting.push_back(job);
            }
            lanes.insert(lane.clone(), VecDeque::new());
        }
        let backend = self.clone();
        self.spawn(async move {
            job.await;
            while let Some(job) = backend.lanes.next(&lane) {
                job.await;
            }
        });
    }
}
