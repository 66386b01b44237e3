//! Sets of strings in the order of Java's `HashMap`.
//!
//! A real server lists children in the order of a `HashSet`: unsorted, but the same every time. A
//! client that takes the list for sorted, or for the order of creation, has to fail here too.
//!
//! The order inside a bucket that Java turns into a tree (nine names in one of 64 buckets or more)
//! is not reproduced.

/// No entry.
const NONE: u32 = u32::MAX;

/// A bucket of this many entries makes Java double a table of fewer than 64 buckets.
const TREEIFY_THRESHOLD: usize = 8;
const MIN_TREEIFY_CAPACITY: usize = 64;

/// A set of strings, iterated in Java's order.
#[derive(Clone, Debug)]
pub(crate) struct JavaSet {
    /// The first entry of each bucket; empty until the first insert.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    free: u32,
    len: usize,
    first_capacity: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    hash: u32,
    next: u32,
    name: Box<str>,
}

impl JavaSet {
    /// The children of a node: `new HashSet<>(8)`.
    pub(crate) const fn of_children() -> Self {
        Self::with_capacity(8)
    }

    /// The ephemeral nodes of a session: `new HashSet<>()`.
    pub(crate) const fn of_paths() -> Self {
        Self::with_capacity(16)
    }

    const fn with_capacity(first_capacity: usize) -> Self {
        Self { heads: Vec::new(), entries: Vec::new(), free: NONE, len: 0, first_capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a name; one that is there already stays where it is.
    pub(crate) fn insert(&mut self, name: &str) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; self.first_capacity];
        }
        let hash = spread_hash(name);
        let bucket = self.bucket(hash);
        let (mut last, mut in_bucket) = (NONE, 0);
        let mut at = self.heads[bucket];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.hash == hash && *entry.name == *name {
                return;
            }
            (last, at, in_bucket) = (at, entry.next, in_bucket + 1);
        }
        let added = self.allocate(Entry { hash, next: NONE, name: name.into() });
        match last {
            NONE => self.heads[bucket] = added,
            last => self.entries[last as usize].next = added,
        }
        self.len += 1;
        if in_bucket >= TREEIFY_THRESHOLD && self.heads.len() < MIN_TREEIFY_CAPACITY {
            self.double();
        }
        if self.len > self.heads.len() / 4 * 3 {
            self.double();
        }
    }

    /// Removes a name, if it is there. The table never shrinks, as in Java.
    pub(crate) fn remove(&mut self, name: &str) {
        if self.heads.is_empty() {
            return;
        }
        let hash = spread_hash(name);
        let bucket = self.bucket(hash);
        let (mut last, mut at) = (NONE, self.heads[bucket]);
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            let next = entry.next;
            if entry.hash == hash && *entry.name == *name {
                entry.name = Box::default();
                entry.next = self.free;
                self.free = at;
                match last {
                    NONE => self.heads[bucket] = next,
                    last => self.entries[last as usize].next = next,
                }
                self.len -= 1;
                return;
            }
            (last, at) = (at, next);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut buckets = self.heads.iter();
        let mut at = NONE;
        std::iter::from_fn(move || {
            while at == NONE {
                at = *buckets.next()?;
            }
            let entry = &self.entries[at as usize];
            at = entry.next;
            Some(&*entry.name)
        })
    }

    /// The names in the order of a `clone()`, which has just as many buckets as it needs.
    pub(crate) fn iter_clone(&self) -> impl Iterator<Item = &str> {
        // tableSizeFor((int) (size / 0.75f + 1)), as up to Java 18.
        let capacity = (self.len * 4 / 3 + 1).next_power_of_two();
        let mut names: Vec<&str> = self.iter().collect();
        names.sort_by_key(|name| spread_hash(name) as usize & (capacity - 1));
        names.into_iter()
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    fn allocate(&mut self, entry: Entry) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.free = self.entries[at as usize].next;
            self.entries[at as usize] = entry;
            return at;
        }
        let at = u32::try_from(self.entries.len()).unwrap_or(NONE - 1);
        self.entries.push(entry);
        at
    }

    /// Twice as many buckets; entries keep their order relative to each other.
    fn double(&mut self) {
        let capacity = self.heads.len() * 2;
        let old = std::mem::replace(&mut self.heads, vec![NONE; capacity]);
        let mut tails = vec![NONE; capacity];
        for head in old {
            let mut at = head;
            while at != NONE {
                let entry = &mut self.entries[at as usize];
                let next = std::mem::replace(&mut entry.next, NONE);
                let bucket = entry.hash as usize & (capacity - 1);
                match tails[bucket] {
                    NONE => self.heads[bucket] = at,
                    tail => self.entries[tail as usize].next = at,
                }
                tails[bucket] = at;
                at = next;
            }
        }
    }
}

/// `String.hashCode` over UTF-16 units, with the spreading of `HashMap.hash`.
fn spread_hash(name: &str) -> u32 {
    let hash = if name.is_ascii() {
        name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    } else {
        name.encode_utf16()
            .fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
    };
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(set: &JavaSet) -> Vec<&str> {
        set.iter().collect()
    }

    #[test]
    fn names_come_in_the_order_of_their_hashes_and_not_of_insertion() {
        let mut set = JavaSet::of_children();
        for name in ["c", "a", "b", "i", "A"] {
            set.insert(name);
        }
        // 'a' is 97: bucket 1 of 8, 'A' (65) and 'i' (105) too; in a bucket, first come first.
        assert_eq!(listed(&set), ["a", "i", "A", "b", "c"]);
        set.insert("d");
        // The seventh makes it 16 buckets: 'i' is 9 now.
        set.insert("e");
        assert_eq!(listed(&set), ["a", "A", "b", "c", "d", "e", "i"]);
        set.remove("a");
        set.remove("never there");
        set.insert("a");
        assert_eq!(listed(&set), ["A", "a", "b", "c", "d", "e", "i"]);
        assert_eq!(set.len(), 7);
    }

    #[test]
    fn a_clone_has_as_many_buckets_as_it_needs() {
        let mut set = JavaSet::of_paths();
        // Buckets 1 and 4 of 16; of the clone's four 1 and 0.
        set.insert("a");
        set.insert("d");
        assert_eq!(listed(&set), ["a", "d"]);
        assert_eq!(set.iter_clone().collect::<Vec<_>>(), ["d", "a"]);
    }

    #[test]
    fn hashes_are_those_of_java() {
        // "hello".hashCode() == 99162322, and U+1F600 is two UTF-16 units: 55357 * 31 + 56832.
        assert_eq!(spread_hash("hello"), 99_162_322 ^ (99_162_322 >> 16));
        let surrogates = 55_357_u32 * 31 + 56_832;
        assert_eq!(spread_hash("\u{1f600}"), surrogates ^ (surrogates >> 16));
    }
}
