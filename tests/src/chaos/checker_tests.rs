//! Tests with forged histories: the checker finds each broken promise, and accepts a sound history.

use super::*;

/// Judges a history in its text form.
fn judge(history: &str) -> Verdict {
    let events: Result<Vec<Event>, String> =
        history.lines().map(|line| line.trim().parse()).collect();
    check(&events.unwrap())
}

/// Expects these violations, by the first words of their text, and these margins.
#[track_caller]
fn expect(history: &str, violations: &[&str], margins_us: &[i64]) -> Verdict {
    let verdict = judge(history);
    let found: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), violations.len(), "{found:?}");
    for (found, expected) in found.iter().zip(violations) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
    assert_eq!(verdict.margins_us, margins_us);
    verdict
}

#[test]
fn checker_accepts_sound_handover_and_measures_margin() {
    let history = "1000 1 /a granted exclusive 5
         9000 1 /a valid
         9500 1 /a lost the ensemble did not answer within the lease
         12000 2 /a granted exclusive 6
         15000 2 /a valid
         15000 2 /a releasing
         15500 3 /a granted exclusive 7";
    let verdict = expect(history, &[], &[2500]);
    assert_eq!((verdict.grants, verdict.losses.into_values().collect()), (3, vec![1]));
}

#[test]
fn checker_finds_two_holders_until_the_last_sample() {
    let late = "1000 1 /a granted exclusive 5
         13000 1 /a valid
         12000 2 /a granted exclusive 6
         13500 1 /a lost the session expired";
    let says = "two valid guards for 1.000 ms; /a: contender 1 (token 5) and 2 (token 6)";
    expect(late, &[says], &[-1500]);
    let overlap = "1000 1 /a granted exclusive 5
         12001 1 /a valid
         12000 2 /a granted exclusive 6";
    expect(overlap, &["two valid guards for 0.001 ms"], &[]);
    let killed = "1000 1 /a granted exclusive 5
         11000 1 /a valid
         11500 1 - killed
         12000 2 /a granted exclusive 6";
    expect(killed, &[], &[]);
    let other_locks = "1000 1 /a granted exclusive 5
         9000 1 /a valid
         2000 1 /b granted exclusive 4
         3000 2 /c granted exclusive 3";
    expect(other_locks, &[], &[]);
}

#[test]
fn checker_finds_token_that_does_not_grow() {
    for token in [4, 5] {
        let history = format!(
            "1000 1 /a granted exclusive 5
             2000 1 /a releasing
             3000 2 /a granted exclusive {token}"
        );
        expect(&history, &["the token did not grow"], &[]);
    }
    // The guard before the previous one counts as well.
    let history = "1000 1 /a granted exclusive 9
         2000 1 /a releasing
         3000 2 /a granted exclusive 5
         4000 2 /a releasing
         5000 3 /a granted exclusive 6";
    expect(history, &["the token did not grow"; 2], &[]);
}

#[test]
fn checker_separates_readers_from_writers_only() {
    for (first, second) in [("shared", "exclusive"), ("exclusive", "shared")] {
        let history = format!(
            "1000 1 /a granted {first} 5
             3000 1 /a valid
             2000 2 /a granted {second} 6"
        );
        expect(&history, &["two valid guards"], &[]);
    }
    let readers = "1000 1 /a granted shared 6
         3000 1 /a valid
         2000 2 /a granted shared 5
         4000 2 /a valid
         3500 1 /a releasing
         4000 2 /a releasing
         5000 3 /a granted exclusive 7";
    expect(readers, &[], &[]);
}

#[test]
fn checker_counts_permits() {
    let one_too_many = "1000 1 /s granted 1/3 5
         9000 1 /s valid
         2000 2 /s granted 2/3 6
         9000 2 /s valid
         3000 3 /s granted 1/3 7";
    expect(one_too_many, &["4 of 3 permits were held; /s at 3000"], &[]);
    let granted_again = "1000 1 /s granted 1/2 6
         5000 1 /s valid
         2000 2 /s granted 1/2 5
         9000 2 /s valid
         5500 1 /s lost the ensemble did not answer within the lease
         7000 3 /s granted 1/2 7";
    expect(granted_again, &[], &[1500]);
}

#[test]
fn checker_finds_events_of_guard_that_was_not_granted() {
    for ending in ["releasing", "lost the session expired", "valid"] {
        expect(&format!("1000 1 /a {ending}"), &["the guard was not granted"], &[]);
    }
    let twice = "1000 1 /a granted exclusive 5
         2000 1 /a releasing
         3000 1 /a releasing";
    expect(twice, &["the guard was not granted"], &[]);
    let after_loss = "1000 1 /a granted exclusive 5
         9000 1 /a lost the session expired
         9001 1 /a valid";
    expect(after_loss, &["token() was Ok after lost() had returned"], &[]);
    let granted_twice = "1000 1 /a granted exclusive 5
         2000 1 /a granted exclusive 6";
    let verdict = judge(granted_twice);
    assert!(verdict.violations.iter().any(|it| matches!(it, Violation::GrantedTwice { .. })));
}

#[test]
fn checker_excuses_stopped_holder_for_late_loss_only() {
    let late = "1000 1 /a granted exclusive 5
         9000 1 /a valid
         12000 2 /a granted exclusive 6
         12001 1 /a lost the ensemble did not answer within the lease";
    expect(late, &["lost() returned 0.001 ms after the next grant"], &[-1]);
    let told_late = "1000 1 /a granted exclusive 5
         9000 1 /a valid
         9500 1 - stopped
         12000 2 /a granted exclusive 6
         20000 1 - continued
         20100 1 /a lost the session expired";
    expect(told_late, &[], &[3000]);
    // The process runs for a moment after the engine records the stop, and before it records the
    // continuation.
    let unsharp = told_late.replace("9000 1 /a valid", "9600 1 /a valid").replace("20100", "19999");
    expect(&unsharp, &[], &[2400]);
    // The process runs again and reports that it still holds the lock.
    let believed_late = told_late.replace("20100 1 /a lost", "20050 1 /a valid\n20100 1 /a lost");
    expect(&believed_late, &["two valid guards for 8.050 ms"], &[-8100]);
    // A stop before the grant excuses nothing.
    let stopped_before = "500 1 - stopped
         600 1 - continued
         1000 1 /a granted exclusive 5
         9000 1 /a valid
         12000 2 /a granted exclusive 6
         12100 1 /a lost the session expired";
    expect(stopped_before, &["lost() returned"], &[-100]);
}

#[test]
fn verdict_add_sums_grants_losses_and_violations() {
    let mut sum = judge("1000 1 /a granted exclusive 5\n2000 1 /a lost the session expired");
    sum.add(judge("1000 1 /a valid"));
    sum.add(sum.clone());
    assert_eq!((sum.grants, sum.violations.len()), (2, 2));
    assert_eq!(sum.losses.into_values().collect::<Vec<_>>(), [2]);
}
