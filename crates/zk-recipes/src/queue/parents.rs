//! The path a queue lives in: containers, which the server removes when the last
//! contender has been gone for a while.

use super::{passes, pause};
use zk_session::{Client, CreateMode, Error, ErrorCode, Outcome};

/// Makes `path` and what is missing above it. Nodes that are there are left as
/// they are, whatever their kind.
pub(crate) async fn make(client: &Client, path: &str) -> Result<(), Error> {
    let mut missing = vec![path];
    while let Some(path) = missing.last() {
        match client.create(path, b"", CreateMode::Container).await {
            Ok(_) => {
                missing.pop();
            }
            Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {
                missing.pop();
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => match above(path) {
                Some(parent) => missing.push(parent),
                // There is always a root; what is missing is the chroot, and a lock
                // in a place made up by a typing error would lock nothing out.
                None => return Err(error),
            },
            // Making it twice makes it once.
            Err(error) if passes(&error) || error.outcome() == Outcome::Unknown => {
                pause(&error).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The path one level up, if that is not the root.
pub(crate) fn above(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
}

/// The path of a child.
pub(crate) fn child(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
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
