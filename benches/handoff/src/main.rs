//! `cargo xtask bench handoff`: the time of a lock from one owner to the next, compared with other
//! clients.
//!
//! The benchmark uses one real ZooKeeper on loopback. Contestants take turns, round by round. Each
//! is a process that reports when it called acquire, owned the lock and released it
//! ([`zk_benches::contest`]). `docs/performance.md` explains the figures.

#![forbid(unsafe_code)]

mod arena;
mod classic;
mod contestant;
mod floor;
mod herd;
mod one_core;
mod ours;
mod plan;
mod plot;
mod proxy;
mod raw;
mod record;
mod results;
mod roster;
mod run;
mod servers;
mod shares;
mod stats;
mod stream;
mod svg;
mod table;
mod threads;
mod throughput;
mod traffic;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use zk_benches::contest::{self, Refusal};

use crate::stream::Transport;

/// Hand-off latency of locks: this library beside the floor, the algorithm of the books and other
/// clients, on one real ZooKeeper server.
///
/// Contestants take turns, A B C A B C, in one run. Every contest checks that no two owners held the
/// lock at a time and that the queue was kept. A contestant that is not available here is
/// skipped with a line that says why.
#[derive(Parser)]
#[command(name = "cargo xtask bench handoff", subcommand_negates_reqs = true)]
struct Options {
    /// For function and not for time: few holds, one round, and of the other clients only those that are
    /// here already
    #[arg(long)]
    short: bool,
    /// Only scenarios whose names begin so; may be given again
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Only these contestants; the floor takes part in any case; may be given again
    #[arg(long, value_name = "NAME")]
    contestant: Vec<String>,
    /// How many times each contestant goes through each scenario; where the holds are few, in several
    /// turns each time
    #[arg(
        long,
        value_name = "N",
        default_value_t = Options::ROUNDS,
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    rounds: u32,
    /// The tokio runtime of the Rust contestants
    #[arg(
        long,
        value_name = "FLAVOUR",
        default_value = Options::RUNTIME,
        value_parser = ["multi", "current"],
    )]
    runtime: String,
    /// The server syncs its log to the disk before it answers a write, as in production. The log is in the
    /// folder for temporary files ($TMPDIR)
    #[arg(long)]
    fsync: bool,
    /// An ensemble of three servers, to which the sessions connect in turn, instead of one server
    #[arg(long)]
    ensemble: bool,
    /// Writes the record handoff.json and the plots there, instead of to benches/record; the
    /// results of a partial run, or of another runtime or other servers, are written only with this option
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Writes no record and no plots
    #[arg(long, conflicts_with = "out")]
    no_record: bool,
    /// Lists the scenarios and contestants
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

impl Options {
    const ROUNDS: u32 = 3;
    const RUNTIME: &str = "multi";
}

#[derive(Subcommand)]
enum Role {
    /// Runs the jobs on standard input
    #[command(hide = true)]
    Contestant { name: String },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.role {
        Some(Role::Contestant { name }) => contend(name, &options.runtime),
        None if options.list => {
            list();
            Ok(())
        }
        None => run::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("handoff: {message}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    println!("scenarios:");
    for scenario in plan::all() {
        println!("  {:<18} {}", scenario.name, scenario.title);
    }
    println!("contestants:");
    for (name, what) in roster::ALL {
        println!("  {name:<18} {what}");
    }
}

fn contend(name: &str, flavour: &str) -> Result<(), String> {
    let mut builder = match flavour {
        "current" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().map_err(|error| error.to_string())?;
    let outcome = contest::serve(|job| match name {
        _ if job.processes > 1 => shares::run(job, name, flavour),
        roster::FLOOR => floor::run(job),
        roster::CLASSIC => classic::run(job, classic::Release::Plain, Transport::Plain),
        roster::MARKED => classic::run(job, classic::Release::Marked, Transport::Plain),
        roster::MARKED_TLS => classic::run(job, classic::Release::Marked, Transport::Tls),
        roster::HERD => herd::run(job),
        roster::OURS => runtime.block_on(ours::run(job, ours::Variant::Plain)),
        roster::OURS_TLS => runtime.block_on(ours::run(job, ours::Variant::Tls)),
        roster::LOCAL_QUEUE => runtime.block_on(ours::run(job, ours::Variant::LocalQueue)),
        _ => Err(Refusal::Failed(format!("no contestant `{name}`"))),
    });
    outcome.map_err(|error| error.to_string())
}

/// Longer than any contest.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
