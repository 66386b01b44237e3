//! A terminal for the command.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Stdio};

use zk_tests::{Scratch, Zk, poll};

use crate::LIMIT;

/// A command on a terminal that util-linux's `script` provides.
pub(crate) struct Screen {
    script: Child,
    output: Scratch,
}

impl Screen {
    pub(crate) fn start(zk: &Zk, command: &str) -> Self {
        let output = Scratch::new();
        let mut script = zk.shell(&format!("exec script -qec '{command}' /dev/null"));
        script.stdin(Stdio::piped()).stdout(File::create(output.path("screen")).unwrap());
        Self { script: script.spawn().unwrap(), output }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Returns what was printed, with the control sequences of the terminal.
    pub(crate) fn printed(&self) -> String {
        self.output.read("screen")
    }

    /// Waits until `text` was printed so many times.
    pub(crate) fn shows(&self, text: &str, times: usize) {
        let count = || self.printed().matches(text).count();
        poll(LIMIT, || (count() >= times).then_some(()))
            .unwrap_or_else(|| panic!("{text}: {}", self.printed()));
    }

    /// Waits for the end of the command, which must succeed.
    pub(crate) fn ends(&mut self) {
        let ended = poll(LIMIT, || self.script.try_wait().unwrap()).expect("it goes on");
        assert!(ended.success(), "{ended:?}: {}", self.printed());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Both calls fail only if the command has ended.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}
