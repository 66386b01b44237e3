//! Messages of DNS (RFC 1035): the question for SRV records, and its answer.

use std::fmt;
use std::time::Duration;

/// A name of DNS records, without the dot at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Parses a name; `None` if it has other characters than those of hosts and services, or is too long.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_label =
            |label: &str| (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(is_usual);
        (name.len() <= NAME_MAX && name.split('.').all(is_label)).then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Records of a lower priority come first.
    pub priority: u16,
    /// Share of the clients, among the records of one priority.
    pub weight: u16,
    /// Port of the server.
    pub port: u16,
    /// Name of the server.
    pub target: Name,
}

/// The records of a name, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The records, in the order of the answer.
    pub records: Vec<Record>,
    /// The shortest time to live of the records.
    pub ttl: Duration,
}

/// What a message from a name server means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// It answers the question.
    Found(Answer),
    /// There is no service, for this reason.
    NoService(&'static str),
    /// It does not fit: the question is to be asked over TCP.
    Truncated,
    /// The server failed, with this code. Another one may know.
    Failed(u8),
    /// It is no answer to this question.
    Unrelated,
    /// It is an answer to this question, and breaks the protocol.
    Broken,
}

/// Returns the question for the SRV records of a name.
pub(crate) fn question(id: u16, name: &Name) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_LEN + NAME_MAX + 6);
    for field in [id, RECURSION_DESIRED, 1, 0, 0, 0] {
        message.extend(field.to_be_bytes());
    }
    for label in name.0.split('.') {
        message.extend(u8::try_from(label.len())); // at most `LABEL_MAX`
        message.extend(label.as_bytes());
    }
    message.push(0);
    for field in [SRV, INTERNET] {
        message.extend(field.to_be_bytes());
    }
    message
}

/// Parses what a name server has sent after the question with this id for the SRV records of `name`.
#[must_use]
pub fn parse(message: &[u8], id: u16, name: &Name) -> Response {
    let mut reader = Reader { message, at: 0 };
    let Some(header) = Header::read(&mut reader) else { return Response::Unrelated };
    let is_asked = |question: (String, u16, u16)| {
        name.is(&question.0) && (question.1, question.2) == (SRV, INTERNET)
    };
    if header.id != id || header.questions != 1 || !reader.question().is_some_and(is_asked) {
        return Response::Unrelated;
    }
    if header.flags & (RESPONSE | OPCODE) != RESPONSE {
        return Response::Unrelated;
    }
    if header.flags & TRUNCATED != 0 {
        return Response::Truncated;
    }
    match header.flags.to_be_bytes()[1] & CODE {
        0 => {}
        NO_SUCH_NAME => return Response::NoService("there is no such name"),
        code => return Response::Failed(code),
    }
    if header.answers > RESOURCES_MAX {
        return Response::Broken;
    }
    let resources: Option<Vec<Resource>> = (0..header.answers).map(|_| reader.resource()).collect();
    resources.map_or(Response::Broken, |resources| service(name, resources))
}

/// Returns the service of a name, to which aliases may lead.
fn service(name: &Name, resources: Vec<Resource>) -> Response {
    let (mut owner, mut ttl) = (name.0.clone(), u32::MAX);
    let aliases = resources.iter().filter_map(|resource| match &resource.data {
        Data::Alias(target) => Some((&resource.owner, target, resource.ttl)),
        _ => None,
    });
    // Name servers send the aliases in their order.
    for (from, to, alias_ttl) in aliases.take(ALIASES_MAX) {
        if from.eq_ignore_ascii_case(&owner) {
            (owner, ttl) = (to.clone(), ttl.min(alias_ttl));
        }
    }
    let mut records = Vec::new();
    let mut is_refused = false;
    for resource in resources {
        let Data::Service { priority, weight, port, target } = resource.data else { continue };
        if !resource.owner.eq_ignore_ascii_case(&owner) {
            continue;
        }
        is_refused |= target.is_empty();
        // Other names and ports are none that a client can connect to.
        if let (Some(target), 1..) = (Name::parse(&target), port) {
            ttl = ttl.min(resource.ttl);
            records.push(Record { priority, weight, port, target });
        }
    }
    records.truncate(RECORDS_MAX);
    match records.is_empty() {
        true if is_refused => Response::NoService("the SRV record says that there is no service"),
        true => Response::NoService("there is no SRV record"),
        false => Response::Found(Answer { records, ttl: Duration::from_secs(ttl.into()) }),
    }
}

struct Header {
    id: u16,
    flags: u16,
    questions: u16,
    answers: u16,
}

impl Header {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [id, flags, questions, answers] =
            [reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?];
        reader.take(4)?; // the numbers of other records
        Some(Self { id, flags, questions, answers })
    }
}

struct Resource {
    owner: String,
    ttl: u32,
    data: Data,
}

enum Data {
    Service { priority: u16, weight: u16, port: u16, target: String },
    Alias(String),
    Other,
}

/// Reads a message from the front.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.message.get(self.at..)?.get(..len)?;
        self.at += len;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Reads a name, and the type and class that are asked for.
    fn question(&mut self) -> Option<(String, u16, u16)> {
        Some((self.name()?, self.u16()?, self.u16()?))
    }

    fn resource(&mut self) -> Option<Resource> {
        let (owner, kind, class) = self.question()?;
        let (ttl, len) = (self.u32()?, usize::from(self.u16()?));
        let end = self.at + len;
        let data = match (kind, class) {
            (SRV, INTERNET) => {
                let [priority, weight, port] = [self.u16()?, self.u16()?, self.u16()?];
                Data::Service { priority, weight, port, target: self.name()? }
            }
            (CNAME, INTERNET) => Data::Alias(self.name()?),
            _ => {
                self.take(len)?;
                Data::Other
            }
        };
        // RFC 2181: a TTL with the highest bit counts as 0.
        let ttl = if i32::try_from(ttl).is_ok() { ttl } else { 0 };
        (self.at == end).then_some(Resource { owner, ttl, data })
    }

    /// Reads a name, which may end in that of an earlier place. Bytes that are no text are replaced, and so
    /// are no part of any [`Name`].
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut inside = Reader { message: self.message, at: self.at };
        let mut is_own = true;
        loop {
            let start = inside.at;
            let len = inside.take(1)?[0];
            match len {
                0 => {
                    if is_own {
                        self.at = inside.at;
                    }
                    return Some(name);
                }
                1..=LABEL_MAX_BYTE => {
                    let label = inside.take(len.into())?;
                    if !name.is_empty() {
                        name.push('.');
                    }
                    name.push_str(&String::from_utf8_lossy(label).replace('.', "\u{fffd}"));
                    if name.len() > NAME_TEXT_MAX {
                        return None;
                    }
                }
                POINTER.. => {
                    let low = inside.take(1)?[0];
                    if is_own {
                        (self.at, is_own) = (inside.at, false);
                    }
                    let to = usize::from(u16::from_be_bytes([len & !POINTER, low]));
                    // Each pointer leads further to the front, so they end.
                    if to >= start {
                        return None;
                    }
                    inside.at = to;
                }
                _ => return None,
            }
        }
    }
}

const HEADER_LEN: usize = 12;
const RECURSION_DESIRED: u16 = 1 << 8;
const RESPONSE: u16 = 1 << 15;
const OPCODE: u16 = 0b1111 << 11;
const TRUNCATED: u16 = 1 << 9;
const CODE: u8 = 0b1111;
const NO_SUCH_NAME: u8 = 3;
const POINTER: u8 = 0b1100_0000;
const SRV: u16 = 33;
const CNAME: u16 = 5;
const INTERNET: u16 = 1;

const LABEL_MAX: usize = 63;
const LABEL_MAX_BYTE: u8 = 63;
/// Longest text of a name; on the wire, it is two bytes longer.
const NAME_MAX: usize = 253;
/// Longest text of any name of a message. A replaced byte has three.
const NAME_TEXT_MAX: usize = 3 * NAME_MAX;
/// Aliases that are followed.
const ALIASES_MAX: usize = 8;
/// Records of all kinds that an answer may have. Each may refer to a name of 253 bytes by two.
const RESOURCES_MAX: u16 = 256;
/// Servers that an answer may have: more than any ensemble has.
const RECORDS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// Returns an answer to the question for `_zk._tcp.a.b` with these records, in the form of the wire:
    /// owner, type, TTL and data.
    fn answer(records: &[(&[u8], u16, u32, &[u8])]) -> Vec<u8> {
        let mut message = question(7, &name("_zk._tcp.a.b"));
        message[2] |= 0x80;
        message[7] = u8::try_from(records.len()).unwrap();
        for (owner, kind, ttl, data) in records {
            message.extend(*owner);
            message.extend(kind.to_be_bytes());
            message.extend(INTERNET.to_be_bytes());
            message.extend(ttl.to_be_bytes());
            message.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            message.extend(*data);
        }
        message
    }

    fn parsed(message: &[u8]) -> Response {
        parse(message, 7, &name("_zk._tcp.A.b"))
    }

    /// A pointer to the name of the question.
    const ASKED: &[u8] = &[0xc0, 12];

    #[test]
    fn name_is_one_of_hosts_or_services() {
        for text in ["a", "_zookeeper._tcp.example.com", "a.", "10.0.0.1"] {
            let parsed = Name::parse(text).unwrap();
            assert_eq!(parsed.as_str(), text.trim_end_matches('.'));
        }
        let (long, longer) = ("a".repeat(63), "a.".repeat(126) + "aa");
        assert!(Name::parse(&long).is_some() && Name::parse(&longer).is_none());
        for text in
            ["", ".", "a..b", ".a", "a b", "a:1", "ä", "a/b", "a\u{1b}", &format!("{long}a")]
        {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }

    #[test]
    fn answer_has_the_records_and_their_shortest_ttl() {
        let message = answer(&[
            (ASKED, SRV, 60, b"\0\x01\0\x02\x08\x85\x03zk1\xc0\x15"),
            (ASKED, SRV, 30, b"\0\0\0\0\x08\x85\x03zk2\x01x\0"),
            (ASKED, 16, 1, b"text"),
            (b"\x05other\0", SRV, 1, b"\0\0\0\0\x08\x85\x03zk3\0"),
        ]);
        let record = |priority, weight, target| Record {
            priority,
            weight,
            port: 2181,
            target: name(target),
        };
        let records = vec![record(1, 2, "zk1.a.b"), record(0, 0, "zk2.x")];
        let ttl = Duration::from_secs(30);
        assert_eq!(parsed(&message), Response::Found(Answer { records, ttl }));
    }

    #[test]
    fn aliases_are_followed_and_their_ttl_counts() {
        let message = answer(&[
            (ASKED, CNAME, 5, b"\x01c\x01d\0"),
            (b"\x01C\x01d\0", CNAME, 9, b"\x01e\0"),
            (b"\x01e\0", SRV, 60, b"\0\0\0\0\0\x01\x01f\0"),
        ]);
        let Response::Found(answer) = parsed(&message) else { panic!("{:?}", parsed(&message)) };
        assert_eq!((answer.ttl.as_secs(), answer.records[0].target.as_str()), (5, "f"));
    }

    /// Each row: the change of one byte of a good answer, and what it means.
    #[test]
    fn response_is_an_answer_only_to_its_question() {
        let good = answer(&[(ASKED, SRV, 1 << 31, b"\0\0\0\0\0\x01\x01f\0")]);
        let Response::Found(answer) = parsed(&good) else { panic!("{:?}", parsed(&good)) };
        assert_eq!(answer.ttl, Duration::ZERO);
        for (at, byte, expected) in [
            (1, 8, Response::Unrelated),
            (2, 1, Response::Unrelated),
            (2, 0x91, Response::Unrelated),
            (5, 0, Response::Unrelated),
            (13, b'-', Response::Unrelated),
            (26, 1, Response::Unrelated),
            (28, 3, Response::Unrelated),
            (2, 0x83, Response::Truncated),
            (3, 3, Response::NoService("there is no such name")),
            (3, 2, Response::Failed(2)),
            (3, 5, Response::Failed(5)),
            (7, 0, Response::NoService("there is no SRV record")),
            (7, 2, Response::Broken),
            (6, 2, Response::Broken),
            (40, 10, Response::Broken),
            (40, 8, Response::Broken),
        ] {
            let mut message = good.clone();
            message[at] = byte;
            assert_eq!(parsed(&message), expected, "byte {at} is {byte}");
        }
        for len in 0..good.len() {
            let parsed = parsed(&good[..len]);
            assert!(matches!(parsed, Response::Unrelated | Response::Broken), "{len}: {parsed:?}");
        }
    }

    #[test]
    fn record_without_a_usable_server_is_none() {
        let refused = Response::NoService("the SRV record says that there is no service");
        assert_eq!(parsed(&answer(&[(ASKED, SRV, 1, b"\0\0\0\0\0\0\0")])), refused);
        let none = Response::NoService("there is no SRV record");
        for data in
            [&b"\0\0\0\0\0\0\x01f\0"[..], b"\0\0\0\0\0\x01\x02\x1b[\0", b"\0\0\0\0\0\x01\x03a.b\0"]
        {
            assert_eq!(parsed(&answer(&[(ASKED, SRV, 1, data)])), none, "{data:?}");
        }
    }

    /// A name that points to itself, to a later place, and one that grows without an end.
    #[test]
    fn pointers_in_names_end() {
        let start = u8::try_from(question(7, &name("_zk._tcp.a.b")).len()).unwrap();
        for owner in
            [&[0xc0, start][..], &[0xc0, start + 1, 0], &[0x80, 0], &[1, b'a', 0xc0, start]]
        {
            let message = answer(&[(owner, SRV, 1, b"\0\0\0\0\0\x01\x01f\0")]);
            assert_eq!(parsed(&message), Response::Broken, "{owner:?}");
        }
        let long = [&[63][..], &[b'a'; 63]].concat().repeat(13);
        let message = answer(&[(&long, SRV, 1, b"\0\0\0\0\0\x01\x01f\0")]);
        assert_eq!(parsed(&message), Response::Broken);
    }
}
