//! The locks for programs without async.
//!
//! A [`Client`] opens its session on a thread of its own, which sends the heartbeats and notices a
//! lost lock whatever the caller's threads are busy with. Every call blocks the calling thread until
//! its answer arrives. Any number of threads may call. Calls in a task of a runtime panic: await the
//! async API there.
//!
//! Dropping a guard waits up to [a tenth of a second](zk_session::limits::CLOSE_ON_DROP_WAIT) for the
//! release of its lock, and dropping the last handle as long for the server to close the session.
//! So a program leaves no lock behind when `main` returns, by `?` too, or panics. What is never
//! dropped stays for a session timeout: guards in statics, in threads that are not joined, in a
//! program that calls [`std::process::exit`], aborts on a panic, or is killed.
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
pub use lock::{Acquire, Lock, RwLock};
pub use session_manager::SessionManager;

/// The blocking form of [`crate::Mutex`].
pub type Mutex = Lock<crate::Mutex>;

/// The blocking form of [`crate::SemaphoreMutex`].
pub type SemaphoreMutex = Lock<crate::SemaphoreMutex>;

/// The blocking form of [`crate::Semaphore`].
pub type Semaphore = Lock<crate::Semaphore>;

/// The blocking form of [`crate::MultiLock`].
pub type MultiLock = Lock<crate::MultiLock>;

/// The blocking form of [`crate::ReadLock`].
pub type ReadLock = Lock<crate::ReadLock>;

/// The blocking form of [`crate::WriteLock`].
pub type WriteLock = Lock<crate::WriteLock>;
