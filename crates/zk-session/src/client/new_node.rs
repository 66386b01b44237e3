//! Creating a node with all that can be said about one.

use std::time::Duration;

use proto::{Acl, Create2, CreateContainer, CreateMode, CreateTtl, ErrorCode, OPEN_ACL, Stat};

use super::multi::ttl_ms;
use super::operations::check_new;
use super::{Client, Created, Pending};
use crate::limits::CREATE_ATTEMPTS_MAX;
use zk_session_core::{Error, ErrorKind, Outcome};

/// A node to be created; see [`Client::new_node`].
///
/// As long as nothing else is said it is persistent, without data, and everybody may
/// read, change and delete it. Of what contradicts, the last word counts.
#[must_use = "nothing is sent before `create`"]
#[derive(Clone, Debug)]
pub struct NewNode<'a> {
    client: Client,
    path: &'a str,
    data: &'a [u8],
    acl: &'a [Acl],
    kind: Kind,
    sequence: Sequence,
    parents: Option<Parents>,
    protection: Protection,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Persistent,
    Ephemeral,
    Container,
    Ttl(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    None,
    Appended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    None,
    ByName,
}

/// What missing parents are made as. Everybody may read, change and delete them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// As containers, which the server removes some time after their last child has gone.
    Containers,
    /// As persistent nodes.
    Persistent,
}

impl Parents {
    fn mode(self) -> CreateMode {
        match self {
            Self::Containers => CreateMode::Container,
            Self::Persistent => CreateMode::Persistent,
        }
    }
}

/// # Creating, with all that can be said
impl Client {
    /// Begins to describe a node that is to be created.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use zk_session::Parents;
    ///
    /// let member = client
    ///     .new_node("/service/members/member-")
    ///     .data(b"10.0.0.7:8080")
    ///     .ephemeral()
    ///     .sequential()
    ///     .parents(Parents::Containers)
    ///     .protected()
    ///     .create()
    ///     .await?;
    /// println!("{}", member.path); // /service/members/_c_<uuid>-member-0000000042
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_node<'a>(&self, path: &'a str) -> NewNode<'a> {
        NewNode {
            client: self.clone(),
            path,
            data: b"",
            acl: OPEN_ACL,
            kind: Kind::Persistent,
            sequence: Sequence::None,
            parents: None,
            protection: Protection::None,
        }
    }

    /// Makes a node and what is missing above it; what is there is left as it is. A
    /// chroot that does not exist is not made: that is a typing error, more often than not.
    ///
    /// # Errors
    /// As [`create`](Self::create), without `NodeExists`. Over lost connections it goes
    /// on: making a node twice makes it once.
    ///
    /// # Cancel safety
    /// Some of the nodes may have been made when the future is dropped.
    pub async fn make_path(&self, path: &str, parents: Parents) -> Result<(), Error> {
        self.make_path_with_acl(path, parents, OPEN_ACL).await
    }

    /// As [`make_path`](Self::make_path), with an access control list for all that is made.
    ///
    /// # Errors
    /// As [`make_path`](Self::make_path), and `InvalidACL`.
    ///
    /// # Cancel safety
    /// As [`make_path`](Self::make_path).
    pub async fn make_path_with_acl(
        &self,
        path: &str,
        parents: Parents,
        acl: &[Acl],
    ) -> Result<(), Error> {
        let mut missing = vec![path];
        let mut losses = 0;
        while path == "/" && !self.chroot.is_empty() {
            match self.exists(path).await {
                Ok(stat) => return stat.map(drop).ok_or_else(|| no_chroot(path)),
                Err(error) if is_lost(&error) && losses < CREATE_ATTEMPTS_MAX => losses += 1,
                Err(error) => return Err(error),
            }
        }
        while let Some(path) = missing.last() {
            let Err(error) = self.create_with_acl(path, b"", parents.mode(), acl).await else {
                missing.pop();
                continue;
            };
            match (error.code(), parent(path)) {
                (Some(ErrorCode::NODE_EXISTS), _) => drop(missing.pop()),
                (Some(ErrorCode::NO_NODE), parent) if parent != "/" => missing.push(parent),
                _ if is_lost(&error) && losses < CREATE_ATTEMPTS_MAX => losses += 1,
                _ => return Err(error),
            }
        }
        Ok(())
    }
}

impl<'a> NewNode<'a> {
    /// Its data.
    pub fn data(self, data: &'a [u8]) -> Self {
        Self { data, ..self }
    }

    /// Its access control list.
    pub fn acl(self, acl: &'a [Acl]) -> Self {
        Self { acl, ..self }
    }

    /// Its kind, and whether it is sequential.
    pub fn mode(self, mode: CreateMode) -> Self {
        let sequence = match mode.is_sequential() {
            true => Sequence::Appended,
            false => Sequence::None,
        };
        let kind = match mode {
            CreateMode::Container => Kind::Container,
            mode if mode.is_ephemeral() => Kind::Ephemeral,
            _ => Kind::Persistent,
        };
        Self { kind, sequence, ..self }
    }

    /// It ends with the session, and cannot have children.
    pub fn ephemeral(self) -> Self {
        Self { kind: Kind::Ephemeral, ..self }
    }

    /// The server removes it some time after its last child has gone.
    pub fn container(self) -> Self {
        Self { kind: Kind::Container, ..self }
    }

    /// The server removes it once it has had no children and no change for so long, to
    /// the millisecond, if it was started with `zookeeper.extendedTypesEnabled=true`.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { kind: Kind::Ttl(ttl), ..self }
    }

    /// The server appends ten digits to its name, which grow.
    pub fn sequential(self) -> Self {
        Self { sequence: Sequence::Appended, ..self }
    }

    /// Missing parents are made.
    pub fn parents(self, parents: Parents) -> Self {
        Self { parents: Some(parents), ..self }
    }

    /// Its name gets a prefix that nobody else has, `_c_<uuid>-`, as Curator forms it. So
    /// it is found again when the answer to its creation is lost, and there is one node
    /// whatever happens to the connection; an ephemeral one is taken for its own only if
    /// its owner is this very session.
    pub fn protected(self) -> Self {
        Self { protection: Protection::ByName, ..self }
    }

    /// Creates the node.
    ///
    /// # Errors
    /// As [`Client::create`]; `InvalidACL`; `Unimplemented` for a time to live that the
    /// server was not set up for, `BadArguments` for one of nothing or of more than 34
    /// years. `NoNode` in spite of [`parents`](Self::parents) if it is the chroot that is
    /// missing. When the answer to the creation of a protected node is lost the node is
    /// looked for, and made again if it is not there; an error with the outcome unknown is
    /// only told when the request timed out or the session is over.
    ///
    /// # Cancel safety
    /// A protected node that may have been made when the future is dropped, or when it ends in an
    /// error, is deleted, as by
    /// [`delete_protected_guaranteed`](Client::delete_protected_guaranteed). One that is not protected
    /// may have been made; parents may have been, too.
    pub async fn create(self) -> Result<Created, Error> {
        match self.protection {
            Protection::None => self.create_plain().await,
            Protection::ByName => self.create_protected().await,
        }
    }

    async fn create_plain(&self) -> Result<Created, Error> {
        let mut attempts = 0;
        loop {
            let error = match self.request(self.path).await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            attempts += 1;
            self.make_parents(error, attempts).await?;
        }
    }

    async fn create_protected(&self) -> Result<Created, Error> {
        let above = parent(self.path);
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let prefix = format!("_c_{}-", self.client.draw_uuid());
        let path = format!("{}/{prefix}{name}", above.trim_end_matches('/'));
        let mut trace =
            Trace { client: &self.client, parent: above, prefix, asked: None, is_cold: true };
        let mut attempts = 0;
        loop {
            trace.is_cold = false;
            let error = match trace.asked.insert(self.request(&path)).await {
                Ok(created) => {
                    trace.is_cold = true;
                    return Ok(created);
                }
                Err(error) => error,
            };
            attempts += 1;
            let goes_on = is_lost(&error) && attempts < CREATE_ATTEMPTS_MAX;
            match error.outcome() {
                Outcome::Unknown if goes_on => {
                    let found = trace.find().await?;
                    trace.is_cold = true;
                    match found {
                        Some(created) if self.is_own(&created.stat) => return Ok(created),
                        _ => {}
                    }
                }
                Outcome::Unknown | Outcome::Applied => return Err(error),
                Outcome::NotApplied => {
                    trace.is_cold = true;
                    if !goes_on {
                        self.make_parents(error, attempts).await?;
                    }
                }
            }
        }
    }

    /// An ephemeral of another session is as good as gone (CURATOR-604).
    fn is_own(&self, stat: &Stat) -> bool {
        match self.kind {
            Kind::Ephemeral => stat.ephemeral_owner == self.client.session_id(),
            Kind::Persistent | Kind::Container | Kind::Ttl(_) => true,
        }
    }

    /// Makes what is missing, if that is what it failed for.
    async fn make_parents(&self, error: Error, attempts: u32) -> Result<(), Error> {
        let above = parent(self.path);
        match self.parents {
            Some(parents)
                if error.code() == Some(ErrorCode::NO_NODE)
                    && attempts < CREATE_ATTEMPTS_MAX
                    && above != "/" =>
            {
                self.client.make_path(above, parents).await
            }
            _ => Err(error),
        }
    }

    /// Asks for the node at `path`; what is said about it is said about the caller's.
    fn request(&self, path: &str) -> Pending<Created> {
        let (client, sequential) = (&self.client, self.sequence == Sequence::Appended);
        let ask = client.ask_to_create(self.path, Some(path), sequential);
        if let Err(failure) = check_new(self.path, sequential) {
            return Pending::new(ask, Err(failure));
        }
        let path = client.full_new(path, sequential);
        let (data, acl) = (Some(self.data.into()), self.acl.into());
        let mode = match (self.kind, sequential) {
            (Kind::Ephemeral, false) => CreateMode::Ephemeral,
            (Kind::Ephemeral, true) => CreateMode::EphemeralSequential,
            (_, true) => CreateMode::PersistentSequential,
            (Kind::Container, false) => CreateMode::Container,
            (_, false) => CreateMode::Persistent,
        };
        match self.kind {
            Kind::Ttl(ttl) => {
                let ttl_ms = ttl_ms(ttl);
                client.request(ask, &CreateTtl { path, data, acl, sequential, ttl_ms })
            }
            // The operation makes it a container; the mode tells of the sequence.
            Kind::Container => client.request(ask, &CreateContainer { path, data, acl, mode }),
            _ => client.request(ask, &Create2 { path, data, acl, mode }),
        }
    }
}

/// What a create may have left behind: swept away unless it has gone cold.
struct Trace<'a> {
    client: &'a Client,
    parent: &'a str,
    prefix: String,
    /// The last attempt.
    asked: Option<Pending<Created>>,
    /// There is nothing, or it is known.
    is_cold: bool,
}

impl Trace<'_> {
    /// Looks for the node of a create whose answer was lost.
    async fn find(&self) -> Result<Option<Created>, Error> {
        let mut losses = 0;
        loop {
            // This server may be behind the one that took the create. The sync also orders
            // the list after everything the old connection still had in the pipes.
            let (synced, listed) = {
                let _one_write = self.client.batch();
                (self.client.sync(self.parent), self.client.get_children(self.parent))
            };
            let error = match (synced.await, listed.await) {
                (Ok(()), Ok(children)) => {
                    let name = children.names.names().find(|name| name.starts_with(&self.prefix));
                    let Some(name) = name else { return Ok(None) };
                    let path = format!("{}/{name}", self.parent.trim_end_matches('/'));
                    match self.client.exists(&path).await {
                        Ok(stat) => return Ok(stat.map(|stat| Created { path, stat })),
                        Err(error) => error,
                    }
                }
                (Ok(()), Err(error)) if error.code() == Some(ErrorCode::NO_NODE) => {
                    return Ok(None);
                }
                (Err(error), _) | (_, Err(error)) => error,
            };
            losses += 1;
            if !is_lost(&error) || losses >= CREATE_ATTEMPTS_MAX {
                return Err(error.with_outcome(Outcome::Unknown)); // that of the create
            }
        }
    }
}

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        let never_left = self.asked.as_mut().is_some_and(Pending::take_back);
        if !self.is_cold && !never_left {
            self.client.delete_protected_guaranteed(self.parent, &self.prefix);
        }
    }
}

fn no_chroot(path: &str) -> Error {
    let kind = ErrorKind::Server(ErrorCode::NO_NODE);
    Error::not_applied(kind).on("make the path to", path)
}

/// True if the connection went, which is waited out: the next request waits for another.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionLost(_))
}

/// The path one level up; that of the root, and of what is no path, is the root.
fn parent(path: &str) -> &str {
    proto::path::parent(path).unwrap_or("/")
}
