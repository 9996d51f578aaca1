//! A telemetry snapshot: every section by its own collector, on its own thread, with its own deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoke_core::health::{SECTIONS, Status};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::facts::Facts;
use crate::platform;
use crate::remembered::Remembered;
use crate::{Options, Section};

/// What collects a section.
pub(crate) type Collector = fn(&Facts) -> Section;

/// Which sections are being collected: one that hangs is not started again until it has come back, so that it costs
/// one thread and not one per snapshot.
#[derive(Debug)]
pub(crate) struct Busy([Arc<AtomicBool>; SECTIONS.len()]);

impl Default for Busy {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl Busy {
    /// The sections that are being collected.
    pub(crate) fn names(&self) -> Vec<String> {
        let all = SECTIONS.iter().zip(&self.0);
        all.filter(|(_, busy)| busy.load(Ordering::Acquire)).map(|(section, _)| section.name.to_owned()).collect()
    }

    /// Counts these as being collected, by somebody else.
    pub(crate) fn mark(&self, names: &[String]) {
        for (section, busy) in SECTIONS.iter().zip(&self.0) {
            if names.iter().any(|name| name == section.name) {
                busy.store(true, Ordering::Release);
            }
        }
    }
}

/// Collects the sections of that name, or all.
pub(crate) async fn collect(
    options: &Arc<Options>,
    busy: &Busy,
    remembered: &Arc<Remembered>,
    wanted: Option<&[String]>,
    collector: fn(&str) -> Collector,
) -> Map<String, Value> {
    let permits = Arc::new(Semaphore::new(options.parallel_sections.max(1)));
    let mut tasks = JoinSet::new();
    for (section, busy) in SECTIONS.iter().zip(&busy.0) {
        if wanted.is_none_or(|wanted| wanted.iter().any(|name| name == section.name)) {
            let (options, busy, permits) = (options.clone(), busy.clone(), permits.clone());
            let remembered = remembered.clone();
            tasks.spawn(async move {
                // The semaphore is never closed; were it, running at once would still be right.
                let _permit = permits.acquire().await;
                (section.name, one(&options, busy, remembered, collector(section.name)).await)
            });
        }
    }
    let mut snapshot = Map::new();
    while let Some(done) = tasks.join_next().await {
        if let Ok((name, section)) = done {
            snapshot.insert(name.to_owned(), section.into());
        }
    }
    snapshot
}

async fn one(
    options: &Arc<Options>,
    busy: Arc<AtomicBool>,
    remembered: Arc<Remembered>,
    collector: Collector,
) -> Section {
    if busy.swap(true, Ordering::AcqRel) {
        return Section::new(Status::Warn, "still busy with the previous snapshot");
    }
    let stop = CancellationToken::new();
    // Whoever is cancelled while waiting (the whole snapshot may be) ends the collector's commands, too.
    let _stop_on_drop = stop.clone().drop_guard();
    let facts = Facts {
        options: options.clone(),
        handle: Handle::current(),
        stop,
        remembered,
        rules: None,
        patience: options.section_timeout.mul_f64(0.8).max(Duration::from_millis(1)),
    };
    let work = tokio::task::spawn_blocking(move || {
        let _free = FreeOnDrop(busy);
        collector(&facts)
    });
    match tokio::time::timeout(options.section_timeout, work).await {
        Ok(Ok(section)) => section,
        Ok(Err(_)) => Section::new(Status::Crit, "the collector failed; the agent's log has more"),
        Err(_) => {
            let secs = options.section_timeout.as_secs_f64();
            Section::new(Status::Warn, format!("no answer within {secs}s"))
        }
    }
}

/// Also when the collector panics.
struct FreeOnDrop(Arc<AtomicBool>);

impl Drop for FreeOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The platform's collector of a section.
pub(crate) fn of_platform(name: &str) -> Collector {
    let found = platform::COLLECTORS.iter().find(|(section, _)| *section == name);
    found.map_or(not_here, |(_, collector)| *collector)
}

fn not_here(_: &Facts) -> Section {
    Section::ok("n/a on this platform")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Arc<Options> {
        // Long enough for those that answer at once to be heard on a busy machine.
        Arc::new(Options { section_timeout: Duration::from_secs(3), ..Options::default() })
    }

    fn hostile(name: &str) -> Collector {
        match name {
            "disk" => |_| panic!("a collector may do that"),
            "battery" => |facts| {
                // Hangs until nobody waits any more, and a little longer.
                facts.wait(facts.stop.cancelled());
                std::thread::park_timeout(Duration::from_secs(3600));
                Section::ok("never told")
            },
            _ => |_| Section::ok("fine"),
        }
    }

    #[test]
    fn a_collector_that_panics_or_hangs_costs_its_own_section() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let busy = Busy::default();
        let (first, second) = runtime.block_on(async {
            let first = collect(&options(), &busy, &Arc::default(), None, hostile).await;
            let wanted = ["battery".to_owned(), "memory".to_owned(), "no_such".to_owned()];
            (first, collect(&options(), &busy, &Arc::default(), Some(&wanted), hostile).await)
        });
        // Before anything can fail: dropping the runtime would wait for the one that hangs.
        runtime.shutdown_background();
        assert_eq!(first.len(), 25);
        assert_eq!(first["disk"]["status"], "crit");
        assert_eq!(first["battery"]["status"], "warn");
        assert!(first["battery"]["summary"].as_str().unwrap().contains("within 3s"), "{first:?}");
        assert_eq!(first.values().filter(|section| section["summary"] == "fine").count(), 23);
        let names: Vec<_> = second.keys().map(String::as_str).collect();
        assert_eq!(names, ["battery", "memory"]);
        assert!(second["battery"]["summary"].as_str().unwrap().contains("still busy"));
    }

    #[test]
    fn every_section_of_the_contract_has_a_collector() {
        for section in SECTIONS {
            assert!(platform::COLLECTORS.iter().any(|(name, _)| *name == section.name), "{}", section.name);
        }
    }
}
