//! Position of a waiter in the queue, and the requests that the caller sends to follow it.

use futures::FutureExt;
use zk_recipes::session::Client;
use zk_recipes::{Mutex, Owner, RwLock, Ticket, WriteGuard};
use zk_testing::{Op, Zxid};

use crate::recorded_connection::{
    CREATE2, DELETE, EXISTS, GET_CHILDREN2, GET_DATA, MULTI, WATCH_NODE, recorded_client,
    started_recorded,
};
use crate::rwlock::{queue_reader, queue_writer, rw};
use crate::{T, children, polled, queue_many, running, settle, settle_node_watches, started};

const PATH: &str = "/lock";

const NOTHING: [[i32; 0]; 0] = [];

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

/// Waits until no contender is ahead, and returns each number ahead that it saw.
async fn seen(waiting: &mut Ticket) -> Vec<usize> {
    let mut seen = vec![waiting.position().ahead];
    while waiting.position().ahead > 0 {
        let place = waiting.position_changed().await.unwrap();
        assert_eq!(place, waiting.position());
        seen.push(place.ahead);
    }
    seen
}

/// The documentation of `enqueue` states this cost.
#[tokio::test(start_paused = true)]
async fn enqueue_of_a_free_lock_costs_one_more_list() {
    let (_server, client, record) = started_recorded().await;
    let (lock, rw) = (mutex(&client), rw(&client));
    drop((lock.acquire().await.unwrap(), rw.write().acquire().await.unwrap())); // creates the paths
    settle().await;
    record.take();
    let enter = [[CREATE2, GET_CHILDREN2]];
    let again = [[GET_CHILDREN2, EXISTS]]; // there may have been any time in between
    let mut waiting = lock.enqueue().await.unwrap();
    assert_eq!(record.take(), enter);
    assert_eq!((waiting.position().ahead, waiting.position().holder), (0, None));
    let moved = waiting.position_changed().await.unwrap();
    assert_eq!(moved.ahead, 0, "it does not wait for its turn again");
    assert!(waiting.holder().await.unwrap().is_none() && waiting.node().is_some());
    let guard = waiting.acquire().await.unwrap();
    assert_eq!(record.take(), again);
    settle_node_watches().await;
    assert_eq!(record.take(), [[WATCH_NODE]]);
    guard.release().await.unwrap();
    record.take();
    let reading = rw.read().enqueue().await.unwrap();
    assert_eq!(record.take(), enter);
    drop(reading.acquire().await.unwrap());
    assert_eq!(record.take(), again);
    let writing = rw.write().enqueue().await.unwrap();
    record.take(); // with the delete of the reader
    drop(writing.acquire().await.unwrap());
    assert_eq!(record.take(), again);
}

#[tokio::test(start_paused = true)]
async fn place_is_updated_as_contenders_ahead_leave() {
    let (server, [other]) = started().await;
    let (one, record) = recorded_client(&server, 2).await;
    drop(mutex(&one).acquire().await.unwrap());
    let held = mutex(&other).with_data(*b"the first").acquire().await.unwrap();
    let crowd = queue_many(&mutex(&other), 4).await;
    record.take();
    let mut waiting = mutex(&one).enqueue().await.unwrap();
    let asked = record.take();
    assert_eq!(asked, [vec![CREATE2, GET_CHILDREN2], vec![GET_CHILDREN2]], "a list for the place");
    assert_eq!(waiting.position().ahead, 5);
    assert_eq!(waiting.position().holder.as_deref(), Some(held.node()));
    let holder = waiting.holder().await.unwrap().expect("it is there");
    assert_eq!((holder.data, holder.session_id), (b"the first".to_vec(), other.session_id()));
    assert_eq!(holder.czxid, Zxid(held.token().unwrap().czxid()));
    assert_eq!(record.take(), [[GET_DATA]]);

    assert!(waiting.position_changed().now_or_never().is_none());
    settle().await;
    record.take();
    held.release().await.unwrap();
    let mut crowd = crowd.into_iter();
    let second = crowd.next().unwrap().await.unwrap();
    settle().await;
    assert_eq!(waiting.position().ahead, 5, "nobody has looked");
    assert!(waiting.holder().await.unwrap().is_none(), "it has gone");
    record.take();
    assert_eq!(waiting.refresh().await.unwrap().ahead, 4);
    assert_eq!(record.take(), [[GET_CHILDREN2]]);
    assert_eq!(waiting.position().holder.as_deref(), Some(second.node()));

    let seen = running(async move {
        let seen = seen(&mut waiting).await;
        (seen, waiting.acquire().await.unwrap())
    })
    .await;
    drop(second);
    for waiter in crowd {
        let guard = waiter.await.unwrap();
        settle().await;
        drop(guard);
        settle().await;
    }
    let (seen, guard) = seen.await.unwrap();
    assert_eq!(seen, [4, 1, 0], "the two nearest are watched, and the last of them");
    let asked = record.take().concat();
    let count = |wanted| asked.iter().filter(|op| **op == wanted).count();
    assert_eq!(count(GET_CHILDREN2), 2, "one for the place, one for the waiter: {asked:?}");
    assert_eq!(count(CREATE2) + count(DELETE), 0);
    assert!(guard.is_held());
}

/// With two contenders ahead, the departure of either is seen. A revocation request changes the node of the
/// holder, which stays.
#[tokio::test(start_paused = true)]
async fn place_is_exact_from_two_ahead_on() {
    let (server, [other]) = started().await;
    let (one, record) = recorded_client(&server, 2).await;
    for event in ["holder leaves", "other waiter leaves", "holder changes"] {
        let held = mutex(&other).acquire().await.unwrap();
        let next = queue_many(&mutex(&other), 1).await.remove(0);
        let mut waiting = mutex(&one).enqueue().await.unwrap();
        assert_eq!(waiting.position().ahead, 2);
        let moved =
            running(async move { waiting.position_changed().await.map(|place| (place, waiting)) })
                .await;
        record.take();
        if event == "holder changes" {
            other.set_data(held.node(), b"__REVOKE__", None).await.unwrap();
            for _ in 0..100 {
                tokio::task::yield_now().await; // the clock stands still, also if requests never end
            }
            assert_eq!(record.take().concat().len(), 2, "a list for the place, and a watch");
            assert!(!moved.is_finished());
        }
        let left = if event == "other waiter leaves" {
            next.abort();
            held
        } else {
            held.release().await.unwrap();
            next.await.unwrap()
        };
        let (place, mut waiting) = moved.await.unwrap().unwrap();
        assert_eq!((place.ahead, place.holder.as_deref()), (1, Some(left.node())), "{event}");
        left.release().await.unwrap();
        assert_eq!(waiting.position_changed().await.unwrap().ahead, 0);
        waiting.acquire().await.unwrap().release().await.unwrap();
    }
}

/// Another client deletes the waiter's node while the caller drops and repeats the wait.
///
/// The waiter queues again with exactly one node, after any dropped wait and any lost answer.
#[tokio::test(start_paused = true)]
async fn waiter_requeues_at_the_end_when_its_node_is_deleted() {
    let (server, [one, other]) = started().await;
    for loses_an_answer in [false, true] {
        for polls in 1..10 {
            let held = mutex(&other).acquire().await.unwrap();
            let mut waiting = mutex(&one).enqueue().await.unwrap();
            let behind = mutex(&other).enqueue().await.unwrap();
            let node = waiting.node().unwrap().to_owned();
            other.delete(&node, None).await.unwrap();
            let fault = loses_an_answer
                .then(|| server.on(Op::Create2).session(one.session_id()).apply_then_drop_reply());
            {
                let mut moved = std::pin::pin!(waiting.position_changed());
                for _ in 0..polls {
                    if moved.as_mut().now_or_never().is_some() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            // reason: virtual time, in which the client reconnects
            tokio::time::sleep(T / 4).await;
            while waiting.position().ahead < 2 {
                waiting.position_changed().await.unwrap();
            }
            assert_ne!(waiting.node(), Some(node.as_str()));
            settle().await;
            assert_eq!(children(&server, PATH).len(), 3, "after {polls} polls");
            if let Some(fault) = fault {
                fault.cancel();
            }
            held.release().await.unwrap();
            behind.acquire().await.unwrap().release().await.unwrap();
            waiting.acquire().await.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reader_counts_writers_ahead_and_writer_counts_all() {
    let (_server, [one, other]) = started().await;
    let lock = rw(&one);
    let first = lock.read().acquire().await.unwrap();
    let second = lock.read().enqueue().await.unwrap();
    assert_eq!((second.position().ahead, second.position().holder), (0, None));
    let writer = queue_writer(&other).await;
    let reader = queue_reader(&other).await;
    let last_writer: Ticket<WriteGuard> = lock.write().enqueue().await.unwrap();
    let mut last_reader = lock.read().enqueue().await.unwrap();
    assert_eq!(last_writer.position().ahead, 4);
    assert_eq!(last_reader.position().ahead, 2);
    let holder = last_reader.position().holder;
    assert_eq!(
        (holder.as_deref(), last_writer.position().holder),
        (Some(first.node()), holder.clone())
    );
    drop((first, second));
    let writing = writer.await.unwrap();
    let place = last_reader.refresh().await.unwrap();
    assert_eq!((place.ahead, place.holder.as_deref()), (2, Some(writing.node())));
    let reading = writing.downgrade().await.unwrap();
    assert_eq!(last_reader.refresh().await.unwrap().ahead, 1, "one writer less");
    drop((reading, reader.await.unwrap()));
    drop(last_writer.acquire().await.unwrap());
    assert_eq!(last_reader.position_changed().await.unwrap().ahead, 0);
}

#[tokio::test(start_paused = true)]
async fn owner_that_holds_the_lock_does_not_queue() {
    let (_server, client, record) = started_recorded().await;
    let lock = RwLock::new(&client, "/rw").unwrap().with_owner(&Owner::new());
    let writing = lock.write().acquire().await.unwrap();
    settle().await;
    record.take();
    let again = lock.write().enqueue().await.unwrap();
    assert_eq!((again.position().ahead, again.node()), (0, Some(writing.node())));
    let again = again.acquire().await.unwrap();
    assert_eq!(record.take(), NOTHING);
    let reading = lock.read().enqueue().await.unwrap().acquire().await.unwrap();
    assert_eq!(record.take(), [[MULTI, EXISTS]]);
    drop((writing, again));
    assert!(lock.write().enqueue().await.is_err(), "it would wait for itself");
    reading.release().await.unwrap();

    let mut waiting = lock.write().enqueue().await.unwrap();
    assert!(lock.write().try_acquire().await.unwrap().is_none(), "it asks already");
    assert_eq!(waiting.position_changed().await.unwrap().ahead, 0);
    let writing = waiting.acquire().await.unwrap();
    assert!(lock.write().try_acquire().await.unwrap().is_some());
    drop(writing);
}

/// The second of two contenders leaves unseen, and the ticket's node is deleted. Its look at the queue is
/// dropped after any number of polls.
#[tokio::test(start_paused = true)]
async fn dropped_refresh_does_not_move_a_ticket_ahead() {
    for polls in 0.. {
        let (_server, [one, other]) = started().await;
        let held = mutex(&other).acquire().await.unwrap();
        let next = queue_many(&mutex(&other), 1).await.remove(0);
        let mut waiting = mutex(&one).enqueue().await.unwrap();
        let behind = queue_many(&mutex(&other), 1).await.remove(0);
        held.release().await.unwrap();
        let next = next.await.unwrap();
        other.delete(waiting.node().unwrap(), None).await.unwrap();
        let is_done = polled(polls, waiting.refresh()).await.is_some();
        let moved = running(async move {
            while waiting.position_changed().await.unwrap().ahead > 0 {}
            waiting
        })
        .await;
        behind.abort();
        settle().await;
        assert!(!moved.is_finished(), "{polls} polls: the lock is held");
        drop(next);
        moved.await.unwrap().acquire().await.unwrap().check().await.unwrap();
        if is_done {
            break;
        }
    }
}
