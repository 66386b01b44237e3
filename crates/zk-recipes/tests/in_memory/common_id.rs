//! Names with a common id, on servers whose events have zxids: the name ahead follows from the own number.
//!
//! A session uses such names once it has waited for the lock, and knows the queue's node.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::{Client, CreateMode, ErrorCode, path};
use zk_recipes::{Guard, Lock, LockError, Mutex, RwLock};
use zk_testing::{Op, Settings, TestServer, Version};

use crate::recorded_connection::{
    CREATE2, EXISTS, GET_CHILDREN2, MULTI, SET_WATCHES, recorded_client, without_lease,
};
use crate::{
    Acquire, Kind, T, attempt, children, config, polled, queue, reconnect, running, settle,
    started_with,
};

const PATH: &str = "/lock";

/// Longest answer to the requests of one hand-off, with the events.
const BYTES_MAX: usize = 700;

async fn started<const N: usize>() -> (TestServer, [Client; N]) {
    started_with(Settings::new().version(Version::V3_9)).await
}

/// Returns a lock whose names have a common id from now on.
async fn known(client: &Client) -> Mutex {
    let lock = Mutex::new(client, PATH).unwrap();
    let held = lock.acquire().await.unwrap();
    let waiting = queue(&lock).await;
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    lock
}

/// Returns the common id and the numbers of all nodes; fails if one has another id.
fn numbers(server: &TestServer) -> (String, Vec<String>) {
    let names = children(server, PATH);
    let parts = names.iter().map(|name| name.split_once("-lock-").unwrap());
    let (mut ids, numbers): (Vec<_>, Vec<_>) =
        parts.map(|(id, number)| (id.to_owned(), number.to_owned())).unzip();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{names:?}");
    (ids.remove(0), numbers)
}

async fn id_of_queue(client: &Client) -> String {
    format!("_c_{:016x}", client.exists(PATH).await.unwrap().unwrap().czxid.0)
}

/// Lets contenders acquire and release a lock in turns. Returns the requests of one, and the bytes that it
/// reads.
async fn take_turns(kind: Kind, contenders: u128, rounds: usize) -> (Vec<i32>, usize) {
    let (server, [first]) = started().await;
    let held = kind.exclude(&first).await;
    let (mut turns, mut records) = (Vec::new(), Vec::new());
    for seed in 0..contenders {
        let (client, record) = recorded_client(&server, 2 + seed).await;
        turns.push(running(queue_again(kind.lock(&client), rounds)).await);
        records.push((client, record));
    }
    held.release_boxed().await.unwrap();
    for turn in turns {
        turn.await.unwrap();
    }
    let (_, record) = records.swap_remove(1);
    (without_lease(record.take().concat()), record.take_bytes_read())
}

async fn queue_again(lock: Arc<dyn Lock>, rounds: usize) {
    for _ in 0..rounds {
        let guard = lock.acquire_boxed().await.unwrap();
        // reason: virtual time, in which the released contender before queues again
        tokio::time::sleep(Duration::from_millis(1)).await;
        guard.release_boxed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn contenders_queue_again_without_a_list() {
    for (kind, contenders) in [
        (Kind::Mutex, 3),
        (Kind::Mutex, 30),
        (Kind::Mutex, 300),
        (Kind::Writer, 3),
        (Kind::Writer, 30),
    ] {
        let case = format!("{kind:?}, {contenders}");
        let (ops, bytes) = take_turns(kind, contenders, 4).await;
        let (more_ops, more_bytes) = take_turns(kind, contenders, 8).await;
        let four = [CREATE2, EXISTS, SET_WATCHES, MULTI].repeat(4);
        assert_eq!(more_ops[..ops.len() - 4], ops[..ops.len() - 4], "{case}");
        assert_eq!(more_ops[ops.len() - 4..][..16], four, "{case}: {more_ops:?}");
        let each = (more_bytes - bytes) / 4;
        assert!(each <= BYTES_MAX, "{case}: {each}");
    }
}

/// A free lock costs no request more than with a list.
#[tokio::test(start_paused = true)]
async fn only_contender_acquires_in_one_write() {
    let (server, _) = started::<0>().await;
    let (client, record) = recorded_client(&server, 1).await;
    let lock = known(&client).await;
    record.take();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(record.take(), [[CREATE2, EXISTS]]);
    guard.release().await.unwrap();
}

/// The numbers begin again in a new parent, so a name with the id of the old one may come again.
#[tokio::test(start_paused = true)]
async fn name_of_a_removed_parent_is_given_up() {
    for is_free in [true, false] {
        let (server, [own, other]) = started().await;
        let lock = known(&own).await;
        settle().await;
        assert_eq!(server.reap_containers(), 1);
        let held = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
        let id = id_of_queue(&own).await;
        if is_free {
            held.release().await.unwrap();
            let guard = lock.acquire().await.unwrap();
            settle().await;
            assert_eq!((numbers(&server).0, children(&server, PATH).len()), (id, 1));
            guard.release().await.unwrap();
        } else {
            let waiting = queue(&lock).await;
            let names = children(&server, PATH);
            assert!(names.len() == 2 && names[1].starts_with(&id), "{names:?}");
            assert!(!waiting.is_finished());
            held.release().await.unwrap();
            waiting.await.unwrap().release().await.unwrap();
        }
    }
}

/// The search for a lost create takes no node of another handle of the session, and none of another lock.
#[tokio::test(start_paused = true)]
async fn search_leaves_the_nodes_of_other_handles() {
    for is_writer in [false, true] {
        let (server, [own]) = started().await;
        let (one, two) = (known(&own).await, Mutex::new(&own, PATH).unwrap());
        let writer = RwLock::new(&own, PATH).unwrap().write().clone();
        let held = one.acquire().await.unwrap();
        let lost = server.on(Op::Create2).drop_before_applying();
        let lock: Arc<dyn Lock> = if is_writer { Arc::new(writer) } else { Arc::new(two) };
        let waiting = attempt(&lock).await;
        tokio::time::sleep(T / 4).await; // reason: virtual time, in which the client reconnects
        let expected = if is_writer { 1 } else { 2 };
        assert_eq!((lost.count(), numbers(&server).1.len()), (1, expected));
        assert!(held.is_held() && waiting.is_finished() == is_writer);
        held.release().await.unwrap();
        assert_eq!(waiting.await.unwrap().is_err(), is_writer, "the path is a mutex's");
    }
}

/// A process that has resumed the session does not know the nodes of the one before.
#[tokio::test(start_paused = true)]
async fn search_leaves_the_nodes_of_an_earlier_process() {
    let (server, [own]) = started().await;
    let lock = known(&own).await;
    let _held = lock.acquire().await.unwrap();
    let _waiting = queue(&lock).await;
    let credentials = own.detach().unwrap();
    let earlier = children(&server, PATH);
    let resumed = config(9).connector(server.clone()).resume(credentials).connect().await.unwrap();
    let lock = Mutex::new(&resumed, PATH).unwrap();
    let first = queue(&lock).await; // after this wait, the names are known
    let lost = server.on(Op::Create2).drop_before_applying();
    let second = queue(&lock).await;
    tokio::time::sleep(T / 4).await; // reason: virtual time, in which the client reconnects
    assert_eq!((lost.count(), children(&server, PATH).len()), (1, earlier.len() + 2));
    for node in earlier {
        resumed.delete(&path::child(PATH, &node), None).await.unwrap();
    }
    first.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

/// Also while another attempt of the session is in flight: neither takes the node of the other.
#[tokio::test(start_paused = true)]
async fn acquisition_dropped_at_any_poll_leaves_no_node() {
    for polls in 0..12 {
        for with_another in [false, true] {
            let (server, [own, other]) = started().await;
            let lock = known(&own).await;
            let held = known(&other).await.acquire().await.unwrap();
            // reason: virtual time, in which it has queued and waits
            drop(tokio::time::timeout(T / 10, polled(polls, lock.acquire())).await);
            let another = if with_another { Some(queue(&lock).await) } else { None };
            settle().await;
            let expected = 1 + usize::from(with_another);
            assert_eq!(numbers(&server).1.len(), expected, "{polls} polls");
            held.release().await.unwrap();
            if let Some(another) = another {
                another.await.unwrap().release().await.unwrap();
            }
            settle().await;
            assert_eq!(children(&server, PATH), [""; 0], "{polls} polls");
        }
    }
}

/// Nodes of others take a number: the guess is wrong, and the contender lists.
#[tokio::test(start_paused = true)]
async fn contender_lists_behind_a_node_with_another_name() {
    let (server, [holder]) = started().await;
    let (own, record) = recorded_client(&server, 2).await;
    let lock = known(&own).await;
    let held = known(&holder).await.acquire().await.unwrap();
    let between = path::child(PATH, "settings");
    holder.create(&between, b"", CreateMode::Persistent).await.unwrap();
    record.take();
    let waiting = queue(&lock).await;
    assert_eq!(
        without_lease(record.take().concat()),
        [CREATE2, EXISTS, SET_WATCHES, GET_CHILDREN2, SET_WATCHES]
    );
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    // It lists at once the next time, until a name ahead is known again.
    let again = lock.acquire().await.unwrap();
    assert!(record.take().contains(&vec![CREATE2, GET_CHILDREN2]));
    again.release().await.unwrap();
}

/// A node of another recipe takes a number as well, so the contender behind it detects it.
#[tokio::test(start_paused = true)]
async fn contender_behind_another_recipe_is_refused() {
    let (_server, [holder, other, own]) = started().await;
    let lock = known(&own).await;
    let held = known(&holder).await.acquire().await.unwrap();
    let foreign = path::child(PATH, "_c_0-__WRIT__");
    other.create(&foreign, b"", CreateMode::EphemeralSequential).await.unwrap();
    for _ in 0..2 {
        let refused = attempt(&lock).await.await.unwrap();
        assert!(matches!(refused, Err(LockError::ForeignNode { .. })), "{refused:?}");
    }
    held.release().await.unwrap();
}

/// The name is taken by another client before its number comes.
#[tokio::test(start_paused = true)]
async fn taken_name_is_avoided() {
    let (server, [own, other]) = started().await;
    let lock = known(&own).await;
    let (id, next) = (id_of_queue(&own).await, 2);
    let taken = format!("{PATH}/{id}-lock-{:010}", next + 1);
    other.create(&taken, b"", CreateMode::Ephemeral).await.unwrap();
    let waiting = queue(&lock).await;
    let names = children(&server, PATH);
    assert!(names.len() == 2 && names.iter().any(|name| !name.starts_with(&id)), "{names:?}");
    assert!(waiting.is_finished(), "the number of the other one is the same");
}

/// Only a list shows whether a lock is free that has contenders.
#[tokio::test(start_paused = true)]
async fn attempt_lists_to_find_a_lock_free() {
    let (server, [own]) = started().await;
    let lock = known(&own).await;
    own.create(&path::child(PATH, "settings"), b"", CreateMode::Persistent).await.unwrap();
    let guard = lock.try_acquire().await.unwrap().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert_eq!(children(&server, PATH), ["settings"]);
}

/// The name of a node that a search has found comes again in the next parent.
#[tokio::test(start_paused = true)]
async fn found_name_that_comes_again_is_given_up() {
    let (server, [own, other]) = started().await;
    let lock = known(&own).await;
    let lost = server.on(Op::Create2).session(own.session_id()).apply_then_drop_reply();
    let guard = queue(&lock).await;
    tokio::time::sleep(T / 4).await; // reason: virtual time, in which the client reconnects
    assert_eq!(lost.count(), 1);
    guard.await.unwrap().release().await.unwrap();
    settle().await;
    assert_eq!(server.reap_containers(), 1);
    let others = Mutex::new(&other, PATH).unwrap();
    for _ in 0..2 {
        others.acquire().await.unwrap().release().await.unwrap();
    }
    queue(&lock).await.await.unwrap().release().await.unwrap();
    settle().await;
    assert_eq!(children(&server, PATH), [""; 0]);
}

/// Loses the reply to two creates of a session, the second one while the search for the first waits.
async fn two_lost_creates(numbers_before: usize, is_first_dropped: bool) {
    let case = format!("{numbers_before}, {is_first_dropped}");
    let (server, [own, other]) = started().await;
    let lock = known(&own).await;
    let held = known(&other).await.acquire().await.unwrap();
    for _ in 0..numbers_before {
        let mode = CreateMode::EphemeralSequential;
        let node = other.create(&path::child(PATH, "x-"), b"", mode).await.unwrap().path;
        other.delete(&node, None).await.unwrap();
    }
    let lose = || server.on(Op::Create2).session(own.session_id()).apply_then_drop_reply();
    server.refuse_connects(0);
    let lost = lose();
    let first = attempt(&lock).await;
    assert_eq!(lost.count(), 1);
    if is_first_dropped {
        first.abort();
        settle().await;
    }
    let throttled = server.on(Op::Sync).session(own.session_id()).answer(ErrorCode::THROTTLED_OP);
    server.accept_connects(0);
    while throttled.count() == 0 {
        // reason: virtual time, until the search is put off
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.refuse_connects(0);
    let lost = lose();
    let second = tokio::spawn(lock.clone().acquired());
    tokio::time::sleep(T / 40).await; // reason: virtual time, in which the reply is lost
    assert_eq!(lost.count(), 1, "{case}");
    reconnect(&server).await;
    let expected = if is_first_dropped { 2 } else { 3 };
    assert_eq!(children(&server, PATH).len(), expected, "{case}");
    held.release().await.unwrap();
    let release = async |waiting: JoinHandle<Result<Guard, LockError>>| {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    };
    if is_first_dropped {
        release(second).await;
    } else {
        // Each may have the node of the other.
        tokio::join!(release(first), release(second));
    }
    settle().await;
    assert_eq!(children(&server, PATH), [""; 0], "{case}");
}

/// The server lists the nodes of a session in no order.
#[tokio::test(start_paused = true)]
async fn searches_of_two_attempts_leave_no_node() {
    for is_first_dropped in [false, true] {
        for numbers_before in 0..10 {
            two_lost_creates(numbers_before, is_first_dropped).await;
        }
    }
}

/// A waiter behind a node with a stale name does not take a release of the contender that had the name
/// before for one of this node.
#[tokio::test(start_paused = true)]
async fn mark_on_a_stale_name_grants_nothing() {
    let (server, [before, stale, first, last]) = started().await;
    let (lock, late) = (known(&before).await, known(&stale).await);
    let held = late.acquire().await.unwrap();
    let waiting = queue(&lock).await;
    held.release().await.unwrap();
    let held = waiting.await.unwrap();
    let number: u32 = held.node()[held.node().len() - 10..].parse().unwrap();
    server.refuse_connects(0);
    let lost = server.on(Op::Multi).session(before.session_id()).apply_then_drop_reply();
    drop(held);
    settle().await;
    assert_eq!((lost.count(), server.reap_containers()), (1, 1));

    let holder = Mutex::new(&first, PATH).unwrap().acquire().await.unwrap();
    for _ in 1..number {
        let mode = CreateMode::EphemeralSequential;
        let node = first.create(&path::child(PATH, "x-"), b"", mode).await.unwrap().path;
        first.delete(&node, None).await.unwrap();
    }
    let _silent = server.on(Op::Exists).session(stale.session_id()).never_answer();
    let _stale = attempt(&late).await;
    let waiter = attempt(&Mutex::new(&last, PATH).unwrap()).await;
    assert_eq!(children(&server, PATH).len(), 3);
    // The client repeats its release, which meets another node of its name.
    server.accept_connects(0);
    tokio::time::sleep(T / 8).await; // reason: virtual time, in which the client reconnects
    assert!(!waiter.is_finished() && holder.is_held());
}
