//! Reproductions of two guards that were valid together, because a session expired before its guard
//! was lost.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

use std::path::Path;
use std::time::Duration;

use zk_tests::chaos::report;
use zk_tests::chaos::round::{HolderEnd, Testbed, start_ensemble};
use zk_tests::chaos::scenario::Scenario;
use zk_tests::or_skip;

#[test]
fn guards_stay_exclusive_when_idle_session_loses_follower() {
    expect_no_violation("idle-acquire", 20);
}

#[test]
fn guards_stay_exclusive_when_stopped_holder_loses_follower() {
    expect_no_violation("stopped-holder", 8);
}

#[test]
fn guards_stay_exclusive_when_stopped_holder_may_move() {
    expect_no_violation("stopped-holder-all", 16);
}

fn expect_no_violation(name: &str, timeout_ticks: u32) {
    let scenario = Scenario::find(name).unwrap();
    let Some(ensemble) = or_skip(start_ensemble(scenario, TICK)) else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_chaos"));
    let timeout = TICK * timeout_ticks;
    let testbed = Testbed { ensemble: &ensemble, program, tick: TICK, timeout };
    let outcome = testbed.round(scenario, 1, 0).unwrap();
    println!("{:?}; {}", outcome.holder_end, report::margins(&outcome.verdict.margins_us));
    let history = outcome.history.digest();
    assert!(
        !matches!(outcome.holder_end, HolderEnd::Void(_)),
        "{:?}\n{history}",
        outcome.holder_end
    );
    assert_eq!(outcome.verdict.violations, [], "{history}");
}

const TICK: Duration = Duration::from_millis(500);
