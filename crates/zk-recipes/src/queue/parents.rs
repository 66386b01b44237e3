//! The path a queue lives in: containers, which the server removes when the last
//! contender has been gone for a while.

use zk_session::{Acl, Client, Error, Parents};

use super::attempts::Attempts;

/// Makes `path` and what is missing above it. Nodes that are there are left as
/// they are, whatever their kind. A chroot that is missing is not made: a lock in a place
/// made up by a typing error would lock nothing out.
pub(crate) async fn make(client: &Client, path: &str, acl: &[Acl]) -> Result<(), Error> {
    let mut attempts = Attempts::default();
    loop {
        match client.make_path_with_acl(path, Parents::Containers, acl).await {
            Ok(()) => return Ok(()),
            // Making it twice makes it once.
            Err(error) => attempts.again_if_unknown(client, error).await?,
        }
    }
}

/// The path one level up, if that is not the root.
pub(crate) fn above(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// The path of a child.
pub(crate) fn child(parent: &str, name: &str) -> String {
    [parent.trim_end_matches('/'), "/", name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_up_to_below_the_root() {
        assert_eq!(above("/a/b/c"), Some("/a/b"));
        assert_eq!(above("/a"), None);
        assert_eq!(child("/a", "b"), "/a/b");
        assert_eq!(child("/", "b"), "/b");
    }
}
