//! A script: a sequence of actions of several clients.

use zk_testing::{Rng, Version};

use crate::message::Message;
use crate::operations::Operations;

/// An action of a client.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Connect(Connect),
    Send(Send),
    /// The client sends bytes that are not a request. The server closes the connection.
    Raw {
        client: usize,
        bytes: Vec<u8>,
    },
    /// The client closes its connection without closing its session.
    HangUp {
        client: usize,
    },
}

/// A new connection for a client.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) client: usize,
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
    pub(crate) client: usize,
    pub(crate) message: Message,
    /// An xid that replaces the next one in sequence.
    pub(crate) xid: Option<i32>,
    /// Whether the next request may follow before the reply to this one.
    pub(crate) is_pipelined: bool,
}

/// Returns the name of a client in reports.
pub(crate) fn client_name(client: usize) -> char {
    *b"ABCD".get(client).unwrap_or(&b'?') as char
}

impl Step {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Connect(connect) => format!(
                "{} connects: {:?}, timeout {}, password {:?}, read-only {:?}, last zxid {:?}",
                client_name(connect.client),
                connect.session,
                connect.timeout_ms,
                connect.password,
                connect.read_only,
                connect.last_zxid
            ),
            Self::Send(send) => {
                let xid = send.xid.map(|xid| format!(" (xid {xid})")).unwrap_or_default();
                let and_on = if send.is_pipelined { " ..." } else { "" };
                format!("{} {}{xid}{and_on}", client_name(send.client), send.message.text)
            }
            Self::Raw { client, bytes } => {
                format!("{} sends {}", client_name(*client), bytes.escape_ascii())
            }
            Self::HangUp { client } => format!("{} hangs up", client_name(*client)),
        }
    }
}

/// Generates the script of a seed, on nodes below `root`.
pub(crate) fn generate(seed: u64, root: &str, version: Version) -> Vec<Step> {
    let mut random = Rng::new(seed);
    let clients = 2 + random.index(3);
    let len = 20 + random.index(41);
    let mut steps: Vec<Step> =
        (0..clients).map(|client| Step::Connect(ordinary(client, Session::New))).collect();
    // With a generator of their own, so that the outline does not depend on them.
    let mut operations = Operations::new(random.fork(), root, version);
    for message in operations.groundwork() {
        steps.push(Step::Send(Send { client: 0, message, xid: None, is_pipelined: true }));
    }
    let mut client = 0;
    while steps.len() < len {
        if random.chance(0.4) {
            client = random.index(clients);
        }
        match random.below(100) {
            0..=3 => steps.push(Step::Connect(renewal(&mut random, client, clients))),
            4 => steps.push(Step::HangUp { client }),
            5 if random.chance(0.5) => {
                steps.push(Step::Raw { client, bytes: random.pick(&MALFORMED).to_vec() });
            }
            _ => {
                for message in operations.next() {
                    let xid = random.chance(0.02).then(|| random.pick(&XIDS));
                    let is_pipelined = random.chance(0.5);
                    steps.push(Step::Send(Send { client, message, xid, is_pipelined }));
                }
            }
        }
    }
    // A server checks a quota before it has counted the requests in flight. The answers of a pipelined
    // script would depend on timing.
    let is_quota = |step: &Step| matches!(step, Step::Send(sent) if sent.message.makes_quota());
    if steps.iter().any(is_quota) {
        for step in &mut steps {
            if let Step::Send(send) = step {
                send.is_pipelined = false;
            }
        }
    }
    steps
}

pub(crate) fn ordinary(client: usize, session: Session) -> Connect {
    Connect {
        client,
        session,
        timeout_ms: 30_000,
        password: Some(vec![0; 16]),
        read_only: Some(0),
        last_zxid: LastZxid::Zero,
    }
}

fn renewal(random: &mut Rng, client: usize, clients: usize) -> Connect {
    let of = |client, with_wrong_password| Session::Of { client, with_wrong_password };
    let session = match random.below(100) {
        0..=59 => of(client, false),
        60..=69 => of(random.index(clients), false),
        70..=79 => of(client, true),
        80..=83 => Session::Unknown,
        _ => Session::New,
    };
    let mut connect = ordinary(client, session);
    if random.chance(0.3) {
        connect.timeout_ms = random.pick(&[0, -5, 4_001, 12_345, 40_000, 99_999, i32::MAX]);
    }
    if random.chance(0.2) {
        connect.password = random.pick(&[None, Some(&[][..]), Some(&[7; 5])]).map(<[u8]>::to_vec);
    }
    if random.chance(0.2) {
        connect.read_only = random.pick(&[None, Some(1), Some(7)]);
    }
    connect.last_zxid = match random.below(10) {
        0 => LastZxid::After(i64::try_from(random.below(80)).unwrap_or(0)),
        1 => LastZxid::Max,
        _ => LastZxid::Zero,
    };
    connect
}

/// Invalid lengths, and requests with an incomplete header.
const MALFORMED: [&[u8]; 5] = [
    &[0, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xfb],
    &[0, 0x10, 0, 0],
    &[0, 0, 0, 4, 0, 0, 0, 1],
    &[0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0],
];

/// Unusual xids. Servers return them unchanged, except for pings.
const XIDS: [i32; 6] = [0, -2, -4, -8, i32::MAX, i32::MIN];
