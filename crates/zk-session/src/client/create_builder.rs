//! Builder for a node, with all options of a create.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::future::Either;
use proto::path::{child, file_name, protection_prefix};
use proto::{Acl, CreateMode, ErrorCode, OPEN_ACL_UNSAFE, OpCode, Stat};
use zk_session_core::{Error, ErrorKind, Operation, Outcome};

use super::operations::{Kind, NewNode};
use super::protection::{Failures, LostCreate, is_lost, random_uuid};
use super::{Client, Created, Pending};

/// Builder for a node; see [`Client::create_builder`].
///
/// The default is a persistent node without data that every client may read, change and delete. If
/// two options contradict each other, the later one counts.
#[must_use = "nothing is sent before `create`"]
#[derive(Clone, Debug)]
pub struct CreateBuilder {
    client: Client,
    path: String,
    data: Option<Bytes>,
    acl: Cow<'static, [Acl]>,
    kind: Kind,
    is_sequential: bool,
    parents: Option<ParentMode>,
    parents_acl: Cow<'static, [Acl]>,
    is_protected: bool,
    sets_data: bool,
}

/// Kind of node that is created for missing parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParentMode {
    /// Container nodes. The server deletes a container some time after its last child was deleted.
    Containers,
    /// Persistent nodes.
    Persistent,
}

impl ParentMode {
    fn mode(self) -> CreateMode {
        match self {
            Self::Containers => CreateMode::Container,
            Self::Persistent => CreateMode::Persistent,
        }
    }
}

/// # Creating nodes with all options
impl Client {
    /// Starts to build a node. Nothing is sent before [`CreateBuilder::create`].
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use zk_session::ParentMode;
    ///
    /// let member = client
    ///     .create_builder("/service/members/member-")
    ///     .data(b"10.0.0.7:8080")
    ///     .ephemeral()
    ///     .sequential()
    ///     .parents(ParentMode::Containers)
    ///     .protected()
    ///     .create()
    ///     .await?;
    /// println!("{}", member.path); // /service/members/_c_<uuid>-member-0000000042
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_builder(&self, path: impl Into<String>) -> CreateBuilder {
        CreateBuilder {
            client: self.clone(),
            path: path.into(),
            data: Some(Bytes::new()),
            acl: OPEN_ACL_UNSAFE.into(),
            kind: Kind::Persistent,
            is_sequential: false,
            parents: None,
            parents_acl: OPEN_ACL_UNSAFE.into(),
            is_protected: false,
            sets_data: false,
        }
    }

    /// Creates a node and its missing parents. Existing nodes are unchanged. The future sends the
    /// requests, one after the other, from its first poll on.
    ///
    /// A missing chroot is not created, because it is usually a typing error.
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create), except `NodeExists`. The method retries
    /// after a lost connection, because creating a path twice creates it once.
    ///
    /// # Cancel safety
    /// If the future is dropped, some of the nodes may have been created.
    #[doc(alias = "creatingParentsIfNeeded")]
    #[doc(alias = "mkdirs")]
    pub async fn ensure_path(&self, path: &str, parents: ParentMode) -> Result<(), Error> {
        self.ensure_path_with_acl(path, parents, OPEN_ACL_UNSAFE).await
    }

    /// Creates a node and its missing parents with an access control list; otherwise like
    /// [`ensure_path`](Self::ensure_path). Each node that is created gets the list.
    ///
    /// # Errors
    /// Returns the errors of [`ensure_path`](Self::ensure_path), and `InvalidACL`.
    ///
    /// # Cancel safety
    /// As [`ensure_path`](Self::ensure_path).
    pub async fn ensure_path_with_acl(
        &self,
        path: &str,
        parents: ParentMode,
        acl: &[Acl],
    ) -> Result<(), Error> {
        let mut failures = Failures::default();
        while path == "/" && !self.chroot.is_empty() {
            match self.exists(path).await {
                Ok(stat) => return stat.map(drop).ok_or_else(|| no_chroot(path)),
                Err(error) => failures.repeat_if_lost(error)?,
            }
        }
        let mut missing = vec![path];
        // That a parent is missing counts as a failure only if it existed before.
        let mut highest = usize::MAX;
        while let Some(path) = missing.last() {
            let Err(error) = self.create_with_acl(path, b"", parents.mode(), acl).await else {
                missing.pop();
                continue;
            };
            match (error.code(), parent(path)) {
                (Some(ErrorCode::NODE_EXISTS), _) => drop(missing.pop()),
                (Some(ErrorCode::NO_NODE), parent)
                    if parent != "/" && (path.len() < highest || failures.may_repeat()) =>
                {
                    highest = highest.min(path.len());
                    missing.push(parent);
                }
                _ => failures.repeat_if_lost(error)?,
            }
        }
        Ok(())
    }
}

impl CreateBuilder {
    /// Sets the data of the node.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self { data: Some(Bytes::copy_from_slice(data.as_ref())), ..self }
    }

    /// Sets null as the data of the node, which is not the same as no bytes; see
    /// [`NodeData::is_null`](super::NodeData::is_null).
    pub fn null_data(self) -> Self {
        Self { data: None, ..self }
    }

    /// Sets the access control list of the node, not of parents that are created for it; see
    /// [`parents_acl`](Self::parents_acl).
    pub fn acl(self, acl: impl AsRef<[Acl]>) -> Self {
        Self { acl: acl.as_ref().to_vec().into(), ..self }
    }

    /// Sets the kind of the node, and whether it is sequential.
    pub fn mode(self, mode: CreateMode) -> Self {
        Self { kind: Kind::of(mode), is_sequential: mode.is_sequential(), ..self }
    }

    /// Makes the node ephemeral. It is deleted when the session ends, and it cannot have children.
    pub fn ephemeral(self) -> Self {
        Self { kind: Kind::Ephemeral, ..self }
    }

    /// Makes the node a container. The server deletes it some time after its last child was
    /// deleted.
    pub fn container(self) -> Self {
        Self { kind: Kind::Container, ..self }
    }

    /// Gives the node a time to live. The server deletes it once it has had no children and no
    /// change for this long, to the millisecond.
    ///
    /// The server must have been started with `zookeeper.extendedTypesEnabled=true`.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { kind: Kind::Ttl(ttl), ..self }
    }

    /// Makes the node sequential. The server appends an increasing ten-digit number to its name.
    pub fn sequential(self) -> Self {
        Self { is_sequential: true, ..self }
    }

    /// Creates missing parents, of the given kind.
    #[doc(alias = "creatingParentsIfNeeded")]
    pub fn parents(self, parents: ParentMode) -> Self {
        Self { parents: Some(parents), ..self }
    }

    /// Sets the access control list of the parents that are created. By default they are open to
    /// everyone, as with Curator: every client may then delete the node, because the list of the
    /// parent decides that.
    pub fn parents_acl(self, acl: impl AsRef<[Acl]>) -> Self {
        Self { parents_acl: acl.as_ref().to_vec().into(), ..self }
    }

    /// Protects the create against a lost reply, as Curator does: the name gets the unique prefix
    /// `_c_<uuid>-`.
    ///
    /// If the reply is lost, the client finds the node by its prefix. However often the connection
    /// is lost, the result is one node. An ephemeral node that was found counts only if this
    /// session owns it.
    #[doc(alias = "withProtection")]
    pub fn protected(self) -> Self {
        Self { is_protected: true, ..self }
    }

    /// Sets the data if the node exists already, at any version. Its kind and its access control list are
    /// unchanged then.
    ///
    /// If the node is deleted between the two requests, it is created again. A sequential or protected node
    /// is a new one at all times.
    #[doc(alias = "orSetData")]
    pub fn or_set_data(self) -> Self {
        Self { sets_data: true, ..self }
    }

    /// Creates the node. The first request is sent by this call, and others if it fails.
    ///
    /// # Errors
    /// * The errors of [`Client::create`], and `InvalidACL`.
    /// * `Unimplemented` for a time to live, if the server was started without support for it.
    /// * `BadArguments` for a time to live of zero or of more than 34 years.
    /// * `NoNode` although [`parents`](Self::parents) was called: the chroot does not exist.
    ///
    /// If the reply to the creation of a protected node is lost, the client searches for the node,
    /// and creates it again if it does not exist. The outcome of an error is unknown only in these
    /// cases: the request timed out, the session ended, the search failed, or
    /// [`CREATE_ATTEMPTS_MAX`](crate::limits::CREATE_ATTEMPTS_MAX) attempts were used up.
    ///
    /// # Cancel safety
    /// If the future is dropped or fails, a protected node that may have been created is deleted,
    /// as by [`delete_protected_guaranteed`](Client::delete_protected_guaranteed). A node without
    /// protection may remain, and parents may remain too.
    pub fn create(self) -> impl Future<Output = Result<Created, Error>> + Send + use<> {
        let sent = if self.is_protected {
            Either::Left(self.send_protected())
        } else {
            Either::Right(self.request(&self.path))
        };
        async move {
            match sent {
                Either::Left(sent) => {
                    let (path, lost) = sent?;
                    self.create_protected(&path, lost).await
                }
                Either::Right(sent) => self.create_plain(sent).await,
            }
        }
    }

    async fn create_plain(&self, mut sent: Pending<Created>) -> Result<Created, Error> {
        let mut failures = Failures::default();
        loop {
            match sent.await {
                Ok(created) => return Ok(created),
                Err(error) if error.is_node_exists() && self.sets_data => {
                    if let Some(stat) = self.set_data(&mut failures).await? {
                        return Ok(Created { path: self.path.clone(), stat });
                    }
                }
                Err(error) => self.make_parents(error, &mut failures).await?,
            }
            sent = self.request(&self.path);
        }
    }

    /// Sets the data of the node that exists. Returns `None` if it was deleted meanwhile.
    async fn set_data(&self, failures: &mut Failures) -> Result<Option<Stat>, Error> {
        let set = match &self.data {
            Some(data) => self.client.set_data(&self.path, data, None),
            None => self.client.set_null_data(&self.path, None),
        };
        match set.await {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if error.is_no_node() && failures.may_repeat() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends the first request for a protected node. Returns the path with the protection.
    fn send_protected(&self) -> Result<(String, LostCreate), Error> {
        let checked = self.client.checked_new(&self.path, self.is_sequential);
        if let Err((kind, outcome)) = checked {
            return Err(Error::new(kind, outcome).on(OpCode::Create, self.path.as_str()));
        }
        let above = parent(&self.path);
        let prefix = protection_prefix(&random_uuid(&self.client));
        let path = child(above, &[&prefix, file_name(&self.path)].concat());
        let sent = self.request(&path);
        Ok((path, LostCreate::new(&self.client, above.to_owned(), prefix, sent)))
    }

    async fn create_protected(&self, path: &str, mut lost: LostCreate) -> Result<Created, Error> {
        let mut failures = Failures::default();
        loop {
            let error = match (&mut lost.pending).await {
                Ok(created) => {
                    lost.is_settled = true;
                    return Ok(created);
                }
                Err(error) => error.on(OpCode::Create, self.path.as_str()), // and not the protected path
            };
            match error.outcome() {
                Outcome::Unknown => {
                    failures.repeat_if_lost(error)?;
                    let found = lost.find().await?;
                    lost.is_settled = true;
                    match found {
                        Some(created) if self.is_own(&created.stat) => return Ok(created),
                        _ => {}
                    }
                }
                Outcome::Applied => return Err(error),
                Outcome::NotApplied => {
                    lost.is_settled = true;
                    if is_lost(&error) {
                        failures.repeat_if_lost(error)?;
                    } else {
                        self.make_parents(error, &mut failures).await?;
                    }
                }
            }
            lost.repeat(self.request(path));
        }
    }

    /// Returns true if the caller may use a node that was found. An ephemeral node of another
    /// session will be deleted soon (CURATOR-604).
    fn is_own(&self, stat: &Stat) -> bool {
        match self.kind {
            Kind::Ephemeral => stat.ephemeral_owner == self.client.session_id(),
            Kind::Persistent | Kind::Container | Kind::Ttl(_) => true,
        }
    }

    /// Creates the missing parents if they caused the error; otherwise returns the error.
    async fn make_parents(&self, error: Error, failures: &mut Failures) -> Result<(), Error> {
        let above = parent(&self.path);
        let can_help = error.is_no_node() && above != "/";
        match self.parents {
            Some(parents) if failures.may_repeat() && can_help => {
                self.client.ensure_path_with_acl(above, parents, &self.parents_acl).await
            }
            _ => Err(error),
        }
    }

    /// Sends the request to create the node at `path`, which is the path of this builder, or that
    /// path with protection.
    fn request(&self, path: &str) -> Pending<Created> {
        let (kind, is_sequential) = (self.kind, self.is_sequential);
        let data = self.data.as_deref();
        NewNode { path, data, acl: &self.acl, kind, is_sequential }.create(&self.client)
    }
}

fn no_chroot(path: &str) -> Error {
    let kind = ErrorKind::Server(ErrorCode::NO_NODE);
    Error::not_applied(kind).on(Operation::EnsurePath, path)
}

/// Returns the parent path. For the root and for an invalid path, that is the root.
fn parent(path: &str) -> &str {
    proto::path::parent(path).unwrap_or("/")
}
