//! Plays a script at one server and records the frames that each connection receives.

use std::collections::{BTreeMap, HashMap, VecDeque};

use zk_proto::{ErrorCode, OpCode};

use crate::Outcome;
use crate::message::{Message, framed};
use crate::normal::{Normal, connect_reply};
use crate::script::{Connect, LastZxid, Send, Session, Step, client_name};
use crate::side::{Heard, Side};

/// The frames that the connections of a script received, each connection in order.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) heard: BTreeMap<String, Vec<Line>>,
    pub(crate) errors: HashMap<i32, u64>,
    pub(crate) events: u64,
}

/// A frame or the end of a connection, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The step that caused the frame.
    pub(crate) step: Option<usize>,
    pub(crate) text: String,
}

/// A script that is being played at one server.
pub(crate) struct Play<'a, S> {
    side: &'a mut S,
    pub(crate) record: Record,
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
    pending: VecDeque<(Option<usize>, i32)>,
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
    pub(crate) fn begin(side: &'a mut S, administrator: usize, root: &str) -> Outcome<Self> {
        let mut play = Self {
            side,
            record: Record::default(),
            normal: Normal::default(),
            links: vec![Link::new("administrator".to_owned(), administrator)],
            sessions: Vec::new(),
            clients: HashMap::new(),
            busy: None,
        };
        let create = Message::new(OpCode::Create.code(), "create").string("path", root);
        let create = create.buffer("data", None).int("acl", 1).int("", 31);
        let create = create.string("", "world").string("", "anyone").int("flags", 0);
        play.side.send(administrator, &create.frame(1, 0));
        let Heard::Frame(frame) = play.side.hear(administrator)? else {
            return Err("the server does not answer".into());
        };
        let zxid = frame.get(4..).and_then(|rest| rest.first_chunk::<8>());
        play.normal = Normal::new(i64::from_be_bytes(*zxid.ok_or("a short reply")?));
        play.note(0, None, &frame, OpCode::Create.code());
        Ok(play)
    }

    pub(crate) fn side(&self) -> &S {
        self.side
    }

    /// Performs the steps, then closes all sessions.
    pub(crate) fn perform(&mut self, steps: &[(usize, Step)]) -> Outcome<()> {
        for (index, step) in steps {
            match step {
                Step::Connect(connect) => self.connect(Some(*index), connect)?,
                Step::Send(send) => self.send(*index, send)?,
                Step::Raw { client, bytes } => {
                    self.settle_all()?;
                    if let Some(link) = self.open_link(*client) {
                        self.side.send(self.links[link].connection, bytes);
                        self.links[link].is_ending = true;
                        self.settle(link)?;
                    }
                }
                Step::HangUp { client } => {
                    self.settle_all()?;
                    if let Some(link) = self.open_link(*client) {
                        self.side.hang_up(self.links[link].connection);
                        self.links[link].is_closed = true;
                    }
                }
            }
        }
        self.settle_all()?;
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

    /// Reads all of `nodes`, then deletes them in reverse order.
    pub(crate) fn survey(&mut self, nodes: &[String]) -> Outcome<()> {
        let of = |op: OpCode, path: &str| Message::new(op.code(), op.name()).string("path", path);
        for path in nodes {
            self.put(0, None, &of(OpCode::GetData, path).byte("watch", 0), None);
            self.put(0, None, &of(OpCode::GetAcl, path), None);
            self.put(0, None, &of(OpCode::GetChildren2, path).byte("watch", 0), None);
        }
        for path in nodes.iter().rev() {
            self.put(0, None, &of(OpCode::Delete, path).int("version", -1), None);
        }
        self.put(0, None, &of(OpCode::GetChildren2, "/").byte("watch", 0), None);
        self.settle(0)
    }

    fn open_link(&self, client: usize) -> Option<usize> {
        let (link, _) = *self.clients.get(&client)?;
        (!self.links[link].is_closed).then_some(link)
    }

    fn connect(&mut self, step: Option<usize>, connect: &Connect) -> Outcome<()> {
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
                if with_wrong_password && let Some(byte) = password.first_mut() {
                    *byte ^= 1;
                }
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
        let name = format!("{}{}", client_name(connect.client), self.links.len());
        let link = self.links.len();
        self.links.push(Link::new(name, connection));
        self.side.send(connection, &framed(&body));
        let heard = self.side.hear(connection)?;
        let reply = match &heard {
            Heard::Frame(frame) => connect_reply(&mut self.normal, frame),
            Heard::Closed | Heard::Silence => None,
        };
        let Some((text, id, password)) = reply else {
            self.write(link, step, format!("{heard:?}"));
            self.side.hang_up(connection);
            self.links[link].is_closed = true;
            return Ok(());
        };
        self.write(link, step, text);
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
        self.clients.insert(connect.client, (link, Some(session)));
        Ok(())
    }

    fn send(&mut self, step: usize, send: &Send) -> Outcome<()> {
        let Some(link) = self.open_link(send.client) else { return Ok(()) };
        let op = OpCode::from_code(send.message.op);
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
        self.put(link, Some(step), &send.message, send.xid);
        self.busy = Some(link);
        if is_alone || !send.is_pipelined { self.settle_all() } else { Ok(()) }
    }

    fn put(&mut self, link: usize, step: Option<usize>, message: &Message, xid: Option<i32>) {
        let base_zxid = self.normal.base_zxid;
        let link = &mut self.links[link];
        link.next_xid += 1;
        link.outgoing.extend(message.frame(xid.unwrap_or(link.next_xid), base_zxid));
        link.pending.push_back((step, message.op));
    }

    fn close_session(&mut self, session: usize) -> Outcome<()> {
        if self.sessions[session].is_over {
            return Ok(());
        }
        let mut link = self.sessions[session].link;
        if self.links[link].is_closed {
            let client = 4;
            self.clients.insert(client, (link, Some(session)));
            self.connect(
                None,
                &Connect {
                    client,
                    session: Session::Of { client, with_wrong_password: false },
                    timeout_ms: 30_000,
                    password: None,
                    read_only: Some(0),
                    last_zxid: LastZxid::Zero,
                },
            )?;
            link = self.sessions[session].link;
        }
        if !self.links[link].is_closed {
            let message = Message::new(OpCode::CloseSession.code(), "closeSession");
            self.put(link, None, &message, None);
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
                    let step = link.pending.pop_front().and_then(|(step, _)| step);
                    link.pending.clear();
                    self.write(at, step, format!("{end:?} with {unanswered} unanswered"));
                    self.side.hang_up(connection);
                }
            }
        }
    }

    fn hear(&mut self, at: usize, frame: &[u8]) {
        let link = &mut self.links[at];
        if frame.starts_with(&(-1_i32).to_be_bytes()) {
            self.record.events += 1;
            self.note(at, None, frame, 0);
            return;
        }
        let (step, op) = link.pending.pop_front().unwrap_or((None, 0));
        let err = self.note(at, step, frame, op);
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

    fn note(&mut self, link: usize, step: Option<usize>, frame: &[u8], op: i32) -> i32 {
        let (text, err) = self.normal.frame(op, frame);
        if step.is_some() {
            *self.record.errors.entry(err).or_default() += 1;
        }
        self.write(link, step, text);
        err
    }

    fn write(&mut self, link: usize, step: Option<usize>, text: String) {
        let name = self.links[link].name.clone();
        self.record.heard.entry(name).or_default().push(Line { step, text });
    }
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
