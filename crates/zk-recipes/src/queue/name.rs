//! The names of lock nodes, as Curator forms them:
//! `_c_<uuid>-<lock name><sequence>`.

use zk_session::{Key, KeyRule, is_lock_name, validate_path};

use crate::error::LockError;

/// What every name of one attempt to create a node starts with, by which the
/// node is found again when the answer to its creation was lost.
pub(crate) fn protection(uuid: &str) -> String {
    ["_c_", uuid, "-"].concat()
}

/// The text that is to stand before the numbers, if it can.
pub(crate) fn checked(lock_name: String) -> Result<String, LockError> {
    let may_stand_in_a_name = || validate_path(&format!("/{lock_name}0")).is_ok();
    match is_lock_name(&lock_name) && !lock_name.contains('/') && may_stand_in_a_name() {
        true => Ok(lock_name),
        false => Err(LockError::InvalidLockName { name: lock_name }),
    }
}

/// The last component of a path.
pub(crate) fn of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The sequence number that ends a node's name. None is what a server that has
/// counted beyond 31 bits gives: it writes negative numbers then.
pub(crate) fn sequence(name: &str, rule: KeyRule<'_>) -> Option<u32> {
    match rule.key(name.as_bytes()) {
        Key::Number(number) => Some(number),
        Key::Text(_) => None,
    }
}

/// Looks for a text anywhere in a name.
pub(crate) fn contains(name: &[u8], text: &str) -> bool {
    // No UUID has the byte in the middle of `__WRIT__`, nor has `__READ__`: of a name in which
    // it does not occur, which is quickly seen, no other byte has to be looked at.
    let middle = text.as_bytes().get(text.len() / 2);
    middle.is_none_or(|middle| name.contains(middle))
        && name.windows(text.len()).any(|part| part == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_has_curators_form() {
        let prefix = protection("0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de");
        assert_eq!(prefix, "_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-");
        assert_eq!(prefix.len(), 40);
    }

    #[test]
    fn a_lock_name_is_part_of_a_name_and_not_a_number() {
        for name in ["lock-", "a", "job 7", "__x__", "-", "7a"] {
            assert_eq!(checked(name.to_owned()).as_deref(), Ok(name));
        }
        for name in ["", "7", "0000000000", "a/b", "/", "a\u{0}", "\u{f000}"] {
            let refused = Err(LockError::InvalidLockName { name: name.to_owned() });
            assert_eq!(checked(name.to_owned()), refused);
        }
    }

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        for name in ["__WRIT__", "_c_a-__WRIT__0000000001", "__WRIT__x", "xI__WRIT__"] {
            assert!(contains(name.as_bytes(), "__WRIT__"), "{name}");
        }
        for name in ["", "I", "_WRIT__", "__READ__0000000001", "__WRIT_", "__WR__IT__"] {
            assert!(!contains(name.as_bytes(), "__WRIT__"), "{name}");
        }
    }

    #[test]
    fn a_name_is_what_follows_the_last_slash() {
        assert_eq!(of("/a/b/lock-0"), "lock-0");
        assert_eq!(of("/lock-0"), "lock-0");
    }

    #[test]
    fn only_the_digits_of_a_server_are_a_sequence() {
        let sequence = |name: &str| sequence(name, KeyRule::new(&["lock-"]));
        assert_eq!(sequence("_c_a-lock-0000000042"), Some(42));
        assert_eq!(sequence("lock-2147483647"), Some(2_147_483_647));
        assert_eq!(sequence("lock--2147483648"), None);
        assert_eq!(sequence("lock-x"), None);
    }
}
