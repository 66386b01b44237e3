//! Groups of processes: Curator's `GroupMember`, on the same nodes.

mod error;
mod member;
mod members;
mod watcher;

use std::fmt;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use zk_recipes::session::{Error, SessionManager, validate_path};

use self::watcher::Watcher;
use crate::background::task_ended;

pub use self::error::GroupError;
pub use self::member::GroupMember;
pub use self::members::{Member, Members};

/// The members of a group, as they join and leave: the reading half of Curator's `GroupMember`. A
/// process joins with [`GroupMember::join`].
///
/// # What it promises
/// * Each member is the id of an ephemeral node, with its data. Other children of the group are no
///   members.
/// * A child that this client may not read does not disturb the others. [`Members::unreadable`] lists
///   it.
/// * The own process is a member only if its node exists. Curator lists its own id always.
/// * After the last change, the members equal the nodes in the group. A reader may miss lists in
///   between.
///
/// # On the wire
/// Curator's layout: one node `<group>/<id>` for each member. A missing group has no members, and
/// is not created.
///
/// # What it costs
/// One list and one read of each member at the start. Afterwards, a joined or left member costs one
/// list, and a new or changed member costs one read. There is one watch on the group, and one on
/// each member. At most [`READS_IN_FLIGHT`](crate::limits::READS_IN_FLIGHT) reads are in flight.
///
/// [A server does not report everything](crate::Cache#what-the-server-does-not-report). So each
/// [`CHECK_PAUSE`](crate::limits::CHECK_PAUSE) costs one request for the group, and one read of each
/// unreadable child and of up to [`CHECKED_ALONE`](crate::limits::CHECKED_ALONE) others.
///
/// # What happens on loss
/// * The connection is lost: the members stay as they are. The session sets the watches again.
/// * The session ends: the members are read again on the next session.
/// * A request fails: the list stays, [`Members::error`] has the reason, and the request is
///   repeated after a pause.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_coordination::session::{Config, SessionManager};
/// use zk_coordination::{Group, GroupMember};
///
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let _me = GroupMember::join(&sessions, "/services/web", "10.0.0.7", "port=8080")?;
/// let mut group = Group::open(&sessions, "/services/web").await?;
/// loop {
///     for (id, member) in group.members().iter() {
///         println!("{id}: {:?}", member.data());
///     }
///     group.changed().await?;
/// }
/// # }
/// ```
#[must_use = "dropping the group ends its watches"]
pub struct Group {
    path: String,
    members: watch::Receiver<Members>,
    task: Option<AbortHandle>,
}

impl Group {
    /// Reads the members, and follows their changes in the background, until the group is dropped.
    ///
    /// The background task runs on the runtime that drives the sessions, and keeps the session
    /// manager alive.
    ///
    /// # Errors
    /// The path is invalid, the first attempt to read the group fails for a reason that does not pass by
    /// itself, or the session manager has stopped. An unreadable child is no such reason. Without a
    /// connection, the method waits for one.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn open(sessions: &SessionManager, path: &str) -> Result<Self, GroupError> {
        validate_path(path).map_err(Error::from)?;
        let (publisher, members) = watch::channel(Members::default());
        let watcher = Watcher::new(path, publisher);
        let task = sessions.client().runtime().spawn(watcher.run(sessions.clone()));
        let mut group = Self { path: path.to_owned(), members, task };
        let is_first = |members: &Members| members.is_read() || members.error().is_some();
        let first = group.members.wait_for(is_first).await;
        let failed = match first.as_deref() {
            Ok(members) if members.is_read() => None,
            Ok(members) => members.error().cloned(),
            Err(_) => Some(task_ended()),
        };
        drop(first);
        group.members.mark_unchanged();
        failed.map_or(Ok(group), |error| Err(error.into()))
    }

    /// Returns the path of the group.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the latest list of members. Sends no request.
    #[must_use]
    pub fn members(&self) -> Members {
        self.members.borrow().clone()
    }

    /// Waits for a list that this method has not returned before, and that is newer than the one
    /// that [`open`](Self::open) has read.
    ///
    /// # Errors
    /// The session manager has stopped. [`Members::error`] has other failures.
    ///
    /// # Cancel safety
    /// This method is cancel safe. No change is lost when the future is dropped.
    pub async fn changed(&mut self) -> Result<Members, GroupError> {
        match self.members.changed().await {
            Ok(()) => Ok(self.members.borrow_and_update().clone()),
            Err(_) => {
                let error = self.members.borrow().error().cloned();
                Err(error.unwrap_or_else(task_ended).into())
            }
        }
    }

    /// Returns a receiver of the lists, for other tasks. It does not keep the group open.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Members> {
        self.members.clone()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("path", &self.path)
            .field("members", &*self.members.borrow())
            .finish_non_exhaustive()
    }
}
