//! A file in which the holders of a lock record each acquisition and release.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::scratch::{Scratch, read};

/// A file of lines `enter TOKEN NODE` and `exit TOKEN NODE`, which many processes append to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    _scratch: Scratch,
}

/// A holder in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The fencing token.
    pub token: i64,
    /// The path of the holder's node.
    pub node: String,
}

impl Entry {
    /// Returns the sequence number in the name of the node.
    pub fn sequence(&self) -> i64 {
        let digits = self.node.len() - 10;
        self.node[digits..].parse().unwrap()
    }
}

impl Journal {
    /// Shell script of a holder that appends its two lines and ends. In between it starts a
    /// process, which gives an illegal second holder some milliseconds to appear.
    pub const VISIT: &str = r#"echo "enter $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL"
        cat /dev/null
        echo "exit $ZK_FENCING_TOKEN $ZK_LOCK_NODE" >>"$JOURNAL""#;

    /// Creates an empty journal.
    #[allow(clippy::new_without_default, reason = "it makes something outside of the process")]
    pub fn new() -> Self {
        let scratch = Scratch::new();
        Self { path: scratch.path("journal"), _scratch: scratch }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    pub fn append(&self, word: &str, token: i64, node: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        file.write_all(format!("{word} {token} {node}\n").as_bytes()).unwrap();
    }

    /// Returns the holders that have acquired the lock so far, in order.
    pub fn entered(&self) -> Vec<Entry> {
        self.lines()
            .into_iter()
            .filter(|(word, _)| word == "enter")
            .map(|(_, entry)| entry)
            .collect()
    }

    /// Returns the holders in order. Panics unless each holder released the lock before the next
    /// one acquired it, and each token and sequence number is larger than the one before.
    pub fn visits(&self) -> Vec<Entry> {
        let lines = self.lines();
        let visits: Vec<Entry> = lines
            .chunks(2)
            .map(|pair| match pair {
                [(enter, one), (exit, other)]
                    if (enter.as_str(), exit.as_str()) == ("enter", "exit") && one == other =>
                {
                    one.clone()
                }
                pair => panic!("two held the lock together, or one did not leave: {pair:?}"),
            })
            .collect();
        for pair in visits.windows(2) {
            assert!(pair[0].token < pair[1].token, "the token did not grow: {pair:?}");
            assert!(pair[0].sequence() < pair[1].sequence(), "out of turn: {pair:?}");
        }
        visits
    }

    fn lines(&self) -> Vec<(String, Entry)> {
        let text = read(&self.path);
        // A process may still be writing the last line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(parse).collect()
    }
}

fn parse(line: &str) -> (String, Entry) {
    let words: Vec<&str> = line.split(' ').collect();
    let [word, token, node] = words[..] else { panic!("a torn line: {line:?}") };
    (word.to_owned(), Entry { token: token.parse().unwrap(), node: node.to_owned() })
}
