//! A script: actions of several clients, one a line.
//!
//! ```text
//! A connects
//! A create2 "/r/a" "x" open 0
//! B connects of A timeout 5000
//! B getData "/r/a" 1b @7 ...
//! B sends "\x00\x00"
//! B hangs up
//! ```
//!
//! A request ends with the xid that replaces the next one in sequence, if any, and with `...` if the next
//! request may follow before its reply. [`message`](super::message) describes its words.

use super::message::{encoded, quoted, words};

/// An action of a client, and its line.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: String,
    pub(crate) client: usize,
    pub(crate) action: Action,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Connect(Connect),
    Send(Send),
    /// The client sends bytes that are not a request. The server closes the connection.
    Raw(Vec<u8>),
    /// The client closes its connection without closing its session.
    HangUp,
}

/// A new connection for a client.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) session: Session,
    pub(crate) timeout_ms: i32,
    /// Password for a new session, which the server ignores; `None` is null.
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) read_only: Option<u8>,
    pub(crate) last_zxid: LastZxid,
}

/// The session that a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Session {
    New,
    /// The last session of a client.
    Of {
        client: usize,
        with_wrong_password: bool,
    },
    /// A session that never existed.
    Unknown,
}

/// The last zxid that a client claims to have seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LastZxid {
    Zero,
    /// An offset from the start of the script.
    After(i64),
    Max,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    /// The words of the request.
    pub(crate) text: String,
    /// An xid that replaces the next one in sequence.
    pub(crate) xid: Option<i32>,
    /// Whether the next request may follow before the reply to this one.
    pub(crate) is_pipelined: bool,
}

/// Names of the clients.
const CLIENTS: &str = "ABCDE";

/// Returns the name of a client.
pub(crate) fn client_name(client: usize) -> char {
    CLIENTS.chars().nth(client).unwrap_or('?')
}

fn client(word: &str) -> Option<usize> {
    CLIENTS.find(word)
}

impl Default for Connect {
    fn default() -> Self {
        Self {
            session: Session::New,
            timeout_ms: 30_000,
            password: Some(vec![0; 16]),
            read_only: Some(0),
            last_zxid: LastZxid::Zero,
        }
    }
}

impl Step {
    /// Parses a line. Returns `None` if it is not a step.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(' ')?;
        let action = match rest.split_once(' ').unwrap_or((rest, "")) {
            ("connects", rest) => Action::Connect(Connect::parse(rest)?),
            ("sends", rest) => Action::Raw(quoted(rest)?),
            ("hangs", "up") => Action::HangUp,
            _ => Action::Send(Send::parse(rest)?),
        };
        Some(Self { line: line.to_owned(), client: client(name)?, action })
    }
}

impl Connect {
    fn parse(text: &str) -> Option<Self> {
        let mut connect = Self::default();
        let mut words = words(text);
        while let Some(word) = words.next() {
            if word == "unknown" {
                connect.session = Session::Unknown;
                continue;
            }
            let value = words.next()?;
            let is_null = value == "null";
            match word {
                "of" | "wrongly-of" => {
                    let with_wrong_password = word == "wrongly-of";
                    connect.session = Session::Of { client: client(value)?, with_wrong_password };
                }
                "timeout" => connect.timeout_ms = value.parse().ok()?,
                "password" => connect.password = if is_null { None } else { Some(quoted(value)?) },
                "read-only" => {
                    connect.read_only = if is_null { None } else { Some(value.parse().ok()?) };
                }
                "zxid" if value == "max" => connect.last_zxid = LastZxid::Max,
                "zxid" => connect.last_zxid = LastZxid::After(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(connect)
    }
}

impl Send {
    fn parse(text: &str) -> Option<Self> {
        let (text, is_pipelined) = match text.strip_suffix(" ...") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let last = words(text).last()?;
        let xid = last.strip_prefix('@').and_then(|xid| xid.parse().ok());
        let text = if xid.is_some() { text.strip_suffix(last)? } else { text };
        encoded(text, 0)?;
        Some(Self { text: text.trim_end().to_owned(), xid, is_pipelined })
    }
}
