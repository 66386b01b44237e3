//! The order of contenders: who is ahead of whom among the children of a lock, without copying a
//! name.
//!
//! Curator orders children by the text that follows the lock name in theirs, which normally is a
//! sequence number of ten digits. [`KeyRule`] says which text that is, [`ChildList::rank`] finds one
//! contender's place in a single pass over the frame, and [`ChildList::sorted`] puts all of them in
//! order as one number each.
//!
//! ```
//! use zk_proto::{ChildList, KeyRule};
//!
//! const MUTEX: KeyRule<'_> = KeyRule::new(&["lock-"]);
//! let names = ["_c_b-lock-0000000002", "_c_a-lock-0000000010", "_c_c-lock-0000000001"];
//! let list = ChildList::from_names(names);
//!
//! let rank = list.rank(b"_c_a-lock-0000000010", MUTEX).unwrap();
//! assert_eq!(rank.position, 2);
//! assert_eq!(rank.predecessor, Some(&b"_c_b-lock-0000000002"[..]));
//!
//! let sorted = list.sorted(MUTEX);
//! let last = sorted.iter().last().unwrap();
//! assert_eq!(last, b"_c_a-lock-0000000010");
//! ```
//!
//! [`ChildList::rank`]: crate::ChildList::rank
//! [`ChildList::sorted`]: crate::ChildList::sorted

mod digits;
mod nearest;
mod rank;
mod sort;
mod suffix;

use std::cmp::Ordering;

pub use rank::Rank;
pub use sort::SortedChildren;

use digits::{DIGITS, parse, write};
use suffix::Suffixes;

/// Whether a [`KeyRule`] can be made of a lock name: it has something that is not a digit.
#[must_use]
pub const fn is_lock_name(name: &str) -> bool {
    let mut at = 0;
    while at < name.len() {
        if !name.as_bytes()[at].is_ascii_digit() {
            return true;
        }
        at += 1;
    }
    false
}

/// What the names of nodes under Curator's protection start with.
const PROTECTED: &[u8] = b"_c_";

/// Which part of a child's name decides its place: what follows the last occurrence of each of
/// these lock names, one after the other; the whole name where none occurs.
///
/// A mutex has one lock name, `lock-`. A read-write lock has two of the same length, `__READ__` and
/// `__WRIT__`, and both of its sides use both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRule<'a> {
    lock_names: LockNames<'a>,
    suffixes: Option<Suffixes>,
}

/// One is kept by itself, so that a rule can be made of a text that is not a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockNames<'a> {
    One(&'a str),
    All(&'a [&'a str]),
}

impl<'a> KeyRule<'a> {
    /// A rule. Of several lock names, none may hold another or a dash.
    ///
    /// # Panics
    /// If a lock name is empty, or nothing but digits: where it ends and the number begins could
    /// not be told. For a constant, that is when it is compiled.
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

    /// A rule of one lock name.
    ///
    /// # Panics
    /// As [`new`](Self::new); see [`is_lock_name`].
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

    /// The key of a name.
    #[must_use]
    pub fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        self.find(name).0
    }

    /// The key of a name, and where in it the key begins, if that is text.
    fn find<'n>(&self, name: &'n [u8]) -> (Key<'n>, usize) {
        if let Some(number) = self.number(name) {
            return (Key::Number(number), 0);
        }
        let start = self.text_start(name);
        (Key::of_text(name.get(start..).unwrap_or_default()), start)
    }

    /// Whether the name can be that of a contender: it holds a lock name, or is protected as
    /// Curator's nodes are.
    ///
    /// Curator itself counts every child, so that a foreign `0` blocks its locks for ever
    /// (CURATOR-43). Leaving out what no contender can bear as its name is as safe.
    #[must_use]
    pub fn is_contender(&self, name: &[u8]) -> bool {
        self.number(name).is_some()
            || name.starts_with(PROTECTED)
            || self.lock_names().iter().any(|lock_name| last(name, lock_name.as_bytes()).is_some())
    }

    /// The number of a name that ends in a lock name and ten digits, as nearly all do. No lock name
    /// can occur after that one, so what is left is the key.
    fn number(&self, name: &[u8]) -> Option<u32> {
        let (front, digits) = name.split_last_chunk::<DIGITS>()?;
        let named = match self.suffixes.and_then(|suffixes| suffixes.end(front)) {
            Some(named) => named,
            None => self.lock_names().iter().any(|name| front.ends_with(name.as_bytes())),
        };
        if named && self.stands_apart(front) { parse(digits) } else { None }
    }

    /// Whether no other lock name runs into the one that `front` ends in, as in `__READ__WRIT__`,
    /// where Curator finds the first of them and so not the second. In the names that it makes itself
    /// there is a dash before the lock name, or nothing; any others are looked at the long way.
    fn stands_apart(&self, front: &[u8]) -> bool {
        let several = self.lock_names().len() > 1;
        !several
            || self.lock_names().iter().all(|lock_name| {
                let before = front.len().checked_sub(lock_name.len() + 1);
                before.is_none_or(|at| front.get(at) == Some(&b'-'))
            })
    }

    /// Where the text that decides begins, the long way. It goes on to the end of the name.
    fn text_start(&self, name: &[u8]) -> usize {
        self.lock_names().iter().fold(0, |start, lock_name| {
            let rest = name.get(start..).unwrap_or_default();
            last(rest, lock_name.as_bytes()).map_or(start, |at| start + at + lock_name.len())
        })
    }
}

/// Where the last occurrence begins. Names may be as long as a frame, so only the places where the
/// first byte stands are compared.
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

/// What decides a child's place. Ordered as Curator orders: as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key<'a> {
    /// Ten digits, as a server appends them. Ten digits are in the order of their numbers.
    Number(u32),
    /// Anything else: names of foreign nodes, and the numbers of a server that has counted beyond
    /// 31 bits, such as `-000000005`.
    Text(&'a [u8]),
}

impl<'a> Key<'a> {
    fn of_text(text: &'a [u8]) -> Self {
        match text.first_chunk::<DIGITS>().filter(|_| text.len() == DIGITS).and_then(parse) {
            Some(number) => Self::Number(number),
            None => Self::Text(text),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Key::Number(a), Key::Number(b)) => a.cmp(&b),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (Key::Number(a), Key::Text(b)) => write(a)[..].cmp(b),
            (Key::Text(a), Key::Number(b)) => a.cmp(&write(b)[..]),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
