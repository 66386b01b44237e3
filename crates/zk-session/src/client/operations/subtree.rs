//! Requests about many nodes.

use proto::{AllChildrenNumberReply, EphemeralsReply, GetAllChildrenNumber, GetEphemerals, OpCode};

use crate::client::Client;
use crate::client::chroot::strip;
use crate::client::pending::{Finish, Pending, decode_read};

/// # Many nodes at once
impl Client {
    /// Lists the ephemeral nodes of this session whose paths start with `prefix`, unsorted.
    ///
    /// The prefix is compared as text: `/a` matches `/ab`, and `/a/` does not. `/` matches
    /// everything below this handle's chroot. Servers support this request since 3.6.0. An older
    /// server rejects it with `Unimplemented` and closes the connection, but not the session.
    ///
    /// # Errors
    /// The server can reject the request with `Unimplemented`. It requires no permission.
    pub fn ephemerals(&self, prefix: &str) -> Pending<Vec<String>> {
        let decode = |result: Result<_, _>, prefix: &str, chroot_len| {
            let EphemeralsReply { paths } = decode_read(result)?;
            let paths = paths.into_iter().map(|path| strip(path, chroot_len));
            // For a server, a slash and spaces are the prefix of all paths.
            Ok(paths.filter(|path| path.starts_with(prefix)).collect())
        };
        // The prefix may end anywhere, like the path of a sequential node. The slash of the root
        // keeps the end of the chroot at a component boundary.
        let request = self.checked_sequential(prefix).map(|prefix| GetEphemerals { prefix });
        self.request(self.ask(OpCode::GetEphemerals, prefix, Finish::OfPath(decode)), request)
    }

    /// Returns the number of all descendants of a node.
    ///
    /// The server walks through its whole tree. Servers support this request since 3.6.0. An older
    /// server rejects it with `Unimplemented` and closes the connection, but not the session.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `NoAuth` or `Unimplemented`.
    pub fn all_children_number(&self, path: &str) -> Pending<i32> {
        let decode = |result| decode_read(result).map(|AllChildrenNumberReply { total }| total);
        self.on_node(OpCode::GetAllChildrenNumber, path, decode, |path| GetAllChildrenNumber {
            path,
        })
    }
}
