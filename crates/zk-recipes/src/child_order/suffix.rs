//! Fast check whether a name ends, before its digits, in a lock name. It compares one word with all
//! lock names, instead of one slice per lock name and child.

/// Length of the longest lock name that fits a word; `__READ__` has this length.
const WORD: usize = 8;

/// Lock name in the low bytes of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suffix {
    pattern: u64,
    mask: u64,
}

/// Pattern that matches no word.
const NEVER: Suffix = Suffix { pattern: 1, mask: 0 };

/// Lock names of a rule. Every lock of Curator has at most two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suffixes([Suffix; 2]);

impl Suffixes {
    /// Returns `None` if a lock name does not fit or there are more than two. The caller then
    /// compares slices.
    pub(super) const fn new(lock_names: &[&str]) -> Option<Self> {
        match lock_names {
            [one] => match suffix(one.as_bytes()) {
                Some(one) => Some(Self([one, NEVER])),
                None => None,
            },
            [one, two] => match (suffix(one.as_bytes()), suffix(two.as_bytes())) {
                (Some(one), Some(two)) => Some(Self([one, two])),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether `text` ends in one of the lock names, or `None` if `text` is shorter than a
    /// word.
    pub(super) fn end(&self, text: &[u8]) -> Option<bool> {
        let word = u64::from_be_bytes(*text.last_chunk::<WORD>()?);
        let [one, two] = self.0;
        Some((word & one.mask == one.pattern) | (word & two.mask == two.pattern))
    }
}

const fn suffix(name: &[u8]) -> Option<Suffix> {
    if name.is_empty() || name.len() > WORD {
        return None;
    }
    let (mut pattern, mut mask) = (0, 0);
    let mut rest = name;
    while let [byte, tail @ ..] = rest {
        pattern = pattern << 8 | *byte as u64;
        mask = mask << 8 | 0xff;
        rest = tail;
    }
    Some(Suffix { pattern, mask })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_or_numerous_lock_names_are_not_supported() {
        assert!(Suffixes::new(&["lock-"]).is_some());
        assert!(Suffixes::new(&["__READ__", "__WRIT__"]).is_some());
        assert!(Suffixes::new(&["too-long-"]).is_none());
        assert!(Suffixes::new(&["a", "too-long-"]).is_none());
        assert!(Suffixes::new(&[""]).is_none());
        assert!(Suffixes::new(&[]).is_none());
        assert!(Suffixes::new(&["a", "b", "c"]).is_none());
        assert_eq!(Suffixes::new(&["lock-"]).unwrap().end(b"lock-"), None);
    }

    proptest! {
        #[test]
        fn end_agrees_with_slice_comparison(
            names in prop::collection::vec("[ab]{1,8}", 1..=2),
            text in "[ab]{8,20}",
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let expected = names.iter().any(|name| text.ends_with(name));
            prop_assert_eq!(Suffixes::new(&names).unwrap().end(text.as_bytes()), Some(expected));
        }
    }
}
