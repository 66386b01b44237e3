//! The read-write lock: sharing, order and number of requests; and the downgrade of a writer to a reader.
//!
//! No other writer acquires the lock during a downgrade, even after a fault.

use std::pin::pin;

use futures::FutureExt;
use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode, ErrorCode, ErrorKind};
use zk_recipes::{Guard, LockError, LossReason, Mutex, RwLock, WriteGuard};
use zk_testing::{Cut, Op, Settings, TestServer, Version};

use crate::{
    LEASE, T, children, client, cut_off, now, queue, running, settle, settle_node_watches, started,
};

pub(crate) const PATH: &str = "/rw";

pub(crate) fn rw(client: &Client) -> RwLock {
    RwLock::new(client, PATH).unwrap()
}

/// Queues a reader.
pub(crate) async fn queue_reader(client: &Client) -> JoinHandle<Guard> {
    queue(rw(client).read()).await
}

/// Queues a writer.
pub(crate) async fn queue_writer(client: &Client) -> JoinHandle<WriteGuard> {
    queue(rw(client).write()).await
}

/// Returns the kind and number of each node, in queue order.
pub(crate) fn entries(server: &TestServer) -> Vec<String> {
    let mut entries: Vec<String> =
        children(server, PATH).iter().map(|name| name[name.len() - 18..].to_owned()).collect();
    entries.sort_by_key(|entry| entry[8..].to_owned());
    entries
}

pub(crate) async fn expect_nobody(server: &TestServer, what: &str) {
    settle().await;
    assert_eq!(children(server, PATH), [""; 0], "{what}");
}

/// Both readers have waited. The release of the second one does not tell the writer behind it that
/// the first one has released the lock, too.
#[tokio::test(start_paused = true)]
async fn writer_waits_for_every_reader_that_has_waited() {
    let server = TestServer::in_memory_with(Settings::new().version(Version::V3_9));
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let writing = rw(&one).write().acquire().await.unwrap();
    let (first, second) = (queue_reader(&one).await, queue_reader(&one).await);
    let writer = queue_writer(&other).await;
    writing.release().await.unwrap();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    second.release().await.unwrap();
    settle().await;
    assert!(first.is_held() && !writer.is_finished());
    first.release().await.unwrap();
    drop(writer.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn participants_of_each_side_are_listed_separately() {
    let (_server, [one, other]) = started().await;
    let lock = rw(&one).with_data(*b"one");
    assert_eq!([lock.path(), lock.read().path(), lock.write().path()], [PATH; 3]);
    assert_eq!(lock.participants().await.unwrap(), []);
    let reading = lock.read().acquire().await.unwrap();
    let _writer = queue_writer(&other).await;
    let _reader = queue_reader(&other).await;
    one.create("/rw/a-stranger", b"", CreateMode::Persistent).await.unwrap();

    let nodes = |participants: Vec<zk_recipes::Participant>| -> Vec<(String, Option<u32>)> {
        let kind = |path: &str| path[..path.len() - 10].rsplit_once('-').unwrap().1.to_owned();
        let entry = |it: &zk_recipes::Participant| (kind(&it.path), it.sequence);
        participants.iter().map(entry).collect()
    };
    let (read, write) = ("__READ__".to_owned(), "__WRIT__".to_owned());
    let readers = lock.read().participants().await.unwrap();
    assert_eq!(
        (readers[0].path.as_str(), readers[0].data.as_slice()),
        (reading.node(), &b"one"[..])
    );
    assert_eq!(nodes(readers), [(read.clone(), Some(0)), (read.clone(), Some(2))]);
    assert_eq!(nodes(lock.write().participants().await.unwrap()), [(write.clone(), Some(1))]);
    let all = nodes(lock.participants().await.unwrap());
    assert_eq!(all, [(read.clone(), Some(0)), (write, Some(1)), (read, Some(2))]);
}

#[tokio::test(start_paused = true)]
async fn downgrade_grants_the_readers_ahead_of_the_next_writer() {
    let (server, [one, other]) = started().await;
    let writing = rw(&one).with_data(*b"mine").write().acquire().await.unwrap();
    let token = writing.token().unwrap();
    let early_reader = queue_reader(&other).await;
    let writer = queue_writer(&other).await;
    let late_reader = queue_reader(&other).await;

    let reading = writing.downgrade().await.unwrap();
    assert_eq!(reading.token(), Ok(token));
    assert_eq!(reading.check().await, Ok(token));
    let early_reader = early_reader.await.unwrap();
    settle().await;
    assert!(!writer.is_finished() && !late_reader.is_finished());
    let kinds = ["__READ__", "__READ__", "__WRIT__", "__READ__"];
    let expected: Vec<String> =
        kinds.iter().enumerate().map(|(at, kind)| format!("{kind}{at:010}")).collect();
    assert_eq!(entries(&server), expected);
    let node = one.get_data(reading.node()).await.unwrap();
    assert_eq!(node.data, &b"mine"[..]);
    assert_eq!(node.stat.ephemeral_owner, one.session_id());

    early_reader.release().await.unwrap();
    settle().await;
    assert!(!writer.is_finished(), "the reader that was a writer is still there");
    reading.release().await.unwrap();
    let writer = writer.await.unwrap();
    assert!(writer.token().unwrap() > token, "also of a reader whose node is younger");
    writer.release().await.unwrap();
    late_reader.await.unwrap().release().await.unwrap();
    expect_nobody(&server, "all have gone").await;
}

#[tokio::test(start_paused = true)]
async fn lost_of_a_writer_returns_released_on_downgrade() {
    let (_server, [client]) = started().await;
    for watches_its_node in [false, true] {
        let writing = rw(&client).write().acquire().await.unwrap();
        let lost = tokio::spawn(writing.lost());
        match watches_its_node {
            true => settle_node_watches().await,
            false => settle().await,
        }
        let reading = writing.downgrade().await.unwrap();
        assert_eq!(lost.await.unwrap(), LossReason::Released, "watches: {watches_its_node}");
        let lost = tokio::spawn(reading.lost());
        settle().await;
        client.delete(reading.node(), None).await.unwrap();
        assert_eq!(lost.await.unwrap(), LossReason::NodeDeleted);
    }
}

/// The write node was deleted, and another writer holds the lock.
///
/// A read node with the old number would be ahead of that writer. Curator creates such a node.
#[tokio::test(start_paused = true)]
async fn downgrade_fails_if_the_write_node_was_deleted() {
    let (server, [one, other]) = started().await;
    for (takes_both, is_told) in [(false, false), (true, false), (false, true), (true, true)] {
        let stale = rw(&one).write().acquire().await.unwrap();
        settle_node_watches().await;
        let next = queue_writer(&other).await;
        if !is_told {
            // The event is delayed, so only the server's check of the transaction detects the
            // deletion.
            server.on_notification().session(one.session_id()).delay(T / 100);
        }
        other.delete(stale.node(), None).await.unwrap();
        let next = next.await.unwrap();
        settle().await;
        assert_eq!(stale.is_held(), !is_told);
        let refused = match takes_both {
            true => stale.read().await.map(drop),
            false => stale.downgrade().await.map(drop),
        };
        assert_eq!(refused, Err(LockError::Lost(LossReason::NodeDeleted)));
        settle().await;
        assert_eq!(entries(&server).len(), 1);
        assert!(entries(&server)[0].starts_with("__WRIT__"));
        next.release().await.unwrap();
    }
    expect_nobody(&server, "all have gone").await;
}

/// The session expires before or during the downgrade, or the connection is silent for so long that
/// another client may hold the lock.
#[tokio::test(start_paused = true)]
async fn downgrade_fails_when_its_session_ends_and_leaves_no_node() {
    for how in ["expired", "expires", "closed", "silent"] {
        let (server, [one, other]) = started().await;
        let writing = rw(&one).write().acquire().await.unwrap();
        let next = queue_writer(&other).await;
        match how {
            "expired" => assert!(server.expire(one.session_id())),
            "expires" => {
                drop(server.on(Op::Multi).session(one.session_id()).apply_then_expire_session());
            }
            "closed" => drop(server.on(Op::Multi).always().never_answer()),
            _ => {
                server.refuse_connects(0);
                server.connection_of(one.session_id()).cut(Cut::Silence);
            }
        }
        let downgrading = running(writing.downgrade()).await;
        if how == "closed" {
            assert!(!downgrading.is_finished());
            one.close().await;
        }
        let next = next.await.unwrap();
        let refused = downgrading.await.unwrap().unwrap_err();
        assert!(matches!(refused, LockError::Lost(_)), "{how}: {refused}");
        let has_expired = matches!(refused, LockError::Lost(LossReason::SessionEnded(_)));
        assert!(has_expired || how == "silent", "{how}: {refused}");
        assert_eq!(entries(&server), ["__WRIT__0000000001"], "{how}");
        next.release().await.unwrap();
    }
}

/// The session stays alive and the read node is created. The lease ends before the client can verify that, or
/// the answer arrives in time, but its task is polled after the lease deadline.
#[tokio::test(start_paused = true)]
async fn downgrade_fails_when_the_lease_ends_before_it_is_seen() {
    for is_polled_late in [false, true] {
        let (server, [one]) = started().await;
        let writing = rw(&one).write().acquire().await.unwrap();
        let before = now();
        let mut downgrade = pin!(writing.downgrade());
        if is_polled_late {
            assert!(downgrade.as_mut().now_or_never().is_none());
            settle().await;
            cut_off(&server, &one).await;
            // reason: virtual time, longer than the lease and shorter than the session timeout
            tokio::time::sleep(T * 19 / 20).await;
        } else {
            server.refuse_connects(0);
            drop(server.on(Op::Multi).apply_then_drop_reply());
        }
        let refused = downgrade.await.unwrap_err();
        assert_eq!(refused, LockError::Lost(LossReason::LeaseDeadlinePassed), "{is_polled_late}");
        assert!(is_polled_late || now() - before <= LEASE, "{:?}", now() - before);
        assert_eq!(entries(&server), ["__READ__0000000000"]);
        server.accept_connects(0);
        // reason: virtual time, in which the client reconnects
        tokio::time::sleep(T / 5).await;
        one.exists("/").await.expect("the session lives on");
        expect_nobody(&server, "the node is taken away again").await;
    }
}

#[tokio::test(start_paused = true)]
async fn downgrade_succeeds_after_lost_answers() {
    let (server, [one, other]) = started().await;
    for times in 1..=3 {
        for was_applied in [true, false] {
            let writing = rw(&one).write().acquire().await.unwrap();
            let token = writing.token().unwrap();
            let next = queue_writer(&other).await;
            let lost = server.on(Op::Multi).session(one.session_id()).times(times);
            let lost = match was_applied {
                true => lost.apply_then_drop_reply(),
                false => lost.drop_before_applying(),
            };
            let reading = writing.downgrade().await.unwrap();
            assert!(lost.count() >= 1, "no answer was lost");
            lost.cancel();
            assert_eq!(reading.check().await, Ok(token));
            settle().await;
            assert_eq!(entries(&server).len(), 2, "one reader, one writer: {:?}", entries(&server));
            assert!(!next.is_finished());
            reading.release().await.unwrap();
            next.await.unwrap().release().await.unwrap();
            expect_nobody(&server, "all have gone").await;
        }
    }
}

/// A node of another session is not adopted, even if it has the expected name.
///
/// The names of a client's nodes follow from its seed.
#[tokio::test(start_paused = true)]
async fn downgrade_does_not_adopt_a_node_of_another_session() {
    let name = {
        let (server, [client]) = started().await;
        drop(rw(&client).write().acquire().await.unwrap().downgrade().await.unwrap());
        children(&server, PATH).pop().unwrap()
    };
    let (server, [one, other]) = started().await;
    let writing = rw(&one).write().acquire().await.unwrap();
    let path = format!("{PATH}/{name}");
    other.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let lost = server.on(Op::Multi).session(one.session_id()).drop_before_applying();
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(lost.count(), 1);
    assert_eq!(refused, LockError::NodeDeleted { path });
    settle().await;
    assert_eq!(children(&server, PATH), [name], "nor is it deleted");
}

/// Another client deletes the read node before its `Stat` is read, or the node is neither read nor found.
/// Then the transaction cannot be repeated: its own read node would be in the way.
#[tokio::test(start_paused = true)]
async fn lost_read_node_does_not_end_the_writer() {
    for code in [ErrorCode::NO_NODE, ErrorCode::NO_AUTH] {
        let (server, [one]) = started().await;
        let writing = rw(&one).write().acquire().await.unwrap();
        server.on(Op::Exists).answer(code);
        server.on(Op::GetChildren2).answer(ErrorCode::NO_NODE);
        match writing.read().await.map(drop) {
            Err(LockError::NodeDeleted { .. }) => assert_eq!(code, ErrorCode::NO_NODE),
            Err(LockError::Client(error)) => assert_eq!(error.code(), Some(ErrorCode::NO_AUTH)),
            other => panic!("{other:?}"),
        }
        server.clear_faults();
        writing.check().await.unwrap();
        if code == ErrorCode::NO_NODE {
            settle().await;
            assert_eq!(entries(&server), ["__WRIT__0000000000"]);
            writing.release().await.unwrap();
            expect_nobody(&server, "all have gone").await;
        }
    }
}

/// The transaction of a downgrade is larger than the request that creates the write node, and has three
/// paths. Other contenders are not downgraded, so that their nodes may have more data.
#[tokio::test(start_paused = true)]
async fn writer_is_refused_if_its_downgrade_would_be_too_large() {
    let (server, [client]) = started().await;
    let max_of = |refused: Result<(), LockError>| match refused {
        Err(LockError::Client(error)) => match *error.kind() {
            ErrorKind::TooLarge { max, .. } => max,
            _ => panic!("{error}"),
        },
        other => panic!("{other:?}"),
    };
    let rw = |len| RwLock::new(&client, "/lock").unwrap().with_data(vec![7; len]);
    let max = max_of(rw(2 << 20).write().acquire().await.map(drop));
    rw(0).write().acquire().await.unwrap().release().await.unwrap();
    let mut downgraded = Vec::new();
    for len in (0..1_000).step_by(3).map(|spare| max - spare) {
        let Ok(writer) = rw(len).write().acquire().await else {
            assert!(downgraded.is_empty() && children(&server, "/lock").is_empty(), "{len}");
            continue;
        };
        let reader = writer.downgrade().await.expect("what is acquired can be downgraded");
        assert_eq!(client.get_data(reader.node()).await.unwrap().data.len(), len);
        reader.release().await.unwrap();
        downgraded.push(len);
    }
    let refused_len = downgraded[0] + 3;
    rw(refused_len).read().acquire().await.unwrap().release().await.unwrap();
    let mutex = Mutex::new(&client, "/m").unwrap().with_data(vec![7; refused_len]);
    mutex.acquire().await.unwrap().release().await.unwrap();

    let path = format!("/{}", "x".repeat(400_000));
    let lock = RwLock::new(&client, &path).unwrap();
    max_of(lock.write().acquire().await.map(drop));
    max_of(lock.write().try_acquire().await.map(drop));
    max_of(lock.write().enqueue().await.map(drop));
    assert!(!children(&server, "/").iter().any(|name| name.starts_with('x')), "no node is created");
}
