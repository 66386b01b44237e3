//! The deterministic simulation of this repository's clients, sessions and recipes.
//!
//! A seed decides everything: servers, timeouts, latencies, faults, what every contender does and
//! when. Client and recipes are the real ones, unchanged, on the in-memory servers of
//! `zk-testing`, under a clock that only moves when everybody waits. The [`oracle`] sees the
//! servers' truth, and judges after every event.
//!
//! Two runs of a seed take the same course, to the last line of their traces.
//!
//! ```
//! let outcome = zk_sim::run(1);
//! assert_eq!(outcome.violation, None);
//! assert_eq!(zk_sim::run(1).hash, outcome.hash);
//! ```

#![forbid(unsafe_code)]

pub mod args;
mod bound;
mod campaign;
mod client;
mod clock;
mod faults;
mod harm;
mod history;
mod network;
pub mod oracle;
mod orphans;
mod plan;
#[cfg(zk_planted)]
pub mod planted;
mod process;
mod rng;
mod run;
mod servers;
mod trace;
mod trail;
mod workload;
mod world;
mod zxids;

pub use campaign::{Campaign, Summary};
pub use run::{Outcome, run};
