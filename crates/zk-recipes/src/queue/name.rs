//! The names of lock nodes, as Curator forms them:
//! `_c_<uuid>-<lock name><sequence>`.

/// What the name of a node under Curator's protection starts with.
const PROTECTED: &str = "_c_";

/// What every name of one attempt to create a node starts with, by which the
/// node is found again when the answer to its creation was lost.
pub(crate) fn protection(uuid: &str) -> String {
    format!("{PROTECTED}{uuid}-")
}

/// The part of a name that decides the order: what follows the **last**
/// occurrence of the lock name, or all of it if there is none.
pub(crate) fn order_key<'a>(name: &'a [u8], lock_name: &str) -> &'a [u8] {
    match last_occurrence(name, lock_name.as_bytes()) {
        Some(at) => &name[at + lock_name.len()..],
        None => name,
    }
}

/// True for every name that Curator, or we, could have given a contender.
///
/// Curator counts all children, so that a foreign `0` blocks its lock for ever
/// (CURATOR-43). Leaving out a name is safe only if no contender can bear it.
pub(crate) fn is_contender(name: &[u8], lock_name: &str) -> bool {
    name.starts_with(PROTECTED.as_bytes()) || last_occurrence(name, lock_name.as_bytes()).is_some()
}

/// The sequence number that ends a name, if it ends with one. A server that has
/// counted beyond 2^31 writes negative ones.
pub(crate) fn sequence(name: &[u8], lock_name: &str) -> Option<i64> {
    let key = std::str::from_utf8(order_key(name, lock_name)).ok()?;
    key.parse::<i32>().ok().map(i64::from)
}

fn last_occurrence(name: &[u8], wanted: &[u8]) -> Option<usize> {
    name.windows(wanted.len()).rposition(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de";

    #[test]
    fn the_key_follows_the_last_lock_name() {
        let key =
            |name: &'static str| std::str::from_utf8(order_key(name.as_bytes(), "lock-")).unwrap();
        assert_eq!(key("_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-0000000042"), "0000000042");
        assert_eq!(key("lock-0000000001"), "0000000001");
        assert_eq!(key("lock-lock-7"), "7");
        assert_eq!(key("a-lock--000000005"), "-000000005");
        assert_eq!(key("zzz"), "zzz");
        assert_eq!(key("lock-"), "");
        assert_eq!(key(""), "");
    }

    #[test]
    fn a_contender_is_what_holds_the_lock_name_or_is_protected() {
        for (name, expected) in [
            ("_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-0000000042", true),
            ("lock-0000000042", true),
            ("_c_anything", true),
            ("0", false),
            ("zzz", false),
            ("latch-0000000042", false),
        ] {
            assert_eq!(is_contender(name.as_bytes(), "lock-"), expected, "{name}");
        }
    }

    #[test]
    fn sequences_are_signed() {
        let sequence = |name: &str| sequence(name.as_bytes(), "lock-");
        assert_eq!(sequence("lock-0000000042"), Some(42));
        assert_eq!(sequence("lock-2147483647"), Some(2_147_483_647));
        assert_eq!(sequence("lock--2147483648"), Some(-2_147_483_648));
        assert_eq!(sequence("lock-99999999999"), None);
        assert_eq!(sequence("lock-x"), None);
    }

    #[test]
    fn protection_has_curators_form() {
        let prefix = protection(UUID);
        assert_eq!(prefix, "_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-");
        assert_eq!(prefix.len(), 40);
    }
}
