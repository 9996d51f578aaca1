//! The line between the callers and the writer, in many orders of events: nothing that is acknowledged is lost, nobody waits
//! for ever, and the order is kept.

use std::time::Duration;

use line::{Item, Line};
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::thread;
use sync::Arc;

/// What the line is made of, so that the scheduler sees it.
mod sync {
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../src/sql/queue/line.rs"]
mod line;

const CALLERS: usize = 3;
const EACH: usize = 3;
const ROUNDS: usize = 5_000;

struct Change {
    caller: usize,
    number: usize,
    /// Told once the change is committed. Dropped untold, it means that the line was closed.
    reply: Option<Sender<()>>,
}

impl Item for Change {
    fn is_urgent(&self) -> bool {
        self.reply.is_some()
    }
}

/// Callers push changes, every third one of them without waiting for it. Answers how many were acknowledged.
fn call(line: &Line<Change>, caller: usize) -> usize {
    let mut acknowledged = 0;
    for number in 0..EACH {
        let (told, committed) = channel();
        let reply = (number != 1).then_some(told);
        let waits = reply.is_some();
        if line.push(Change { caller, number, reply }).is_err() {
            break;
        }
        if waits && committed.recv().is_ok() {
            acknowledged += 1;
        }
    }
    acknowledged
}

/// Takes groups of at most two until the line ends, or `groups` of them. Answers what was committed, in order.
fn write(line: &Line<Change>, groups: usize) -> Vec<(usize, usize)> {
    let mut committed = Vec::new();
    for _ in 0..groups {
        let mut count = 0;
        let group = line.take(Duration::from_millis(5), 2, |_| {
            count += 1;
            count <= 2
        });
        if group.is_empty() {
            break;
        }
        assert!(group.len() <= 2);
        committed.extend(group.iter().map(|change| (change.caller, change.number)));
        for change in group {
            if let Some(reply) = change.reply {
                reply.send(()).expect("the caller waits");
            }
        }
    }
    committed
}

/// Runs the callers beside a writer that ends after so many groups. Answers what was committed, and what acknowledged.
fn run(groups: usize) -> (Vec<(usize, usize)>, usize) {
    let line = Arc::new(Line::new());
    let writer = thread::spawn({
        let line = Arc::clone(&line);
        move || {
            let committed = write(&line, groups);
            drop(line.end());
            committed
        }
    });
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let line = Arc::clone(&line);
            thread::spawn(move || call(&line, caller))
        })
        .collect();
    let acknowledged = callers.into_iter().map(|caller| caller.join().expect("no panic")).sum();
    line.close();
    (writer.join().expect("no panic"), acknowledged)
}

fn assert_in_order(committed: &[(usize, usize)]) {
    for caller in 0..CALLERS {
        let numbers: Vec<_> = committed.iter().filter(|(by, _)| *by == caller).map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "caller {caller}");
    }
}

#[test]
fn everything_is_committed_once_in_order_and_acknowledged() {
    let check = || {
        let (committed, acknowledged) = run(usize::MAX);
        assert_in_order(&committed);
        assert_eq!((committed.len(), acknowledged), (CALLERS * EACH, CALLERS * (EACH - 1)));
    };
    shuttle::check_random(check, ROUNDS);
    shuttle::check_pct(check, ROUNDS, 3);
}

#[test]
fn a_writer_that_ends_early_leaves_nobody_waiting_and_acknowledges_only_what_it_committed() {
    let check = || {
        let (committed, acknowledged) = run(2);
        assert_in_order(&committed);
        let waited_for = committed.iter().filter(|(_, number)| *number != 1).count();
        assert_eq!(waited_for, acknowledged);
    };
    shuttle::check_random(check, ROUNDS);
    shuttle::check_pct(check, ROUNDS, 3);
}
