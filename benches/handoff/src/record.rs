//! The record of a run, as JSON.

use std::fmt;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::results::{Results, Row};
use crate::servers::Servers;
use crate::{Options, roster, throughput, traffic};

/// The machine and the server of a run.
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    /// The load average over one minute, at the start.
    load: f64,
    zookeeper: String,
    servers: usize,
    fsync: bool,
}

impl Machine {
    pub(crate) fn look(servers: &Servers, options: &Options) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let cpu =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = read("/proc/loadavg");
        let servers = servers.all();
        let status = servers.first().and_then(|server| server.status().ok().flatten());
        Self {
            cpu: cpu.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN),
            zookeeper: status.map_or_else(|| "unknown".to_owned(), |status| status.version),
            servers: servers.len(),
            fsync: options.fsync,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, kernel, load, zookeeper, servers, fsync } = self;
        let sync = if *fsync { "yes" } else { "no" };
        let several = if *servers > 1 { format!("{servers} servers of ") } else { String::new() };
        write!(
            f,
            "{several}ZooKeeper {zookeeper}, forceSync={sync}, on loopback; {cores} cores of {cpu}, \
             Linux {kernel}; load average at the start {load:.1}"
        )
    }
}

pub(crate) fn of(machine: &Machine, options: &Options, results: &Results) -> String {
    let rows: Vec<Value> = results.rows.iter().map(row).collect();
    let record = json!({
        "machine": {
            "cpu": machine.cpu,
            "cores": machine.cores,
            "kernel": machine.kernel,
            "load_at_start": machine.load,
        },
        "server": {
            "zookeeper": machine.zookeeper,
            "servers": machine.servers,
            "force_sync": machine.fsync,
            "network": "loopback",
        },
        "library": { "version": env!("CARGO_PKG_VERSION"), "commit": commit() },
        "recorded_at": recorded_at(),
        "runtime": options.runtime,
        "rounds": options.rounds,
        "unit": "us",
        "scenarios": rows,
        "throughput": throughput::to_json(&results.throughput),
        "traffic": traffic::to_json(&results.traffic),
        "skipped": results.skipped,
    });
    format!("{record:#}\n")
}

fn row(row: &Row) -> Value {
    let held = |of: &str| {
        let held = row.held.iter().find(|(name, _)| *name == of);
        held.map(|(_, samples)| rounded(samples.quantile_us(0.5)))
    };
    let entries = row.entries.iter().map(|(name, samples)| {
        let at = |part: f64| rounded(samples.quantile_us(part));
        let medians: Vec<f64> = samples.round_medians_us().map(rounded).collect();
        json!({
            "contestant": name,
            "samples": samples.len(),
            "p10": at(0.1),
            "p50": at(0.5),
            "p90": at(0.9),
            "p99": at(0.99),
            "max": at(1.0),
            "p50_of_turns": medians,
            "held_p50": held(name),
        })
    });
    json!({
        "scenario": row.name,
        "title": row.title,
        "waiters": row.waiters,
        "of_these_nodes_of_the_harness": row.behind,
        "sessions": row.sessions,
        "holds_of_a_turn": row.holds,
        "hold_ms": u64::try_from(row.hold_ms).unwrap_or(u64::MAX),
        "contestants": entries.collect::<Vec<_>>(),
    })
}

/// Returns the commit, with a `+` if the work tree has uncommitted changes. Returns `None` without git.
fn commit() -> Option<String> {
    let git = |words: &[&str]| {
        let output =
            Command::new("git").args(words).current_dir(roster::benches()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { hash } else { hash + "+" })
}

/// Returns the seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "a record tells when it was made")]
fn recorded_at() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
