//! The record of a run, as JSON.

use std::fmt;
use std::fs;

use serde_json::{Value, json};
use xtask::zookeeper::Standalone;

use crate::run::Results;

/// Where the run took place.
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    /// At the start, over a minute.
    load: f64,
    server: String,
}

impl Machine {
    pub(crate) fn look(server: &Standalone) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let cpu =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = read("/proc/loadavg");
        let version = server.status().ok().flatten().map(|status| status.version);
        Self {
            cpu: cpu.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN),
            server: version.unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, kernel, load, server } = self;
        write!(
            f,
            "ZooKeeper {server}, forceSync=no, on loopback; {cores} cores of {cpu}, Linux {kernel}; load \
             average at the start {load:.1}"
        )
    }
}

pub(crate) fn of(machine: &Machine, runtime: &str, results: &Results) -> String {
    let rows: Vec<Value> = results.rows.iter().map(row).collect();
    let drain = results.drain.as_ref().map(|drain| {
        json!({
            "requests": rounded(drain.requests),
            "bytes_sent": rounded(drain.bytes_sent),
            "answers_and_events": rounded(drain.frames_received),
            "bytes_received": rounded(drain.bytes_received),
        })
    });
    let record = json!({
        "machine": {
            "cpu": machine.cpu,
            "cores": machine.cores,
            "kernel": machine.kernel,
            "load_at_start": machine.load,
        },
        "server": { "zookeeper": machine.server, "force_sync": false, "network": "loopback" },
        "runtime": runtime,
        "unit": "us",
        "scenarios": rows,
        "drain_per_handoff": drain,
        "skipped": results.skipped,
    });
    format!("{record:#}\n")
}

fn row(row: &crate::run::Row) -> Value {
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
            "p50_of_rounds": medians,
        })
    });
    json!({
        "scenario": row.name,
        "title": row.title,
        "waiters": row.waiters,
        "hold_ms": u64::try_from(row.hold_ms).unwrap_or(u64::MAX),
        "contestants": entries.collect::<Vec<_>>(),
    })
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
