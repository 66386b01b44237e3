//! Access control lists, and the identities of the client.

use bytes::Bytes;
use proto::{Acl, AclReply, ClientInfo, GetAcl, OpCode, SetAcl, Stat, WhoAmI, WhoAmIReply};

use super::any;
use crate::client::Client;
use crate::client::pending::{Finish, Pending, decode, decode_read};
use crate::clock::now;

/// Access control list of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAcl {
    /// The list. Without the permission to administrate the node, a client gets `x` in place of the
    /// hash of a digest.
    pub acl: Vec<Acl>,
    /// Stat of the node. `aversion` counts the changes of the list.
    pub stat: Stat,
}

/// # Access control
///
/// ```no_run
/// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
/// use zk_session::{Acl, Perms};
///
/// client.add_auth("digest", "alice:secret").await?;
/// // Whoever sends this may do everything, everybody else may read.
/// let acl = [Acl::auth(Perms::ALL), Acl::world(Perms::READ)];
/// let before = client.get_acl("/config").await?;
/// client.set_acl("/config", &acl, Some(before.stat.aversion)).await?;
/// # Ok(())
/// # }
/// ```
impl Client {
    /// Adds credentials to the session, on this connection and all later ones.
    ///
    /// The scheme is `digest`, with `user:password`, or any other scheme that the servers support.
    /// If the server rejects the credentials, the session ends with `AuthFailed`.
    ///
    /// # Errors
    /// * [`ErrorKind::SessionEnded`](crate::ErrorKind::SessionEnded).
    /// * [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached) for too many different
    ///   credentials.
    /// * [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut); the session still presents the
    ///   credentials.
    pub fn add_auth(&self, scheme: &str, auth: impl AsRef<[u8]>) -> Pending<()> {
        let ask = self.ask(OpCode::Auth, scheme, Finish::Plain(decode));
        let auth = Bytes::copy_from_slice(auth.as_ref());
        self.submit(ask, |session, to| {
            session.add_credential(now(), scheme, auth, to).map(|()| None)
        })
    }

    /// Reads a node's access control list. It needs the permission to read or to administrate.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode` or `NoAuth`.
    pub fn get_acl(&self, path: &str) -> Pending<NodeAcl> {
        let decode =
            |result| decode_read(result).map(|AclReply { acl, stat }| NodeAcl { acl, stat });
        self.on_node(OpCode::GetAcl, path, decode, |path| GetAcl { path })
    }

    /// Replaces a node's access control list, if it has been replaced `aversion` times so far;
    /// `None` for any.
    ///
    /// `aversion` is [`Stat::aversion`], not the version of the data. No watch fires. The call
    /// needs the permission to administrate.
    ///
    /// # Errors
    /// The server can reject the request with `NoNode`, `NoAuth`, `BadVersion`, or `InvalidACL`.
    /// `InvalidACL` stands for an empty list, an unknown scheme, an id that does not fit its
    /// scheme, and for [`Acl::auth`] from a client without credentials.
    pub fn set_acl(&self, path: &str, acl: &[Acl], aversion: Option<i32>) -> Pending<Stat> {
        self.on_node(OpCode::SetAcl, path, decode, |path| SetAcl {
            path,
            acl: acl.into(),
            aversion: any(aversion),
        })
    }

    /// Returns the identities that the connected server has for this client: its address and its
    /// credentials, unsorted.
    ///
    /// Servers support this request since 3.7.0. An older server rejects it with `Unimplemented`
    /// and closes the connection, but not the session.
    ///
    /// # Errors
    /// The server can reject the request with `Unimplemented`.
    pub fn who_am_i(&self) -> Pending<Vec<ClientInfo>> {
        let decode = |result| decode_read(result).map(|WhoAmIReply { identities }| identities);
        self.request(self.ask(OpCode::WhoAmI, "/", Finish::Plain(decode)), Ok(WhoAmI))
    }
}
