//! The order in which servers are tried, by the priorities and weights of RFC 2782.

use zk_session::Host;

use crate::message::Record;

/// Returns the servers in the order in which to try them, each with its rank. `random` draws a number.
///
/// Records of one priority whose weights are equal get one rank: the session draws their order, and moves
/// clients when servers are added. Other weights need an order of their own.
#[must_use]
pub fn ranked(mut records: Vec<Record>, mut random: impl FnMut() -> u64) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::with_capacity(records.len());
    let mut rank = 0;
    records.sort_by_key(|record| record.priority);
    for group in records.chunk_by(|one, other| one.priority == other.priority) {
        let is_even = group.iter().all(|record| record.weight == group[0].weight);
        let mut left: Vec<&Record> = group.iter().collect();
        while !left.is_empty() {
            let record = left.remove(draw(&left, &mut random));
            hosts.push(Host::new(record.target.as_str(), record.port).with_rank(rank));
            rank += u16::from(!is_even);
        }
        rank += u16::from(is_even);
    }
    hosts
}

/// Draws one of the records, each with a probability in proportion to its weight. One of weight 0 has a very
/// small one, as the RFC demands.
fn draw(records: &[&Record], random: &mut impl FnMut() -> u64) -> usize {
    let share = |record: &Record| 1 + u64::from(record.weight) * WEIGHT_UNIT;
    let total: u64 = records.iter().map(|record| share(record)).sum();
    let mut drawn = random() % total;
    for (at, record) in records.iter().enumerate() {
        match drawn.checked_sub(share(record)) {
            Some(rest) => drawn = rest,
            None => return at,
        }
    }
    0
}

/// How much more a weight of 1 is than one of 0.
const WEIGHT_UNIT: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Name;

    fn records(of: &[(u16, u16)]) -> Vec<Record> {
        let target = Name::parse("h").unwrap();
        let record = |(port, (priority, weight)): (u16, &(u16, u16))| Record {
            priority: *priority,
            weight: *weight,
            port,
            target: target.clone(),
        };
        (1..).zip(of).map(record).collect()
    }

    /// Returns the ports and ranks, with numbers that are drawn in turn.
    fn order(of: &[(u16, u16)], seed: u64) -> Vec<(u16, u16)> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        ranked(records(of), random).iter().map(|host| (host.port(), host.rank())).collect()
    }

    #[test]
    fn priorities_come_in_order_and_equal_weights_have_one_rank() {
        let mut even = order(&[(2, 7), (1, 0), (1, 0), (2, 7), (5, 1)], 1);
        even[..2].sort_unstable();
        even[2..4].sort_unstable();
        assert_eq!(even, [(2, 0), (3, 0), (1, 1), (4, 1), (5, 2)]);
        assert_eq!(order(&[(9, 3), (9, 3)], 1).iter().map(|(_, rank)| *rank).max(), Some(0));
        assert_eq!(order(&[], 1), []);
    }

    #[test]
    fn first_server_of_a_priority_is_drawn_by_weight() {
        let mut firsts = [0; 4];
        for seed in 0..10_000 {
            let order = order(&[(1, 0), (1, 10), (1, 30), (2, 60)], seed);
            let ranks: Vec<u16> = order.iter().map(|(_, rank)| *rank).collect();
            assert_eq!((ranks, order[3].0), (vec![0, 1, 2, 3], 4));
            firsts[usize::from(order[0].0) - 1] += 1;
        }
        assert!(firsts[0] < 20, "{firsts:?}");
        assert!((2_300..2_700).contains(&firsts[1]), "{firsts:?}");
        assert_eq!(firsts[3], 0, "{firsts:?}");
    }
}
