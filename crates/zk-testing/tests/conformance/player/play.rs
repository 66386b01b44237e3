//! Plays a script at one server and records the frames that the connections receive.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use proto::{ErrorCode, OpCode};

use super::message::{encoded, frame, framed};
use super::normal::{Normal, connect_reply, names};
use super::script::{Action, Connect, LastZxid, Send, Session, Step, client_name};
use super::side::{Heard, Side};
use super::{Outcome, ROOT, SUPER_PASSWORD};

/// The frames and ends of connections that a script hears at each step, as text. The list behind the last
/// step is that of the end of all sessions and of the nodes that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) heard: Vec<Vec<String>>,
}

impl Record {
    /// Continues a digest of what was heard, by FNV-1a.
    pub(crate) fn digest(&self, digest: u64) -> u64 {
        let bytes = self.heard.iter().flatten().flat_map(|line| line.bytes().chain([b'\n']));
        bytes.fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// Opens a connection with its own session and all permissions.
pub(crate) fn administrator(side: &mut impl Side) -> Outcome<usize> {
    let connection = side.connect()?;
    let mut body = [0; 12].to_vec();
    body.extend(40_000_i32.to_be_bytes());
    body.extend([0; 8]);
    body.extend(framed(&[0; 16]));
    body.push(0);
    side.send(connection, &framed(&body));
    frame_from(side, connection)?;
    let auth = format!("auth 0 \"digest\" \"super:{SUPER_PASSWORD}\"");
    side.send(connection, &frame(&auth, -4, 0));
    frame_from(side, connection)?;
    Ok(connection)
}

/// Plays a script, and deletes the nodes that it leaves.
pub(crate) fn play(side: &mut impl Side, administrator: usize, steps: &[Step]) -> Outcome<Record> {
    let mut play = Play::begin(side, administrator)?;
    play.perform(steps)?;
    play.survey()?;
    Ok(play.record)
}

fn frame_from(side: &mut impl Side, connection: usize) -> Outcome<Bytes> {
    match side.hear(connection)? {
        Heard::Frame(frame) => Ok(frame),
        other => Err(format!("no answer: {other:?}").into()),
    }
}

/// A script that is being played at one server.
struct Play<'a, S> {
    side: &'a mut S,
    record: Record,
    normal: Normal,
    links: Vec<Link>,
    sessions: Vec<Known>,
    /// The last connection and session of each client.
    clients: HashMap<usize, (usize, Option<usize>)>,
    /// The connection that has requests in flight.
    busy: Option<usize>,
}

struct Link {
    name: String,
    connection: usize,
    session: Option<usize>,
    outgoing: Vec<u8>,
    /// Operations without a reply.
    pending: VecDeque<i32>,
    /// No further reply can arrive, only the end of the connection.
    is_ending: bool,
    is_closed: bool,
    next_xid: i32,
}

struct Known {
    id: i64,
    password: Vec<u8>,
    link: usize,
    is_over: bool,
}

impl<'a, S: Side> Play<'a, S> {
    /// Starts a script: creates its root on the connection of an administrator.
    fn begin(side: &'a mut S, administrator: usize) -> Outcome<Self> {
        let create = format!("create \"{ROOT}\" null open 0");
        side.send(administrator, &frame(&create, 1, 0));
        let reply = frame_from(side, administrator)?;
        let zxid = reply.get(4..).and_then(|rest| rest.first_chunk::<8>());
        let zxid = i64::from_be_bytes(*zxid.ok_or("a short reply")?);
        Ok(Self {
            side,
            record: Record::default(),
            normal: Normal::new(zxid),
            links: vec![Link::new("administrator".to_owned(), administrator)],
            sessions: Vec::new(),
            clients: HashMap::new(),
            busy: None,
        })
    }

    /// Performs the steps, then closes all sessions.
    fn perform(&mut self, steps: &[Step]) -> Outcome<()> {
        for step in steps {
            self.record.heard.push(Vec::new());
            self.act(step).map_err(|error| format!("{}: {error}", step.line))?;
        }
        self.settle_all()?;
        self.record.heard.push(Vec::new());
        for session in 0..self.sessions.len() {
            self.close_session(session)?;
        }
        for link in 1..self.links.len() {
            self.links[link].is_ending = true;
            self.settle(link)?;
            self.side.hang_up(self.links[link].connection);
        }
        Ok(())
    }

    fn act(&mut self, step: &Step) -> Outcome<()> {
        match &step.action {
            Action::Connect(connect) => return self.connect(step.client, connect),
            Action::Send(send) => return self.send(step.client, send),
            Action::Raw(_) | Action::HangUp => self.settle_all()?,
        }
        let Some(link) = self.open_link(step.client) else { return Ok(()) };
        if let Action::Raw(bytes) = &step.action {
            self.side.send(self.links[link].connection, bytes);
            self.links[link].is_ending = true;
            return self.settle(link);
        }
        self.side.hang_up(self.links[link].connection);
        self.links[link].is_closed = true;
        Ok(())
    }

    /// Reads all nodes of the script, then deletes them, every child before its parent.
    fn survey(&mut self) -> Outcome<()> {
        let mut paths =
            [format!("/zookeeper/quota{ROOT}"), ROOT.to_owned()].map(String::into_bytes).to_vec();
        let mut looked_at = 0;
        while let Some(path) = paths.get(looked_at).cloned() {
            looked_at += 1;
            let quoted = format!("\"{}\"", path.escape_ascii());
            self.put(0, &format!("getData {quoted} 0b"), None);
            self.put(0, &format!("getACL {quoted}"), None);
            self.settle(0)?;
            let children = format!("getChildren2 {quoted} 0b");
            self.side.send(self.links[0].connection, &frame(&children, 1, 0));
            let reply = frame_from(self.side, self.links[0].connection)?;
            self.note(0, &reply, OpCode::GetChildren2.code());
            paths.extend(names(&reply).iter().map(|name| [&path[..], b"/", name].concat()));
        }
        for path in paths.iter().rev() {
            self.put(0, &format!("delete \"{}\" -1", path.escape_ascii()), None);
        }
        self.put(0, "getChildren2 \"/\" 0b", None);
        self.settle(0)
    }

    fn open_link(&self, client: usize) -> Option<usize> {
        let (link, _) = *self.clients.get(&client)?;
        (!self.links[link].is_closed).then_some(link)
    }

    fn connect(&mut self, client: usize, connect: &Connect) -> Outcome<()> {
        self.settle_all()?;
        let session = match connect.session {
            Session::Of { client, .. } => match self.clients.get(&client) {
                Some((_, Some(session))) => Some(*session),
                _ => return Ok(()),
            },
            Session::New | Session::Unknown => None,
        };
        let (id, password) = match (connect.session, session) {
            (Session::Of { with_wrong_password, .. }, Some(session)) => {
                let known = &self.sessions[session];
                let mut password = known.password.clone();
                password[0] ^= u8::from(with_wrong_password);
                (known.id, Some(password))
            }
            (Session::Unknown, _) => (0x1234, connect.password.clone()),
            _ => (0, connect.password.clone()),
        };
        let last_zxid = match connect.last_zxid {
            LastZxid::Zero => 0,
            LastZxid::After(offset) => self.normal.base_zxid + offset,
            LastZxid::Max => i64::MAX,
        };
        let mut body = [0_i32.to_be_bytes().as_slice(), &last_zxid.to_be_bytes()].concat();
        body.extend(connect.timeout_ms.to_be_bytes());
        body.extend(id.to_be_bytes());
        match &password {
            Some(password) => body.extend(framed(password)),
            None => body.extend((-1_i32).to_be_bytes()),
        }
        body.extend(connect.read_only);

        let connection = self.side.connect()?;
        let name = format!("{}{}", client_name(client), self.links.len());
        let link = self.links.len();
        self.links.push(Link::new(name, connection));
        self.side.send(connection, &framed(&body));
        let heard = self.side.hear(connection)?;
        let reply = match &heard {
            Heard::Frame(frame) => connect_reply(&mut self.normal, frame),
            Heard::Closed | Heard::Silence => None,
        };
        let Some((text, id, password)) = reply else {
            self.write(link, &format!("{heard:?}"));
            self.side.hang_up(connection);
            self.links[link].is_closed = true;
            return Ok(());
        };
        self.write(link, &text);
        // The previous connection of the session is closed, whether the password is right or wrong.
        if let Some(session) = session {
            let before = self.sessions[session].link;
            self.links[before].is_ending = true;
            self.settle(before)?;
        }
        if id == 0 {
            self.links[link].is_ending = true;
            return self.settle(link);
        }
        let session = session.unwrap_or(self.sessions.len());
        if session == self.sessions.len() {
            self.sessions.push(Known { id, password, link, is_over: false });
        }
        self.sessions[session].link = link;
        self.links[link].session = Some(session);
        self.clients.insert(client, (link, Some(session)));
        Ok(())
    }

    fn send(&mut self, client: usize, send: &Send) -> Outcome<()> {
        let Some(link) = self.open_link(client) else { return Ok(()) };
        let op = OpCode::from_code(op_of(&send.text));
        // The replies to these operations overtake others, or no reply follows them, or they leave
        // traces while they are in flight.
        let is_alone = matches!(
            op,
            None | Some(
                OpCode::Auth
                    | OpCode::Sasl
                    | OpCode::CloseSession
                    | OpCode::Check
                    | OpCode::Multi
                    | OpCode::CreateContainer
                    | OpCode::SetAcl
            )
        );
        if is_alone || self.busy.is_some_and(|busy| busy != link) {
            self.settle_all()?;
        }
        if self.links[link].is_closed {
            return Ok(());
        }
        self.put(link, &send.text, send.xid);
        self.busy = Some(link);
        if is_alone || !send.is_pipelined { self.settle_all() } else { Ok(()) }
    }

    fn put(&mut self, link: usize, text: &str, xid: Option<i32>) {
        let base_zxid = self.normal.base_zxid;
        let link = &mut self.links[link];
        link.next_xid += 1;
        link.outgoing.extend(frame(text, xid.unwrap_or(link.next_xid), base_zxid));
        link.pending.push_back(op_of(text));
    }

    fn close_session(&mut self, session: usize) -> Outcome<()> {
        if self.sessions[session].is_over {
            return Ok(());
        }
        let mut link = self.sessions[session].link;
        if self.links[link].is_closed {
            let client = 4;
            self.clients.insert(client, (link, Some(session)));
            let of = Session::Of { client, with_wrong_password: false };
            self.connect(client, &Connect { session: of, ..Connect::default() })?;
            link = self.sessions[session].link;
        }
        if !self.links[link].is_closed {
            self.put(link, "closeSession", None);
        }
        self.settle(link)
    }

    fn settle_all(&mut self) -> Outcome<()> {
        match self.busy.take() {
            Some(link) => self.settle(link),
            None => Ok(()),
        }
    }

    /// Sends the pending requests and waits for all replies, and for the end of the connection if
    /// it must end.
    fn settle(&mut self, at: usize) -> Outcome<()> {
        let link = &mut self.links[at];
        if !link.outgoing.is_empty() {
            self.side.send(link.connection, &link.outgoing);
            link.outgoing.clear();
        }
        loop {
            let link = &mut self.links[at];
            if link.is_closed || (link.pending.is_empty() && !link.is_ending) {
                return Ok(());
            }
            let connection = link.connection;
            match self.side.hear(connection)? {
                Heard::Frame(frame) => self.hear(at, &frame),
                end @ (Heard::Closed | Heard::Silence) => {
                    let unanswered = link.pending.len();
                    link.is_closed = true;
                    link.pending.clear();
                    let unanswered = match unanswered {
                        0 => String::new(),
                        count => format!(" with {count} unanswered"),
                    };
                    self.write(at, &format!("{end:?}{unanswered}"));
                    self.side.hang_up(connection);
                }
            }
        }
    }

    fn hear(&mut self, at: usize, frame: &[u8]) {
        let link = &mut self.links[at];
        if frame.starts_with(&(-1_i32).to_be_bytes()) {
            self.note(at, frame, 0);
            return;
        }
        let op = link.pending.pop_front().unwrap_or(0);
        let err = self.note(at, frame, op);
        let is_unknown = err == ErrorCode::UNIMPLEMENTED.0 && frame.get(4..12) == Some(&[0xff; 8]);
        let link = &mut self.links[at];
        if op == OpCode::CloseSession.code() && err == 0 {
            link.is_ending = true;
            if let Some(session) = link.session {
                self.sessions[session].is_over = true;
            }
        } else if is_unknown || err == ErrorCode::AUTH_FAILED.0 {
            link.is_ending = true;
        }
    }

    fn note(&mut self, link: usize, frame: &[u8], op: i32) -> i32 {
        let (text, err) = self.normal.frame(op, frame);
        self.write(link, &text);
        err
    }

    fn write(&mut self, link: usize, text: &str) {
        let line = format!("{} {text}", self.links[link].name).trim_end().to_owned();
        self.record.heard.last_mut().expect("a step").push(line);
    }
}

fn op_of(request: &str) -> i32 {
    let bytes = encoded(request, 0).expect("a request");
    i32::from_be_bytes(*bytes.first_chunk().expect("an operation"))
}

impl Link {
    fn new(name: String, connection: usize) -> Self {
        Self {
            name,
            connection,
            session: None,
            outgoing: Vec::new(),
            pending: VecDeque::new(),
            is_ending: false,
            is_closed: false,
            next_xid: 0,
        }
    }
}
