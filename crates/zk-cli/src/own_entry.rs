//! The entry with which `zk import` opens the lists of parents to itself.

use zk_recipes::session::{Acl, Error, ErrorCode, Perms};

use crate::one_time_identity::OneTimeIdentity;
use crate::sessions::Session;

/// An entry that lets this client create the children of a node, and set its list.
#[derive(Clone)]
pub(crate) struct OwnEntry {
    /// The entry as it is sent to the server.
    pub(crate) entry: Acl,
    /// Scheme and user of the entries that the server stores for it.
    stored: Vec<(String, String)>,
}

impl OwnEntry {
    /// Returns the entry for the identities that the client has presented, but for that of its address.
    /// `None` if there are none.
    pub(crate) async fn of(
        Session { client, retry, context, .. }: &Session,
        one_time: Option<&OneTimeIdentity>,
    ) -> Result<Option<Self>, Error> {
        let lost = client.connections_lost();
        let identities = match retry.run(|client| client.who_am_i()).await {
            // A server before 3.7.
            Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
                // It closes the connection soon after this answer. The outcome of a write on that
                // connection would be unknown, so reads are sent until the next one is open.
                for _ in 0..READS_MAX {
                    retry.run(|client| client.exists("/")).await?;
                    if client.connections_lost() > lost {
                        break;
                    }
                }
                let of_user = context.identity.is_any.then(|| Self::stored_as(Vec::new()));
                return Ok(one_time.map(Self::of_one_time).or(of_user));
            }
            identities => identities?.into_iter().map(|identity| (identity.scheme, identity.user)),
        };
        let users: Vec<_> = identities.filter(|(scheme, _)| scheme != "ip").collect();
        Ok((!users.is_empty()).then(|| Self::stored_as(users)))
    }

    /// Returns the entry for a one-time identity that the client has presented.
    pub(crate) fn of_one_time(identity: &OneTimeIdentity) -> Self {
        Self::stored_as(vec![("digest".to_owned(), identity.user().to_owned())])
    }

    fn stored_as(stored: Vec<(String, String)>) -> Self {
        Self { entry: Acl::auth(OWN_PERMS), stored }
    }

    /// Returns true if the server may have stored `present` for this entry.
    pub(crate) fn has_left(&self, present: &Acl) -> bool {
        let is_own = |(scheme, user): &(String, String)| {
            // The id of a digest is the user and a hash, which servers do not tell.
            let id = if scheme == "digest" {
                present.id.split(':').next().unwrap_or_default()
            } else {
                &present.id
            };
            present.scheme == scheme.as_str() && id == user
        };
        present.perms == OWN_PERMS && self.stored.iter().any(is_own)
    }
}

/// A repeated import also reads the node, and with `--overwrite` it writes the data.
const OWN_PERMS: Perms = Perms(Perms::CREATE.0 | Perms::READ.0 | Perms::WRITE.0 | Perms::ADMIN.0);

/// Limit of the reads before a server closes the connection. It closes it after one or two of them; one that
/// never does costs this many round trips, once.
const READS_MAX: u32 = 50;
