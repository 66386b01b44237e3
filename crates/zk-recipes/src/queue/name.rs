//! The names of lock nodes: `_c_<id>-<lock name><sequence>`. In Curator's names the id is a UUID.

use zk_session::path::{protection_prefix, random_short_id};
use zk_session::{Client, validate_path};

use crate::child_order::{DIGITS, SequenceKey, SequenceOrder, is_lock_name};
use crate::error::LockError;
use crate::recipe::WRITE;

/// Returns the start of the name of a new node, `_c_<id>-`.
///
/// The id is shorter than Curator's: in a long queue the server's work is mostly its lists, and they
/// consist of names. No contender depends on the id of another one. Curator orders by the text after
/// the lock name, and searches for its own ids only.
pub(crate) fn new_protection(client: &Client) -> Box<str> {
    protection_prefix(&random_short_id(client)).into()
}

/// Length of the name of a reader's or a writer's node.
pub(crate) const READ_WRITE_LEN: usize = "_c_0b7f36dc3cc24b57-".len() + WRITE.len() + DIGITS;

/// Returns the lock name if node names may contain it before the sequence number.
pub(crate) fn checked(lock_name: String) -> Result<String, LockError> {
    let may_stand_in_a_name = || validate_path(&format!("/{lock_name}0")).is_ok();
    match is_lock_name(&lock_name) && !lock_name.contains('/') && may_stand_in_a_name() {
        true => Ok(lock_name),
        false => Err(LockError::InvalidLockName { name: lock_name }),
    }
}

/// Returns the sequence number at the end of a node's name. Returns `None` for the negative numbers
/// that a server writes after it has counted beyond 31 bits.
pub(crate) fn sequence(name: &[u8], rule: SequenceOrder<'_>) -> Option<u32> {
    match rule.key(name) {
        SequenceKey::Number(number) => Some(number),
        SequenceKey::Text(_) => None,
    }
}

/// Returns true if the name contains the text at any position.
pub(crate) fn contains(name: &[u8], text: &str) -> bool {
    // The middle byte of `__WRIT__` occurs in no id and not in `__READ__`. So one fast search
    // rejects most names.
    let middle = text.as_bytes().get(text.len() / 2);
    middle.is_none_or(|middle| name.contains(middle))
        && name.windows(text.len()).any(|part| part == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_name_rejects_digits_slashes_and_control_characters() {
        for name in ["lock-", "a", "job 7", "__x__", "-", "7a"] {
            assert_eq!(checked(name.to_owned()).as_deref(), Ok(name));
        }
        for name in ["", "7", "0000000000", "a/b", "/", "a\u{0}", "\u{f000}"] {
            let refused = Err(LockError::InvalidLockName { name: name.to_owned() });
            assert_eq!(checked(name.to_owned()), refused);
        }
    }

    #[test]
    fn contains_finds_text_at_any_position() {
        for name in ["__WRIT__", "_c_a-__WRIT__0000000001", "__WRIT__x", "xI__WRIT__"] {
            assert!(contains(name.as_bytes(), "__WRIT__"), "{name}");
        }
        for name in ["", "I", "_WRIT__", "__READ__0000000001", "__WRIT_", "__WR__IT__"] {
            assert!(!contains(name.as_bytes(), "__WRIT__"), "{name}");
        }
    }

    #[test]
    fn sequence_rejects_negative_and_non_numeric_suffixes() {
        let sequence = |name: &str| sequence(name.as_bytes(), SequenceOrder::new(&["lock-"]));
        assert_eq!(sequence("_c_a-lock-0000000042"), Some(42));
        assert_eq!(sequence("lock-2147483647"), Some(2_147_483_647));
        assert_eq!(sequence("lock--2147483648"), None);
        assert_eq!(sequence("lock-x"), None);
    }
}
