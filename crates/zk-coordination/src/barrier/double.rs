//! Barrier of a group that begins and ends together: Curator's `DistributedDoubleBarrier`.

use zk_recipes::session::{Acl, Client, validate_path};

use super::error::BarrierError;
use crate::create_acl::CreateAcl;
use crate::limits::MEMBERS_MAX;

/// A barrier that `n` members enter together and leave together: Curator's
/// `DistributedDoubleBarrier`, on the same nodes.
///
/// Each call of [`enter`](Self::enter) is a member of its own, also on the same client. A barrier can
/// be used again and again: each opening begins a new *generation*. The handle is cheap to clone.
///
/// # What it promises
/// * **No early entry**: the barrier opens in one transaction, which checks that `n` members exist.
///   A member enters when it has read that the barrier opened with it.
/// * **Exactly `n`**: if there are more than `n` members, the `n` oldest ones enter. The others wait
///   for the next generation, and count for it.
/// * **Generations do not mix**: a new member waits until all members of the open generation have
///   left or died. A slow member can neither open nor close a later generation.
/// * [`Entered::leave`](super::Entered::leave) returns when all `n` members have left or died.
/// * **No member is left behind**: a member that times out, fails or is dropped deletes its node, and
///   no watch remains for longer than a moment.
/// * [`enter_timeout`](Self::enter_timeout) also finds out whether the barrier opened meanwhile; it has
///   then entered.
/// * The last member to leave deletes `ready`. If the last ones die, are dropped, or do not wait for
///   the end of their `leave`, `ready` stays. The first member of the next generation deletes it. Without
///   a next generation, somebody has to delete the barrier's node, for example with
///   `zk delete PATH --recursive`.
/// * A member whose session ends is no longer counted. Members that had entered are not told.
///
/// # With Curator in the group
/// Members of both kinds count for each other, enter together, and leave together. But Curator has no
/// generations. With one of its members in the group:
///
/// * Do not use a path again. A member of Curator's enters at once if it finds `ready`, and its
///   `leave` also waits for members of the next generation.
/// * If a member of Curator's arrives last, it counts first and opens the barrier in another request.
///   A member that dies in between is still counted. A member of ours that times out in between is
///   counted and gone.
/// * A member of Curator's that times out leaves its node behind (CURATOR-318). A timeout of its
///   `leave` deletes `ready`, which ends the `leave` of our members too.
///
/// # On the wire
/// ```text
/// <path>                 a container; each generation increments its version
/// <path>/<uuid>          a member, ephemeral
/// <path>/ready           persistent; exists while the barrier is open
/// <path>/closing-<uuid>  ephemeral; exists for a moment before `ready` is deleted
/// ```
///
/// Every child but `ready` and `closing-<uuid>` counts as a member. The data of `ready` is the
/// `czxid` of the newest member that has entered. The transaction that opens the barrier checks the
/// members, writes the data of the barrier's node unchanged, which increments its version, and creates
/// `ready`. Clients need the permission to write the barrier's node.
///
/// `ready` is deleted in one transaction, which checks the version of the barrier's node, and deletes
/// the `closing` node of the same client. The `closing` node keeps the servers from replacing the
/// container. So a late or repeated request never deletes the `ready` of a later generation.
///
/// # What it costs
/// A member sends twelve requests to enter, in five round trips, and lists the members once. The newest
/// one sends one more for each member, and the transaction. If it does not open the barrier within
/// [`OPENING_PAUSE`](crate::limits::OPENING_PAUSE), and a millisecond for each member, another member
/// sends them, too. To leave, a member lists the members and deletes its node. Then it waits for the member
/// that is first by name, which lists the members and sets a watch some `ln(n)` times, and deletes its node
/// last. Members that find no other one send four to five requests to delete `ready`.
///
/// # What happens on loss
/// Members wait until the session reconnects or ends. If the session ends, `enter` and `leave` fail,
/// and the server deletes the member's node.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_coordination::DoubleBarrier;
/// use zk_coordination::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let barrier = DoubleBarrier::new(&client, "/barriers/load-test", 5)?;
/// let mut entered = barrier.enter().await?;
/// println!("all five are ready: go");
/// entered.leave().await?;
/// println!("all five are done");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "DistributedDoubleBarrier")]
pub struct DoubleBarrier {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) members: usize,
    pub(super) acl: CreateAcl,
}

impl DoubleBarrier {
    /// Creates a handle for the barrier of `members` at `path`. Sends no request. All members must
    /// use the same number.
    ///
    /// # Errors
    /// [`BarrierError::MembersOutOfRange`], or an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str, members: u32) -> Result<Self, BarrierError> {
        validate_path(path)?;
        let path = path.to_owned();
        match usize::try_from(members) {
            Ok(count) if (1..=MEMBERS_MAX).contains(&members) => {
                Ok(Self { client: client.clone(), path, members: count, acl: CreateAcl::default() })
            }
            _ => Err(BarrierError::MembersOutOfRange { path, members }),
        }
    }

    /// Sets the access control list of all nodes that this handle creates: of the barrier, its missing
    /// parents, its members, `ready` and `closing`. The default is open to everyone, as with Curator.
    ///
    /// Each member needs permission to read, to write, to create and to delete on the barrier's node,
    /// and to read the nodes of the other members.
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.acl = CreateAcl::new(acl);
        self
    }

    /// Returns the path of the barrier's node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}
