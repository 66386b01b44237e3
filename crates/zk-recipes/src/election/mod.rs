//! Elections: Curator's `LeaderLatch` and `LeaderSelector`, on the same nodes.

mod candidacy;

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use zk_session::{Acl, Client, PathError, SessionManager};

pub use self::candidacy::{Candidacy, Leadership};
use crate::error::LockError;
use crate::mutex::Mutex;
use crate::observe::LockMetrics;
use crate::participants::{Participant, first_participant, participants_of_side};
use crate::queue::Queue;
use crate::queue::spec::QueueSpec;
use crate::terms::{HeldLock, Interruption, run_terms};

/// An election: at any moment at most one of its candidates leads. It has the nodes of Curator's
/// `LeaderLatch` or `LeaderSelector`.
///
/// The handle is cheap to clone. It stands for one candidate, with an id that others see.
///
/// * [`lead`](Self::lead) runs a future while the candidate leads, as `LeaderSelector` does. The
///   future is dropped when the leadership is lost.
/// * [`stand`](Self::stand) stands in the background, as `LeaderLatch` does. The program asks whether
///   it leads, or waits until it does.
///
/// Both stand again after a lost leadership, on the next session if the current one has ended.
///
/// # What it promises
/// * **One leader**: at most one candidate *provably leads* at any moment, by its own conservative
///   clock. It leads on the term of its session's lease, not on a flag or on the state of its
///   connection. [`Candidacy::is_leader`] and [`HeldLock::token`] read the clock at each call.
/// * **No leader without a node**: a candidate begins to lead only with a node of its own session,
///   and stops when it notices that the node was deleted.
/// * **Fair**: candidates lead in the order in which the server created their nodes. A candidate that
///   stands again does so at the end of the queue.
/// * Each leader's token is larger than the tokens of all earlier leaders, over all sessions.
/// * No candidate deletes the node of another one. A candidate that stands again has deleted its old
///   node, or its session deletes it in the background, over reconnects.
/// * A path with nodes of another recipe is rejected ([`LockError::ForeignNode`]). Candidates of
///   [`new`](Self::new) and of [`selector`](Self::selector) on one path reject each other: in Curator
///   both would lead.
///
/// # On the wire
/// Each candidate is an ephemeral sequential child of the path, with the id of the candidate as data:
///
/// ```text
/// <path>/_c_<id>-latch-0000000007    "web1"   leads          Election::new, LeaderLatch
/// <path>/_c_<id>-latch-0000000008    "web2"   waits
/// <path>/_c_<id>-lock-0000000007     "web1"   leads          Election::selector, LeaderSelector
/// ```
///
/// The nodes of a selector are those of a [`Mutex`]. A mutex at the path of a selector takes part in
/// the election.
///
/// [`revoke`](crate::revoke) asks the leader of a selector to resign
/// ([`HeldLock::revocation_requested`]), and replaces its id. Do not revoke a candidate of
/// [`new`](Self::new) beside Curator's: a `LeaderLatch` ignores the change, and misses the deletion of
/// the node after it.
///
/// # What it costs
/// As a [`Mutex`]: two requests in one write to stand, two for the watches of a candidate that waits,
/// and one to resign. The end of a leadership wakes the next candidate, or the next two, and no
/// others. The leader and the next candidate keep the lease of their session renewed.
///
/// # What happens on loss
/// The leader loses its leadership when its session ends, when its lease runs out, or when another
/// client deletes its node. In each case it is no longer the leader by its own clock *before* the
/// ensemble can elect another one. There is an exception: if somebody else deletes its node or closes
/// its session, it learns that by an event or by the next answer. A
/// broken connection alone does not end the leadership; Curator gives it up at once (`SUSPENDED`).
///
/// A candidate that waits loses its place in the queue with its session or its node, and stands again.
/// A leader that was paused and acts without asking can be stopped only by a resource that checks its
/// [`FencingToken`](crate::FencingToken).
///
/// # Example
/// ```no_run
/// use std::ops::ControlFlow;
/// use zk_recipes::session::{Config, SessionManager};
/// use zk_recipes::{Election, LockError};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let election = Election::new(&sessions, "/election/scheduler", "web1")?;
/// let done = election.lead(
///     async |leader| {
///         while let Some(job) = next_job(leader.token()?.czxid()).await {
///             println!("ran {job}");
///         }
///         Ok::<_, LockError>(ControlFlow::Break("all jobs are done"))
///     },
///     |interruption| eprintln!("{interruption}"),
/// );
/// println!("{}", done.await?);
/// # Ok(())
/// # }
///
/// /// The queue refuses a token below the largest that it has seen.
/// async fn next_job(token: i64) -> Option<String> {
///     // …
/// #   drop(token); None
/// }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "LeaderLatch")]
#[doc(alias = "LeaderSelector")]
pub struct Election {
    sessions: SessionManager,
    spec: Arc<QueueSpec>,
}

impl Election {
    /// Creates a handle for the election at `path`, on the nodes of Curator's `LeaderLatch`. Sends no
    /// request.
    ///
    /// The first candidate creates the missing nodes of the path as containers. The server removes
    /// them when they are no longer used. Several candidates may have the same id.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(
        sessions: &SessionManager,
        path: &str,
        id: impl Into<String>,
    ) -> Result<Self, PathError> {
        Self::with_nodes(sessions, QueueSpec::candidate(path.to_owned()), id.into())
    }

    /// As [`new`](Self::new), on the nodes of Curator's `LeaderSelector`.
    pub fn selector(
        sessions: &SessionManager,
        path: &str,
        id: impl Into<String>,
    ) -> Result<Self, PathError> {
        Self::with_nodes(sessions, QueueSpec::mutex(path.to_owned()), id.into())
    }

    fn with_nodes(
        sessions: &SessionManager,
        mut spec: QueueSpec,
        id: String,
    ) -> Result<Self, PathError> {
        zk_session::validate_path(&spec.path)?;
        spec.set_data(id.into_bytes());
        Ok(Self { sessions: sessions.clone(), spec: Arc::new(spec) })
    }

    /// Returns the path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.spec.path
    }

    /// Returns the id of this candidate.
    #[must_use]
    pub fn id(&self) -> &str {
        let id = self.spec.data.as_deref();
        id.and_then(|id| std::str::from_utf8(id).ok()).unwrap_or_default()
    }

    /// Stands for election and runs `work` in each term in which this candidate leads, until the work
    /// breaks with a result.
    ///
    /// The candidate queues, runs the work while it leads, and drops the work when the leadership may
    /// be lost. Then it stands again, on the next session if the current one has ended. When the work
    /// finishes, it decides how to continue:
    ///
    /// * [`ControlFlow::Continue`]: the candidate resigns, and stands again at the end of the queue,
    ///   so that the others lead before it does. This is `LeaderSelector.autoRequeue`. A candidate
    ///   that is alone leads again after two round trips.
    /// * [`ControlFlow::Break`]: the candidate resigns, and the call returns the value.
    ///
    /// If the release shows that the leadership was lost before, the term counts as lost, and the
    /// result of the work is dropped. `work` gets the leadership as a [`HeldLock`], with the fencing
    /// token. To limit a term, wrap the work in `tokio::time::timeout` and continue after it.
    ///
    /// `interrupted` is called for each lost leadership, each failed attempt, and each resignation that
    /// the server has not confirmed; it must not block.
    /// The arguments and errors are those of [`run_whenever_held`](crate::run_whenever_held).
    ///
    /// # Errors
    /// * The error of the work, if the candidate still led at that time.
    /// * The first error of an attempt for which a retry cannot help, for example `NoAuth`, or that
    ///   the [`SessionManager`] has stopped.
    /// * The error of a rejected resignation, if the work continues. The candidate would wait behind its
    ///   own node.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and resigns in the background, also while the candidate
    /// waits.
    ///
    /// ```no_run
    /// # use std::convert::Infallible;
    /// # use std::ops::ControlFlow;
    /// # use std::time::Duration;
    /// # use zk_recipes::{Election, HeldLock, LockError};
    /// # async fn balance(leader: &HeldLock) {}
    /// # async fn example(election: Election) -> Result<Infallible, LockError> {
    /// // Leads for at most a minute at a time, for ever.
    /// let work = async |leader: HeldLock| {
    ///     drop(tokio::time::timeout(Duration::from_secs(60), balance(&leader)).await);
    ///     Ok(ControlFlow::Continue(()))
    /// };
    /// election.lead(work, |interruption| eprintln!("{interruption}")).await
    /// # }
    /// ```
    pub async fn lead<F, T, W>(
        &self,
        work: impl FnMut(HeldLock) -> F,
        interrupted: impl FnMut(Interruption),
    ) -> Result<T, W>
    where
        F: Future<Output = Result<ControlFlow<T>, W>>,
        W: From<LockError>,
    {
        let lock = |client: &Client| Ok::<_, LockError>(Mutex::of(self.queue(client)));
        run_terms(&self.sessions, lock, work, interrupted).await
    }

    /// Stands for election in the background, on the runtime of the sessions. Returns at once.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zk_recipes::{Election, LockError};
    /// # async fn clean_up(token: i64) {}
    /// # async fn example(election: Election) -> Result<(), LockError> {
    /// let candidacy = election.stand();
    /// let mut every_minute = tokio::time::interval(Duration::from_secs(60));
    /// for _ in 0..60 {
    ///     every_minute.tick().await;
    ///     if let Some(token) = candidacy.leadership().token() {
    ///         clean_up(token.czxid()).await;
    ///     }
    /// }
    /// candidacy.resign().await
    /// # }
    /// ```
    pub fn stand(&self) -> Candidacy {
        Candidacy::begin(&self.sessions, Arc::clone(&self.spec))
    }

    /// Returns the candidates in the order in which they lead, the leader first; an empty list if the
    /// path does not exist. A candidate that leaves during the call is omitted (CURATOR-358).
    ///
    /// It takes one request for the list, and one for each candidate. The server may lag behind other
    /// servers; see [`Client::sync`].
    ///
    /// # Errors
    /// Returns an error if a request fails, also because the session ends during the call.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn candidates(&self) -> Result<Vec<Candidate>, LockError> {
        let client = self.sessions.open_client().await?;
        let listed = participants_of_side(&self.queue(&client)).await?;
        let numbered = listed.into_iter().enumerate();
        Ok(numbered.map(|(index, candidate)| Candidate::new(candidate, index == 0)).collect())
    }

    /// Returns the first of the [`candidates`](Self::candidates); `None` if nobody stands. Two
    /// requests, however many candidates there are.
    ///
    /// # Cancel safety
    /// As [`candidates`](Self::candidates).
    pub async fn leader(&self) -> Result<Option<Candidate>, LockError> {
        let client = self.sessions.open_client().await?;
        let first = first_participant(&self.queue(&client)).await?;
        Ok(first.map(|first| Candidate::new(first, true)))
    }
}

impl Election {
    fn queue(&self, client: &Client) -> Queue {
        Queue::new(client, self.spec.clone())
    }
}

/// # Options
impl Election {
    /// Sets the ACL of the nodes; see [`Mutex::with_acl`].
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        Arc::make_mut(&mut self.spec).set_acl(acl.into());
        self
    }

    /// Counts acquisitions, holds and losses of this handle in `metrics`.
    #[must_use]
    pub fn with_metrics(mut self, metrics: &LockMetrics) -> Self {
        Arc::make_mut(&mut self.spec).set_metrics(metrics);
        self
    }

    /// Accepts a path on which other recipes have nodes; see [`Mutex::allow_foreign_nodes`].
    #[must_use]
    pub fn allow_foreign_nodes(mut self) -> Self {
        Arc::make_mut(&mut self.spec).allow_foreign_nodes();
        self
    }
}

/// A candidate of an [`Election`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The id that it stands with. Bytes that are not UTF-8 are replaced.
    pub id: String,
    /// True for the candidate at the head of the queue. It leads, or begins to lead when it notices
    /// that the one before it has gone. A leader that was paused may not lead any more.
    pub is_leader: bool,
    /// Its node: path, session, and the time since when it stands.
    pub participant: Participant,
}

impl Candidate {
    fn new(participant: Participant, is_leader: bool) -> Self {
        let id = String::from_utf8_lossy(&participant.data).into_owned();
        Self { id, is_leader, participant }
    }
}
