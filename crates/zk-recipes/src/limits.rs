//! All limits of this crate, each with its reason.

use std::time::Duration;

use zk_session::limits::Fraction;
pub use zk_session::limits::{HISTOGRAM_BOUNDS, THROTTLED_PAUSE, TIMED_OUT_MAX, TIMED_OUT_PAUSE};

/// How often the parents of a lock node are created again, because the server removed them as empty
/// containers before the node was created. One such race is normal; this many in a row are not.
pub const PARENT_ATTEMPTS_MAX: usize = 16;

/// The part of the session timeout after which a wait counts as long. The waiter then checks that
/// it may read the node of the contender ahead, and finds out when it is next in line, to renew its
/// lease from then on. Most waits are over before and save these requests. Until then, the lease
/// from the creation of its node is valid.
pub const LONG_WAIT_PART: Fraction = Fraction::new(1, 4);

/// How often a contender queues again after other clients have deleted its node.
pub const RESTARTS_MAX: usize = 16;

/// The first sequence number that a lock rejects. A server counts in 31 bits. At the end it either
/// repeats the last number or continues with negative ones, and both let two contenders hold one
/// lock. The distance to the end covers contenders that arrive at the same time.
pub const SEQUENCE_END: u32 = (1 << 31) - 1_000_000;

/// How often a guard, or a persistent node of `zk-coordination`, reads its node if it cannot watch it:
/// its session is at a limit, or the ACL of the guard's node does not permit reading it. It detects a
/// deletion later than with a watch. A thousand such nodes cost a thousand reads a second.
pub const UNWATCHED_PAUSE: Duration = Duration::from_secs(1);

/// Number of creates with an unknown outcome, and of nodes found after such creates, beyond which the next
/// contenders of the session use random ids. Contenders that are cancelled before their create is answered
/// leave such creates. The found names are forgotten when none is left.
pub(crate) const COMMON_ID_CREATES_MAX: usize = 4_096;

/// Number of requests sent at once to read the data of many contenders.
pub const PARTICIPANTS_CHUNK: usize = 256;

/// Bytes of data, plus four times the path, that always fit into a downgrade: half of a server's
/// frame limit. Above this size the transaction is measured before a writer queues.
pub const DOWNGRADE_FITS: usize = 512 * 1024;

/// Maximum number of permits for one call. Each permit is a node, with one request to create and
/// one to delete it, and all of them wait for the same turn.
pub const PERMITS_AT_ONCE_MAX: u32 = 4_096;

/// Number of leases created at once when a call acquires several permits, well below
/// [`REQUESTS_MAX`](zk_session::limits::REQUESTS_MAX).
pub const PERMITS_CHUNK: usize = 256;

/// How many times as many turns of a semaphore's handle in a row must find a free permit, after a miss,
/// before one ends again without knowing whether a permit is free. A handle learns by two misses that permits
/// are not always free.
pub(crate) const FREE_TURNS_FACTOR: u32 = 8;

/// Most such turns in a row. If permits are free at random, fewer than two turns in a hundred miss.
pub(crate) const FREE_TURNS_MAX: u32 = 64;

/// Time after the acquisition at which a guard watches its own node, unless it waited with such a
/// watch; a sixteenth of the session timeout, if that is less. A watch costs a request and an
/// event, which is half of the cost of acquiring and releasing a free lock. Most locks are released
/// before this time.
pub const NODE_WATCH_DELAY: Duration = Duration::from_millis(100);

/// The longest such time, as a part of the session timeout: with a short timeout, holders notice the
/// deletion of their node well before their session could expire.
pub(crate) const NODE_WATCH_PART: Fraction = Fraction::new(1, 16);

/// Pause of [`run_whenever_held`](crate::run_whenever_held) between a failed acquisition and the
/// next one on the same session. A tight loop must not flood a server that rejects requests at
/// once.
pub const REQUEUE_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts to stand for election that fail for a reason that does not pass by
/// itself, as a part of the session timeout. Once the reason is gone, the candidate stands as soon as one
/// whose session has ended.
pub(crate) const STANDING_PAUSE_PART: Fraction = Fraction::new(1, 2);

/// How often a lock passes to another local waiter before it is released to the ensemble. A pass
/// takes a few microseconds and a hand-off through the ensemble some hundred, so with a thousand
/// passes the ensemble takes no more than a tenth of the time.
pub const LOCAL_PASSES_MAX: u32 = 1_000;

/// Time from the grant of a lock by the ensemble after which it does not pass to another local
/// waiter. A contender waits this long, and for one hold more, for each other process ahead of it.
/// It is long against a hand-off through the ensemble, and short for a user who waits.
pub const LOCAL_TIME_MAX: Duration = Duration::from_millis(50);

/// Characters of a client's name, or of a host's, in the default data of a node.
pub const CONTENDER_NAME_MAX: usize = 64;
