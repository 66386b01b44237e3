//! Part of the tree that a cache keeps: a root, a depth and a filter.

use std::fmt;
use std::sync::Arc;

use zk_recipes::session::path::parent;

/// Decides about a path below the root of a cache.
pub(super) type Filter = Box<dyn Fn(&str) -> bool + Send + Sync>;

pub(super) struct Scope {
    pub(super) root: Arc<str>,
    /// Number of levels below the root; `None` for all.
    pub(super) depth: Option<usize>,
    pub(super) filter: Option<Filter>,
}

impl Scope {
    /// Returns true if the cache keeps this node, provided that it exists.
    ///
    /// A rejected node hides everything below it.
    pub(super) fn contains(&self, path: &str) -> bool {
        let Some(level) = self.level(path) else { return false };
        let mut at = path;
        while at != &*self.root {
            if self.filter.as_ref().is_some_and(|accepts| !accepts(at)) {
                return false;
            }
            let Some(above) = parent(at) else { return false };
            at = above;
        }
        self.depth.is_none_or(|depth| level <= depth)
    }

    /// Returns true if the children of a cached node are in the scope, as far as the depth decides.
    pub(super) fn has_children_of(&self, path: &str) -> bool {
        self.level(path).is_some_and(|level| self.depth.is_none_or(|depth| level < depth))
    }

    /// Returns the number of levels from the root down to a path, or `None` if it is elsewhere.
    fn level(&self, path: &str) -> Option<usize> {
        let root = if &*self.root == "/" { "" } else { &self.root };
        match path.strip_prefix(root)? {
            "" | "/" => Some(0),
            below if below.starts_with('/') => Some(below.matches('/').count()),
            _ => None,
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut scope = f.debug_struct("Scope");
        scope.field("root", &self.root).field("depth", &self.depth);
        scope.field("has_filter", &self.filter.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(root: &str, depth: Option<usize>) -> Scope {
        Scope { root: root.into(), depth, filter: None }
    }

    #[test]
    fn scope_ends_at_component_boundary_and_depth() {
        let app = scope("/app", Some(1));
        assert!(app.contains("/app") && app.contains("/app/a"));
        assert!(!app.contains("/") && !app.contains("/apple") && !app.contains("/app/a/b"));
        assert!(app.has_children_of("/app") && !app.has_children_of("/app/a"));
        let all = scope("/", None);
        assert!(all.contains("/") && all.contains("/a/b") && all.has_children_of("/a/b"));
    }

    #[test]
    fn rejected_node_hides_everything_below_it() {
        let filter: Filter = Box::new(|path| !path.ends_with("/tmp"));
        let scope = Scope { filter: Some(filter), ..scope("/app", None) };
        assert!(scope.contains("/app/a/b"));
        assert!(!scope.contains("/app/tmp") && !scope.contains("/app/tmp/b"));
    }
}
