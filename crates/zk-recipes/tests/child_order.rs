//! Tests of the order of contenders, against a naive implementation and against Curator's rules.

use proptest::prelude::*;
use zk_recipes::child_order::{Rank, SequenceKey, SequenceOrder};
use zk_recipes::session::ChildList;

const MUTEX: SequenceOrder<'_> = SequenceOrder::new(&["lock-"]);
const READ_WRITE: SequenceOrder<'_> = SequenceOrder::new(&["__READ__", "__WRIT__"]);

fn sorted(names: &[&str], rule: SequenceOrder<'_>) -> Vec<String> {
    let list = ChildList::from_names(names);
    rule.sort(&list).iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn key_is_the_text_after_the_last_lock_name() {
    use SequenceKey::{Number, Text};
    let overlapping = b"WRIT__0000000001";
    for (rule, name, key) in [
        (MUTEX, "_c_uuid-lock-0000000042", Number(42)),
        (MUTEX, "lock-lock-0000000007", Number(7)),
        (MUTEX, "lock-1-lock-x", Text(b"x")),
        (MUTEX, "lock-", Text(b"")),
        (MUTEX, "0000000003", Number(3)),
        (MUTEX, "zzz", Text(b"zzz")),
        (MUTEX, "", Text(b"")),
        (MUTEX, "lock-42", Text(b"42")),
        (READ_WRITE, "_c_a-__READ__0000000001", Number(1)),
        (READ_WRITE, "_c_a-__WRIT__0000000001", Number(1)),
        (READ_WRITE, "__WRIT__a__READ__b", Text(b"b")),
        (READ_WRITE, "__READ__a__WRIT__b", Text(b"b")),
        (READ_WRITE, "__WRIT__b__READ__a__WRIT__c__READ__d", Text(b"d")),
        (READ_WRITE, "__READ__x__WRIT__y__WRIT__z", Text(b"z")),
        // Overlapping lock names are keyed as by Curator.
        (READ_WRITE, "_c_a-__READ__WRIT__0000000001", Text(overlapping)),
        (READ_WRITE, "__READ__WRIT__0000000001", Text(overlapping)),
        // In the opposite order, the second lock name is searched for first.
        (READ_WRITE, "__WRIT__READ__0000000001", Number(1)),
        (READ_WRITE, "x__WRIT__0000000001", Number(1)),
    ] {
        assert_eq!(rule.key(name.as_bytes()), key, "{name}");
    }
}

#[test]
fn numbers_beyond_31_bits_sort_by_their_text() {
    // S6: a server writes such names after its counter exceeds 31 bits. They sort first, as in
    // Curator.
    assert_eq!(
        sorted(
            &["lock-0000000001", "lock--2147483648", "lock--000000005", "lock-2147483647"],
            MUTEX
        ),
        ["lock--000000005", "lock--2147483648", "lock-0000000001", "lock-2147483647"]
    );
}

#[test]
fn foreign_children_are_sorted_but_never_a_predecessor() {
    // L8 (CURATOR-43): a persistent child `0` must not block the lock.
    let names = ["zzz", "_c_a-lock-0000000005", "0", "_c_b-latch-0000000001"];
    assert_eq!(sorted(&names, MUTEX), ["0", names[1], names[3], "zzz"]);
    let list = ChildList::from_names(names);
    let first = Rank { position: 0, predecessor: None, second: None, has_others: true };
    assert_eq!(MUTEX.rank(&list, b"_c_a-lock-0000000005"), Some(first));
    // A bare number sorts as a number and still is no contender.
    let list = ChildList::from_names(["0000000001", "_c_a-lock-0000000005"]);
    assert_eq!(MUTEX.rank(&list, b"_c_a-lock-0000000005"), Some(first));
}

/// Any client can create such a name. If every comparison searched it again, this test would run
/// for minutes.
#[test]
fn megabyte_names_are_searched_once() {
    let numbered = |number: u32| format!("_c_a-lock-{number:010}");
    let (first, middle) = ("lock-".repeat(200_000), "z".repeat(1 << 20));
    let last = middle.clone() + "z";
    let names: Vec<String> = (0..5_000).map(numbered).collect();
    let mut expected: Vec<&str> = names.iter().map(String::as_str).collect();
    expected.insert(0, &first); // its key is empty
    expected.extend([&*middle, &*last]);
    let mut received = expected.clone();
    received.reverse();
    let list = ChildList::from_names(&received);
    assert!(MUTEX.sort(&list).iter().eq(expected.iter().map(|name| name.as_bytes())));
    let rank = MUTEX.rank(&list, names[4_999].as_bytes()).unwrap();
    assert_eq!((rank.position, rank.predecessor), (5_000, Some(names[4_998].as_bytes())));
}

#[test]
fn names_with_a_lock_name_count_as_contenders() {
    for other in ["lock-0000000004", "x-lock-0000000004", "_c_a-lock-0000000004", "lock-0"] {
        let list = ChildList::from_names([other, "_c_b-lock-0000000005"]);
        let rank = MUTEX.rank(&list, b"_c_b-lock-0000000005").unwrap();
        assert_eq!(rank.predecessor, Some(other.as_bytes()), "{other}");
        assert_eq!((rank.position, rank.second), (1, None));
    }
}

#[test]
fn contender_has_a_lock_name_or_the_prefix_of_protection() {
    let contenders =
        ["lock-0000000004", "x-lock-0000000004", "_c_a-lock-0000000004", "lock-x", "_c_a-other-7"];
    for name in contenders {
        assert!(MUTEX.is_contender(name.as_bytes()), "{name}");
    }
    for name in ["", "0", "0000000004", "latch-0000000004", "c_a-other-7"] {
        assert!(!MUTEX.is_contender(name.as_bytes()), "{name}");
    }
}

/// A queue without such names need not be searched for nodes of other recipes.
#[test]
fn rank_has_others_for_names_without_lock_name_and_number() {
    let has_others = |rule: SequenceOrder<'_>, own: &str, other: &str| {
        let list = ChildList::from_names([own, other]);
        rule.rank(&list, own.as_bytes()).unwrap().has_others
    };
    for other in ["lock-0000000001", "a-lock-0000000001", "xlock-0000000001"] {
        assert!(!has_others(MUTEX, "_c_a-lock-0000000004", other), "{other}");
    }
    for other in ["0000000001", "lock-1", "lock--000000001", "leases", "latch-0000000001"] {
        assert!(has_others(MUTEX, "_c_a-lock-0000000004", other), "{other}");
    }
    for other in ["a-__READ__0000000001", "__WRIT__0000000001", "__READ__0000000001"] {
        assert!(!has_others(READ_WRITE, "_c_a-__READ__0000000004", other), "{other}");
    }
}

#[test]
fn equal_keys_keep_the_order_of_the_server() {
    // A read node created by a downgrade has the number of its write node (CURATOR-276).
    let (write, read) = ("_c_b-__WRIT__0000000003", "_c_a-__READ__0000000003");
    let other = "_c_c-__READ__0000000004";
    for names in [[write, read, other], [read, write, other]] {
        assert_eq!(sorted(&names, READ_WRITE), names);
        let list = ChildList::from_names(names);
        let rank = |name: &str| READ_WRITE.rank(&list, name.as_bytes()).unwrap();
        assert_eq!(rank(names[0]).position, 0);
        assert_eq!(rank(names[1]).predecessor, Some(names[0].as_bytes()));
        assert_eq!(rank(other).predecessor, Some(names[1].as_bytes()));
        assert_eq!(rank(other).second, Some(names[0].as_bytes()));
    }
}

#[test]
fn unlisted_node_has_no_rank() {
    // C3: the node was deleted meanwhile, or this server has not applied its creation yet.
    let list = ChildList::from_names(["_c_a-lock-0000000005"]);
    assert_eq!(MUTEX.rank(&list, b"_c_b-lock-0000000005"), None);
    assert_eq!(MUTEX.rank(&ChildList::default(), b"x"), None);
    assert!(MUTEX.sort(&ChildList::default()).is_empty());
    assert!(!MUTEX.sort(&list).is_empty());
}

/// Curator's algorithm, literally.
fn curator_key(name: &str, lock_names: &[&str]) -> String {
    lock_names.iter().fold(name.to_owned(), |rest, lock_name| match rest.rfind(lock_name) {
        Some(at) => rest[at + lock_name.len()..].to_owned(),
        None => rest,
    })
}

fn a_name() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        8 => (0_u32..40).prop_map(|n| format!("{n:010}")),
        1 => any::<u32>().prop_map(|n| format!("{n:010}")),
        1 => any::<i32>().prop_map(|n| format!("{n:010}")),
        1 => "[0-9]{8,12}",
        1 => "[a-z0-9-]{0,12}",
    ];
    let front = prop_oneof![
        6 => "_c_[0-9a-f]{4}-(lock-|__READ__|__WRIT__)",
        1 => "(lock-|__READ__|__WRIT__){1,3}",
        1 => "[a-z0-9]{0,3}",
    ];
    (front, number).prop_map(|(front, number)| front + &number)
}

proptest! {
    #[test]
    fn sorting_agrees_with_curators_algorithm(
        names in prop::collection::vec(a_name(), 0..60),
        read_write in any::<bool>(),
    ) {
        let lock_names: &[&str] = if read_write { &["__READ__", "__WRIT__"] } else { &["lock-"] };
        let mut expected = names.clone();
        expected.sort_by_key(|name| curator_key(name, lock_names)); // stable, as Java's is
        let list = ChildList::from_names(&names);
        let rule = SequenceOrder::new(lock_names);
        let sorted = rule.sort(&list);
        prop_assert_eq!(sorted.len(), names.len());
        prop_assert!(sorted.iter().eq(expected.iter().map(String::as_bytes)));
    }

    #[test]
    fn ranking_agrees_with_sorting(names in prop::collection::btree_set(a_name(), 1..40)) {
        let names: Vec<String> = names.into_iter().collect();
        let list = ChildList::from_names(&names);
        for own in &names {
            let rank = MUTEX.rank(&list, own.as_bytes()).unwrap();
            let everybody: Vec<&[u8]> = MUTEX.sort(&list)
                .iter()
                .filter(|name| MUTEX.is_contender(name) || *name == own.as_bytes())
                .collect();
            let at = everybody.iter().position(|name| *name == own.as_bytes()).unwrap();
            prop_assert_eq!(rank.position, at);
            prop_assert_eq!(rank.predecessor, at.checked_sub(1).map(|at| everybody[at]));
            prop_assert_eq!(rank.second, at.checked_sub(2).map(|at| everybody[at]));
        }
    }
}

#[test]
fn lock_name_of_digits_only_is_rejected() {
    for name in ["", "1", "0123456789"] {
        let rule = std::panic::catch_unwind(|| SequenceOrder::new(&[name]).key(b"x"));
        assert!(rule.is_err(), "{name:?}");
        assert!(
            std::panic::catch_unwind(|| SequenceOrder::named(name).key(b"x")).is_err(),
            "{name:?}"
        );
    }
    assert_eq!(SequenceOrder::named("7x").key(b"7x0000000001"), SequenceKey::Number(1));
}

#[test]
fn rule_accepts_a_lock_name_computed_at_run_time() {
    for name in ["lock-", "job 7 of many-"] {
        let rule = SequenceOrder::named(name);
        assert_eq!(rule, SequenceOrder::new(&[name]));
        let child = format!("_c_x-{name}0000000042");
        assert_eq!(rule.key(child.as_bytes()), SequenceKey::Number(42));
        assert!(rule.is_contender(child.as_bytes()) && !rule.is_contender(b"0000000042"));
    }
}
