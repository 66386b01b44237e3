//! Chaos tests on real ensembles: contenders, faults, and a checker of the resulting histories.
//!
//! * [`scenario`] lists hand-overs under a fault; [`round`] runs one of them.
//! * [`leader_kill`] kills the leader under many holders.
//! * [`operations`] runs clients whose reads and writes must be linearizable.
//! * [`workload`] runs many contenders under a sequence of faults.
//! * [`contender`] is the process of a contender, and [`process`] is its handle.
//! * [`checker`] judges a [`history`] of [`event`]s.
//!
//! `cargo xtask chaos` runs all of them, and `tests/tests/chaos_*.rs` runs short versions.

pub mod checker;
pub mod contender;
pub mod event;
pub mod history;
pub mod leader_kill;
pub mod operations;
pub mod process;
mod random_fault;
pub mod report;
pub mod round;
pub mod scenario;
pub mod violation;
pub mod workload;

/// Reason why a run shows nothing: a server or a process does not obey a command.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
