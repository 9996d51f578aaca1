//! A client as the real one is: frames, numbered requests, notifications in between.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use convoke_kward::frame::{self, Decoder};
use serde_json::{Value, json};

/// Nothing takes so long; it ends a test that would otherwise hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<Value>,
    /// What came while something else was waited for.
    early: VecDeque<Value>,
    last_id: u64,
    /// All bytes that ever came, for tests that look for what must not be there.
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<String>,
}

/// How a process ended, and everything it said.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Client {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stdin = child.stdin.take();
        let mut out = child.stdout.take().expect("piped");
        let mut err = child.stderr.take().expect("piped");
        let (sender, frames) = channel();
        let stdout = std::thread::spawn(move || {
            let (mut decoder, mut all, mut buffer) = (Decoder::default(), Vec::new(), vec![0; 65536]);
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                all.extend_from_slice(&buffer[..count]);
                decoder.push(&buffer[..count]);
                while let Some(frame) = decoder.next_frame() {
                    let body = frame.expect("a frame");
                    let _ = sender.send(serde_json::from_slice(&body).expect("JSON"));
                }
            }
            all
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        Self { child, stdin, frames, early: VecDeque::new(), last_id: 0, stdout, stderr }
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the program reads");
    }

    /// Sends a request; gives back its number.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let body = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }).to_string();
        self.send_raw(&frame::encode(body.as_bytes()));
        self.last_id
    }

    /// The answer to a request, whatever else comes in between.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.wait(&format!("the answer to {id}"), |frame| frame["id"] == id && frame.get("method").is_none())
    }

    /// A request that must work.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// A request that must not work: its error.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].take()
    }

    /// The first frame that fits, from those that came early on.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&fits) {
            return self.early.remove(at).expect("it is there");
        }
        loop {
            let frame = self.frames.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not come"));
            if fits(&frame) {
                return frame;
            }
            self.early.push_back(frame);
        }
    }

    /// The next event of a turn of this kind.
    #[track_caller]
    pub(crate) fn event(&mut self, turn: &str, kind: &str) -> Value {
        let fits = |frame: &Value| {
            frame["method"] == "turn/event" && frame["params"]["turnId"] == turn && frame["params"]["type"] == kind
        };
        self.wait(kind, fits)["params"]["payload"].take()
    }

    /// Starts a turn; gives back its id.
    #[track_caller]
    pub(crate) fn turn(&mut self, session: &str, input: &str) -> String {
        let turn = self.call("turns/start", json!({ "sessionId": session, "input": input }));
        turn["id"].as_str().expect("an id").to_owned()
    }

    /// Starts a turn and waits for its end: how it ended.
    #[track_caller]
    pub(crate) fn run(&mut self, session: &str, input: &str) -> Value {
        let turn = self.turn(session, input);
        self.event(&turn, "turnFinished")
    }

    /// All events of a turn, replayed.
    #[track_caller]
    pub(crate) fn events(&mut self, turn: &str) -> Vec<Value> {
        let mut replay = self.call("turns/events", json!({ "turnId": turn }));
        serde_json::from_value(replay["events"].take()).expect("events")
    }

    /// The kinds of a turn's events, replayed.
    #[track_caller]
    pub(crate) fn kinds(&mut self, turn: &str) -> Vec<String> {
        self.events(turn).iter().map(|event| event["type"].as_str().expect("a type").to_owned()).collect()
    }

    /// Closes the pipe, as the real client does.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    pub(crate) fn kill(&self) {
        self.signal("KILL");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Waits for the process's end.
    pub(crate) fn ended(mut self) -> Ended {
        let status = self.child.wait().expect("it ends");
        let stdout = self.stdout.join().expect("read to its end");
        let stderr = self.stderr.join().expect("read to its end");
        Ended { code: status.code(), stdout: String::from_utf8_lossy(&stdout).into_owned(), stderr }
    }

    /// Hangs up and waits; the process must end well and have kept silent.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        self.hang_up();
        let ended = self.ended();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
}
