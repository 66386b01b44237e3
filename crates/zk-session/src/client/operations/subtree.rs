//! Looking at many nodes at once.

use proto::{AllChildrenNumberReply, EphemeralsReply, GetAllChildrenNumber, GetEphemerals};

use super::check_new;
use crate::client::Client;
use crate::client::pending::{Pending, decode_read, strip};

impl Client {
    /// Lists the ephemeral nodes of this session whose paths begin with `prefix`, in no
    /// order. The prefix is text: `/a` is one of `/ab`, too; `/a/` is not. `/` stands for
    /// all below this handle's chroot. Servers know this since 3.6.0; an older one
    /// declines with `Unimplemented` and closes the connection, but not the session.
    ///
    /// # Errors
    /// The server declines with `Unimplemented`; it asks for no permission.
    pub fn ephemerals(&self, prefix: &str) -> Pending<Vec<String>> {
        let ask = self.ask("getEphemerals", prefix, |result, chroot_len| {
            let EphemeralsReply { paths } = decode_read(result)?;
            Ok(paths.into_iter().map(|path| strip(path, chroot_len)).collect())
        });
        // As the path of a sequential node it may end anywhere, and the slash of the root
        // keeps the chroot's end a component's.
        let full = self.full_new(prefix, true);
        match check_new(prefix, true) {
            Ok(()) => self.request(ask, &GetEphemerals { prefix: full }),
            Err(failure) => Pending::new(ask, Err(failure)),
        }
    }

    /// Counts the children of a node, their children, and so on. The server walks through
    /// its whole tree for it. Servers know this since 3.6.0; an older one declines with
    /// `Unimplemented` and closes the connection, but not the session.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `NoAuth`, `Unimplemented`.
    pub fn all_children_number(&self, path: &str) -> Pending<i32> {
        let full = self.full(path);
        let ask = self.ask("getAllChildrenNumber", path, |result, _| {
            decode_read(result).map(|AllChildrenNumberReply { total }| total)
        });
        self.checked(ask, &GetAllChildrenNumber { path: full })
    }
}
