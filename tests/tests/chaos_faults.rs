//! Short versions of `cargo xtask chaos`: links cut one way, a leader that is replaced, servers
//! that restart with other limits, and many contenders under random faults.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

use std::path::Path;
use std::time::Duration;

use zk_history::judge;
use zk_recipes::LossReason;
use zk_tests::chaos::history::History;
use zk_tests::chaos::operations::Operations;
use zk_tests::chaos::round::{HolderEnd, Testbed};
use zk_tests::chaos::scenario::Scenario;
use zk_tests::chaos::workload::{Faults, Workload};
use zk_tests::{Settings, or_skip};

/// It loses its lock by the end of its lease.
#[test]
fn holder_loses_lock_in_time_by_cuts_and_a_new_leader() {
    let settings = Settings::default().tick_ms(TICK_MS);
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    let all = "follower-cut follower-cut-to-leader follower-cut-from-leader follower-cut-all leader-stop \
               leader-cut";
    for (number, name) in (1..).zip(all.split(' ')) {
        let scenario = Scenario::find(name).unwrap();
        let testbed =
            Testbed { ensemble: &ensemble, program: program(), tick: TICK, timeout: 4 * TICK };
        let outcome = testbed.round(scenario, number, 0).unwrap();
        let history = outcome.history.digest();
        let may_move = name == "follower-cut-all" && outcome.holder_end == HolderEnd::Kept;
        let is_lost = outcome.holder_end == HolderEnd::Lost;
        assert!(is_lost || may_move, "{:?}\n{history}", outcome.holder_end);
        let is_by_lease = |reason: &String| *reason == LossReason::LeaseDeadlinePassed.to_string();
        assert!(outcome.verdict.losses.keys().all(is_by_lease), "{history}");
        assert_eq!(outcome.verdict.violations, [], "{history}");
        println!("{name}: margin {:?} us", outcome.verdict.margins_us);
    }
}

#[test]
fn guards_stay_exclusive_under_random_faults() {
    let settings = Settings::default().tick_ms(TICK_MS);
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    expect_exclusive(&ensemble, Faults::Random);
}

#[test]
fn guards_stay_exclusive_when_servers_restart_with_new_limits() {
    let settings = Settings::default().tick_ms(TICK_MS);
    let Some(ensemble) = or_skip(settings.start_ensemble(3)) else { return };
    expect_exclusive(&ensemble, Faults::RollingRestart);
}

#[test]
fn operations_are_linearizable_under_random_faults() {
    let settings = Settings::default().tick_ms(TICK_MS);
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    let (length, timeout) = (Duration::from_secs(6), 8 * TICK);
    // The faults of this seed kill no server: kills of 3.8.0 lose committed writes (ZOOKEEPER-4643).
    let operations = Operations { ensemble: &ensemble, timeout, length, seed: 27 };
    let entries = operations.run(|text| println!("{text}")).unwrap();
    let verdict = judge(entries);
    assert!(verdict.operations > 0);
    assert_eq!([verdict.violations, verdict.undecided].concat(), [""; 0]);
}

fn expect_exclusive(ensemble: &zk_tests::Ensemble, faults: Faults) {
    let workload = Workload {
        ensemble,
        program: program(),
        tick: TICK,
        timeout: 6 * TICK,
        length: Duration::from_secs(6),
        seed: 1,
        faults,
    };
    let history = History::default();
    let verdict = workload.run(&history, |text| println!("{text}"));
    let verdict = verdict.unwrap_or_else(|error| panic!("{error}\n{}", history.digest()));
    assert_eq!(verdict.violations, [], "{}", history.digest());
    assert!(verdict.grants > 0);
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_chaos"))
}

const TICK_MS: u32 = 500;
const TICK: Duration = Duration::from_millis(500);
