//! A snapshot that is collected in a process of its own.
//!
//! An agent sleeps for a quarter of an hour and then looks at everything at once: buses, packages, logs. What that takes
//! of memory and of the program's code goes away with the process that did it, and so does a thread that hangs in the
//! system. The process is this program again; it is told on its standard input what to collect, answers with one line,
//! and ends when its standard input does, so that it cannot outlive whoever asked.
//!
//! Facts that are kept between two snapshots travel along in both directions, with their age and not with a time: the
//! clock may be set meanwhile.

use std::ffi::OsString;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use convoke_core::health::SECTIONS;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{Machine, Options};

/// Longest line in either direction. Snapshots of the field are below 50 kB.
const MAX_LINE: u64 = 8 << 20;
/// How long a process may take to be gone once it has answered.
const GOODBYE: Duration = Duration::from_secs(2);

/// A program that collects, and what is known from when it last did.
#[derive(Debug)]
pub(crate) struct Apart {
    command: Vec<OsString>,
    /// Also the queue: one process at a time, whoever else asks waits for its turn.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    facts: Option<(Instant, Value)>,
    /// Sections that hung, in a process that is still there.
    stuck: Option<(Child, Vec<String>)>,
}

/// What is asked.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Order {
    sections: Option<Vec<String>>,
    facts: Value,
    /// How long the facts have been kept since they were told.
    facts_age_s: f64,
    /// Sections that a process before hangs in.
    stuck: Vec<String>,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    sections: Map<String, Value>,
    facts: Value,
    stuck: Vec<String>,
}

impl Apart {
    pub(crate) fn new(command: Vec<OsString>) -> Self {
        Self { command, kept: Mutex::default() }
    }

    /// The snapshot; nothing if the process could not be had or did not make sense, and then it is for the caller to
    /// look itself.
    pub(crate) async fn collect(&self, options: &Options, wanted: Option<&[String]>) -> Option<Map<String, Value>> {
        let mut kept = self.kept.lock().await;
        let order = kept.order(wanted);
        let collected = tokio::time::timeout(patience(options), self.ask(&order)).await;
        let told = match collected {
            Ok(Ok(told)) => told,
            Ok(Err(why)) => {
                tracing::warn!(%why, "cannot start a process for the snapshot; collecting it in this one");
                return None;
            }
            Err(_) => {
                tracing::warn!("the process for the snapshot did not answer; collecting it in this one");
                return None;
            }
        };
        let (answer, mut child) = told;
        kept.facts = Some((Instant::now(), answer.facts));
        if tokio::time::timeout(GOODBYE, child.wait()).await.is_err() {
            kept.stuck = Some((child, answer.stuck));
        }
        Some(answer.sections)
    }

    /// Asks and hears the answer. Dropped before that, it takes the process's standard input away, and with it the
    /// process's reason to be.
    async fn ask(&self, order: &Order) -> io::Result<(Answer, Child)> {
        let (program, args) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        #[cfg(unix)]
        if program == THIS_PROGRAM {
            command.arg0("convoke");
        }
        let mut child = command.spawn()?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stdin.write_all(&line).await?;
        stdin.flush().await?;
        // A line and not the end: a thread that hangs in the system keeps the pipe open.
        let mut answer = Vec::new();
        BufReader::new(stdout).take(MAX_LINE).read_until(b'\n', &mut answer).await?;
        drop(stdin);
        Ok((serde_json::from_slice(&answer)?, child))
    }
}

impl Kept {
    fn order(&mut self, wanted: Option<&[String]>) -> Order {
        if let Some((child, _)) = &mut self.stuck
            && !matches!(child.try_wait(), Ok(None))
        {
            self.stuck = None;
        }
        let (age, facts) = match &self.facts {
            Some((told, facts)) => (told.elapsed(), facts.clone()),
            None => (Duration::ZERO, Value::Null),
        };
        let stuck = self.stuck.as_ref().map(|(_, names)| names.clone()).unwrap_or_default();
        Order { sections: wanted.map(<[String]>::to_vec), facts, facts_age_s: age.as_secs_f64(), stuck }
    }
}

/// Every section may take its time, and some wait for a place.
fn patience(options: &Options) -> Duration {
    let rounds = SECTIONS.len().div_ceil(options.parallel_sections.max(1)) as u32;
    options.section_timeout.saturating_mul(rounds + 1)
}

/// This program, also when another has taken its place on the disk since it was started.
#[cfg(target_os = "linux")]
const THIS_PROGRAM: &str = "/proc/self/exe";
#[cfg(all(unix, not(target_os = "linux")))]
const THIS_PROGRAM: &str = "";

/// How this program is run anew with these arguments.
pub fn this_program(args: &[&str]) -> Option<Vec<OsString>> {
    #[cfg(target_os = "linux")]
    let program = OsString::from(THIS_PROGRAM);
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe().ok()?.into_os_string();
    Some([program].into_iter().chain(args.iter().map(OsString::from)).collect())
}

/// The other end: reads what to collect from standard input, collects, answers on standard output. Ends early when
/// standard input does.
pub fn serve() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().take(MAX_LINE).read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let gone = CancellationToken::new();
    let watch = gone.clone();
    // A thread of its own: reading standard input cannot be cancelled.
    std::thread::spawn(move || {
        let mut byte = [0];
        while io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
        watch.cancel();
    });
    let machine = Machine::new(Options::default());
    machine.remember(&order.facts, Duration::try_from_secs_f64(order.facts_age_s).unwrap_or_default());
    machine.set_stuck(&order.stuck);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sections = runtime.block_on(async {
        let collected = tokio::select! {
            sections = machine.collect(order.sections.as_deref()) => Some(sections),
            () = gone.cancelled() => None,
        };
        if collected.is_none() {
            // What collectors run is being killed; that takes a moment.
            tokio::time::sleep(GOODBYE / 2).await;
        }
        collected
    });
    runtime.shutdown_background();
    let Some(sections) = sections else { return Ok(()) };
    let mut stuck = machine.stuck();
    stuck.retain(|name| !order.stuck.contains(name));
    stuck.extend(order.stuck);
    let mut line = serde_json::to_vec(&Answer { sections, facts: machine.remembered(), stuck })?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Apart {
        Apart::new(["/bin/sh", "-c", script].map(OsString::from).to_vec())
    }

    #[tokio::test]
    async fn the_answer_is_taken_and_the_facts_travel_back() {
        let script = r#"read order; case "$order" in *'"kept":[1]'*) echo '{"sections":{"disk":{"summary":"again"}},"facts":{},"stuck":[]}';;
            *) echo '{"sections":{"disk":{"summary":"first"}},"facts":{"kept":[1]},"stuck":[]}';; esac"#;
        let apart = shell(script);
        for expect in ["first", "again", "first"] {
            let sections = apart.collect(&Options::default(), None).await.expect("an answer");
            assert_eq!(sections["disk"]["summary"], expect);
        }
    }

    #[tokio::test]
    async fn a_process_that_makes_no_sense_is_no_snapshot() {
        for script in ["exit 3", "read order; echo nonsense", "read order; echo '{}'"] {
            assert!(shell(script).collect(&Options::default(), None).await.is_none(), "{script}");
        }
        assert!(Apart::new(vec!["/no/such/program".into()]).collect(&Options::default(), None).await.is_none());
    }

    #[tokio::test]
    async fn a_section_that_hangs_is_told_to_the_next_process_while_the_first_is_there() {
        // Answers, and stays although nobody listens any more: as with a thread that hangs in the system.
        let answer = r#"{"sections":{},"facts":null,"stuck":["battery"]}"#;
        let script = format!(
            r#"read order; case "$order" in *'"stuck":["battery"]'*) echo '{{"sections":{{"told":{{}}}},"facts":null,"stuck":[]}}';;
            *) echo '{answer}'; exec 0<&- 1>&-; exec sleep 30;; esac"#
        );
        let apart = shell(&script);
        assert!(apart.collect(&Options::default(), None).await.expect("an answer").is_empty());
        let second = apart.collect(&Options::default(), None).await.expect("an answer");
        assert!(second.contains_key("told"), "{second:?}");
        let mut kept = apart.kept.lock().await;
        if let Some((child, _)) = &mut kept.stuck {
            child.kill().await.expect("ended");
        }
        assert!(kept.order(None).stuck.is_empty(), "a process that is gone holds nothing up");
    }
}
