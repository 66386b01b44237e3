//! Allocations of ranking and sorting.

use allocation_counter::measure;
use zk_recipes::child_order::SequenceOrder;
use zk_recipes::session::ChildList;

const MUTEX: SequenceOrder<'static> = SequenceOrder::new(&["lock-"]);

fn contenders(len: u32) -> Vec<String> {
    // The stride has no common factor with the modulus, so every number occurs once.
    let name = |n: u32| format!("_c_0b7f36dc-3cc2-4b57-9c3e-{n:012x}-lock-{n:010}");
    let names: Vec<String> =
        (0..len).map(|n| name((n.wrapping_mul(7919) + 13) % len.next_power_of_two())).collect();
    assert!(names.iter().all(|name| name.len() == 55));
    names
}

#[test]
fn sorting_allocates_once_for_each_kind_of_name() {
    for (numbered, unnumbered) in [(1, 1), (1_000, 0), (900, 100), (0, 1_000), (100_000, 1)] {
        let mut names = contenders(numbered);
        names.extend((0..unnumbered).map(|n| format!("_c_0b7f36dc-lock--{n:09}")));
        let (len, own) = (names.len(), names[names.len() / 2].clone());
        let children = ChildList::from_names(names);
        let ranking = measure(|| assert!(MUTEX.rank(&children, own.as_bytes()).is_some()));
        assert_eq!(ranking.count_total, 0, "ranking {len} children");
        let sorting = measure(|| assert_eq!(MUTEX.sort(&children).iter().count(), len));
        let (count, rest) = if unnumbered == 0 { (1, 0) } else { (2, unnumbered) };
        assert_eq!(sorting.count_total, count, "sorting {len} children");
        assert_eq!(sorting.bytes_total, 8 * (len as u64 + rest), "sorting {len} children");
    }
}
