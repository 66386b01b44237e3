//! Contenders that keep their lease renewed: the holder, and the waiter that is next in line.

use std::collections::HashSet;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::Client;
use zk_testing::TestServer;

use crate::recorded_connection::{
    CREATE2, GET_CHILDREN2, GET_DATA, LEASE_MULTI, LEASE_SYNC, PING, Record, SET_WATCHES, recorded,
    recorded_client,
};
use crate::{T, child, children, client, config, now, queue, settle, started};

const PATH: &str = "/lock";

const NOTHING: [[i32; 0]; 0] = [];

pub(crate) fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

/// Returns the numbers of pings, syncs and empty transactions that were sent.
///
/// The read with which a waiter checks the node ahead after a long wait counts as a ping, because it
/// replaces one.
///
/// Panics if any other request was sent.
fn lease_requests(record: &Record) -> [usize; 3] {
    lease_requests_of(record.take().concat())
}

fn lease_requests_of(mut sent: Vec<i32>) -> [usize; 3] {
    sent.iter_mut().filter(|op| **op == GET_DATA).for_each(|check| *check = PING);
    let counts = [PING, LEASE_SYNC, LEASE_MULTI]
        .map(|wanted| sent.iter().filter(|op| **op == wanted).count());
    assert_eq!(counts.iter().sum::<usize>(), sent.len(), "{sent:?}");
    counts
}

/// Expects this many pings, syncs and writes in two session timeouts.
///
/// A ping is sent in each sixteenth of the timeout. A request to the leader follows a ping in each
/// eighth, and every third of these requests is a write.
fn expect_renewals(record: &Record, expected: [usize; 3]) {
    let [pings, syncs, writes] = expected;
    assert!((16..=17).contains(&(syncs + writes)));
    let sent = lease_requests(record);
    assert!((pings..=pings + 1).contains(&sent[0]), "{sent:?}"); // with the check of a long wait
    assert_eq!(sent[1..], [syncs, writes]);
}

/// Expects the requests of a session that has claimed no lease for this many timeouts: in each a `sync`
/// twice, and pings between them.
fn expect_evidence_kept(record: &Record, timeouts: usize) {
    let [pings, syncs, writes] = lease_requests(record);
    assert!((timeouts * 2..=timeouts * 3).contains(&syncs), "{syncs} syncs");
    assert!((timeouts..=timeouts * 3).contains(&pings), "{pings} pings");
    assert_eq!(writes, 0);
}

/// Each waiter has its own session, so it sends nothing on behalf of another one.
#[tokio::test(start_paused = true)]
async fn only_holder_and_next_in_line_write_while_100_wait() {
    let server = TestServer::in_memory();
    let (holder, held_record) = recorded_client(&server, 1_000).await;
    let held = mutex(&holder).acquire().await.unwrap();
    let (mut records, mut waiting) = (Vec::new(), Vec::new());
    for seed in 0..100 {
        let (client, record) = recorded_client(&server, seed).await;
        waiting.push(queue(&mutex(&client)).await);
        records.push(record);
    }
    assert_eq!(children(&server, PATH).len(), 101);
    held_record.take();
    records.iter().for_each(|record| drop(record.take()));
    // reason: virtual time, in which the queue does not move
    tokio::time::sleep(T * 2).await;
    for record in [&held_record, &records[0]] {
        expect_renewals(record, [32, 11, 5]);
    }
    for record in &records[1..] {
        expect_evidence_kept(record, 2);
    }

    // The waiter that is now next in line starts to renew its lease. No other waiter does.
    held.release().await.unwrap();
    let second = waiting.remove(0).await.unwrap();
    settle().await;
    records.iter().for_each(|record| drop(record.take()));
    // reason: virtual time, in which the queue does not move
    tokio::time::sleep(T * 2).await;
    expect_renewals(&records[0], [32, 10, 6]);
    // The lease of the next waiter has just begun, so one sync is sent early, in place of a ping.
    expect_renewals(&records[1], [32, 12, 5]);
    for record in &records[2..] {
        expect_evidence_kept(record, 2);
    }
    assert!(second.is_held());
}

/// Each wait of the last waiters takes longer than two session timeouts. Their sessions keep the
/// evidence of their leases without a logged write, so no grant waits for an expiry pass.
#[tokio::test(start_paused = true)]
async fn moving_queue_of_200_is_not_delayed_by_leases() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    const HOLD: Duration = Duration::from_millis(50);
    const WAITERS: u32 = 200;
    let server = TestServer::ensemble(3);
    let (mut records, mut holds) = (Vec::new(), Vec::new());
    let acquired = Arc::new(StdMutex::new(HashSet::new()));
    for number in 0..WAITERS {
        let config = config(number.into()).session_timeout(TIMEOUT);
        let (client, record) = recorded(config, &server).await;
        record.move_to(usize::try_from(number % 3).unwrap());
        records.push(record);
        let acquired = acquired.clone();
        holds.push(async move {
            let guard = mutex(&client).acquire().await.unwrap();
            acquired.lock().unwrap().insert(number);
            tokio::time::sleep(HOLD).await; // reason: virtual time, the length of a hold
            guard.release().await.unwrap();
        });
    }
    // The clients reconnect, most of them to followers.
    assert!(server.elect(1));
    tokio::time::sleep(TIMEOUT * 2).await; // reason: virtual time, until the evidence has no gap
    records.iter().for_each(|record| drop(record.take()));
    let begun = now();
    let all = tokio::spawn(futures::future::join_all(holds));
    // reason: virtual time, after which the first three quarters have held the lock
    tokio::time::sleep(HOLD * WAITERS * 3 / 4).await;
    let (mut writers, mut syncs, mut waiting) = (0, 0, 0);
    for (number, record) in (0..).zip(&records) {
        if acquired.lock().unwrap().contains(&number) {
            continue;
        }
        let sent = record.take().concat();
        waiting += 1;
        writers += usize::from(sent.contains(&LEASE_MULTI));
        syncs += sent.iter().filter(|op| **op == LEASE_SYNC).count();
    }
    assert!(writers <= 1, "only the waiter that is next in line writes");
    assert!((45..=55).contains(&waiting), "{waiting} wait");
    assert!(
        (waiting * 3..=waiting * 5).contains(&syncs),
        "{syncs} in 1.9 timeouts, {waiting} waiters"
    );
    all.await.unwrap();
    let late = now() - begun - HOLD * WAITERS;
    assert!(late <= HOLD * WAITERS / 100, "{late:?}");
}

/// The waiter is next in line from the start, or after the first of two contenders ahead has left.
#[tokio::test(start_paused = true)]
async fn next_in_line_acquires_without_a_request_after_a_long_wait() {
    for had_two_ahead in [false, true] {
        let (server, [other]) = started().await;
        let (next, record) = recorded_client(&server, 2).await;
        let mut held = mutex(&other).acquire().await.unwrap();
        let between = match had_two_ahead {
            true => Some(queue(&mutex(&other)).await),
            false => None,
        };
        let waiting = queue(&mutex(&next)).await;
        assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2], vec![SET_WATCHES]]);
        if let Some(between) = between {
            held.release().await.unwrap();
            held = between.await.unwrap();
        }
        // reason: virtual time, in which the first lease would have expired long ago
        tokio::time::sleep(T * 3).await;
        let [_, syncs, writes] = lease_requests(&record);
        assert!(syncs > 0 && writes > 0, "the lease is kept renewed");

        let before = now();
        held.release().await.unwrap();
        let guard = waiting.await.unwrap();
        assert_eq!(record.take(), NOTHING, "two ahead: {had_two_ahead}");
        assert_eq!(now(), before);
        assert!(guard.is_held() && guard.remaining() > T * 2 / 5, "{:?}", guard.remaining());
        settle().await;
        assert_eq!(record.take(), NOTHING, "two ahead: {had_two_ahead}");
    }
}

/// The waiter was never next in line, so its lease has expired.
#[tokio::test(start_paused = true)]
async fn third_in_line_renews_once_if_both_ahead_leave_at_once() {
    for in_one_transaction in [true, false] {
        let server = TestServer::in_memory();
        // Without latency the answer to a request proves no later touch.
        let _latency = server.on_any_request().always().delay(Duration::from_millis(1));
        let (other, operator) = (client(&server, 1).await, client(&server, 3).await);
        let (third, record) = recorded_client(&server, 2).await;
        let held = mutex(&other).acquire().await.unwrap();
        let second = queue(&mutex(&other)).await;
        let waiting = queue(&mutex(&third)).await;
        record.take();
        // reason: virtual time, in which the queue does not move
        tokio::time::sleep(T * 3).await;
        expect_evidence_kept(&record, 3);
        let own = child(&server, PATH, 2);
        match in_one_transaction {
            true => {
                let names = children(&server, PATH);
                let path = |index: usize| format!("{PATH}/{}", names[index]);
                let both = operator.multi().delete(&path(0), None).delete(&path(1), None);
                both.send().await.unwrap();
            }
            false => {
                drop(held);
                second.abort();
            }
        }
        let guard = waiting.await.unwrap();
        let mut sent = record.take().concat();
        // Of two deletions the first leaves one contender ahead, which is now the nearest one.
        sent.retain(|op| *op != SET_WATCHES);
        let [pings, syncs, writes] = lease_requests_of(sent);
        // One by one, the waiter is next for a moment, and the session renews the lease for it.
        let writes_max = if in_one_transaction { 1 } else { 2 };
        assert!((1..=writes_max).contains(&writes), "{writes}, {in_one_transaction}");
        assert!(pings <= 2 && syncs <= 1, "{pings} pings, {syncs} syncs");
        assert!(guard.is_held() && guard.node() == own);
        assert!(guard.remaining() > T * 2 / 5, "{:?}", guard.remaining());
        // reason: virtual time, in which the lease would run out
        tokio::time::sleep(T * 3).await;
        assert!(guard.is_held());
        let [_, syncs, writes] = lease_requests(&record);
        assert!(syncs > 0 && writes > 0, "the guard keeps the lease renewed");
        guard.check().await.unwrap();
    }
}
