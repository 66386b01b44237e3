//! The locks for programs without async.
//!
//! A [`Client`] opens its session on a dedicated thread. This thread sends the heartbeats and
//! detects a lost lock, even while the caller's threads are busy. Each call blocks the calling
//! thread until its reply arrives. Any number of threads may call. Calls in a task of a runtime
//! panic: use the async API there.
//!
//! Dropping a guard waits up to [a tenth of a second](zk_session::limits::CLOSE_ON_DROP_WAIT) for
//! the release of its lock. Dropping the last handle waits as long for the server to close the
//! session. So a program leaves no lock behind when `main` returns, with `?` too, or panics.
//!
//! A lock that is never dropped stays until the session expires. Examples are guards in statics and
//! in threads that are not joined. The same applies to a program that calls [`std::process::exit`],
//! aborts on a panic, or is killed.
//!
//! # Example
//!
//! ```no_run
//! use std::time::Duration;
//! use zk_recipes::blocking::{Client, Mutex};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::connect("zk1:2181,zk2:2181,zk3:2181")?;
//!     let lock = Mutex::new(&client, "/locks/stock")?;
//!     if let Some(guard) = lock.acquire_timeout(Duration::from_secs(5))? {
//!         let token = guard.token()?; // give it along with every write
//!         println!("{} holds the lock, token {token}", guard.node());
//!         guard.release()?;
//!     }
//!     Ok(())
//! }
//! ```

mod client;
mod guard;
mod lock;
mod session_manager;

pub use client::Client;
pub use guard::{Guard, Release};
pub use lock::{Lock, RwLock};
pub use session_manager::SessionManager;

/// Blocking form of [`crate::Mutex`].
pub type Mutex = Lock<crate::Mutex>;

/// Blocking form of [`crate::SemaphoreMutex`].
pub type SemaphoreMutex = Lock<crate::SemaphoreMutex>;

/// Blocking form of [`crate::Semaphore`].
pub type Semaphore = Lock<crate::Semaphore>;

/// Blocking form of [`crate::MultiLock`].
pub type MultiLock = Lock<crate::MultiLock>;

/// Blocking form of [`crate::ReadLock`].
pub type ReadLock = Lock<crate::ReadLock>;

/// Blocking form of [`crate::WriteLock`].
pub type WriteLock = Lock<crate::WriteLock>;
