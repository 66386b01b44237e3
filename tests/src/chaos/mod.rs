//! Chaos on real ensembles: contenders, faults, and a checker that judges what happened.
//!
//! * [`scenario`] lists hand-overs under a fault; [`round`] runs one of them.
//! * [`workload`] runs many contenders under one fault after the other.
//! * [`contender`] is the process of a contender, [`process`] its handle.
//! * [`checker`] judges a [`history`] of [`event`]s.
//!
//! `cargo xtask chaos` runs all of it, `tests/tests/chaos_*.rs` short versions.

pub mod checker;
pub mod contender;
pub mod event;
pub mod history;
pub mod holding;
pub mod process;
pub mod random;
mod random_fault;
pub mod report;
pub mod round;
pub mod scenario;
pub mod violation;
pub mod workload;

/// Why a run shows nothing: a server or a process does not do what it is asked.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
