//! Chaos on real ensembles: contenders, faults, and a checker that judges what happened.

pub mod checker;
pub mod event;
