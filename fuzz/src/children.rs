//! Fuzz target for lists of children: decoding, sorting and ranking, against a naive implementation.
//!
//! Input: a byte for the rule. If that byte is below 128, names follow: a byte for the shape of each name,
//! and the bytes that the shape needs. Otherwise the rest is an encoded list of arbitrary bytes.

use bytes::Bytes;
use zk_proto::{ChildList, Decode};
use zk_recipes::child_order::{Rank, SequenceKey, SequenceOrder};

use crate::Input;
use crate::memory::bounded;
use crate::model::naive_text;
use crate::records::{Scratch, decodes, encodes};

/// Sorts and ranks a list of children.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let byte = input.byte();
    let lock_names = RULES[usize::from(byte) % RULES.len()];
    let names = if byte < 128 {
        let names = names(&mut input);
        let list = ChildList::from_names(&names);
        encodes(&list, &Scratch::default());
        names
    } else {
        let wire = Bytes::copy_from_slice(input.rest());
        let names = naive_list(&wire);
        assert_eq!(decodes::<ChildList>(&wire, &Scratch::default()), names.is_some());
        let Some(names) = names else { return };
        names
    };
    is_a_list_of(&names);
    is_in_order(&names, lock_names);
}

/// Maximum number of ranked names, because ranking takes the most time.
const RANKED: usize = 6;

/// Lock names of the product's rules, and of some unused rules.
const RULES: [&[&str]; 6] = [
    &["lock-"],
    &["__READ__", "__WRIT__"],
    &["lease-"],
    &["a-lock-name-of-some-length-"],
    &["__A__", "__B__", "__LONGER__"],
    &["ba", "aa"],
];

fn names(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    while !input.is_empty() && names.len() < 32 {
        let name = match input.below(12) {
            0..=2 => contender("lock-", input),
            3 => contender("__READ__", input),
            4 => contender("__WRIT__", input),
            5 => contender("lease-", input),
            6 => format!("lock-{:010}", input.byte()),
            7 => format!("a-lock-name-of-some-length-{:010}", input.int()),
            8 => format!("{:010}", input.int()),
            9 => parts(input),
            // A duplicate of an earlier name, which a server never sends.
            10 => match names.get(usize::from(input.byte()) % names.len().max(1)) {
                Some(name) => String::from_utf8_lossy(name).into_owned(),
                None => String::new(),
            },
            _ => {
                names.push(input.bytes().to_vec());
                continue;
            }
        };
        names.push(name.into_bytes());
    }
    names
}

/// Returns a name like Curator's: protection prefix, random id, lock name, number.
fn contender(lock_name: &str, input: &mut Input<'_>) -> String {
    let id = input.byte();
    let number = match input.below(4) {
        0..3 => i32::from(input.byte()),
        _ => input.int(),
    };
    format!("_c_{id:02x}-{lock_name}{number:010}")
}

/// Returns a concatenation of fragments of names.
fn parts(input: &mut Input<'_>) -> String {
    const PARTS: [&str; 16] = [
        "_c_",
        "lock-",
        "__READ__",
        "__WRIT__",
        "__READ__WRIT__",
        "lease-",
        "__A",
        "__B__",
        "ba",
        "a",
        "_",
        "-",
        "0000000001",
        "4294967295",
        "4294967296",
        "-000000005",
    ];
    (0..input.below(6)).map(|_| PARTS[usize::from(input.byte() % 16)]).collect()
}

/// Decodes an encoded list in a naive way.
fn naive_list(wire: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = wire;
    let mut int = |take: usize| -> Option<(i32, Vec<u8>)> {
        let (head, tail) = rest.split_at_checked(4)?;
        let value = head.iter().fold(0_i32, |value, byte| value << 8 | i32::from(*byte));
        let len = if take == 0 { 0 } else { usize::try_from(value).ok()? };
        let (bytes, after) = tail.split_at_checked(len)?;
        rest = after;
        Some((value, bytes.to_vec()))
    };
    let count = int(0)?.0;
    (0..count.max(0)).map(|_| int(1).map(|(_, name)| name)).collect()
}

fn is_a_list_of(names: &[Vec<u8>]) {
    let list = ChildList::from_names(names);
    assert_eq!((list.len(), list.is_empty()), (names.len(), names.is_empty()));
    assert!(list.iter().eq(names.iter().map(Vec::as_slice)));
    assert!(list.names().eq(names.iter().map(|name| naive_text(name))));
    for raw in list.iter() {
        assert_eq!(list.name_bytes(raw), raw);
        if let Some(first) = raw.first() {
            let shared = list.name_bytes(raw);
            assert!(std::ptr::eq(shared.first().expect("as long"), first), "a copy");
        }
    }
    assert_eq!(list.name_bytes(b"of another list"), b"of another list"[..]);
    let wire = crate::records::encoded(&list);
    assert_eq!(naive_list(&wire).as_deref(), Some(names));
    assert_eq!(ChildList::from_frame(&wire), Ok(list));
}

fn is_in_order(names: &[Vec<u8>], lock_names: &[&str]) {
    let rule = SequenceOrder::new(lock_names);
    let list = ChildList::from_names(names);
    let text = |name: &[u8]| naive_key(name, lock_names);

    let mut expected: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    expected.sort_by_cached_key(|name| text(name)); // stable, as Java's is
    let sorted = bounded(8 * names.len(), || rule.sort(&list));
    assert_eq!((sorted.len(), sorted.is_empty()), (names.len(), names.is_empty()));
    let in_order: Vec<&[u8]> = sorted.iter().collect();
    assert_eq!(in_order, expected);

    for pair in names.windows(2) {
        let keys = (rule.key(&pair[0]), rule.key(&pair[1]));
        assert_eq!(keys.0.cmp(&keys.1), text(&pair[0]).cmp(&text(&pair[1])));
    }
    let contends = |name: &&[u8]| may_contend(name, lock_names);
    let contending: Vec<bool> = expected.iter().map(contends).collect();
    for name in names {
        match rule.key(name) {
            SequenceKey::Number(number) => {
                assert_eq!(format!("{number:010}").into_bytes(), text(name))
            }
            SequenceKey::Text(key) => assert_eq!(key, text(name)),
        }
        assert_eq!(rule.is_contender(name), may_contend(name, lock_names));
    }
    let has_text = names.iter().any(|name| matches!(rule.key(name), SequenceKey::Text(_)));
    for own in names.iter().step_by(names.len() / RANKED + 1) {
        let rank = rule.rank(&list, own);
        let has_others = rank.is_some_and(|rank| rank.has_others);
        assert!(has_others || !has_text);
        assert_eq!(rank, Some(naive_rank(&expected, &contending, own, has_others)));
    }
    if !names.iter().any(|name| name == b"_c_nobody-lock-0000000001") {
        assert_eq!(rule.rank(&list, b"_c_nobody-lock-0000000001"), None);
    }
}

/// Computes the key by Curator's algorithm, literally.
fn naive_key(name: &[u8], lock_names: &[&str]) -> Vec<u8> {
    let mut key = name.to_vec();
    for lock_name in lock_names {
        let starts = (0..key.len()).rev();
        let last = starts.into_iter().find(|at| key[*at..].starts_with(lock_name.as_bytes()));
        if let Some(at) = last {
            key.drain(..at + lock_name.len());
        }
    }
    key
}

fn may_contend(name: &[u8], lock_names: &[&str]) -> bool {
    let holds = |part: &str| (0..name.len()).any(|at| name[at..].starts_with(part.as_bytes()));
    name.starts_with(b"_c_") || lock_names.iter().any(|lock_name| holds(lock_name))
}

/// Returns the rank of `own` among `all` sorted names, counting contenders only.
fn naive_rank<'a>(all: &[&'a [u8]], contending: &[bool], own: &[u8], has_others: bool) -> Rank<'a> {
    let before = all.iter().zip(contending).take_while(|(name, _)| **name != own);
    let ahead: Vec<&[u8]> =
        before.filter(|(_, contends)| **contends).map(|(name, _)| *name).collect();
    Rank {
        position: ahead.len(),
        predecessor: ahead.last().copied(),
        second: ahead.iter().rev().nth(1).copied(),
        has_others,
    }
}
