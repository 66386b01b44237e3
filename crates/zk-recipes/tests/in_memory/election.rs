//! Elections: the order of the leaders, losses, resignations, and the list of candidates.

use std::convert::Infallible;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc;
use zk_recipes::session::{Config, OPEN_ACL_UNSAFE, RetryOn, SessionManager};
use zk_recipes::{
    Candidacy, Election, HeldLock, Interruption, Leadership, LockError, LockMetrics, LossReason,
    Mutex, Recipe, revoke,
};
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Zxid};

use crate::{
    LEASE, T, children, client, config, now, reconnect, running, settle, settle_node_watches,
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
    assert!(observer.leader().await.unwrap().is_none() && ids(&observer).await.is_empty());
    let mut candidacies = Vec::new();
    for seed in 1..4 {
        candidacies.push(candidate(&server, seed).await.stand());
        settle().await;
    }
    assert_eq!(ids(&observer).await, ["c1", "c2", "c3"]);
    let listed = observer.candidates().await.unwrap();
    assert_eq!(listed.iter().map(|it| it.is_leader).collect::<Vec<_>>(), [true, false, false]);
    for (number, name) in children(&server, "/e").iter().enumerate() {
        assert!(name.starts_with("_c_"), "{name}");
        assert!(name.ends_with(&format!("-latch-000000000{number}")), "{name}");
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
async fn selector_and_mutex_exclude_each_other() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let election = Election::selector(&sessions, "/e", "one").unwrap();
    assert_eq!((election.path(), election.id()), ("/e", "one"));
    let candidacy = election.stand();
    leads_within(T, &candidacy).await;
    let names = children(&server, "/e");
    assert!(names.len() == 1 && names[0].ends_with("-lock-0000000000"), "{names:?}");
    let mutex = Mutex::new(&client(&server, 2).await, "/e").unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(mutex.participants().await.unwrap()[0].data, b"one");
    candidacy.resign().await.unwrap();
    let guard = mutex.try_acquire().await.unwrap().unwrap();

    let candidacy = election.stand();
    settle().await;
    assert!(!candidacy.is_leader());
    guard.release().await.unwrap();
    leads_within(Duration::from_millis(1), &candidacy).await;
}

#[tokio::test(start_paused = true)]
async fn latch_and_selector_refuse_the_path_of_the_other() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let latch = Election::new(&sessions, "/e", "").unwrap();
    let selector = Election::selector(&sessions, "/e", "").unwrap();
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
        let beside = second.clone().allow_foreign_nodes().stand();
        leads_within(T, &beside).await;
        beside.resign().await.unwrap();
        leads.resign().await.unwrap();
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
async fn continued_terms_alternate_between_candidates() {
    let server = TestServer::in_memory();
    let (lead, mut led) = mpsc::unbounded_channel();
    for seed in 1..4 {
        let (election, lead) = (candidate(&server, seed).await, lead.clone());
        tokio::spawn(async move {
            let work = async |held: HeldLock| {
                lead.send((seed, held.token()?)).unwrap();
                settle().await;
                Ok::<ControlFlow<Infallible>, LockError>(Continue(()))
            };
            election.lead(work, |interruption| panic!("{interruption}")).await
        });
        settle().await;
    }
    let mut terms = Vec::new();
    for _ in 0..9 {
        terms.push(led.recv().await.unwrap());
        assert!(children(&server, "/e").len() <= 3);
    }
    let order: Vec<u128> = terms.iter().map(|(seed, _)| *seed).collect();
    // The first candidate has led alone, until the others stood.
    let order: Vec<u128> = order.into_iter().skip_while(|seed| *seed == 1).collect();
    assert!(
        order.windows(3).all(|it| it[0] != it[1] && it[1] != it[2] && it[0] != it[2]),
        "{order:?}"
    );
    assert!(terms.is_sorted_by(|a, b| a.1 < b.1), "{terms:?}");
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_before_another_candidate_leads() {
    let server = TestServer::ensemble(3);
    let follower = Config::new("server-1:1").unwrap().session_timeout(T).seed(1);
    let cut_off = SessionManager::connect(follower.connector(server.clone())).await.unwrap();
    let cut_off = Election::new(&cut_off, "/e", "cut off").unwrap();
    // The work has the only other handle until it is dropped.
    let working = Arc::new(());
    let mut of_work = Some(Arc::clone(&working));
    let _leading = running(async move {
        let work = |held| {
            let of_work = of_work.take();
            async move {
                let led = for_ever(held).await;
                drop(of_work);
                led
            }
        };
        cut_off.lead(work, drop).await
    })
    .await;
    let other = candidate(&server, 2).await.stand();
    settle().await;
    assert!(!other.is_leader() && Arc::strong_count(&working) == 2);
    server.cut_from_leader(1);
    leads_within(3 * T, &other).await;
    assert_eq!(Arc::strong_count(&working), 1);
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
async fn resigning_waits_for_the_deletion_of_the_node() {
    for (waits, fault) in
        [(false, None), (true, None), (false, Some(Op::Delete)), (true, Some(Op::Delete))]
    {
        let (server, first) = started().await;
        let first = first.stand();
        leads_within(T, &first).await;
        let second = candidate(&server, 2).await.stand();
        settle().await;
        assert_eq!(children(&server, "/e").len(), 2);
        let lost = fault.map(|op| server.on(op).apply_then_drop_reply());
        let (resigns, stays) = if waits { (second, first) } else { (first, second) };
        let (start, delay) = (now(), T / 100);
        let late = fault.is_none().then(|| server.on(Op::Delete).delay(delay));
        resigns.resign().await.unwrap();
        assert!(late.is_none() || start.elapsed() >= delay, "{waits}: without the reply");
        assert_eq!(children(&server, "/e").len(), 1, "{waits} {fault:?}");
        assert!(lost.is_none_or(|lost| lost.count() == 1));
        leads_within(T / 10, &stays).await;
    }
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

#[tokio::test(start_paused = true)]
async fn dropped_candidacy_leaves_no_node() {
    for waits in [false, true] {
        for is_cut in [false, true] {
            let (server, first) = started().await;
            let first = first.stand();
            leads_within(T, &first).await;
            let second = candidate(&server, 2).await;
            let states = (first.subscribe(), second.stand());
            settle().await;
            let (dropped, stays) = if waits { (states.1, first) } else { (first, states.1) };
            let told = dropped.subscribe();
            if is_cut {
                server.refuse_connects(0);
                server.connections().cut(Cut::Rst);
            }
            drop(dropped);
            settle().await;
            assert!(
                matches!(&*told.borrow(), Leadership::Ended(Ok(()))),
                "before the server confirms: {waits} {is_cut}"
            );
            reconnect(&server).await;
            leads_within(Duration::ZERO, &stays).await;
            assert_eq!(children(&server, "/e").len(), 1, "{waits} {is_cut}");
            assert!(!told.borrow().is_leader());
        }
    }
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

#[tokio::test(start_paused = true)]
async fn nodes_of_other_recipes_are_no_candidates() {
    let server = TestServer::in_memory();
    let one = client(&server, 2).await;
    let _other = Mutex::new(&one, "/e").unwrap().acquire().await.unwrap();
    let election = candidate(&server, 1).await.allow_foreign_nodes();
    assert!(election.leader().await.unwrap().is_none() && ids(&election).await.is_empty());
    let candidacy = election.stand();
    leads_within(T, &candidacy).await;
    assert_eq!(ids(&election).await, ["c1"]);
    assert_eq!(election.leader().await.unwrap().unwrap().id, "c1");
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

/// The candidate waited behind its own node, for as long as its session lived.
#[tokio::test(start_paused = true)]
async fn rejected_resignation_ends_lead_with_the_error() {
    let (server, election) = started().await;
    let rejected = server.on(Op::Delete).always().answer(ErrorCode::NO_AUTH);
    let work = async |_: HeldLock| Ok::<ControlFlow<Infallible>, LockError>(Continue(()));
    let led = election.lead(work, |interruption| panic!("{interruption}"));
    let error = tokio::time::timeout(10 * T, led).await.unwrap().unwrap_err();
    assert!(matches!(&error, LockError::Client(it) if it.is_no_auth()), "{error}");
    assert_eq!(rejected.count(), 1);
}

/// The session deletes the node later, so the candidate can lead again.
#[tokio::test(start_paused = true)]
async fn unanswered_resignation_does_not_end_lead() {
    let server = TestServer::in_memory();
    let election = impatient(&server).await;
    server.on(Op::Delete).delay(Duration::from_secs(1));
    let had_a_term = AtomicBool::new(false);
    let work = async |_: HeldLock| {
        let has_led = had_a_term.swap(true, Ordering::Relaxed);
        Ok::<_, LockError>(if has_led { Break("done") } else { Continue(()) })
    };
    let mut interruptions = Vec::new();
    let led = election.lead(work, |interruption| interruptions.push(interruption));
    assert_eq!(tokio::time::timeout(10 * T, led).await.unwrap(), Ok("done"));
    assert!(matches!(&interruptions[..], [Interruption::NotReleased(_)]), "{interruptions:?}");
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

#[tokio::test(start_paused = true)]
async fn rejected_resignation_after_the_last_term_is_reported() {
    let work_error = LockError::Lost(LossReason::Released);
    for result in [Err(work_error), Ok("done")] {
        let (server, election) = started().await;
        server.on(Op::Delete).always().answer(ErrorCode::NO_AUTH);
        let mut interruptions = Vec::new();
        let work = async |_: HeldLock| result.clone().map(Break);
        let led = election.lead(work, |interruption| interruptions.push(interruption)).await;
        assert_eq!(led, result);
        let [Interruption::NotReleased(LockError::Client(error))] = &interruptions[..] else {
            panic!("{interruptions:?}")
        };
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
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
