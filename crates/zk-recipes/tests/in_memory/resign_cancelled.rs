//! Candidates whose resignation is dropped after every number of polls.

use futures::FutureExt;
use zk_recipes::{Candidacy, Election, Leadership};
use zk_testing::{Op, TestServer};

use crate::election::{candidate, sessions};
use crate::{T, children, now, polled, settle, settle_node_watches};

/// Candidate that resigns, beside another one that stays.
#[derive(Clone, Copy, Debug)]
enum Resigns {
    Leader,
    Waiter,
    /// It has not created its node.
    Newcomer,
}

/// The call itself resigns, so a future that is never polled does not matter.
#[tokio::test(start_paused = true)]
async fn dropped_resign_still_resigns() {
    for who in [Resigns::Leader, Resigns::Waiter, Resigns::Newcomer] {
        for lost in [None, Some(Op::Create2), Some(Op::Delete)] {
            let mut polls = 0;
            while !completes(who, lost, polls).await {
                polls += 1;
                assert!(polls < 200, "{who:?}, {lost:?}: it never completes");
            }
            assert!(polls >= 2, "{who:?}, {lost:?}: {polls} polls");
        }
    }
}

/// Returns true if the resignation is confirmed before its future is dropped.
async fn completes(who: Resigns, lost: Option<Op>, polls: usize) -> bool {
    let what = format!("{who:?}, lost reply: {lost:?}, {polls} polls");
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let election = Election::new(&sessions, "/e", "resigns").unwrap();
    let (resigning, staying) = stand_both(who, &election, &candidate(&server, 2).await).await;
    let state = resigning.subscribe();
    let done = match lost {
        None => polled_with_yields(polls, resigning.resign()).await,
        Some(op) => {
            server.on(op).session(sessions.client().session_id()).apply_then_drop_reply();
            polled(polls, resigning.resign()).await // time passes until the reconnect
        }
    };
    assert!(done.is_none() || children(&server, "/e").len() == 1, "{what}: confirmed");
    // reason: virtual time, in which the client reconnects and deletes its node
    tokio::time::sleep(T / 4).await;
    server.clear_faults();
    assert!(matches!(&*state.borrow(), Leadership::Ended(Ok(()))), "{what}");
    assert!(staying.is_leader(), "{what}");
    assert_eq!(children(&server, "/e").len(), 1, "{what}");

    let again = election.stand();
    settle().await;
    staying.resign().await.unwrap();
    settle().await;
    assert!(again.is_leader(), "{what}");
    again.resign().await.unwrap();
    settle_node_watches().await;
    assert_eq!(children(&server, "/e"), [""; 0], "{what}");
    assert_eq!(server.with(|ensemble| ensemble.watches(0)), 0, "{what}");
    assert!(sessions.client().end_reason().is_none(), "{what}");
    done.is_some()
}

async fn stand_both(who: Resigns, one: &Election, other: &Election) -> (Candidacy, Candidacy) {
    if matches!(who, Resigns::Leader) {
        let resigning = one.stand();
        settle().await;
        let staying = other.stand();
        settle().await;
        return (resigning, staying);
    }
    let staying = other.stand();
    settle().await;
    let resigning = one.stand();
    if matches!(who, Resigns::Waiter) {
        settle().await;
    }
    (resigning, staying)
}

/// Polls a future up to `polls` times, with a run of the other tasks after each, and drops it if it
/// is still pending. No time passes meanwhile.
async fn polled_with_yields<T, E: std::fmt::Debug>(
    polls: usize,
    future: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if let Some(done) = future.as_mut().now_or_never() {
            return Some(done.unwrap());
        }
        tokio::task::yield_now().await;
    }
    None
}

/// The answer to a resignation says that the node is gone.
#[tokio::test(start_paused = true)]
async fn resignation_waits_for_the_deletion_of_the_node() {
    for who in [Resigns::Leader, Resigns::Waiter] {
        let server = TestServer::in_memory();
        let sessions = sessions(&server, 1).await;
        let election = Election::new(&sessions, "/e", "resigns").unwrap();
        let (resigning, _staying) = stand_both(who, &election, &candidate(&server, 2).await).await;
        server.on(Op::Delete).session(sessions.client().session_id()).delay(T / 8);
        let begun = now();
        resigning.resign().await.unwrap();
        assert!(now() - begun >= T / 8, "{who:?}");
    }
}
