//! Test that the hand-off benchmark works, without a check of times: every scenario runs, excludes
//! and is recorded.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use xtask::zookeeper::{Distribution, or_skip};

#[test]
fn short_run_measures_and_draws_every_scenario() {
    if or_skip(Distribution::shared()).is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handoff-short");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["--short", "--out"])
        .arg(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));

    let record = fs::read_to_string(folder.join("handoff.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let measured = |scenario: &str| -> Vec<String> {
        let rows = record["scenarios"].as_array().unwrap();
        let row = rows.iter().find(|row| row["scenario"] == scenario);
        let row = row.unwrap_or_else(|| panic!("no {scenario}: {said}"));
        let entries = row["contestants"].as_array().unwrap().iter();
        entries
            .inspect(|entry| assert!(entry["p50"].as_f64().unwrap() > 0.0, "{scenario}: {entry}"))
            .map(|entry| entry["contestant"].as_str().unwrap().to_owned())
            .collect()
    };
    for scenario in ["uncontended-acquire", "uncontended-release"] {
        assert_eq!(measured(scenario), ["floor", "ours", "classic"], "{scenario}");
    }
    for scenario in ["session-connect", "session-close"] {
        assert_eq!(measured(scenario), ["ours"], "{scenario}");
    }
    assert_eq!(measured("handoff-10-1ms"), ["floor", "ours", "classic", "marked"]);
    for scenario in ["read-write", "semaphore"] {
        assert_eq!(measured(scenario), ["floor", "ours"], "{scenario}");
    }
    for scenario in ["reconnect", "long-hold"] {
        assert_eq!(measured(scenario), ["ours"], "{scenario}");
    }
    assert_eq!(measured("drain"), ["ours", "marked"]);
    assert_eq!(measured("herd-10"), ["ours", "classic", "marked", "herd"]);
    assert_eq!(measured("local-queue"), ["ours", "local-queue"]);
    assert_eq!(record["throughput"].as_array().unwrap().len(), 2, "{record:#}");
    let traffic = record["traffic"].as_array().unwrap();
    assert_eq!(traffic.len(), 6, "{record:#}");
    for entry in traffic {
        assert!(entry["per_handoff"]["requests"].as_f64().unwrap() >= 1.0, "{entry:#}");
        assert!(entry["per_waiter"]["requests"].as_f64().unwrap() >= 3.0, "{entry:#}");
    }
    let plot = fs::read_to_string(folder.join("handoff-10-1ms.svg")).unwrap();
    assert!(plot.contains(">ours<") && plot.contains("<polyline"), "{plot}");
}

#[test]
fn unknown_scenario_or_contestant_is_rejected() {
    for (option, name) in [("--scenario", "handof-3"), ("--contestant", "redis")] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_handoff")).args([option, name]).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("see --list"), "{output:?}");
    }
}
