//! Counters: Curator's `DistributedAtomicLong` and `DistributedAtomicInteger`.

use std::fmt::Debug;
use std::marker::PhantomData;

use bytes::Bytes;
use zk_recipes::session::{Acl, Client, PathError};

use super::error::AtomicError;
use super::node::{Missing, ValueNode};
use super::value::AtomicValue;

/// Counter of 64 bits: Curator's `DistributedAtomicLong`.
pub type AtomicLong = AtomicNumber<i64>;

/// Counter of 32 bits: Curator's `DistributedAtomicInteger`.
pub type AtomicInteger = AtomicNumber<i32>;

/// A number in its own node that many clients change at once: Curator's `DistributedAtomicLong` and
/// `DistributedAtomicInteger`, on the same node.
///
/// The handle has no background task and no cache, and is cheap to clone.
///
/// # What it promises
/// * An addition **never counts twice**. It returns the new number, or an error that says whether it
///   was applied ([`AtomicError::outcome`]). The final number is the sum of the additions that were
///   applied, and of some of those with an unknown outcome.
/// * The outcome is unknown only if a reply was lost and the data of the node does not show whether
///   the lost request was applied. It seldom does: another client can have written the same number.
///   Curator repeats the whole addition instead, and counts it twice. Where that matters use
///   [`add_once`](Self::add_once): it has no unknown outcome that a repetition does not settle.
/// * A result outside of the range is an error ([`AtomicError::Overflow`]), and changes nothing.
///   Curator wraps around.
/// * If other clients change the number first, the call starts again, after a random pause that
///   doubles. It fails after [`CONFLICTS_MAX`](crate::limits::CONFLICTS_MAX) conflicts.
///
/// # On the wire
/// The data of the node is the number, with 8 or 4 bytes, the highest first. A missing node, and one
/// without data, is 0. Data of another length is an error ([`AtomicError::Corrupted`]): Curator takes the
/// first bytes of longer data, and overwrites the rest of it. The node is persistent, and
/// its parents are containers. The path must not be used by a
/// [`SharedCount`](zk_recipes::SharedCount).
///
/// # What it costs
/// An addition sends two requests, a read and a write with the version that was read, in two round
/// trips. A conflict costs two more, and so does a result that changes nothing, which the client
/// verifies after a `sync`. The first addition to a missing node sends one more request, and
/// one for each missing parent.
///
/// # What happens on loss
/// Without a connection, a call waits until the session reconnects or ends. If the session ends
/// before a write is answered, the outcome is unknown. Nothing is left behind.
///
/// If a client deletes the node and creates it again, an addition may overwrite a number that it has
/// not read, and fails with [`AtomicError::NodeRecreated`]. Set the number to 0 instead of deleting
/// the node.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_coordination::AtomicLong;
/// use zk_coordination::session::{Client, Outcome};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let orders = AtomicLong::new(&client, "/counters/orders")?;
/// match orders.add(5).await {
///     Ok(now) => println!("{now} orders"),
///     Err(error) if error.outcome() == Outcome::Unknown => println!("counted or not: {error}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "DistributedAtomicLong")]
#[doc(alias = "DistributedAtomicInteger")]
pub struct AtomicNumber<N> {
    value: AtomicValue,
    of: PhantomData<N>,
}

impl<N: Number> AtomicNumber<N> {
    /// Creates a handle for the number at `path`. Sends no request.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        let value = AtomicValue::with_zero(client, path, N::ZERO.encode())?;
        Ok(Self { value, of: PhantomData })
    }

    /// Returns a handle whose changes acquire a lock after `after` conflicts. Each change releases the
    /// lock when it is done: Curator's `PromotedToLock`. Curator's lock is an `InterProcessMutex`.
    ///
    /// The lock is a [`Mutex`](zk_recipes::Mutex) at a path of its own. Clients that wait in its queue
    /// do not disturb the one that changes the number. A change with the lock sends four requests
    /// more, so it helps only if many clients change the number without a pause. In the example
    /// `contended_counter`, on one server, 64 such clients need 0.6 to 1.0 times as long with a lock
    /// after 3 conflicts, and their slowest addition 0.3 to 0.6 times as long. With 8 clients, they
    /// need 0.5 to 1.0 times as long.
    ///
    /// Clients with the lock and clients without it may change the same number: those without it contend
    /// as before. The condition of each write protects the number, so a lost lock does no harm.
    ///
    /// # Errors
    /// Returns an error if `lock_path` is not a valid ZooKeeper path.
    pub fn promote_to_lock(self, lock_path: &str, after: u32) -> Result<Self, PathError> {
        Ok(Self { value: self.value.promote_to_lock(lock_path, after)?, of: PhantomData })
    }

    /// Sets the access control list of all nodes that this handle creates: of the number, its missing
    /// parents, the markers of [`add_once`](Self::add_once), and the lock of contended changes. The
    /// default is open to everyone, as with Curator.
    ///
    /// Each client needs permission to read and write the number and to create its node; for
    /// `add_once`, also to create children of it.
    #[must_use]
    pub fn with_acl(self, acl: impl Into<Vec<Acl>>) -> Self {
        Self { value: self.value.with_acl(acl), of: PhantomData }
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.value.path()
    }

    pub(super) fn node(&self) -> &ValueNode {
        &self.value.node
    }

    /// Reads the number. A missing node is 0, and is not created. The server may lag behind changes
    /// of other clients; see [`Client::sync`].
    ///
    /// # Errors
    /// [`AtomicError::Corrupted`], or the error of a read that a retry does not help.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn get(&self) -> Result<N, AtomicError> {
        self.decode(&self.value.get().await?)
    }

    /// Creates the node with a number. Returns false if it exists; its number is then unchanged.
    ///
    /// # Errors
    /// As [`AtomicValue::initialize`].
    ///
    /// # Cancel safety
    /// The node may or may not be created when the future is dropped, and parents may remain.
    pub async fn initialize(&self, number: N) -> Result<bool, AtomicError> {
        self.value.initialize(number.encode()).await
    }

    /// Sets the number unconditionally, and creates the node if it does not exist: Curator's
    /// `forceSet`. It also replaces data that is no number.
    ///
    /// # Errors
    /// As [`AtomicValue::set`].
    ///
    /// # Cancel safety
    /// The number may or may not be set when the future is dropped.
    pub async fn set(&self, number: N) -> Result<(), AtomicError> {
        self.value.set(number.encode()).await
    }

    /// Sets the number if it equals `expected`. Returns false, and changes nothing, if it does not, or
    /// if the node does not exist, as Curator does. [`initialize`](Self::initialize) creates it.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// The number may or may not be set when the future is dropped.
    pub async fn compare_and_set(&self, expected: N, number: N) -> Result<bool, AtomicError> {
        let next = |now: &Bytes| Ok((self.decode(now)? == expected).then(|| number.encode()));
        Ok(self.node().change(Missing::IsNoValue, next).await?.is_some())
    }

    /// Adds to the number, and returns the new number.
    ///
    /// # Errors
    /// [`AtomicError::Overflow`] if the result is out of range; otherwise as
    /// [`update`](Self::update). After an error with an unknown outcome, a repetition may count
    /// twice; [`add_once`](Self::add_once) never does.
    ///
    /// # Cancel safety
    /// The addition may or may not be applied when the future is dropped, but only once.
    pub async fn add(&self, delta: N) -> Result<N, AtomicError> {
        self.calculate(|now| now.checked_add(delta)).await
    }

    /// Subtracts from the number, and returns the new number.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn subtract(&self, delta: N) -> Result<N, AtomicError> {
        self.calculate(|now| now.checked_sub(delta)).await
    }

    /// Adds 1, and returns the new number.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn increment(&self) -> Result<N, AtomicError> {
        self.add(N::ONE).await
    }

    /// Subtracts 1, and returns the new number.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// As [`add`](Self::add).
    pub async fn decrement(&self) -> Result<N, AtomicError> {
        self.subtract(N::ONE).await
    }

    /// Replaces the number with the result of `next`, and returns it. Returns `None`,
    /// and changes nothing, if `next` does.
    ///
    /// `next` may be called several times. It must not block.
    ///
    /// # Errors
    /// [`AtomicError::Corrupted`], the error of a request, and the errors of conflicts; see
    /// [`AtomicError`].
    ///
    /// # Cancel safety
    /// The number may or may not be changed when the future is dropped, but only once.
    pub async fn update(
        &self,
        mut next: impl FnMut(N) -> Option<N>,
    ) -> Result<Option<N>, AtomicError> {
        let next = |now: &Bytes| Ok(next(self.decode(now)?).map(N::encode));
        let set = self.node().change(Missing::IsZero, next).await?;
        set.map(|data| self.decode(&data)).transpose()
    }

    async fn calculate(&self, next: impl Fn(N) -> Option<N>) -> Result<N, AtomicError> {
        let set = self.update(next).await?;
        set.ok_or_else(|| AtomicError::Overflow { path: self.path().to_owned() })
    }

    pub(super) fn decode(&self, data: &[u8]) -> Result<N, AtomicError> {
        N::decode(data).ok_or_else(|| AtomicError::Corrupted {
            path: self.path().to_owned(),
            len: data.len(),
            expected: size_of::<N>(),
        })
    }
}

/// A number of an [`AtomicNumber`]: `i64` or `i32`.
pub trait Number: sealed::Sealed + Copy + Eq + Debug + Send + Sync + 'static {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// Adds two numbers. Returns `None` if the sum is out of range.
    #[must_use]
    fn checked_add(self, other: Self) -> Option<Self>;

    /// Subtracts a number. Returns `None` if the difference is out of range.
    #[must_use]
    fn checked_sub(self, other: Self) -> Option<Self>;

    /// Returns the data of a node with this number.
    #[must_use]
    fn encode(self) -> Bytes;

    /// Returns the number that the data of a node is; 0 for a node without data. Returns `None` if the
    /// data has another length.
    #[must_use]
    fn decode(data: &[u8]) -> Option<Self>;
}

mod sealed {
    /// Keeps the trait from being implemented outside of this crate.
    #[allow(unnameable_types, reason = "no other crate may name it")]
    pub trait Sealed {}

    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

macro_rules! number {
    ($number:ty) => {
        impl Number for $number {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            fn checked_add(self, other: Self) -> Option<Self> {
                <$number>::checked_add(self, other)
            }

            fn checked_sub(self, other: Self) -> Option<Self> {
                <$number>::checked_sub(self, other)
            }

            fn encode(self) -> Bytes {
                Bytes::copy_from_slice(&self.to_be_bytes())
            }

            fn decode(data: &[u8]) -> Option<Self> {
                if data.is_empty() {
                    Some(0)
                } else {
                    data.try_into().ok().map(Self::from_be_bytes)
                }
            }
        }
    };
}

number!(i32);
number!(i64);
