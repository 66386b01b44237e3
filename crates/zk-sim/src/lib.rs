//! The deterministic simulation of this repository's clients, sessions and recipes.
//!
//! A seed decides everything: servers, timeouts, latencies, faults, and the actions of every
//! contender. The clients and recipes are the real ones, unchanged. They run on the in-memory
//! servers of `zk-testing`, under a clock that advances only while every task waits. The [`oracle`]
//! sees the true state of the servers and checks the invariants after every event.
//!
//! Two runs of a seed produce identical traces.
//!
//! ```
//! use zk_sim::{Suite, run};
//!
//! let outcome = run(Suite::Locks, 1);
//! assert_eq!(outcome.violation, None);
//! assert_eq!(run(Suite::Locks, 1).hash, outcome.hash);
//! ```

#![forbid(unsafe_code)]

mod campaign;
mod client;
mod clock;
mod coordination;
mod earliest_expiry;
mod ensure;
mod faults;
mod frames;
mod history;
mod holding;
mod model;
mod network;
pub mod oracle;
mod orphans;
mod plan;
mod process;
mod recipe;
mod run;
mod script;
mod server_faults;
mod servers;
mod small_world;
mod steps;
mod strikes;
mod suite;
mod sweep;
mod trace;
mod watch_progress;
mod workload;
mod world;
mod zxids;

pub use campaign::{Campaign, Summary};
pub use run::{Outcome, run, run_script};
pub use script::{Fault, Point, Strike};
pub use small_world::SmallWorld;
pub use suite::Suite;
pub use sweep::{Finding, Sweep, Swept};
