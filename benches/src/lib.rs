//! Common parts of the benchmarks: inputs that are the same on every machine.

#![forbid(unsafe_code)]

pub mod contest;

use bytes::{Bytes, BytesMut};
use zk_proto::{ChildList, ChildrenReply, Encode, Stat};
use zk_testing::Rng;

/// Lengths of the lists of children.
pub const LIST_LENGTHS: [u32; 4] = [10, 1_000, 10_000, 100_000];

/// Returns names as Curator creates them, 55 bytes each, with the sequence numbers 0 to `len - 1`
/// in random order. A server lists children by hash.
#[must_use]
pub fn curator_names(len: u32) -> Vec<String> {
    let mut rng = Rng::new(1);
    let mut numbers: Vec<u32> = (0..len).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, rng.index(last + 1));
    }
    let name = |number: u32| {
        let (a, b) = (rng.draw(), rng.draw());
        format!(
            "_c_{:08x}-{:04x}-4{:03x}-9{:03x}-{:012x}-lock-{number:010}",
            a >> 32,
            a & 0xffff,
            (a >> 16) & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    };
    numbers.into_iter().map(name).collect()
}

/// Encodes the record of a getChildren2 reply with these names.
#[must_use]
pub fn children_reply(names: &[String]) -> Bytes {
    let num_children = i32::try_from(names.len()).unwrap_or(i32::MAX);
    let reply = ChildrenReply {
        children: ChildList::from_names(names),
        stat: Stat { num_children, ..Stat::default() },
    };
    let mut out = BytesMut::new();
    reply.encode(&mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curator_names_are_distinct_and_in_random_order() {
        let names = curator_names(1000);
        assert!(names.iter().all(|name| name.len() == 55), "{}", names[0]);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 1000);
        assert!(!names.is_sorted_by_key(|name| &name[45..]));
    }
}
