//! Chroot of a handle: the prefix of all its paths at the server.
//!
//! The caller's paths are checked before the chroot is put in front of them, so that an invalid path
//! never becomes valid. The server's paths lose the chroot before the caller gets them. Two paths have
//! no chroot: that of the ensemble's configuration, and `/` in a delete.

use std::borrow::Cow;

use proto::PathError;
use zk_session_core::{Error, ErrorKind, Failure, Operation, Outcome};

use super::{Client, ParentMode};

/// # Chroot
impl Client {
    /// Returns a handle to the same session for which `path` is the root.
    ///
    /// All paths of the handle are below that root: in requests, replies, events and errors. The
    /// path is appended to the chroot of this handle. The node need not exist and is not created.
    /// With `/`, the result has the same root as this handle.
    ///
    /// The root of a chroot cannot be deleted, like any root: the server rejects the request with
    /// `BadArguments`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPath`] if `path` is not a valid path.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// let tenant = client.chroot("/tenants/7")?;
    /// let node = tenant.get_data("/config").await?; // that of /tenants/7/config
    /// # drop(node); Ok(())
    /// # }
    /// ```
    #[doc(alias = "usingNamespace")]
    pub fn chroot(&self, path: &str) -> Result<Self, Error> {
        if let Err(error) = proto::validate_path(path) {
            return Err(
                Error::not_applied(ErrorKind::InvalidPath(error)).on(Operation::Chroot, path)
            );
        }
        let chroot = match path {
            "/" => self.chroot.clone(),
            path => self.full(path).into(),
        };
        Ok(Self { chroot, ..self.clone() })
    }

    /// Returns the path from the root of the ensemble: the chroot of this handle, followed by
    /// `path`.
    #[must_use]
    pub fn full_path(&self, path: &str) -> String {
        self.full(path).into_owned()
    }
}

impl Client {
    /// Creates the nodes of the chroot that do not exist. A read-only server creates nothing.
    pub(super) async fn create_chroot(&self) -> Result<(), Error> {
        let whole = Self { chroot: "".into(), ..self.clone() };
        // A client without the permission to create nodes may use a chroot that exists. New servers reject
        // the request for the Stat of a node that the client may not read (ZOOKEEPER-2590).
        let exists = match whole.exists(&self.chroot).await {
            Ok(stat) => stat.is_some(),
            Err(error) => error.is_no_auth(),
        };
        if exists || self.is_read_only() {
            return Ok(());
        }
        whole.ensure_path(&self.chroot, ParentMode::Persistent).await
    }
}

/// Paths as the server knows them: the chroot of the handle, followed by the path of the caller.
impl Client {
    pub(super) fn full<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match (&*self.chroot, path) {
            ("", path) => path.into(),
            (chroot, "/") => chroot.to_owned().into(),
            (chroot, path) if path.starts_with('/') => [chroot, path].concat().into(),
            // An invalid path must not become valid because of the chroot in front of it.
            (_, path) => path.into(),
        }
    }

    /// Checks the path of a node; the chroot was checked before. The server checks some paths only
    /// after it has used a transaction number for the request, and does not check others at all.
    pub(super) fn checked<'a>(&self, path: &'a str) -> Result<Cow<'a, str>, Failure> {
        proto::validate_path(path).map_err(invalid)?;
        Ok(self.full(path))
    }

    /// Checks the path of a new node.
    pub(super) fn checked_new<'a>(
        &self,
        path: &'a str,
        is_sequential: bool,
    ) -> Result<Cow<'a, str>, Failure> {
        if is_sequential { self.checked_sequential(path) } else { self.checked(path) }
    }

    /// Checks the path of a new sequential node. The server appends digits to the name before it
    /// checks the path.
    pub(super) fn checked_sequential<'a>(&self, path: &'a str) -> Result<Cow<'a, str>, Failure> {
        proto::validate_sequential_path(path).map_err(invalid)?;
        Ok(match path {
            // The name of the node is only its number, which must not become part of the chroot's
            // name.
            "/" => [&*self.chroot, path].concat().into(),
            path => self.full(path),
        })
    }

    /// Checks the path of a node to delete. The root of a chroot cannot be deleted, like any root,
    /// so it is sent as `/` and the server rejects it.
    pub(super) fn checked_doomed<'a>(&self, path: &'a str) -> Result<Cow<'a, str>, Failure> {
        match path {
            "/" => Ok(path.into()),
            path => self.checked(path),
        }
    }
}

fn invalid(error: PathError) -> Failure {
    (ErrorKind::InvalidPath(error), Outcome::NotApplied)
}

/// Removes the chroot from a path that the server sent. Such paths come from requests that carried
/// the chroot. Any other path comes from a hostile server and is returned as it is.
pub(super) fn strip(mut path: String, chroot_len: usize) -> String {
    match path.get(chroot_len..) {
        Some("") => path.replace_range(.., "/"),
        Some(rest) if rest.starts_with('/') => path.replace_range(..chroot_len, ""),
        _ => {}
    }
    path
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn strip_removes_chroot_at_component_boundary() {
        assert_eq!(strip("/a/b".into(), 0), "/a/b");
        assert_eq!(strip("/app/b".into(), 4), "/b");
        assert_eq!(strip("/app".into(), 4), "/");
        assert_eq!(strip("/apple".into(), 4), "/apple");
        assert_eq!(strip("/a".into(), 4), "/a");
    }
}
