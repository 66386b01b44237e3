//! Test that the hand-off benchmark works, without a check of times: every scenario runs, excludes
//! and is recorded, with every contestant that this machine has.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use xtask::zookeeper::{Distribution, or_skip, skip};

#[test]
fn short_run_measures_and_draws_every_scenario() {
    if or_skip(Distribution::shared()).is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("handoff-short");
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["--short", "--out"])
        .arg(&folder)
        // Curator logs to standard output, where its holds are.
        .env("JAVA_TOOL_OPTIONS", LOGS_TO_STANDARD_OUTPUT)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");

    let record = fs::read_to_string(folder.join("handoff.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let skipped: Vec<&str> =
        record["skipped"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let mut others = vec!["zookeeper-client", "curator", "kazoo"];
    others.retain(|name| {
        let absent = format!("{name} does not take part");
        let Some(line) = skipped.iter().find(|line| line.starts_with(&absent)) else { return true };
        assert!(NOT_HERE.iter().any(|reason| line.contains(reason)), "{line}");
        skip(line);
        false
    });
    assert!(!others.contains(&"curator") || errors.contains("\ncurator: "), "{errors}");
    assert!(!skipped.iter().any(|line| line.contains(" failed in ")), "{skipped:#?}");
    let measured = |scenario: &str, own: &[&str], without: &[&str]| {
        let rows = record["scenarios"].as_array().unwrap();
        let row = rows.iter().find(|row| row["scenario"] == scenario);
        let row = row.unwrap_or_else(|| panic!("no {scenario}: {said}"));
        let entries = row["contestants"].as_array().unwrap().iter();
        let measured: Vec<&str> = entries
            .inspect(|entry| assert!(entry["p50"].as_f64().unwrap() > 0.0, "{scenario}: {entry}"))
            .map(|entry| entry["contestant"].as_str().unwrap())
            .collect();
        let others = others.iter().filter(|name| !without.contains(name));
        let expected: Vec<&str> = own.iter().chain(others).copied().collect();
        assert_eq!(measured, expected, "{scenario}");
    };
    let all = ["zookeeper-client", "curator", "kazoo"];
    for scenario in ["uncontended-acquire", "uncontended-release"] {
        measured(scenario, &["floor", "ours", "classic"], &[]);
    }
    for scenario in ["session-connect", "session-close"] {
        measured(scenario, &["ours"], &all);
    }
    for scenario in ["handoff-10-1ms", "long-wait"] {
        measured(scenario, &["floor", "ours", "classic", "marked"], &[]);
    }
    for scenario in ["read-write", "semaphore"] {
        measured(scenario, &["floor", "ours"], &["zookeeper-client"]);
    }
    measured("reconnect", &["ours"], &[]);
    measured("requeue", &["floor", "ours", "classic", "marked"], &[]);
    measured("drain", &["ours", "marked"], &all);
    measured("herd-10", &["ours", "classic", "marked", "herd"], &all);
    measured("local-queue", &["ours", "local-queue"], &all);
    assert_eq!(record["throughput"].as_array().unwrap().len(), 2, "{record:#}");
    let traffic = record["traffic"].as_array().unwrap();
    assert_eq!(traffic.len(), 9 + others.len(), "{record:#}");
    for entry in traffic {
        assert!(entry["per_handoff"]["requests"].as_f64().unwrap() >= 1.0, "{entry:#}");
        if let Some(requests) = entry["per_waiter"]["requests"].as_f64() {
            assert!(requests >= 3.0, "{entry:#}");
        }
    }
    let plot = fs::read_to_string(folder.join("handoff-10-1ms.svg")).unwrap();
    assert!(plot.contains("\nours\n") && plot.contains("<polyline"), "{plot}");
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

/// Why a client may be left out. A client that is here and does not start is a failure.
const NOT_HERE: [&str; 3] = ["no Curator here", "no kazoo here", "it is not built yet"];

/// For slf4j-simple, which Debian's packages have, and for Log4j 2.
const LOGS_TO_STANDARD_OUTPUT: &str = "-Dorg.slf4j.simpleLogger.logFile=System.out \
    -Dorg.slf4j.simpleLogger.log.org.apache.curator=info -Dlog4j2.level=INFO";
