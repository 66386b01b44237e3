//! Tests with forged histories: the checker finds each broken promise, and accepts a sound history.

use super::*;

#[test]
fn checker_accepts_sound_handover_and_measures_margin() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         9000 1 /a valid
         9500 1 /a lost the ensemble did not answer within the lease
         12000 2 /a granted exclusive 6
         15000 2 /a valid
         15000 2 /a releasing
         15500 3 /a granted exclusive 7",
    );
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.grants, verdict.margins_us), (3, vec![2500]));
    let losses: Vec<usize> = verdict.losses.into_values().collect();
    assert_eq!(losses, [1]);
}

#[test]
fn checker_finds_two_holders_for_one_millisecond() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         13000 1 /a valid
         12000 2 /a granted exclusive 6
         13500 1 /a lost the session expired",
    );
    assert!(matches!(
        verdict.violations[..],
        [Violation::TwoValidGuards { by_us: 1000, ref pair }] if pair.contenders == [1, 2]
    ));
    assert_eq!(verdict.margins_us, [-1500]);
}

#[test]
fn checker_counts_open_guard_valid_until_its_last_sample() {
    let overlap = "1000 1 /a granted exclusive 5
         12001 1 /a valid
         12000 2 /a granted exclusive 6";
    assert!(matches!(judge(overlap).violations[..], [Violation::TwoValidGuards { by_us: 1, .. }]));
    let killed = "1000 1 /a granted exclusive 5
         11000 1 /a valid
         11500 1 - killed
         12000 2 /a granted exclusive 6";
    assert_eq!(judge(killed).violations, []);
}

#[test]
fn checker_treats_different_locks_as_independent() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         9000 1 /a valid
         2000 1 /b granted exclusive 4
         3000 2 /c granted exclusive 3",
    );
    assert_eq!(verdict.violations, []);
}

#[test]
fn checker_finds_token_that_does_not_grow() {
    for token in [4, 5] {
        let verdict = judge(&format!(
            "1000 1 /a granted exclusive 5
             2000 1 /a releasing
             3000 2 /a granted exclusive {token}"
        ));
        assert!(matches!(verdict.violations[..], [Violation::TokenWentBack { .. }]), "{verdict:?}");
    }
    // The guard before the previous one counts as well.
    let verdict = judge(
        "1000 1 /a granted exclusive 9
         2000 1 /a releasing
         3000 2 /a granted exclusive 5
         4000 2 /a releasing
         5000 3 /a granted exclusive 6",
    );
    assert_eq!(verdict.violations.len(), 2);
}

#[test]
fn checker_finds_reader_beside_writer() {
    for (first, second) in [("shared", "exclusive"), ("exclusive", "shared")] {
        let verdict = judge(&format!(
            "1000 1 /a granted {first} 5
             3000 1 /a valid
             2000 2 /a granted {second} 6"
        ));
        let found = matches!(verdict.violations[..], [Violation::TwoValidGuards { .. }]);
        assert!(found, "{first} {second}");
    }
}

#[test]
fn checker_accepts_concurrent_readers_with_unordered_tokens() {
    let verdict = judge(
        "1000 1 /a granted shared 6
         3000 1 /a valid
         2000 2 /a granted shared 5
         4000 2 /a valid
         3500 1 /a releasing
         4000 2 /a releasing
         5000 3 /a granted exclusive 7",
    );
    assert_eq!(verdict.violations, []);
}

#[test]
fn checker_finds_one_permit_too_many() {
    let verdict = judge(
        "1000 1 /s granted 1/3 5
         9000 1 /s valid
         2000 2 /s granted 2/3 6
         9000 2 /s valid
         3000 3 /s granted 1/3 7",
    );
    assert!(matches!(
        verdict.violations[..],
        [Violation::TooManyPermits { taken: 4, of: 3, at_us: 3000, .. }]
    ));
}

#[test]
fn checker_accepts_full_semaphore_and_regrant_of_lost_permit() {
    let verdict = judge(
        "1000 1 /s granted 1/2 6
         5000 1 /s valid
         2000 2 /s granted 1/2 5
         9000 2 /s valid
         5500 1 /s lost the ensemble did not answer within the lease
         7000 3 /s granted 1/2 7",
    );
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.margins_us, [1500]);
}

#[test]
fn checker_finds_events_of_guard_that_was_not_granted() {
    for ending in ["releasing", "lost the session expired", "valid"] {
        let verdict = judge(&format!("1000 1 /a {ending}"));
        let found = matches!(verdict.violations[..], [Violation::NotGranted { .. }]);
        assert!(found, "{ending}");
    }
    let twice = "1000 1 /a granted exclusive 5
         2000 1 /a releasing
         3000 1 /a releasing";
    assert!(matches!(judge(twice).violations[..], [Violation::NotGranted { .. }]));
}

#[test]
fn checker_finds_loss_reported_after_next_grant() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         9000 1 /a valid
         12000 2 /a granted exclusive 6
         12001 1 /a lost the ensemble did not answer within the lease",
    );
    assert!(matches!(verdict.violations[..], [Violation::LateLoss { by_us: 1, .. }]));
    assert_eq!(verdict.margins_us, [-1]);
}

#[test]
fn checker_excuses_stopped_holder_for_late_loss_only() {
    let told_late = "1000 1 /a granted exclusive 5
         9000 1 /a valid
         9500 1 - stopped
         12000 2 /a granted exclusive 6
         20000 1 - continued
         20100 1 /a lost the session expired";
    let verdict = judge(told_late);
    assert_eq!((verdict.violations, verdict.margins_us), (vec![], vec![3000]));
    // The process runs for a moment after the engine records the stop, and before it records the
    // continuation.
    let unsharp = told_late.replace("9000 1 /a valid", "9600 1 /a valid").replace("20100", "19999");
    assert_eq!(judge(&unsharp).violations, []);
    // The process runs again and reports that it still holds the lock.
    let believed_late = told_late.replace("20100 1 /a lost", "20050 1 /a valid\n20100 1 /a lost");
    let verdict = judge(&believed_late);
    assert!(matches!(verdict.violations[..], [Violation::TwoValidGuards { by_us: 8050, .. }]));
    // A stop before the grant excuses nothing.
    let stopped_before = "500 1 - stopped
         600 1 - continued
         1000 1 /a granted exclusive 5
         9000 1 /a valid
         12000 2 /a granted exclusive 6
         12100 1 /a lost the session expired";
    assert!(matches!(judge(stopped_before).violations[..], [Violation::LateLoss { .. }]));
}

#[test]
fn checker_finds_valid_token_after_loss() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         9000 1 /a lost the session expired
         9001 1 /a valid",
    );
    assert!(matches!(verdict.violations[..], [Violation::ValidAfterLoss { .. }]));
}

#[test]
fn checker_finds_second_grant_to_same_holder() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         2000 1 /a granted exclusive 6",
    );
    assert!(
        verdict
            .violations
            .iter()
            .any(|violation| matches!(violation, Violation::GrantedTwice { .. }))
    );
}

#[test]
fn verdict_add_sums_grants_losses_and_violations() {
    let mut sum = judge("1000 1 /a granted exclusive 5\n2000 1 /a lost the session expired");
    sum.add(judge("1000 1 /a valid"));
    sum.add(sum.clone());
    assert_eq!((sum.grants, sum.violations.len()), (2, 2));
    assert_eq!(sum.losses.into_values().collect::<Vec<_>>(), [2]);
}

/// Judges a history in its text form.
fn judge(history: &str) -> Verdict {
    let events: Result<Vec<Event>, String> =
        history.lines().map(|line| line.trim().parse()).collect();
    check(&events.unwrap())
}
