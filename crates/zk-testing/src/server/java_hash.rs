//! Sets of strings in the iteration order of Java's `HashMap`.
//!
//! A real server lists children in the order of a `HashSet`: unsorted, but the same every time. A
//! client that assumes a sorted list, or the order of creation, must fail here too.
//!
//! Java turns a bucket into a tree once it has nine names and the table has 64 buckets or more. The
//! order inside such a bucket is not reproduced.

/// Index of no entry.
const NONE: u32 = u32::MAX;

/// Entries in a bucket at which Java doubles a table of fewer than 64 buckets.
const TREEIFY_THRESHOLD: usize = 8;
const MIN_TREEIFY_CAPACITY: usize = 64;

/// Set of strings, iterated in Java's order.
#[derive(Clone, Debug)]
pub(crate) struct JavaSet {
    /// First entry of each bucket; empty until the first insert.
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
    /// Creates the set for the children of a node: `new HashSet<>(8)`.
    pub(crate) const fn of_children() -> Self {
        Self::with_capacity(8)
    }

    /// Creates the set for the ephemeral nodes of a session: `new HashSet<>()`.
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

    /// Adds a name. An existing name keeps its position.
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

    /// Removes a name if it exists. As in Java, the table never shrinks.
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

    /// Returns the names in the order of a `clone()`. Its table has the smallest sufficient size.
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

    /// Doubles the number of buckets. Entries keep their order relative to each other.
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

/// Returns `String.hashCode` over UTF-16 units, with the spreading of `HashMap.hash`.
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
    fn set_iterates_in_hash_order_not_insertion_order() {
        let mut set = JavaSet::of_children();
        for name in ["c", "a", "b", "i", "A"] {
            set.insert(name);
        }
        // 'a' (97), 'A' (65) and 'i' (105) share bucket 1 of 8. A bucket keeps the order of
        // insertion.
        assert_eq!(listed(&set), ["a", "i", "A", "b", "c"]);
        set.insert("d");
        // The seventh name doubles the table to 16 buckets; 'i' moves to bucket 9.
        set.insert("e");
        assert_eq!(listed(&set), ["a", "A", "b", "c", "d", "e", "i"]);
        set.remove("a");
        set.remove("never there");
        set.insert("a");
        assert_eq!(listed(&set), ["A", "a", "b", "c", "d", "e", "i"]);
        assert_eq!(set.len(), 7);
    }

    #[test]
    fn clone_iterates_with_smallest_sufficient_table() {
        let mut set = JavaSet::of_paths();
        // The names are in buckets 1 and 4 of 16, and in buckets 1 and 0 of the clone's four.
        set.insert("a");
        set.insert("d");
        assert_eq!(listed(&set), ["a", "d"]);
        assert_eq!(set.iter_clone().collect::<Vec<_>>(), ["d", "a"]);
    }

    #[test]
    fn spread_hash_matches_java() {
        // "hello".hashCode() == 99162322, and U+1F600 is two UTF-16 units: 55357 * 31 + 56832.
        assert_eq!(spread_hash("hello"), 99_162_322 ^ (99_162_322 >> 16));
        let surrogates = 55_357_u32 * 31 + 56_832;
        assert_eq!(spread_hash("\u{1f600}"), surrogates ^ (surrogates >> 16));
    }
}
