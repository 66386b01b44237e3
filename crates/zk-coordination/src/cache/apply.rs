//! Application of answers to the nodes of a cache.

use std::sync::Arc;

use zk_recipes::session::path::{child, parent};
use zk_recipes::session::{ChildList, NodeData, Stat};

use super::edit::Seen;
use super::follower::Follower;
use super::request::{Answer, Cause, Read, What};

impl Follower {
    /// Applies the answer to one read, and requests the reads that follow from it.
    pub(super) fn apply(&mut self, read: Read, answer: Answer) {
        match answer {
            Answer::Data(node) => self.apply_data(&read, node),
            Answer::Stat(stat) if self.shared.snapshot().is_unchanged(&read.path, &stat) => {
                self.go_on_below(&read, &stat, Seen::Known);
            }
            Answer::Stat(_) => self.reads.add(Read { what: What::Data, ..read }),
            Answer::Children(names) => self.apply_children(&read, &names),
            Answer::NoNode => self.remove(&[read.path]),
            Answer::NoAuth => self.apply_no_auth(&read),
        }
    }

    fn apply_data(&mut self, read: &Read, node: NodeData) {
        let stat = node.stat;
        if !self.shared.snapshot().is_same_node(&read.path, &stat) && self.must_wait(&read.path) {
            return self.wait(read);
        }
        // An edit copies the nodes that a snapshot in use shares, and this one is in use until here.
        let is_known = self.shared.snapshot().is_known(&read.path, &stat);
        let seen = if is_known {
            Seen::Known
        } else {
            self.shared.edit(|edit| edit.put(&read.path, node))
        };
        self.go_on_below(read, &stat, seen);
    }

    /// Reads the children of a node that was read, as far as the cache may not know them.
    fn go_on_below(&mut self, read: &Read, stat: &Stat, seen: Seen) {
        if !self.scope.has_children_of(&read.path) {
            return;
        }
        let count = usize::try_from(stat.num_children).unwrap_or_default();
        let cause = match (read.cause, seen) {
            // A new node may have had children before its parent was watched.
            (Cause::Walk, _) | (_, Seen::New) => Cause::Walk,
            (Cause::Event, Seen::Known) => return,
            (Cause::Check, Seen::Known) if self.has_children(&read.path, count) => return,
            (Cause::Check, Seen::Known) => Cause::Check,
        };
        if count > 0 {
            let (path, what) = (Arc::clone(&read.path), What::Children(count));
            self.reads.add(Read { path, what, cause });
        } else if read.cause != Cause::Event {
            self.remove(&self.shared.snapshot().child_paths(&read.path));
        }
    }

    /// Returns true if this many children of a node are cached.
    fn has_children(&self, path: &str, count: usize) -> bool {
        self.shared.snapshot().nodes.children(path).take(count + 1).count() == count
    }

    fn apply_children(&mut self, read: &Read, names: &ChildList) {
        let paths = names.names().map(|name| child(&read.path, &name));
        let paths = paths.filter(|path| self.scope.contains(path)).map(Arc::from);
        let mut listed: Vec<Arc<str>> = paths.collect();
        listed.sort_unstable();
        let mut gone = self.shared.snapshot().child_paths(&read.path);
        gone.retain(|path| listed.binary_search(path).is_err());
        self.remove(&gone);
        if read.cause == Cause::Check {
            let nodes = self.shared.snapshot();
            listed.retain(|path| !nodes.contains(path));
        }
        self.read_below(read, listed);
    }

    fn apply_no_auth(&mut self, read: &Read) {
        let nodes = self.shared.snapshot();
        if !nodes.contains(&read.path) && self.must_wait(&read.path) {
            return self.wait(read);
        }
        let known = nodes.child_paths(&read.path);
        let is_new = !nodes.is_unreadable(&read.path);
        drop(nodes);
        if is_new {
            self.shared.edit(|edit| edit.put_unreadable(&read.path));
            self.checks.restart_growth();
        }
        // The children are read because their parent cannot be listed. A check reads them in their turn.
        if is_new || read.cause != Cause::Check {
            self.read_below(read, known);
        }
    }

    fn remove(&self, paths: &[Arc<str>]) {
        for path in paths {
            if self.shared.snapshot().contains(path) {
                self.shared.edit(|edit| edit.remove(path));
            }
        }
    }

    fn read_below(&mut self, above: &Read, paths: Vec<Arc<str>>) {
        let nodes = self.shared.snapshot();
        for path in paths {
            let what = What::again(&nodes, &path);
            self.reads.add(Read { path, what, cause: above.cause });
        }
    }

    /// Returns true if a node that is new to the cache must not be added yet: its parent is not
    /// cached, or the cached parent may be an earlier node of the same path.
    fn must_wait(&self, path: &str) -> bool {
        let is_unknown = |parent: &str| {
            !self.shared.snapshot().contains(parent) || self.reads.is_unconfirmed(parent)
        };
        path != &*self.scope.root && parent(path).is_some_and(is_unknown)
    }

    /// Reads a node again, after its parent and after the walk. The node is new to the cache, so its
    /// children are read, too.
    fn wait(&mut self, read: &Read) {
        if let Some(parent) = parent(&read.path) {
            if !self.reads.is_pending(parent) {
                let path = Arc::from(parent);
                self.reads.add(Read { path, what: What::Data, cause: Cause::Event });
            }
        }
        self.reads.add_unconfirmed(Arc::clone(&read.path));
    }
}
