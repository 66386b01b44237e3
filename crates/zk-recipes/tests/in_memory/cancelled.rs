//! Every operation of the recipes, dropped at every step.
//!
//! A step is a part of an answer. Each operation runs without a fault, with a lost answer, and with
//! a cut connection. Afterwards no node is left, the next waiter acquires the locks, and no permit
//! is missing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use zk_recipes::session::Client;
use zk_recipes::{
    LocalQueueLimits, Lock, MultiGuard, MultiLock, Mutex, Owner, RwLock, Semaphore, SemaphoreGuard,
    SharedValue, revoke,
};
use zk_testing::{Cut, Op};

use crate::stepped::{Steps, stepped};
use crate::{Kind, T, children, config, running, settle, started};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Operation under test. It releases every lock it still holds at its end.
type Act = fn(Client) -> BoxFuture<()>;

/// Fault during the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    /// The server applies the first request of this kind, and its answer is lost with the
    /// connection.
    AnswerLost(Op),
    /// The connection is cut when the operation is dropped.
    Cut,
    /// The connection is cut, and the client notices it before the operation is dropped.
    CutBefore,
}

const TROUBLES: [Trouble; 7] = [
    Trouble::Nothing,
    Trouble::AnswerLost(Op::Create2),
    Trouble::AnswerLost(Op::Delete),
    Trouble::AnswerLost(Op::Multi),
    Trouble::AnswerLost(Op::SetData),
    Trouble::Cut,
    Trouble::CutBefore,
];

const PERMITS: u32 = 3;

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, "/m").unwrap()
}

fn rw(client: &Client) -> RwLock {
    RwLock::new(client, "/rw").unwrap()
}

fn semaphore(client: &Client) -> Semaphore {
    Semaphore::new(client, "/s", PERMITS).unwrap()
}

/// Acquires every lock and all permits, in the same order for every client.
async fn take_all(client: &Client) -> (MultiGuard, SemaphoreGuard) {
    let kinds = [Kind::Mutex, Kind::Writer, Kind::SemaphoreMutex];
    let locks = kinds.map(|kind| kind.lock(client));
    let locks = MultiLock::new(locks).acquire().await.unwrap();
    (locks, semaphore(client).acquire_many(PERMITS).await.unwrap())
}

/// Drops the operation after every number of steps that is too small for it to finish.
///
/// The locks are free, or another client holds them for a while.
async fn drop_at_every_step(act: Act) {
    for trouble in TROUBLES {
        for is_held in [false, true] {
            if !ends_within(usize::MAX, trouble, is_held, act).await.has_struck {
                continue; // the operation sends no such request
            }
            let mut steps = 0;
            while !ends_within(steps, trouble, is_held, act).await.is_done {
                steps += 1;
                assert!(steps < 200, "{trouble:?}: it never ends");
            }
            assert!(steps >= 2, "{trouble:?}: a first answer has two parts");
        }
    }
}

/// Result of one run.
struct Ended {
    /// The operation finished before it was dropped.
    is_done: bool,
    /// The fault occurred.
    has_struck: bool,
}

async fn ends_within(steps: usize, trouble: Trouble, is_held: bool, act: Act) -> Ended {
    let what = format!("{trouble:?}, held: {is_held}, {steps} steps");
    let (server, [holder, next]) = started().await;
    let held = take_all(&holder).await;
    let held = Some(held).filter(|_| is_held);
    settle().await;
    let gate = Steps::default();
    let client = config(3).connector(stepped(&server, &gate)).connect().await.unwrap();
    let lost = match trouble {
        Trouble::AnswerLost(op) => {
            Some(server.on(op).session(client.session_id()).apply_then_drop_reply())
        }
        _ => None,
    };

    gate.allow(steps);
    let acting = running(act(client.clone())).await;
    let waiting = running(async move { drop(take_all(&next).await) }).await;
    drop(held);
    // reason: virtual time, in which the client reconnects
    tokio::time::sleep(T / 10).await;
    let is_done = gate.are_left() && acting.is_finished();
    let has_struck = lost.is_none_or(|lost| lost.count() > 0);
    if trouble == Trouble::CutBefore {
        server.refuse_connects(0);
    }
    if matches!(trouble, Trouble::Cut | Trouble::CutBefore) {
        server.connection_of(client.session_id()).cut(Cut::Rst);
    }
    if trouble == Trouble::CutBefore {
        settle().await;
    }
    acting.abort();
    let acted = acting.await;
    assert!(acted.as_ref().err().is_none_or(JoinError::is_cancelled), "{what}: {acted:?}");
    server.accept_connects(0);
    gate.allow_all();

    let waited = tokio::time::timeout(3 * T, waiting).await;
    assert!(waited.is_ok(), "{what}: the next one waits for ever");
    waited.unwrap().unwrap();
    // reason: virtual time, in which the clean-up runs
    tokio::time::sleep(T / 4).await;
    for folder in Kind::ALL.iter().flat_map(|kind| kind.folders()) {
        assert_eq!(children(&server, folder), [""; 0], "{what}: {folder}");
    }
    assert!(client.end_reason().is_none(), "{what}: by the session, and not by its end");
    Ended { is_done, has_struck }
}

macro_rules! dropped_at_every_step {
    ($($name:ident: |$client:ident| $act:block)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                drop_at_every_step(|$client| Box::pin(async move { $act })).await;
            }
        )*
    };
}

/// Timeout that is long enough for a free lock, and too short for a held one.
const SOON: Duration = Duration::from_millis(40);

dropped_at_every_step! {
    a_mutex: |client| {
        drop(mutex(&client).acquire().await.unwrap().release().await);
    }

    a_mutex_with_a_timeout: |client| {
        drop(mutex(&client).acquire_timeout(SOON).await.unwrap());
    }

    a_try_for_a_mutex: |client| {
        drop(mutex(&client).try_acquire().await);
    }

    a_ticket: |client| {
        drop(mutex(&client).enqueue().await.unwrap());
        drop(mutex(&client).enqueue().await.unwrap().acquire().await.unwrap());
    }

    a_mutex_with_a_local_queue: |client| {
        let lock = mutex(&client).with_local_queue(LocalQueueLimits::default().max_passes(1));
        let turn = async || drop(lock.acquire().await.unwrap().release().await);
        tokio::join!(turn(), turn(), turn());
    }

    a_look_at_a_guard: |client| {
        let guard = mutex(&client).acquire().await.unwrap();
        drop(guard.check().await);
        drop(tokio::time::timeout(SOON, guard.lost()).await);
        drop(tokio::time::timeout(SOON, guard.revocation_requested()).await);
    }

    an_owner_that_comes_in_again: |client| {
        let lock = mutex(&client).with_owner(&Owner::new());
        let first = lock.acquire().await.unwrap();
        let again = lock.acquire().await;
        drop(first);
        drop(again.unwrap().release().await);
    }

    an_owner_that_reads_what_it_writes: |client| {
        let lock = rw(&client).with_owner(&Owner::new());
        let writer = lock.write().acquire().await.unwrap();
        let reader = lock.read().acquire().await;
        drop(writer.release().await);
        drop(reader);
    }

    a_reader: |client| {
        drop(rw(&client).read().acquire().await.unwrap().release().await);
    }

    a_reader_with_a_timeout: |client| {
        drop(rw(&client).read().acquire_timeout(SOON).await.unwrap());
    }

    a_writer_that_becomes_a_reader: |client| {
        let writer = rw(&client).write().acquire().await.unwrap();
        if let Ok(reader) = writer.downgrade().await {
            drop(reader.release().await);
        }
    }

    a_writer_that_reads_as_well: |client| {
        let writer = rw(&client).write().acquire().await.unwrap();
        let reader = writer.read().await;
        drop(writer.release().await);
        drop(reader);
    }

    a_permit: |client| {
        let semaphore = semaphore(&client);
        drop(semaphore.acquire().await.unwrap().release().await);
        // It expects a free permit.
        drop(semaphore.acquire().await.unwrap().release().await);
    }

    all_permits: |client| {
        drop(semaphore(&client).acquire_many(PERMITS).await.unwrap().release().await);
    }

    permits_with_a_timeout: |client| {
        drop(semaphore(&client).acquire_many_timeout(2, SOON).await.unwrap());
    }

    a_try_for_permits: |client| {
        drop(semaphore(&client).try_acquire_many(2).await);
    }

    a_semaphore_mutex: |client| {
        let lock = Kind::SemaphoreMutex.lock(&client);
        drop(lock.acquire_boxed().await.unwrap().release_boxed().await);
    }

    several_locks: |client| {
        let locks = [Kind::Mutex, Kind::Writer, Kind::SemaphoreMutex].map(|it| it.lock(&client));
        drop(MultiLock::new(locks).acquire().await.unwrap().release().await);
    }

    a_try_for_several_locks: |client| {
        let locks: [Arc<dyn Lock>; 2] =
            [Arc::new(rw(&client).read().clone()), Arc::new(semaphore(&client))];
        drop(MultiLock::new(locks).try_acquire().await);
    }

    a_value: |client| {
        let value = SharedValue::new(&client, "/values/v", &b"0"[..]).unwrap();
        let before = value.get().await.unwrap();
        drop(value.try_set(&before, &b"1"[..]).await);
        drop(value.set(&b"2"[..]).await);
        drop(tokio::time::timeout(SOON, value.changed(&before)).await);
    }

    a_request_to_let_go: |client| {
        for participant in mutex(&client).participants().await.unwrap_or_default() {
            drop(revoke(&client, &participant.path).await);
        }
    }
}
