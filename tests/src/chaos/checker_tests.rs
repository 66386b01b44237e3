//! Forged histories: the checker must find each broken promise, and nothing in a sound history.

use super::*;

#[test]
fn sound_handover_passes_and_its_margin_is_measured() {
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
fn two_holders_for_one_millisecond_are_found() {
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
fn holder_without_an_end_is_valid_until_its_last_sample() {
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
fn locks_do_not_exclude_each_other() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         9000 1 /a valid
         2000 1 /b granted exclusive 4
         3000 2 /c granted exclusive 3",
    );
    assert_eq!(verdict.violations, []);
}

#[test]
fn token_that_goes_back_is_found() {
    for token in [4, 5] {
        let verdict = judge(&format!(
            "1000 1 /a granted exclusive 5
             2000 1 /a releasing
             3000 2 /a granted exclusive {token}"
        ));
        assert!(matches!(verdict.violations[..], [Violation::TokenWentBack { .. }]), "{verdict:?}");
    }
    // The guard before the last counts as well.
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
fn reader_beside_a_writer_is_found() {
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
fn readers_share_and_their_tokens_have_no_order() {
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
fn one_permit_too_many_is_found() {
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
fn all_permits_may_be_held_and_come_free_when_lost() {
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
fn release_of_a_lock_that_was_not_granted_is_found() {
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
fn loss_told_after_the_next_grant_is_found() {
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
fn stopped_holder_is_excused_for_a_late_loss_only() {
    let told_late = "1000 1 /a granted exclusive 5
         9000 1 /a valid
         9500 1 - stopped
         12000 2 /a granted exclusive 6
         20000 1 - continued
         20100 1 /a lost the session expired";
    let verdict = judge(told_late);
    assert_eq!((verdict.violations, verdict.margins_us), (vec![], vec![3000]));
    // It runs for a moment after the engine says that it stops it, and before that it continues it.
    let unsharp = told_late.replace("9000 1 /a valid", "9600 1 /a valid").replace("20100", "19999");
    assert_eq!(judge(&unsharp).violations, []);
    // Running again, it says that it still holds the lock.
    let believed_late = told_late.replace("20100 1 /a lost", "20050 1 /a valid\n20100 1 /a lost");
    let verdict = judge(&believed_late);
    assert!(matches!(verdict.violations[..], [Violation::TwoValidGuards { by_us: 8050, .. }]));
    // A stop long ago excuses nothing.
    let stopped_before = "500 1 - stopped
         600 1 - continued
         1000 1 /a granted exclusive 5
         9000 1 /a valid
         12000 2 /a granted exclusive 6
         12100 1 /a lost the session expired";
    assert!(matches!(judge(stopped_before).violations[..], [Violation::LateLoss { .. }]));
}

#[test]
fn valid_token_after_a_loss_is_found() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         9000 1 /a lost the session expired
         9001 1 /a valid",
    );
    assert!(matches!(verdict.violations[..], [Violation::ValidAfterLoss { .. }]));
}

#[test]
fn second_grant_to_the_same_holder_is_found() {
    let verdict = judge(
        "1000 1 /a granted exclusive 5
         2000 1 /a granted exclusive 6",
    );
    assert!(verdict.violations.iter().any(|it| matches!(it, Violation::GrantedTwice { .. })));
}

#[test]
fn verdicts_add_up() {
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
