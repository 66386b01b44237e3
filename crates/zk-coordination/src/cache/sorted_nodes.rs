//! The nodes of a snapshot, sorted by path, in chunks that snapshots share.
//!
//! A clone copies one pointer for each chunk. A change of a clone copies one chunk. A change while a
//! snapshot is in use therefore costs about the square root of the number of nodes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::cached_node::CachedNode;
use crate::limits::{CHUNK_LEN_MAX, NODE_BYTES};

/// Place of a node in a snapshot.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Node(Arc<CachedNode>),
    /// The node exists, and the client may not read it.
    Unreadable(Arc<str>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct SortedNodes {
    /// Each chunk has at least one node.
    chunks: Vec<Arc<Vec<Slot>>>,
    len: usize,
    bytes: usize,
    /// Number of unreadable nodes.
    unreadable: usize,
}

/// Position of a slot: its chunk, and its index there.
type Position = (usize, usize);

/// Compares paths so that a node is directly before everything below it.
pub(super) fn path_order(a: &str, b: &str) -> Ordering {
    let rank = |byte| if byte == b'/' { 0 } else { byte };
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

pub(super) fn is_below(path: &str, above: &str) -> bool {
    let above = if above == "/" { "" } else { above };
    path.len() > 1 && path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

impl SortedNodes {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn unreadable(&self) -> usize {
        self.unreadable
    }

    pub(super) fn get(&self, path: &str) -> Option<&Slot> {
        let at = self.seek(|one| path_order(one, path).is_lt());
        self.at(at).filter(|slot| &**slot.path() == path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Iterates over the nodes behind a path, in the order of the paths.
    pub(super) fn after(&self, path: &str) -> impl Iterator<Item = &Slot> {
        let (first, index) = self.seek(|one| path_order(one, path).is_le());
        let chunks = self.chunks.iter().skip(first).enumerate();
        chunks.flat_map(move |(nth, chunk)| chunk.iter().skip(if nth == 0 { index } else { 0 }))
    }

    pub(super) fn subtree<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Slot> {
        let (first, index) = self.seek(|one| path_order(one, path).is_lt());
        let chunks = self.chunks.iter().skip(first).enumerate();
        let slots = chunks.flat_map(move |(nth, chunk)| {
            let skipped = if nth == 0 { index } else { 0 };
            chunk.iter().skip(skipped)
        });
        slots.take_while(move |slot| &**slot.path() == path || is_below(slot.path(), path))
    }

    pub(super) fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Slot> {
        let mut at = self.seek(|one| path_order(one, path).is_le());
        std::iter::from_fn(move || {
            let child = self.at(at).filter(|slot| is_below(slot.path(), path))?;
            at = self.after_subtree(at, child.path());
            Some(child)
        })
    }

    /// Inserts a slot, and returns the previous one of the path.
    pub(super) fn insert(&mut self, slot: Slot) -> Option<Slot> {
        let (mut chunk, mut index) = self.seek(|one| path_order(one, slot.path()).is_lt());
        self.bytes += slot.bytes();
        self.unreadable += slot.unreadable();
        if let Some(old) = self.at((chunk, index)).filter(|old| old.path() == slot.path()) {
            let (bytes, unreadable) = (old.bytes(), old.unreadable());
            self.bytes -= bytes;
            self.unreadable -= unreadable;
            let slots = Arc::make_mut(&mut self.chunks[chunk]);
            return Some(std::mem::replace(&mut slots[index], slot));
        }
        self.len += 1;
        if chunk == self.chunks.len() {
            match self.chunks.last() {
                Some(last) => (chunk, index) = (chunk - 1, last.len()),
                None => self.chunks.push(Arc::default()),
            }
        }
        let slots = Arc::make_mut(&mut self.chunks[chunk]);
        slots.insert(index, slot);
        if slots.len() > CHUNK_LEN_MAX {
            let rest = slots.split_off(CHUNK_LEN_MAX / 2);
            self.chunks.insert(chunk + 1, Arc::new(rest));
        }
        None
    }

    pub(super) fn remove(&mut self, path: &str) -> Option<Slot> {
        let (chunk, index) = self.seek(|one| path_order(one, path).is_lt());
        self.at((chunk, index)).filter(|slot| &**slot.path() == path)?;
        let slots = Arc::make_mut(&mut self.chunks[chunk]);
        let removed = slots.remove(index);
        self.len -= 1;
        self.bytes -= removed.bytes();
        self.unreadable -= removed.unreadable();
        self.merge(chunk);
        Some(removed)
    }

    /// Joins a chunk that has lost a slot with the next one if both are short.
    fn merge(&mut self, chunk: usize) {
        let left = self.chunks[chunk].len();
        if left == 0 {
            self.chunks.remove(chunk);
        } else if self
            .chunks
            .get(chunk + 1)
            .is_some_and(|next| left + next.len() <= CHUNK_LEN_MAX / 2)
        {
            let next = self.chunks.remove(chunk + 1);
            Arc::make_mut(&mut self.chunks[chunk]).extend(next.iter().cloned());
        }
    }

    /// Returns the position of the first slot behind those that are `before`.
    fn seek(&self, before: impl Fn(&str) -> bool) -> Position {
        let is_before =
            |chunk: &Arc<Vec<Slot>>| chunk.last().is_some_and(|slot| before(slot.path()));
        let chunk = self.chunks.partition_point(is_before);
        let slots = self.chunks.get(chunk).map_or(&[][..], |chunk| chunk);
        (chunk, slots.partition_point(|slot| before(slot.path())))
    }

    fn at(&self, (chunk, index): Position) -> Option<&Slot> {
        self.chunks.get(chunk)?.get(index)
    }

    /// Returns the position behind a node, which is at `at`, and everything below it.
    fn after_subtree(&self, (chunk, index): Position, path: &str) -> Position {
        let is_last = self.chunks.get(chunk).is_none_or(|slots| index + 1 == slots.len());
        let next = if is_last { (chunk + 1, 0) } else { (chunk, index + 1) };
        if self.at(next).is_some_and(|slot| is_below(slot.path(), path)) {
            self.seek(|one| path_order(one, path).is_le() || is_below(one, path))
        } else {
            // most nodes have no children
            next
        }
    }
}

impl Slot {
    pub(super) fn path(&self) -> &Arc<str> {
        match self {
            Self::Node(node) => node.shared_path(),
            Self::Unreadable(path) => path,
        }
    }

    pub(super) fn node(&self) -> Option<&Arc<CachedNode>> {
        match self {
            Self::Node(node) => Some(node),
            Self::Unreadable(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Node(node) => node.bytes(),
            Self::Unreadable(path) => NODE_BYTES + path.len(),
        }
    }

    fn unreadable(&self) -> usize {
        usize::from(self.node().is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zk_testing::Rng;

    use super::*;

    fn slot(path: &str) -> Slot {
        Slot::Unreadable(path.into())
    }

    fn paths<'a>(slots: impl Iterator<Item = &'a Slot>) -> Vec<&'a str> {
        slots.map(|slot| &**slot.path()).collect()
    }

    #[test]
    fn nodes_precede_what_is_below_them() {
        let mut nodes = SortedNodes::default();
        for path in ["/a-b", "/a/b/c", "/", "/a", "/ab", "/a/c", "/a/b"] {
            assert!(nodes.insert(slot(path)).is_none());
        }
        let sorted = ["/", "/a", "/a/b", "/a/b/c", "/a/c", "/a-b", "/ab"];
        assert_eq!(paths(nodes.iter()), sorted);
        assert_eq!(paths(nodes.children("/a")), ["/a/b", "/a/c"]);
        assert_eq!(paths(nodes.children("/")), ["/a", "/a-b", "/ab"]);
        assert_eq!(paths(nodes.subtree("/a")), ["/a", "/a/b", "/a/b/c", "/a/c"]);
        assert_eq!(paths(nodes.children("/a/b/c")), [""; 0]);
        assert!(nodes.insert(slot("/a")).is_some() && nodes.len() == 7);
    }

    /// Compares the chunks with a plain set, and a clone with the state at its creation.
    #[test]
    fn random_insertions_and_removals_match_a_plain_set() {
        let mut rng = Rng::new(7);
        let (mut nodes, mut plain) = (SortedNodes::default(), BTreeSet::new());
        let mut clones = Vec::new();
        for step in 0..20_000_u64 {
            let path = format!("/{}/{}", rng.below(4), rng.below(2_000));
            let is_growing = step / 4_000 % 2 == 0;
            if rng.chance(if is_growing { 0.7 } else { 0.3 }) {
                assert_eq!(nodes.insert(slot(&path)).is_none(), plain.insert(path));
            } else {
                assert_eq!(nodes.remove(&path).is_some(), plain.remove(&path));
            }
            if step % 5_000 == 0 {
                clones.push((nodes.clone(), plain.clone()));
            }
        }
        clones.push((nodes, plain));
        for (nodes, plain) in clones {
            assert_eq!((nodes.len(), nodes.unreadable()), (plain.len(), plain.len()));
            assert_eq!(nodes.bytes(), plain.iter().map(|path| path.len() + NODE_BYTES).sum());
            let mut sorted: Vec<&str> = plain.iter().map(String::as_str).collect();
            sorted.sort_by(|a, b| path_order(a, b));
            assert_eq!(paths(nodes.iter()), sorted);
            let behind = |path| sorted.partition_point(|one| path_order(one, path).is_le());
            for path in ["/", "/1/999", "/2/1", "/3/1999", "/4"] {
                assert_eq!(paths(nodes.after(path)), sorted[behind(path)..]);
            }
            assert!(nodes.chunks.iter().all(|chunk| (1..=CHUNK_LEN_MAX).contains(&chunk.len())));
        }
    }
}
