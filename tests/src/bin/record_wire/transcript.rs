//! The recorded frames, and the files that they are written to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zk_tests::poll;

use crate::Outcome;

/// Time limit of every step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// All recorded exchanges. The recording threads and the directing thread share it.
#[derive(Default)]
pub(crate) struct Transcript(Mutex<State>);

#[derive(Default)]
struct State {
    server: String,
    client: String,
    exchanges: Vec<Exchange>,
    /// Whether new frames belong to the last exchange.
    recording: bool,
}

struct Exchange {
    file: String,
    title: String,
    frames: Vec<Frame>,
}

/// One frame, with its length prefix.
struct Frame {
    direction: Direction,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    FromServer,
}

/// Position of a frame on its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The first frame in each direction: the connect exchange.
    First,
    Later,
}

impl Transcript {
    pub(crate) fn note_server(&self, version: &str) {
        // The build date is left out.
        version.split([',', '-']).next().unwrap_or_default().clone_into(&mut self.state().server);
    }

    pub(crate) fn note_client(&self, version: &str) {
        version.split([',', '-']).next().unwrap_or_default().clone_into(&mut self.state().client);
    }

    /// Starts a new exchange for the frames that follow.
    pub(crate) fn begin(&self, file: &str, title: &str) {
        let mut state = self.state();
        let (file, title) = (file.to_owned(), title.to_owned());
        state.exchanges.push(Exchange { file, title, frames: Vec::new() });
        state.recording = true;
    }

    /// Stops recording until the next exchange.
    pub(crate) fn pause(&self) {
        self.state().recording = false;
    }

    /// Waits until every request of the exchange has its reply.
    pub(crate) fn await_replies(&self) -> Outcome<()> {
        let settled = || {
            let state = self.state();
            let settled =
                !state.recording || state.exchanges.last().is_none_or(Exchange::is_settled);
            settled.then_some(())
        };
        Ok(poll(PATIENCE, settled).ok_or("a request was not answered")?)
    }

    pub(crate) fn hear(&self, direction: Direction, place: Place, bytes: &[u8]) {
        let mut state = self.state();
        if !state.recording {
            return;
        }
        let Some(exchange) = state.exchanges.last_mut() else {
            return;
        };
        let frame = Frame { direction, bytes: bytes.to_vec() };
        if place == Place::Later {
            // A client may ping at any time. One ping is recorded, and only in the file `ping`.
            let enough = exchange.frames.len() >= 2;
            if is_ping(bytes) != (exchange.file == "ping") || (is_ping(bytes) && enough) {
                return;
            }
            exchange.frames.push(frame);
        } else if exchange.file == "connect" {
            exchange.frames.push(frame);
        } else if exchange.file.starts_with("setWatches") {
            // The client resumes its session. This connect exchange is recorded in the file
            // `connect`.
            let title = format!("{} ({})", exchange.title, exchange.file);
            let before = state.exchanges.len() - 1;
            match state.exchanges.iter_mut().find(|exchange| exchange.title == title) {
                Some(connect) => connect.frames.push(frame),
                None => {
                    let file = "connect".to_owned();
                    let connect = Exchange { file, title, frames: vec![frame] };
                    state.exchanges.insert(before, connect);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state().exchanges.len()
    }

    /// Writes one file per operation, and removes the old files first.
    pub(crate) fn write(&self, folder: &Path) -> Outcome<()> {
        let state = self.state();
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        for exchange in &state.exchanges {
            let text = files.entry(&exchange.file).or_insert_with(|| {
                format!(
                    "# Recorded by record_wire. Server: ZooKeeper {}. Client: {} and by hand.\n",
                    state.server,
                    format_args!("Java {}", state.client),
                )
            });
            exchange.write(text)?;
        }
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "txt") {
                fs::remove_file(path)?;
            }
        }
        for (name, text) in files {
            fs::write(folder.join(format!("{name}.txt")), text)?;
        }
        Ok(())
    }

    /// A panic in another thread leaves the recorded frames valid.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    fn is_settled(&self) -> bool {
        let count = |direction| {
            let there = |frame: &&Frame| frame.direction == direction && !frame.is_notification();
            self.frames.iter().filter(there).count()
        };
        let sent = count(Direction::ToServer);
        sent > 0 && sent == count(Direction::FromServer)
    }

    /// Writes a title, then each frame: an arrow, its length prefix, its payload in lines of 32
    /// bytes.
    fn write(&self, text: &mut String) -> Outcome<()> {
        writeln!(text, "\n= {}", self.title)?;
        for frame in &self.frames {
            let (length, payload) = frame.bytes.split_at(4);
            text.push(match frame.direction {
                Direction::ToServer => '>',
                Direction::FromServer => '<',
            });
            writeln!(text, " {}", hex(length))?;
            for line in payload.chunks(32) {
                writeln!(text, "  {}", hex(line))?;
            }
        }
        Ok(())
    }
}

impl Frame {
    fn is_notification(&self) -> bool {
        self.direction == Direction::FromServer && self.bytes.get(4..8) == Some(&[0xff; 4])
    }
}

fn is_ping(frame: &[u8]) -> bool {
    frame.get(4..8) == Some(&(-2_i32).to_be_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
