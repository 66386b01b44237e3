//! Fuzz target for answers of name servers: any bytes behind a question, and records that return from an
//! encoder by hand.
//!
//! Input: two bytes of flags and two for the number of records, then the records. The whole input is also
//! read as numbers from which records are made.

use std::time::Duration;

use zk_srv::fuzz::{Answer, Name, Record, Response, parse, ranked};

use crate::Input;

/// Parses the input, and encodes and parses records.
pub fn run(data: &[u8]) {
    any_bytes(data);
    made_records(data);
}

fn any_bytes(data: &[u8]) {
    let name = asked();
    assert_eq!(parse(data, 0xffff, &name), Response::Unrelated, "another question");
    let mut input = Input::new(data);
    let (flags, count) = (input.take(2).to_vec(), input.take(2).to_vec());
    let mut message = header(&flags, &count);
    message.extend(input.rest());
    let mut parsed = None;
    let info = allocation_counter::measure(|| parsed = Some(parse(&message, ID, &name)));
    assert!(info.bytes_max <= MEMORY_MAX, "{} bytes", info.bytes_max);
    if let Some(Response::Found(answer)) = parsed {
        is_ordered(&answer.records, data);
    }
    assert_eq!(parse(&message, ID + 1, &name), Response::Unrelated);
}

/// Checks the servers of an answer: as many as records, and in the order of their priorities.
fn is_ordered(records: &[Record], seed: &[u8]) {
    assert!((1..=64).contains(&records.len()));
    let mut drawn = Input::new(seed);
    let hosts = ranked(records.to_vec(), || drawn.long().unsigned_abs());
    let priority = |port: u16, name: &str| {
        let is_it = |record: &&Record| (record.port, record.target.as_str()) == (port, name);
        records.iter().filter(is_it).map(|record| record.priority).collect::<Vec<_>>()
    };
    assert_eq!(hosts.len(), records.len());
    assert!(hosts.is_sorted_by_key(zk_recipes::session::Host::rank));
    for pair in hosts.windows(2) {
        let [one, other] = [&pair[0], &pair[1]].map(|host| priority(host.port(), host.name()));
        assert!(one.iter().min() <= other.iter().max(), "{pair:?}");
    }
    assert!(hosts.iter().all(|host| Name::parse(host.name()).is_some() && host.port() > 0));
}

/// Encodes records that are made from the input, some with the name of the question for a part of the
/// target, and expects them back.
fn made_records(data: &[u8]) {
    let mut input = Input::new(data);
    let mut records = Vec::new();
    let mut ttl = u32::from(u16::MAX);
    let count = 1 + input.below(8);
    let mut message = header(&[0x80, 0], &[0, count]);
    for _ in 0..count {
        let [priority, weight, port] = [(); 3].map(|()| u16::from(input.byte()));
        let (own_ttl, label_len, is_short) =
            (u32::from(input.byte()), 1 + input.below(63), input.below(2) == 1);
        let label: String = (0..label_len).map(|_| char::from(b'a' + input.below(26))).collect();
        let (target, rest) = if is_short {
            (format!("{label}.a.b"), &[0xc0, 21][..])
        } else {
            (label.clone(), &[0][..])
        };
        message.extend([0xc0, 12, 0, 33, 0, 1]);
        message.extend(own_ttl.to_be_bytes());
        let len = 7 + label.len() + rest.len();
        message.extend(u16::try_from(len).expect("a short record").to_be_bytes());
        for field in [priority, weight, port] {
            message.extend(field.to_be_bytes());
        }
        message.push(label_len);
        message.extend(label.as_bytes());
        message.extend(rest);
        if port > 0 {
            ttl = ttl.min(own_ttl);
            let target = Name::parse(&target).expect("a name");
            records.push(Record { priority, weight, port, target });
        }
    }
    let expected = if records.is_empty() {
        Response::NoService("there is no SRV record")
    } else {
        is_ordered(&records, data);
        Response::Found(Answer { records, ttl: Duration::from_secs(ttl.into()) })
    };
    assert_eq!(parse(&message, ID, &asked()), expected);
}

fn asked() -> Name {
    Name::parse("_zk._tcp.a.b").expect("a name")
}

/// Returns the header of an answer, and the question.
fn header(flags: &[u8], count: &[u8]) -> Vec<u8> {
    let mut message = ID.to_be_bytes().to_vec();
    message.extend(flags);
    message.resize(4, 0);
    message.extend([0, 1]);
    message.extend(count);
    message.resize(8, 0);
    message.extend([0; 4]);
    message.extend(b"\x03_zk\x04_tcp\x01a\x01b\0\0\x21\0\x01");
    message
}

const ID: u16 = 0x1234;
/// 256 records, each of which may have two names by a pointer.
const MEMORY_MAX: u64 = 1 << 20;
