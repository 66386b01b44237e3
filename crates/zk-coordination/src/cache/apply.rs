//! Application of answers to the nodes of a cache.

use std::sync::Arc;

use zk_recipes::session::path::{child, parent};
use zk_recipes::session::{ChildList, NodeData, Stat};

use super::edit::Seen;
use super::follower::Follower;
use super::request::{Answer, Read, What};
use crate::limits::RECHECKED_DATA_MAX;

impl Follower {
    /// Applies the answer to one read, and requests the reads that follow from it.
    pub(super) fn apply(&mut self, read: Read, answer: Answer) {
        match answer {
            Answer::Data(node) => self.apply_data(&read, node),
            Answer::Stat(stat) if self.shared.snapshot().is_unchanged(&read.path, &stat) => {
                self.go_on_below(&read, &stat);
            }
            Answer::Stat(_) => self.reads.add(Read { what: What::Data, ..read }),
            Answer::Children(names) => self.apply_children(&read, &names),
            Answer::NoNode => self.shared.edit(|edit| edit.remove(&read.path)),
            Answer::NoAuth => self.apply_no_auth(&read),
        }
    }

    fn apply_data(&mut self, read: &Read, node: NodeData) {
        let stat = node.stat;
        if !self.shared.snapshot().is_same_node(&read.path, &stat) && self.must_wait(&read.path) {
            return self.wait(read);
        }
        let seen = self.shared.edit(|edit| edit.put(&read.path, node));
        // A new node may have had children before its parent was watched.
        if seen == Seen::New || read.is_walk {
            self.go_on_below(read, &stat);
        }
    }

    /// Goes on with a walk below a node.
    fn go_on_below(&mut self, read: &Read, stat: &Stat) {
        if !self.scope.has_children_of(&read.path) {
            return;
        }
        match usize::try_from(stat.num_children) {
            Ok(count @ 1..) => {
                let what = What::Children(count);
                self.reads.add(Read { path: Arc::clone(&read.path), what, is_walk: true });
            }
            _ if read.is_walk => self.remove(&self.shared.snapshot().child_paths(&read.path)),
            _ => {}
        }
    }

    fn apply_children(&mut self, read: &Read, names: &ChildList) {
        let paths = names.names().map(|name| child(&read.path, &name));
        let paths = paths.filter(|path| self.scope.contains(path)).map(Arc::from);
        let mut listed: Vec<Arc<str>> = paths.collect();
        listed.sort_unstable();
        let mut gone = self.shared.snapshot().child_paths(&read.path);
        gone.retain(|path| listed.binary_search(path).is_err());
        self.remove(&gone);
        self.read_below(read, listed);
    }

    fn apply_no_auth(&mut self, read: &Read) {
        let nodes = self.shared.snapshot();
        if !nodes.contains(&read.path) && self.must_wait(&read.path) {
            return self.wait(read);
        }
        let known = nodes.child_paths(&read.path);
        drop(nodes);
        self.shared.edit(|edit| edit.put_unreadable(&read.path));
        // Their parent cannot be listed.
        self.read_below(read, known);
    }

    fn remove(&self, paths: &[Arc<str>]) {
        paths.iter().for_each(|path| self.shared.edit(|edit| edit.remove(path)));
    }

    fn read_below(&mut self, above: &Read, paths: Vec<Arc<str>>) {
        let nodes = self.shared.snapshot();
        for path in paths {
            let is_large = nodes.get(&path).is_some_and(|it| it.data().len() > RECHECKED_DATA_MAX);
            let what = if is_large { What::Stat } else { What::Data };
            self.reads.add(Read { path, what, is_walk: above.is_walk });
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
                self.reads.add(Read { path, what: What::Data, is_walk: false });
            }
        }
        self.reads.add_unconfirmed(Arc::clone(&read.path));
    }
}
