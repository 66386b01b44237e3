//! Who may do what, and who one is.

use bytes::Bytes;
use proto::{Acl, AclReply, ClientInfo, GetAcl, SetAcl, Stat, WhoAmI, WhoAmIReply};

use crate::client::Client;
use crate::client::pending::{Pending, decode, decode_read};
use crate::driver::now;

/// A node's access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAcl {
    /// The list. To who may not administrate the node, servers show `x` for the hash of
    /// a digest.
    pub acl: Vec<Acl>,
    /// The node's Stat; `aversion` counts the changes of the list.
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
    /// Adds credentials to the session, on this connection and all later ones:
    /// scheme `digest` with `user:password`, or any that the servers know. If the
    /// server does not accept them the session ends with `AuthFailed`.
    ///
    /// # Errors
    /// [`ErrorKind::SessionEnded`](crate::ErrorKind::SessionEnded);
    /// [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached) for too many different
    /// ones. After [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) they are still
    /// presented.
    pub fn add_auth(&self, scheme: &str, auth: impl Into<Bytes>) -> Pending<()> {
        let ask = self.ask("addAuth", scheme, |result, _| decode(result));
        let auth = auth.into();
        self.submit(ask, |session, to| {
            session.add_credential(now(), scheme, auth, to).map(|()| None)
        })
    }

    /// Reads a node's access control list. It takes the permission to read or to
    /// administrate.
    ///
    /// # Errors
    /// The server declines with `NoNode`, `NoAuth`.
    pub fn get_acl(&self, path: &str) -> Pending<NodeAcl> {
        let full = self.full(path);
        let ask = self.ask("getACL", path, |result, _| {
            decode_read(result).map(|AclReply { acl, stat }| NodeAcl { acl, stat })
        });
        self.checked(ask, &GetAcl { path: full })
    }

    /// Replaces a node's access control list, if it has been replaced `aversion` times
    /// so far ([`Stat::aversion`], not the version of the data); `None` for any. No watch
    /// fires. It takes the permission to administrate.
    ///
    /// # Errors
    /// The server declines with `InvalidACL` (an empty list, a scheme it does not know, an
    /// id that is none of its scheme, [`Acl::auth`] from who has proved nothing),
    /// `NoNode`, `NoAuth`, `BadVersion`.
    pub fn set_acl(&self, path: &str, acl: &[Acl], aversion: Option<i32>) -> Pending<Stat> {
        let full = self.full(path);
        let ask = self.ask("setACL", path, |result, _| decode(result));
        let (path, acl) = (full, acl.into());
        self.checked(ask, &SetAcl { path, acl, aversion: aversion.unwrap_or(-1) })
    }

    /// Asks who this client is to the server it is connected to: its address, and what
    /// it has proved, in no order. Servers know this since 3.7.0; an older one declines
    /// with `Unimplemented` and closes the connection, but not the session.
    ///
    /// # Errors
    /// The server declines with `Unimplemented`.
    pub fn who_am_i(&self) -> Pending<Vec<ClientInfo>> {
        let ask = self.ask("whoAmI on", "/", |result, _| {
            decode_read(result).map(|WhoAmIReply { identities }| identities)
        });
        self.request(ask, &WhoAmI)
    }
}
