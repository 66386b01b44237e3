//! The watch of a guard on its own node, and the remaining time that the guard reports.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::limits::{NODE_WATCH_DELAY, UNWATCHED_PAUSE};
use zk_recipes::session::{Acl, Client, CreateMode, ErrorKind, Limit, Perms};
use zk_recipes::{
    FencingToken, Guard, Lock, LockError, LossReason, MultiLock, Mutex, RwLock, Semaphore,
    SemaphoreGuard, revoke,
};
use zk_testing::{Cut, Op, Settings, TestServer, Version};

use crate::recorded_connection::{
    DELETE, EXISTS, GET_CHILDREN2, WATCH_NODE, recorded, recorded_client, without_lease,
};
use crate::{
    LEASE, PROMISED, T, client, config, cut_off, now, queue, reconnect, settle,
    settle_node_watches, started,
};

const DELETED: LockError = LockError::Lost(LossReason::NodeDeleted);

/// Guard or lease of any kind of lock.
enum Held {
    Guard(Guard),
    Semaphore(SemaphoreGuard),
}

impl Held {
    fn node(&self) -> &str {
        match self {
            Self::Guard(guard) => guard.node(),
            Self::Semaphore(lease) => lease.nodes().next().unwrap(),
        }
    }

    fn token(&self) -> Result<FencingToken, LockError> {
        match self {
            Self::Guard(guard) => guard.token(),
            Self::Semaphore(lease) => lease.token(),
        }
    }

    fn is_held(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.is_held(),
            Self::Semaphore(lease) => lease.is_held(),
        }
    }

    fn remaining(&self) -> Duration {
        match self {
            Self::Guard(guard) => guard.remaining(),
            Self::Semaphore(lease) => lease.remaining(),
        }
    }

    /// Waits for a revocation request.
    async fn revocation_requested(&self) {
        match self {
            Self::Guard(guard) => guard.revocation_requested().await.unwrap(),
            Self::Semaphore(lease) => lease.revocation_requested().await.unwrap(),
        }
    }

    async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Semaphore(lease) => lease.release().await,
        }
    }
}

/// Ways to acquire a guard or a lease.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Mutex,
    Reader,
    Writer,
    DowngradedWriter,
    Permit,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Mutex, Self::Reader, Self::Writer, Self::DowngradedWriter, Self::Permit];

    async fn acquire(self, client: &Client) -> Held {
        let rw = RwLock::new(client, "/rw").unwrap();
        match self {
            Self::Mutex => {
                Held::Guard(Mutex::new(client, "/lock").unwrap().acquire().await.unwrap())
            }
            Self::Reader => Held::Guard(rw.read().acquire().await.unwrap()),
            Self::Writer => Held::Guard(rw.write().acquire().await.unwrap().into()),
            Self::DowngradedWriter => {
                Held::Guard(rw.write().acquire().await.unwrap().downgrade().await.unwrap())
            }
            Self::Permit => {
                Held::Semaphore(Semaphore::new(client, "/s", 1).unwrap().acquire().await.unwrap())
            }
        }
    }

    /// Acquires the side that excludes all other contenders.
    async fn acquire_alone(self, client: &Client) -> Held {
        match self {
            Self::Reader | Self::DowngradedWriter => Self::Writer.acquire(client).await,
            other => other.acquire(client).await,
        }
    }

    /// Acquires the lock, after a wait for another client if `waits`.
    async fn held(self, one: &Client, other: &Client, waits: bool) -> Held {
        let in_the_way = match waits {
            true => Some(self.acquire_alone(other).await),
            false => None,
        };
        let acquiring = tokio::spawn({
            let one = one.clone();
            async move { self.acquire(&one).await }
        });
        settle().await;
        assert_eq!(acquiring.is_finished(), !waits, "{self:?}");
        if let Some(in_the_way) = in_the_way {
            in_the_way.release().await.unwrap();
        }
        let held = acquiring.await.unwrap();
        settle_node_watches().await;
        held
    }
}

/// Another client creates the node again under the same name before the guard watches it, or during
/// a disconnect.
#[tokio::test(start_paused = true)]
async fn guard_is_lost_when_its_node_is_recreated() {
    for is_cut in [false, true] {
        let (server, [one, other]) = started().await;
        let guard = Mutex::new(&one, "/lock").unwrap().acquire().await.unwrap();
        if is_cut {
            settle_node_watches().await;
            cut_off(&server, &one).await;
        }
        other.delete(guard.node(), None).await.unwrap();
        other.create(guard.node(), b"", CreateMode::Ephemeral).await.unwrap();
        server.accept_connects(0);
        let lost = tokio::time::timeout(T / 4, guard.lost()).await;
        assert_eq!(lost, Ok(LossReason::NodeDeleted), "cut: {is_cut}");
        assert_eq!(guard.token(), Err(DELETED), "cut: {is_cut}");
        let node = guard.node().to_owned();
        if is_cut {
            assert_eq!(guard.release().await, Err(DELETED));
        } else {
            drop(guard);
            settle().await;
        }
        assert!(one.exists(&node).await.unwrap().is_some(), "it is another client's node");
    }
}

/// No task waits in `lost()`. A declined revocation request must not use up the watch.
#[tokio::test(start_paused = true)]
async fn guard_fails_once_the_deletion_event_has_arrived() {
    for kind in Kind::ALL {
        for waits in [false, true] {
            for declines_a_request in [false, true] {
                for asks_token in [false, true] {
                    let case = format!("{kind:?}, {waits}, {declines_a_request}, {asks_token}");
                    let (_server, [one, other]) = started().await;
                    let held = kind.held(&one, &other, waits).await;
                    if declines_a_request {
                        assert!(revoke(&other, held.node()).await.unwrap(), "{case}");
                        held.revocation_requested().await;
                        settle().await;
                    }
                    assert!(held.is_held() && held.token().is_ok(), "{case}");
                    other.delete(held.node(), None).await.unwrap();
                    settle().await;
                    match asks_token {
                        true => assert_eq!(held.token(), Err(DELETED), "{case}"),
                        false => assert!(!held.is_held(), "{case}"),
                    }
                    assert_eq!((held.token(), held.is_held()), (Err(DELETED), false), "{case}");
                    assert_eq!(held.remaining(), Duration::ZERO, "{case}");
                    assert_eq!(held.release().await, Err(DELETED), "{case}");
                }
            }
        }
    }
}

/// The request for the watch finds no node.
///
/// A guard that had to wait has its watch already, and receives an event instead.
#[tokio::test(start_paused = true)]
async fn guard_fails_when_its_node_is_deleted_before_its_watch() {
    let server = TestServer::in_memory();
    let other = client(&server, 2).await;
    for kind in Kind::ALL {
        let (one, record) = recorded_client(&server, 1).await;
        // On a new path, the permit lists again after the creation of the path, with a watch.
        kind.acquire(&one).await.release().await.unwrap();
        let held = kind.acquire(&one).await;
        record.take();
        other.delete(held.node(), None).await.unwrap();
        // The queue node of a permit has been deleted by now.
        settle().await;
        let of_turn = if let Kind::Permit = kind { vec![DELETE] } else { vec![] };
        assert_eq!(without_lease(record.take().concat()), of_turn, "{kind:?}");
        assert!(held.is_held(), "{kind:?}: nothing tells of the deletion yet");
        settle_node_watches().await;
        assert_eq!(held.token(), Err(DELETED), "{kind:?}");
        assert_eq!(without_lease(record.take().concat()), [WATCH_NODE], "{kind:?}");
        assert_eq!(held.release().await, Err(DELETED), "{kind:?}");
    }
}

/// The ACL of the node does not permit the holder to read it, so no event tells of the deletion.
#[tokio::test(start_paused = true)]
async fn guard_polls_a_node_that_it_cannot_read() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (one, record) = recorded_client(&server, 1).await;
        let other = client(&server, 2).await;
        one.create("/lock", b"", CreateMode::Persistent).await.unwrap();
        let unreadable = vec![Acl::world(Perms::WRITE | Perms::DELETE)];
        let lock = Mutex::new(&one, "/lock").unwrap().with_acl(unreadable);
        let guard = lock.acquire().await.unwrap();
        settle_node_watches().await;
        record.take();
        assert!(revoke(&other, guard.node()).await.unwrap());
        // reason: virtual time, in which the guard reads its node a few times
        tokio::time::sleep(UNWATCHED_PAUSE * 3).await;
        let read = [WATCH_NODE, EXISTS].repeat(3);
        assert_eq!(without_lease(record.take().concat()), read, "{version:?}");
        assert!(guard.is_held(), "{version:?}: a request does not end the hold");
        other.delete(guard.node(), None).await.unwrap();
        let lost = tokio::time::timeout(UNWATCHED_PAUSE, guard.lost()).await;
        assert_eq!(lost, Ok(LossReason::NodeDeleted), "{version:?}");
    }
}

/// With a short session timeout, the delay of the watch is a sixteenth of the timeout.
#[tokio::test(start_paused = true)]
async fn guard_watches_its_node_earlier_in_a_short_session() {
    for (timeout, delay) in [(T, NODE_WATCH_DELAY), (T / 25, T / 400)] {
        let server = TestServer::in_memory_with(Settings::new().tick_time(timeout / 5));
        let (client, record) = recorded(config(1).session_timeout(timeout), &server).await;
        assert_eq!(client.session_timeout(), timeout);
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        let sent = || without_lease(record.take().concat());
        sent();
        let margin = Duration::from_millis(5);
        // reason: virtual time, up to shortly before the delay is over
        tokio::time::sleep(delay - margin).await;
        assert_eq!(sent(), [0; 0], "{timeout:?}");
        // reason: virtual time, until shortly after the delay is over
        tokio::time::sleep(margin * 2).await;
        assert_eq!(sent(), [WATCH_NODE], "{timeout:?}");
        assert!(guard.is_held());
    }
}

/// The event of the deletion arrives when the watches are set again.
#[tokio::test(start_paused = true)]
async fn guard_fails_when_its_node_is_deleted_during_a_disconnect() {
    for kind in Kind::ALL {
        for waits in [false, true] {
            let (server, [one, other]) = started().await;
            let held = kind.held(&one, &other, waits).await;
            server.refuse_connects(0);
            server.connection_of(one.session_id()).cut(Cut::Rst);
            other.delete(held.node(), None).await.unwrap();
            settle().await;
            assert!(held.is_held(), "{kind:?}: nothing arrives over a cut connection");
            reconnect(&server).await;
            assert!(one.is_connected());
            assert_eq!(held.token(), Err(DELETED), "{kind:?}, waits: {waits}");
        }
    }
}

/// The request for the watch is lost with the connection.
#[tokio::test(start_paused = true)]
async fn guard_sets_its_watch_again_when_the_request_was_lost() {
    let (server, [other]) = started().await;
    let (one, record) = recorded_client(&server, 2).await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    settle().await;
    let guard = lock.acquire().await.unwrap();
    record.take();
    let lost = server.on(Op::GetChildren2).drop_before_applying();
    // reason: virtual time, in which the client reconnects
    tokio::time::sleep(T / 4).await;
    assert_eq!(lost.count(), 1);
    assert_eq!(
        without_lease(record.take().concat()),
        [WATCH_NODE; 2],
        "it sends the request again"
    );
    assert!(guard.is_held());
    settle().await;
    other.delete(guard.node(), None).await.unwrap();
    settle().await;
    assert_eq!(guard.token(), Err(DELETED));
}

#[tokio::test(start_paused = true)]
async fn lost_in_a_select_loop_sends_one_watch_in_400_turns() {
    for waits in [false, true] {
        let server = TestServer::in_memory();
        let other = client(&server, 2).await;
        let (one, record) = recorded_client(&server, 1).await;
        let lock = Mutex::new(&one, "/lock").unwrap();
        let in_the_way = Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap();
        let guard = match waits {
            true => {
                let waiting = queue(&lock).await;
                record.take();
                in_the_way.release().await.unwrap();
                waiting.await.unwrap()
            }
            false => {
                in_the_way.release().await.unwrap();
                let guard = lock.acquire().await.unwrap();
                assert_eq!(record.take().concat().last(), Some(&GET_CHILDREN2));
                guard
            }
        };
        for turn in 0..400 {
            tokio::select! {
                biased;
                reason = guard.lost() => panic!("lost in turn {turn}: {reason}"),
                // reason: virtual time of a turn
                () = tokio::time::sleep(T / 1_000) => {}
            }
        }
        let expected = if waits { vec![] } else { vec![WATCH_NODE] };
        assert_eq!(without_lease(record.take().concat()), expected, "waits: {waits}");
        let (one_waits, another_waits) = (guard.lost(), guard.lost());
        other.delete(guard.node(), None).await.unwrap();
        assert_eq!(one_waits.await, LossReason::NodeDeleted);
        assert_eq!(another_waits.await, LossReason::NodeDeleted);
        assert_eq!(without_lease(record.take().concat()), [0; 0], "waits: {waits}");
    }
}

/// Expects an idle, held guard to have time left: up to the end of the lease, which counts from
/// `last_proven`, and at most what no reconnect takes back. Returns that time.
fn expect_time_left(guard: &Guard) -> Duration {
    let (remaining, proven) = (guard.remaining(), guard.last_proven().unwrap());
    let now = now().into_std();
    assert!(!remaining.is_zero() && remaining < T, "{remaining:?}");
    assert!(proven <= now, "{:?} in the future", proven - now);
    let rounding = Duration::from_millis(1);
    let left = PROMISED.min(proven + LEASE - now);
    assert!(remaining <= left && remaining + rounding > left, "{remaining:?}");
    remaining
}

/// Samples a guard for `time`, and returns the least and the most time that it had left.
async fn sample(guard: &Guard, time: Duration) -> (Duration, Duration) {
    let (mut least, mut most) = (T, Duration::ZERO);
    let end = now() + time;
    while now() < end {
        // reason: virtual time, in steps that match no interval of the lease
        tokio::time::sleep(T / 97).await;
        let remaining = expect_time_left(guard);
        assert!(guard.last_proven().unwrap() < now().into_std());
        (least, most) = (least.min(remaining), most.max(remaining));
    }
    (least, most)
}

#[tokio::test(start_paused = true)]
async fn remaining_never_reaches_zero_while_held_and_idle() {
    for idle in [0, 1, 2, 3, 5, 7, 11] {
        let (_server, [client]) = started().await;
        // reason: virtual time, in which the session sends nothing but pings
        tokio::time::sleep(T * idle / 4).await;
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        expect_time_left(&guard);
        let (least, _) = sample(&guard, T).await;
        assert!(least > T / 10, "{least:?} left, idle for {idle} quarters");
        // From then on the lease counts from pings, which are sent in every sixteenth of the
        // timeout.
        let (least, most) = sample(&guard, T * 2).await;
        assert!(least > T * 2 / 5, "{least:?} left, idle for {idle} quarters");
        assert!(most <= PROMISED, "{most:?}");
        let other: [Arc<dyn Lock>; 1] = [Arc::new(Mutex::new(&client, "/other").unwrap())];
        let several = MultiLock::new(other).acquire().await.unwrap();
        assert_eq!(several.remaining(), guard.remaining(), "it is the lease of one session");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_guard_has_no_time_left() {
    for how in ["deleted", "cut off", "expired", "closed"] {
        let (server, [one, other]) = started().await;
        let guard = Mutex::new(&one, "/lock").unwrap().acquire().await.unwrap();
        settle_node_watches().await;
        expect_time_left(&guard);
        match how {
            "deleted" => other.delete(guard.node(), None).await.unwrap(),
            "expired" => assert!(server.expire(one.session_id())),
            "closed" => one.close().await,
            _ => {
                server.refuse_connects(0);
                server.connection_of(one.session_id()).cut(Cut::Silence);
                let end = guard.last_proven().unwrap() + LEASE;
                // reason: virtual time, up to the end of the lease
                tokio::time::sleep(end - now().into_std() - Duration::from_millis(1)).await;
                assert!(guard.is_held() && !guard.remaining().is_zero());
            }
        }
        settle().await;
        assert!(!guard.is_held(), "{how}");
        assert_eq!((guard.remaining(), guard.last_proven()), (Duration::ZERO, None), "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_that_cannot_watch_fails_to_acquire() {
    let (server, [holder]) = started().await;
    let _held = Mutex::new(&holder, "/l").unwrap().acquire().await.unwrap();
    let full = config(2).max_watches(0).connector(server.clone()).connect().await.unwrap();
    let began = now();
    let error = Mutex::new(&full, "/l").unwrap().acquire().await.unwrap_err();
    let LockError::Client(error) = error else { panic!("{error}") };
    assert_eq!(*error.kind(), ErrorKind::LimitReached(Limit::Watches));
    assert!(error.to_string().contains("too many watches"), "{error}");
    assert!(now() - began < T / 100, "at once");
    settle().await;
    assert_eq!(crate::children(&server, "/l").len(), 1, "its node is gone");
}

#[tokio::test(start_paused = true)]
async fn holder_without_watches_sees_deletion_and_lease_end() {
    let (server, [other]) = started().await;
    let (full, record) = recorded(config(2).max_watches(0), &server).await;
    let lock = Mutex::new(&full, "/l").unwrap();

    let guard = lock.acquire().await.unwrap();
    settle_node_watches().await;
    record.take();
    // reason: virtual time, in which the guard reads its node a few times
    tokio::time::sleep(UNWATCHED_PAUSE * 5).await;
    assert_eq!(without_lease(record.take().concat()), [EXISTS; 5]);
    other.delete(guard.node(), None).await.unwrap();
    let deleted = now();
    assert_eq!(guard.lost().await, LossReason::NodeDeleted);
    assert!(now() - deleted <= UNWATCHED_PAUSE, "{:?}", now() - deleted);

    let guard = lock.acquire().await.unwrap();
    settle_node_watches().await;
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    assert_eq!(guard.lost().await, LossReason::LeaseDeadlinePassed);
}

/// A writer of the same session waits behind a read node that is newer than its own. Its request for
/// watches counts from its own node on, so the server sends an event of the read node.
#[tokio::test(start_paused = true)]
async fn reader_beside_its_writer_survives_the_watch_of_a_writer() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (one, other) = (client(&server, 1).await, client(&server, 2).await);
        let lock = RwLock::new(&one, "/lock").unwrap();
        let writing = lock.write().acquire().await.unwrap();
        let next = queue(lock.write()).await;
        let reading = writing.read().await.unwrap();
        settle_node_watches().await;
        writing.release().await.unwrap();
        settle_node_watches().await;
        assert!(reading.is_held(), "{version:?}");
        assert!(!next.is_finished(), "{version:?}");

        // Its watch is set again, and reports a deletion.
        other.delete(reading.node(), None).await.unwrap();
        settle().await;
        assert_eq!(reading.token().map(drop), Err(DELETED), "{version:?}");
        next.await.unwrap().check().await.unwrap();
    }
}
