//! The path of a queue. Its nodes are containers, which the server removes some time after the last
//! contender has left.

use zk_session::{Acl, Client, Error, ParentMode};

use super::attempts::Attempts;

/// Creates `path` and its missing parents as containers. Existing nodes of any type stay unchanged.
/// A missing chroot is not created: a lock below a mistyped chroot would exclude no other client.
pub(crate) async fn make(client: &Client, path: &str, acl: &[Acl]) -> Result<(), Error> {
    let mut attempts = Attempts::default();
    loop {
        match client.ensure_path_with_acl(path, ParentMode::Containers, acl).await {
            Ok(()) => return Ok(()),
            // Repeating the creation does no harm.
            Err(error) => attempts.again_if_unknown(client, error).await?,
        }
    }
}

/// Returns the parent path, unless it is the root.
pub(crate) fn above(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// Returns the path of a child.
pub(crate) fn child(parent: &str, name: &str) -> String {
    [parent.trim_end_matches('/'), "/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_path_stops_below_root() {
        assert_eq!(above("/a/b/c"), Some("/a/b"));
        assert_eq!(above("/a"), None);
        assert_eq!(child("/a", "b"), "/a/b");
        assert_eq!(child("/", "b"), "/b");
    }
}
