//! Elections: the order of the leaders, losses, resignations, and the list of candidates. Candidates are
//! dropped, or their resignation is dropped after every number of polls.

use std::convert::Infallible;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Builder;
use zk_recipes::session::{Config, OPEN_ACL_UNSAFE, RetryOn, SessionManager};
use zk_recipes::{
    Candidacy, Election, HeldLock, Interruption, Leadership, LockError, LockMetrics, LossReason,
    Mutex, Recipe, revoke,
};
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Zxid};

use crate::{
    LEASE, T, children, client, config, now, polled, reconnect, settle, settle_node_watches,
};

pub(crate) async fn sessions(server: &TestServer, seed: u128) -> SessionManager {
    SessionManager::connect(config(seed).connector(server.clone())).await.unwrap()
}

/// Returns the handle of a candidate with a session of its own.
pub(crate) async fn candidate(server: &TestServer, seed: u128) -> Election {
    Election::new(&sessions(server, seed).await, "/e", format!("c{seed}")).unwrap()
}

/// Starts a server, and returns the handle of a first candidate.
async fn started() -> (TestServer, Election) {
    let server = TestServer::in_memory();
    let election = candidate(&server, 1).await;
    (server, election)
}

/// Returns the handle of a candidate whose requests time out soon.
async fn impatient(server: &TestServer) -> Election {
    let config = config(1).request_timeout(Duration::from_millis(100));
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    Election::new(&sessions, "/e", "c1").unwrap()
}

/// Returns the ids of the candidates, the leader's first.
async fn ids(election: &Election) -> Vec<String> {
    election.candidates().await.unwrap().into_iter().map(|candidate| candidate.id).collect()
}

/// Waits, for at most `time` of virtual time, until the candidate leads.
async fn leads_within(time: Duration, candidacy: &Candidacy) -> HeldLock {
    tokio::time::timeout(time, candidacy.wait_to_lead()).await.unwrap().unwrap()
}

/// Work that leads until it is dropped.
async fn for_ever(_: HeldLock) -> Result<ControlFlow<Infallible>, LockError> {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn candidates_lead_in_order_and_are_listed() {
    let server = TestServer::in_memory();
    let observer = candidate(&server, 9).await;
    let mut candidacies = Vec::new();
    for seed in 1..4 {
        candidacies.push(candidate(&server, seed).await.stand());
        settle().await;
    }
    assert_eq!(ids(&observer).await, ["c1", "c2", "c3"]);
    let listed = observer.candidates().await.unwrap();
    assert_eq!(listed.iter().map(|it| it.is_leader).collect::<Vec<_>>(), [true, false, false]);
    for (number, name) in children(&server, "/e").iter().enumerate() {
        let end = format!("-latch-000000000{number}");
        assert!(name.starts_with("_c_") && name.ends_with(&end), "{name}");
    }

    let mut last = None;
    for (number, candidacy) in (1..).zip(candidacies) {
        let held = leads_within(Duration::ZERO, &candidacy).await;
        let leader = observer.leader().await.unwrap().unwrap();
        assert_eq!((leader.id, leader.is_leader), (format!("c{number}"), true));
        assert_eq!(held.nodes(), [leader.participant.path]);
        assert_eq!(Zxid(held.token().unwrap().czxid()), leader.participant.czxid);
        assert!(last.replace(leader.participant.czxid) < Some(leader.participant.czxid));
        candidacy.resign().await.unwrap();
        assert!(!held.is_held());
        settle().await;
    }
    assert!(observer.leader().await.unwrap().is_none() && ids(&observer).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn selector_excludes_a_mutex_and_refuses_a_latch() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let selector = Election::selector(&sessions, "/e", "one").unwrap();
    assert_eq!((selector.path(), selector.id()), ("/e", "one"));
    let mutex = Mutex::new(&client(&server, 2).await, "/e").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let candidacy = selector.stand();
    settle().await;
    assert!(!candidacy.is_leader());
    guard.release().await.unwrap();
    leads_within(Duration::from_millis(1), &candidacy).await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(mutex.participants().await.unwrap()[0].data, b"one");
    candidacy.resign().await.unwrap();

    let latch = Election::new(&sessions, "/e", "").unwrap();
    for (first, recipe, second) in
        [(&latch, Recipe::Election, &selector), (&selector, Recipe::Mutex, &latch)]
    {
        let leads = first.stand();
        leads_within(T, &leads).await;
        for refused in
            [second.stand().failure().await, second.lead(for_ever, drop).await.unwrap_err()]
        {
            let LockError::ForeignNode { recipe: it, .. } = &refused else { panic!("{refused}") };
            assert_eq!((*it, refused.retry_on()), (recipe, RetryOn::Never));
        }
        let other = second.clone().allow_foreign_nodes();
        assert!(other.leader().await.unwrap().is_none() && ids(&other).await.is_empty());
        let beside = other.stand();
        leads_within(T, &beside).await;
        assert_eq!((ids(&other).await.len(), ids(first).await.len()), (1, 1), "of its own recipe");
        beside.resign().await.unwrap();
        leads.resign().await.unwrap();
    }
}

/// A candidate whose resignation is rejected after a term would wait behind its own node, for as long as its
/// session lives. One whose resignation has no reply can lead again: the session deletes the node later.
#[tokio::test(start_paused = true)]
async fn failed_resignation_ends_lead_only_before_another_term() {
    let work_error = LockError::Lost(LossReason::Released);
    for (is_rejected, terms) in [
        (true, vec![Ok(Continue(()))]),
        (true, vec![Ok(Break("done"))]),
        (true, vec![Err(work_error)]),
        (false, vec![Ok(Continue(())), Ok(Break("done"))]),
    ] {
        let server = TestServer::in_memory();
        let election = impatient(&server).await;
        let deletes = server.on(Op::Delete);
        let rejected = match is_rejected {
            true => deletes.always().answer(ErrorCode::NO_AUTH),
            false => deletes.delay(Duration::from_secs(1)),
        };
        let (mut left, mut interruptions) = (terms.clone().into_iter(), Vec::new());
        let work = |_: HeldLock| std::future::ready(left.next().unwrap());
        let led = election.lead(work, |interruption| interruptions.push(interruption));
        let led = tokio::time::timeout(10 * T, led).await.unwrap();
        assert_eq!(rejected.count(), 1);
        let last = terms.last().unwrap().clone();
        let (Ok(Break(_)) | Err(_)) = &last else {
            let Err(LockError::Client(error)) = led else { panic!("{led:?}") };
            assert!(error.is_no_auth() && interruptions.is_empty(), "{error}");
            continue;
        };
        assert_eq!(led, last.map(|_| "done"));
        let [Interruption::NotReleased(LockError::Client(error))] = &interruptions[..] else {
            panic!("{interruptions:?}")
        };
        assert_eq!(error.is_no_auth(), is_rejected, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn lead_returns_the_value_of_the_work_and_resigns() {
    let (server, election) = started().await;
    let work = async |held: HeldLock| {
        let node = held.client().get_data(&held.nodes()[0]).await?;
        assert_eq!(node.data, &b"c1"[..]);
        held.multi().set_data("/e", b"1", None).send().await?;
        Ok::<_, LockError>(Break(held))
    };
    let held = election.lead(work, |interruption| panic!("{interruption}")).await.unwrap();
    assert!(!held.is_held() && children(&server, "/e").is_empty());
    let late = held.multi().set_data("/e", b"2", None).send().await.unwrap_err();
    assert_eq!(late.code(), Some(ErrorCode::NO_NODE), "{late}");
}

#[tokio::test(start_paused = true)]
async fn candidacy_leads_again_after_each_kind_of_loss() {
    let server = TestServer::in_memory();
    let operator = client(&server, 2).await;
    let candidacy = candidate(&server, 1).await.stand();
    let mut tokens = Vec::new();
    for round in 0..3 {
        let held = leads_within(3 * T, &candidacy).await;
        tokens.push(held.token().unwrap());
        settle_node_watches().await;
        match round {
            0 => operator.delete(&held.nodes()[0], None).await.unwrap(),
            1 => assert!(server.expire(held.client().session_id())),
            _ => {
                server.refuse_connects(0);
                server.connections().cut(Cut::Rst);
                // reason: virtual time, in which the lease and the session end
                tokio::time::sleep(2 * T).await;
                assert!(!candidacy.is_leader() && !held.is_held());
                server.accept_connects(0);
            }
        }
        settle().await;
        assert!(!held.is_held());
    }
    tokens.push(leads_within(3 * T, &candidacy).await.token().unwrap());
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    candidacy.resign().await.unwrap();
    assert!(children(&server, "/e").is_empty());
}

#[tokio::test(start_paused = true)]
async fn subscriber_sees_the_course_of_a_candidacy() {
    let (server, election) = started().await;
    let candidacy = election.stand();
    let mut states = candidacy.subscribe();
    assert!(matches!(&*states.borrow(), Leadership::Waiting { after: None }));
    states.changed().await.unwrap();
    let leading = states.borrow_and_update().clone();
    let Leadership::Leading { token, held } = &leading else { panic!("{leading:?}") };
    assert_eq!(leading.token(), Some(*token));
    server.expire(held.client().session_id());
    states.changed().await.unwrap();
    assert!(!leading.is_leader(), "the copy reads the clock");
    let waiting = states.borrow_and_update().clone();
    let Leadership::Waiting { after: Some(Interruption::Lost { token: lost, .. }) } = &waiting
    else {
        panic!("{waiting:?}")
    };
    assert_eq!(*lost, Some(*token));
    states.changed().await.unwrap();
    assert!(states.borrow_and_update().is_leader());
    candidacy.resign().await.unwrap();
    assert!(matches!(&*states.borrow_and_update(), Leadership::Ended(Ok(()))));
    states.changed().await.unwrap_err();
}

/// Curator's `hasLeadership` is a flag that another thread changes later.
#[tokio::test(start_paused = true)]
async fn leadership_ends_by_the_clock_and_not_by_an_event() {
    let (server, election) = started().await;
    let candidacy = election.stand();
    let held = leads_within(T, &candidacy).await;
    server.stall(0);
    let remaining = held.remaining();
    assert!(remaining > T * 2 / 5);
    // The clock moves, and no task of the client runs.
    tokio::time::advance(LEASE).await;
    assert!(!candidacy.is_leader());
    let state = candidacy.leadership();
    assert!(matches!(state, Leadership::Waiting { after: Some(Interruption::Lost { .. }) }));
}

#[tokio::test(start_paused = true)]
async fn resigning_reports_a_leadership_that_was_lost() {
    let server = TestServer::in_memory();
    let operator = client(&server, 2).await;
    let candidacy = candidate(&server, 1).await.stand();
    let held = leads_within(T, &candidacy).await;
    // The node is deleted before the leader watches it.
    operator.delete(&held.nodes()[0], None).await.unwrap();
    let lost = candidacy.resign().await.unwrap_err();
    assert_eq!(lost, LockError::Lost(LossReason::NodeDeleted));
}

#[test]
fn candidacy_has_ended_when_the_runtime_is_shut_down() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let candidacy = runtime.block_on(async {
        let candidacy = candidate(&TestServer::in_memory(), 1).await.stand();
        candidacy.wait_to_lead().await.unwrap();
        candidacy
    });
    drop(runtime);
    let state = candidacy.leadership();
    assert!(matches!(state, Leadership::Ended(Ok(()))), "{state:?}");
}

/// An instance must not stop to stand because of a mistake that somebody mends ten minutes later.
#[tokio::test(start_paused = true)]
async fn candidate_stands_again_once_its_failure_is_mended() {
    let (server, election) = started().await;
    let denied = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let candidacy = election.stand();
    let error = candidacy.failure().await;
    let LockError::Client(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.code(), Some(ErrorCode::NO_AUTH));
    let leadership = candidacy.leadership();
    assert_eq!(leadership.failure(), Some(&error), "{leadership:?}");
    tokio::time::sleep(100 * T).await; // reason: virtual time
    let attempts = denied.count();
    assert!((100..=220).contains(&attempts), "{attempts} attempts in 100 session timeouts");
    denied.cancel();
    leads_within(T, &candidacy).await;
    candidacy.resign().await.unwrap();
    let denied = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let error = election.lead(for_ever, drop).await.unwrap_err();
    assert!(matches!(&error, LockError::Client(it) if it.code() == cause.code()), "{error}");
    assert!(denied.count() < 10);
}

/// Each attempt to create the path takes longer than a request may. It is created nevertheless, so
/// the next attempt to stand succeeds.
#[tokio::test(start_paused = true)]
async fn unanswered_create_does_not_end_a_candidacy_or_lead() {
    for in_background in [true, false] {
        let server = TestServer::in_memory();
        let election = impatient(&server).await;
        let slow = server.on(Op::CreateContainer).always().delay(Duration::from_secs(1));
        let led = async {
            if in_background {
                return election.stand().wait_to_lead().await.map(drop);
            }
            election.lead(async |_| Ok::<_, LockError>(Break(())), drop).await
        };
        assert_eq!(tokio::time::timeout(10 * T, led).await.unwrap(), Ok(()), "{in_background}");
        assert!(slow.count() > 1, "{in_background}: {}", slow.count());
    }
}

/// A candidate pauses after a failed attempt. A read-only server rejects each attempt.
#[tokio::test(start_paused = true)]
async fn candidate_resigns_at_once_during_the_pause() {
    let server = TestServer::in_memory_with(Settings::new().servers(2));
    let hosts = Config::new("server-0:1,server-1:1").unwrap();
    let hosts = hosts.session_timeout(T).seed(1).allow_read_only();
    server.refuse_connects(0);
    server.make_read_only(1);
    let sessions = SessionManager::connect(hosts.connector(server.clone())).await.unwrap();
    let election = Election::new(&sessions, "/e", "c1").unwrap();
    let is_rejected = |it: &Leadership| {
        matches!(it, Leadership::Waiting { after: Some(Interruption::NotAcquired(_)) })
    };
    let is_ended = |it: &Leadership| matches!(it, Leadership::Ended(Ok(())));
    for number in 0..20 {
        let candidacy = election.stand();
        let mut states = candidacy.subscribe();
        states.wait_for(is_rejected).await.unwrap();
        // reason: virtual time; most of the candidates resign during the pause
        tokio::time::sleep(Duration::from_millis(17 * number)).await;
        let begun = now();
        match number % 2 {
            0 => drop(candidacy),
            _ => candidacy.resign().await.unwrap(),
        }
        states.wait_for(is_ended).await.unwrap();
        assert_eq!(now() - begun, Duration::ZERO, "{number}");
    }
    server.accept_connects(0);
    // reason: virtual time, in which a candidate that has not resigned would lead
    tokio::time::sleep(20 * T).await;
    assert!(!sessions.client().is_read_only() && children(&server, "/e").is_empty());
}

#[tokio::test(start_paused = true)]
async fn candidacy_ends_when_the_manager_is_closed() {
    for leads in [true, false] {
        let server = TestServer::in_memory();
        let sessions = sessions(&server, 1).await;
        let _before = match leads {
            true => None,
            false => Some(candidate(&server, 2).await.stand()),
        };
        settle().await;
        let candidacy = Election::new(&sessions, "/e", "").unwrap().stand();
        settle().await;
        assert_eq!(candidacy.is_leader(), leads);
        sessions.close().await;
        let error = loop {
            match candidacy.wait_to_lead().await {
                Ok(held) => assert!(!held.is_held()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.retry_on(), RetryOn::Never, "{error}");
    }
}

/// `CURATOR-358`: `getLeader` fails with `NoNode` if a candidate leaves during the call.
#[tokio::test(start_paused = true)]
async fn curator_358_candidate_that_leaves_during_a_list_is_skipped() {
    let (server, election) = started().await;
    let _first = election.stand();
    settle().await;
    let _second = candidate(&server, 2).await.stand();
    settle().await;
    let _gone = server.next_reply_to(Op::GetData).answer(ErrorCode::NO_NODE);
    assert_eq!(ids(&election).await, ["c2"]);
    let _gone = server.next_reply_to(Op::GetData).answer(ErrorCode::NO_NODE);
    assert_eq!(election.leader().await.unwrap().unwrap().id, "c2");
}

#[tokio::test(start_paused = true)]
async fn options_apply_to_the_nodes_of_a_candidate() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let metrics = LockMetrics::new();
    let election = Election::new(&sessions, "/deep/path/e", "").unwrap();
    let election = election.with_acl(OPEN_ACL_UNSAFE).with_metrics(&metrics);
    let candidacy = election.stand();
    leads_within(T, &candidacy).await;
    candidacy.resign().await.unwrap();
    assert_eq!(metrics.snapshot().acquired, 1);
    Election::new(&sessions, "no path", "").unwrap_err();
    assert!(format!("{election:?} {:?}", election.stand()).contains("/deep/path/e"));
}

/// `CURATOR-171`: leaders do not support revocation.
#[tokio::test(start_paused = true)]
async fn curator_171_leader_of_a_selector_resigns_on_a_revocation() {
    let server = TestServer::in_memory();
    let election = Election::selector(&sessions(&server, 1).await, "/e", "one").unwrap();
    let candidacy = election.stand();
    let held = leads_within(T, &candidacy).await;
    let other = Election::selector(&sessions(&server, 2).await, "/e", "two").unwrap().stand();
    settle().await;
    assert!(revoke(&client(&server, 3).await, &held.nodes()[0]).await.unwrap());
    held.revocation_requested().await.unwrap();
    assert!(candidacy.is_leader(), "until it resigns");
    candidacy.resign().await.unwrap();
    leads_within(T / 100, &other).await;
}

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

/// A server, and the election of the candidate that resigns, at which both stand.
async fn stood(who: Resigns) -> (TestServer, Election, Candidacy, Candidacy) {
    let server = TestServer::in_memory();
    let [one, other] = [candidate(&server, 1).await, candidate(&server, 2).await];
    if matches!(who, Resigns::Leader) {
        let resigning = one.stand();
        settle().await;
        let staying = other.stand();
        settle().await;
        return (server, one, resigning, staying);
    }
    let staying = other.stand();
    settle().await;
    let resigning = one.stand();
    if matches!(who, Resigns::Waiter) {
        settle().await;
    }
    (server, one, resigning, staying)
}

/// Returns true if the resignation is confirmed before its future is dropped.
async fn completes(who: Resigns, lost: Option<Op>, polls: usize) -> bool {
    let what = format!("{who:?}, lost reply: {lost:?}, {polls} polls");
    let (server, election, resigning, staying) = stood(who).await;
    let state = resigning.subscribe();
    let done = match lost {
        None => polled_with_yields(polls, resigning.resign()).await,
        Some(op) => {
            server.on(op).apply_then_drop_reply(); // no other session sends one
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
    done.is_some()
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

#[tokio::test(start_paused = true)]
async fn dropped_candidacy_leaves_no_node() {
    let all = [Resigns::Leader, Resigns::Waiter, Resigns::Newcomer];
    for (who, is_cut) in all.into_iter().flat_map(|who| [(who, false), (who, true)]) {
        let (server, _election, dropped, stays) = stood(who).await;
        let told = dropped.subscribe();
        if is_cut {
            server.refuse_connects(0);
            server.connections().cut(Cut::Rst);
        }
        drop(dropped);
        settle().await;
        let has_ended = matches!(&*told.borrow(), Leadership::Ended(Ok(())));
        assert!(has_ended, "before the server confirms: {who:?} {is_cut}");
        reconnect(&server).await;
        assert!(stays.is_leader(), "{who:?} {is_cut}");
        assert_eq!(children(&server, "/e").len(), 1, "{who:?} {is_cut}");
    }
}

/// The answer to a resignation says that the node is gone.
#[tokio::test(start_paused = true)]
async fn resignation_waits_for_the_deletion_of_the_node() {
    for who in [Resigns::Leader, Resigns::Waiter] {
        let (server, _election, resigning, _staying) = stood(who).await;
        server.on(Op::Delete).delay(T / 8);
        let begun = now();
        resigning.resign().await.unwrap();
        assert!(now() - begun >= T / 8, "{who:?}");
    }
}
