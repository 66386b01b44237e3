//! The path of a queue. Its nodes are containers, which the server removes some time after the last
//! contender has left.

use zk_session::{Acl, Client, Error, ParentMode};

use crate::retry::retry_if_unknown;

/// Creates `path` and its missing parents as containers. Existing nodes of any type stay unchanged.
/// A missing chroot is not created: a lock below a mistyped chroot would exclude no other client.
pub(crate) async fn make(client: &Client, path: &str, acl: &[Acl]) -> Result<(), Error> {
    let make = || client.ensure_path_with_acl(path, ParentMode::Containers, acl);
    retry_if_unknown(client, make).await
}
