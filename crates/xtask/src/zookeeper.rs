//! Real Apache ZooKeeper servers for tests and development: installation, start, faults and stop.
//!
//! ```no_run
//! use xtask::zookeeper::Standalone;
//!
//! let zk = Standalone::builder().tick_ms(500).start()?;
//! println!("connect to {}", zk.connect_string());
//! zk.kill();      // SIGKILL
//! zk.restart()?;  // same address, same data
//! # Ok::<(), xtask::zookeeper::Error>(())
//! ```
//!
//! Every server ends with the process that started it, however that process ends. It listens on a loopback
//! address or inside a separate network namespace. All calls block the calling thread until their effect is
//! visible, or fail after a deadline.

mod address;
mod curator;
mod distribution;
mod ensemble;
mod error;
mod existing;
mod four_letter;
mod install;
mod kazoo;
mod kerberos;
mod namespaces;
mod openssl;
mod server;
mod settings;
mod skip;
mod standalone;
mod watchdog;

pub use curator::curator_jars;
pub use distribution::Distribution;
pub use ensemble::Ensemble;
pub use error::{Error, ErrorKind};
pub use existing::existing_server;
pub use four_letter::{Mode, Status, four_letter};
pub use install::Privilege;
pub use kazoo::has_kazoo;
pub use kerberos::KerberosRealm;
pub use openssl::ensure_openssl;
pub use server::Server;
pub use settings::{Settings, certificate};
pub use skip::{or_skip, skip};
pub use standalone::Standalone;

pub(crate) use existing::EXISTING_SERVER_VARIABLE;
pub(crate) use install::{SUDO_VARIABLE, install, lock_file};
pub(crate) use kazoo::ensure_kazoo;
pub(crate) use namespaces::ensure_tools as ensure_namespace_tools;
pub(crate) use server::{SERVING_LIMIT, log_tail};
pub(crate) use skip::SKIPPED;
