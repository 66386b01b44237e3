//! Curator's order of the children of a lock, computed without copying a name.
//!
//! Curator orders children by the part of the name after the lock name, normally a sequence number
//! of ten digits. A [`SequenceOrder`] extracts that part. Its method [`rank`](SequenceOrder::rank)
//! finds one contender's position in a single pass over the list. [`sort`](SequenceOrder::sort)
//! sorts all children, as one number each.
//!
//! ```
//! use zk_recipes::child_order::SequenceOrder;
//! use zk_recipes::session::ChildList;
//!
//! const MUTEX: SequenceOrder<'_> = SequenceOrder::new(&["lock-"]);
//! let names = ["_c_b-lock-0000000002", "_c_a-lock-0000000010", "_c_c-lock-0000000001"];
//! let list = ChildList::from_names(names);
//!
//! let rank = MUTEX.rank(&list, b"_c_a-lock-0000000010").unwrap();
//! assert_eq!(rank.position, 2);
//! assert_eq!(rank.predecessor, Some(&b"_c_b-lock-0000000002"[..]));
//!
//! let sorted = MUTEX.sort(&list);
//! let last = sorted.iter().last().unwrap();
//! assert_eq!(last, b"_c_a-lock-0000000010");
//! ```

mod key;
mod rank;
mod sort;

use zk_session::path::PROTECTION;

pub(crate) use self::key::DIGITS;
pub use self::key::SequenceKey;
use self::key::parse;
pub use self::rank::Rank;
pub use self::sort::SortedChildren;

/// Returns whether a [`SequenceOrder`] accepts this lock name: it must contain a character that is
/// not a digit.
pub(crate) const fn is_lock_name(name: &str) -> bool {
    let mut at = 0;
    while at < name.len() {
        if !name.as_bytes()[at].is_ascii_digit() {
            return true;
        }
        at += 1;
    }
    false
}

/// Rule that extracts the sort key from a child's name.
///
/// The key is the part after the last occurrence of a lock name. With several lock names, each one
/// is searched for in the rest after the previous one. If no lock name occurs, the key is the whole
/// name.
///
/// A mutex has one lock name, `lock-`. A read-write lock has two of the same length, `__READ__` and
/// `__WRIT__`, and both of its sides use both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceOrder<'a> {
    lock_names: LockNames<'a>,
    suffixes: Option<Suffixes>,
}

/// Lock names of a rule. A single name is stored directly, so that it need not be a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockNames<'a> {
    One(&'a str),
    All(&'a [&'a str]),
}

impl<'a> SequenceOrder<'a> {
    /// Creates a rule. No lock name may contain another one. If there are several, none may contain
    /// a dash.
    ///
    /// # Panics
    /// If a lock name is empty or consists of digits only. The end of such a lock name and the
    /// start of the sequence number would be ambiguous. In a constant, the panic is a compile
    /// error.
    #[must_use]
    pub const fn new(lock_names: &'a [&'a str]) -> Self {
        let mut at = 0;
        while at < lock_names.len() {
            assert!(is_lock_name(lock_names[at]), "a lock name holds something beside digits");
            at += 1;
        }
        let suffixes = Suffixes::new(lock_names);
        match lock_names {
            [one] => Self { lock_names: LockNames::One(one), suffixes },
            _ => Self { lock_names: LockNames::All(lock_names), suffixes },
        }
    }

    /// Creates a rule with one lock name.
    ///
    /// # Panics
    /// Like [`new`](Self::new).
    #[must_use]
    pub const fn named(lock_name: &'a str) -> Self {
        assert!(is_lock_name(lock_name), "a lock name holds something beside digits");
        let suffixes = Suffixes::new(&[lock_name]);
        Self { lock_names: LockNames::One(lock_name), suffixes }
    }

    fn lock_names(&self) -> &[&'a str] {
        match &self.lock_names {
            LockNames::One(name) => std::slice::from_ref(name),
            LockNames::All(names) => names,
        }
    }

    /// Returns the sort key of a name.
    #[must_use]
    pub fn key<'n>(&self, name: &'n [u8]) -> SequenceKey<'n> {
        self.find(name).0
    }

    /// Returns the sort key of a name and, for a text key, its offset in the name.
    fn find<'n>(&self, name: &'n [u8]) -> (SequenceKey<'n>, usize) {
        if let Some(number) = self.number(name) {
            return (SequenceKey::Number(number), 0);
        }
        let start = self.text_start(name);
        (SequenceKey::of_text(name.get(start..).unwrap_or_default()), start)
    }

    /// Returns whether the name can belong to a contender: it contains a lock name, or has the
    /// prefix of Curator's protection.
    ///
    /// Curator itself counts every child, so a foreign `0` blocks its locks forever (CURATOR-43).
    /// Skipping a name that no contender can have is equally safe.
    #[must_use]
    pub fn is_contender(&self, name: &[u8]) -> bool {
        self.number(name).is_some()
            || name.starts_with(PROTECTION.as_bytes())
            || self.lock_names().iter().any(|lock_name| last(name, lock_name.as_bytes()).is_some())
    }

    /// Returns the sequence number of a name that ends in a lock name and ten digits, as nearly all
    /// names do. No lock name can occur after the digits, so the number is the key.
    ///
    /// Inlined into the loops over all children, where a call for each name would take a sixth more
    /// instructions.
    #[inline(always)]
    fn number(&self, name: &[u8]) -> Option<u32> {
        let (front, digits) = name.split_last_chunk::<DIGITS>()?;
        let named = match self.suffixes.and_then(|suffixes| suffixes.end(front)) {
            Some(named) => named,
            None => self.lock_names().iter().any(|name| front.ends_with(name.as_bytes())),
        };
        if named && self.stands_apart(front) { parse(digits) } else { None }
    }

    /// Returns whether no other lock name overlaps the one that `front` ends in.
    ///
    /// In `__READ__WRIT__`, Curator finds the first lock name and so misses the second. In names
    /// that Curator creates, the lock name follows a dash or starts the name. Any other name takes
    /// the slow path,
    /// [`text_start`](Self::text_start).
    fn stands_apart(&self, front: &[u8]) -> bool {
        let several = self.lock_names().len() > 1;
        !several
            || self.lock_names().iter().all(|lock_name| {
                let before = front.len().checked_sub(lock_name.len() + 1);
                before.is_none_or(|at| front.get(at) == Some(&b'-'))
            })
    }

    /// Returns the offset of a text key, which extends to the end of the name.
    fn text_start(&self, name: &[u8]) -> usize {
        self.lock_names().iter().fold(0, |start, lock_name| {
            let rest = name.get(start..).unwrap_or_default();
            last(rest, lock_name.as_bytes()).map_or(start, |at| start + at + lock_name.len())
        })
    }
}

/// Returns the offset of the last occurrence. Names may be as long as a frame, so only the
/// positions of the first byte are compared.
fn last(name: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted.first()?;
    let mut ends = name.len().checked_sub(wanted.len())? + 1;
    loop {
        let at = name.get(..ends)?.iter().rposition(|byte| byte == first)?;
        if name.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        ends = at;
    }
}

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

/// Fast check whether a name ends, before its digits, in a lock name. It compares one word with all lock
/// names, instead of one slice per lock name and child. Every lock of Curator has at most two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suffixes([Suffix; 2]);

impl Suffixes {
    /// Returns `None` if a lock name does not fit or there are more than two. The caller then
    /// compares slices.
    const fn new(lock_names: &[&str]) -> Option<Self> {
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
    fn end(&self, text: &[u8]) -> Option<bool> {
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
