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
fn ranking_and_sorting_allocate_nothing_per_child() {
    for len in [1, 1_000, 100_000] {
        let mut names = contenders(len);
        names.extend(["zzz".to_owned(), "lock--000000005".to_owned()]);
        let own = names[names.len() / 2].clone();
        let children = ChildList::from_names(names);
        let ranking = measure(|| assert!(MUTEX.rank(&children, own.as_bytes()).is_some()));
        assert_eq!(ranking.count_total, 0, "ranking {len} children");

        let sorting = measure(|| {
            let sorted = MUTEX.sort(&children);
            assert_eq!(sorted.iter().count(), children.len());
        });
        assert!(sorting.count_total <= 2, "sorting {len} children: {sorting:?}");
    }
}

#[test]
fn sorting_unnumbered_names_allocates_twice() {
    let names = (0..1_000).map(|n| format!("_c_0b7f36dc-lock--{n:09}"));
    let children = ChildList::from_names(names);
    let sorting = measure(|| assert_eq!(MUTEX.sort(&children).iter().count(), 1_000));
    assert_eq!(sorting.count_total, 2);
    assert_eq!(sorting.bytes_total, 2 * 8 * 1_000);
}

#[test]
fn sorting_numbered_names_allocates_once() {
    let children = ChildList::from_names(contenders(1_000));
    let sorting = measure(|| drop(MUTEX.sort(&children)));
    assert_eq!(sorting.count_total, 1);
    assert_eq!(sorting.bytes_total, 8 * 1_000);
}

#[test]
fn sorting_mixed_names_allocates_for_both_kinds() {
    let unnumbered = (0..100).map(|n| format!("_c_0b7f36dc-lock--{n:09}"));
    let children = ChildList::from_names(contenders(900).into_iter().chain(unnumbered));
    let sorting = measure(|| drop(MUTEX.sort(&children)));
    assert_eq!(sorting.count_total, 2);
    assert_eq!(sorting.bytes_total, 8 * 1_000 + 8 * 100);
}
