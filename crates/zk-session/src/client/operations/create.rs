//! The request that creates a node.

use std::time::Duration;

use proto::{Acl, Create2, CreateContainer, CreateMode, CreateReply, CreateTtl, OpCode};
use zk_session_core::{Error, ErrorKind, Failure, Outcome, Reply};

use super::Created;
use crate::client::Client;
use crate::client::chroot::strip;
use crate::client::pending::{Finish, Pending, decode};
use crate::limits::TTL_MAX;

#[derive(Clone, Copy, Debug)]
pub(in crate::client) enum Kind {
    Persistent,
    Ephemeral,
    Container,
    Ttl(Duration),
}

impl Kind {
    pub(in crate::client) fn of(mode: CreateMode) -> Self {
        match mode {
            CreateMode::Container => Self::Container,
            mode if mode.is_ephemeral() => Self::Ephemeral,
            _ => Self::Persistent,
        }
    }
}

/// A node to create with one request.
pub(in crate::client) struct NewNode<'a> {
    pub(in crate::client) path: &'a str,
    pub(in crate::client) data: Option<&'a [u8]>,
    pub(in crate::client) acl: &'a [Acl],
    pub(in crate::client) kind: Kind,
    pub(in crate::client) is_sequential: bool,
}

impl NewNode<'_> {
    pub(in crate::client) fn create(self, client: &Client) -> Pending<Created> {
        let Self { path, data, acl, kind, is_sequential: sequential } = self;
        let finish = if sequential {
            |result, path: &str, chroot_len| {
                finish_create(result, path, chroot_len, NodeName::Sequential)
            }
        } else {
            |result, path: &str, chroot_len| {
                finish_create(result, path, chroot_len, NodeName::Exact)
            }
        };
        let ask = client.ask(OpCode::Create, path, Finish::OfPath(finish));
        let (data, acl) = (data.map(Into::into), acl.into());
        let mode = match (kind, sequential) {
            (Kind::Ephemeral, false) => CreateMode::Ephemeral,
            (Kind::Ephemeral, true) => CreateMode::EphemeralSequential,
            (_, true) => CreateMode::PersistentSequential,
            (Kind::Container, false) => CreateMode::Container,
            (_, false) => CreateMode::Persistent,
        };
        let path = client.checked_new(path, sequential);
        match kind {
            Kind::Ttl(ttl) => {
                let checked = path.and_then(|path| Ok((path, ttl_ms(ttl)?)));
                client.request(
                    ask,
                    checked.map(|(path, ttl_ms)| CreateTtl { path, data, acl, sequential, ttl_ms }),
                )
            }
            // The operation makes the node a container. The mode only says whether it is
            // sequential.
            Kind::Container => {
                client.request(ask, path.map(|path| CreateContainer { path, data, acl, mode }))
            }
            _ => client.request(ask, path.map(|path| Create2 { path, data, acl, mode })),
        }
    }
}

/// How the server names a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum NodeName {
    /// As requested.
    Exact,
    /// With a number after the requested name.
    Sequential,
}

/// Decodes the reply to a create, and checks that the node has the name `asked`.
fn finish_create(
    result: Result<Reply, Failure>,
    asked: &str,
    chroot_len: usize,
    name: NodeName,
) -> Result<Created, Failure> {
    let CreateReply { path, stat } = decode(result)?;
    let path = strip(path, chroot_len);
    if is_name_of(&path, asked, name) {
        Ok(Created { path, stat })
    } else {
        Err((ErrorKind::UnfitReply, Outcome::Applied))
    }
}

/// Returns true if a node that was created as `asked` may have the name `path`. A sequential node
/// has a number after `asked`, which is negative once the counter has overflowed; any other node
/// has exactly the name `asked`.
pub(in crate::client) fn is_name_of(path: &str, asked: &str, name: NodeName) -> bool {
    let Some(number) = path.strip_prefix(asked) else { return false };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    match name {
        NodeName::Exact => number.is_empty(),
        NodeName::Sequential => is_number,
    }
}

/// Checks that servers take this time to live of a node.
///
/// # Errors
/// [`ErrorKind::InvalidTtl`].
pub fn validate_ttl(ttl: Duration) -> Result<(), Error> {
    ttl_ms(ttl).map(drop).map_err(|(kind, _)| Error::not_applied(kind))
}

/// Converts a time to live to milliseconds.
pub(in crate::client) fn ttl_ms(ttl: Duration) -> Result<i64, Failure> {
    if (Duration::from_millis(1)..=TTL_MAX).contains(&ttl) {
        Ok(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    } else {
        Err((ErrorKind::InvalidTtl(ttl), Outcome::NotApplied))
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeName, is_name_of};

    #[test]
    fn is_name_of_accepts_only_the_requested_name() {
        assert!(is_name_of("/a", "/a", NodeName::Exact));
        assert!(
            !is_name_of("/b", "/a", NodeName::Exact)
                && !is_name_of("/a0000000001", "/a", NodeName::Exact)
        );
        for (path, asked) in
            [("/a-0000000001", "/a-"), ("/a--000000001", "/a-"), ("/0000000001", "/")]
        {
            assert!(is_name_of(path, asked, NodeName::Sequential), "{path}");
        }
        for path in ["/a-", "/a--", "/a-00x", "/b-0000000001", "/a-1/b"] {
            assert!(!is_name_of(path, "/a-", NodeName::Sequential), "{path}");
        }
    }
}
