//! Locks, guards and their futures move between threads. The compiler checks these tests.

use std::ops::ControlFlow;
use std::time::Duration;

use zk_recipes::session::{Client, SessionManager, WatchStream};
use zk_recipes::{
    Candidacy, Candidate, Election, Guard, HeldLock, Leadership, Lock, LockError, LockGuard,
    MultiGuard, MultiLock, Mutex, Owner, RwLock, Semaphore, SemaphoreGuard, SemaphoreMutex,
    SharedCount, SharedValue, Ticket, WriteGuard, run_whenever_held,
};

fn is_send_and_sync<T: Send + Sync>() {}
fn is_send<T: Send>(_: T) {}

#[test]
fn locks_and_guards_are_send_and_sync() {
    is_send_and_sync::<(Client, SessionManager, WatchStream)>();
    is_send_and_sync::<(Mutex, RwLock, Semaphore, SemaphoreMutex, MultiLock, Box<dyn Lock>)>();
    is_send_and_sync::<(Guard, WriteGuard, SemaphoreGuard, MultiGuard, Box<dyn LockGuard>)>();
    is_send_and_sync::<(Owner, Ticket, SharedValue, SharedCount, LockError)>();
    is_send_and_sync::<(Election, Candidacy, Candidate, Leadership, HeldLock)>();
}

/// The futures are created and never polled.
#[test]
fn futures_of_locks_and_elections_are_send() {
    fn locks(lock: &Mutex, permits: &Semaphore, guard: Guard, manager: &SessionManager) {
        is_send(lock.acquire());
        is_send(lock.acquire_timeout(Duration::ZERO));
        is_send(permits.acquire_many(2));
        is_send(guard.check());
        is_send(guard.lost());
        is_send(guard.release());
        is_send(run_whenever_held(
            manager,
            |client| Mutex::new(client, "/lock"),
            |_| std::future::ready(Ok::<(), LockError>(())),
            |_| {},
        ));
    }
    fn elections(election: &Election, candidacy: Candidacy) {
        let work = |_| std::future::ready(Ok::<_, LockError>(ControlFlow::Break(())));
        is_send(election.lead(work, |_| {}));
        is_send(election.candidates());
        is_send(election.leader());
        is_send(candidacy.wait_to_lead());
        is_send(candidacy.resign());
    }
    let _: fn(&Mutex, &Semaphore, Guard, &SessionManager) = locks;
    let _: fn(&Election, Candidacy) = elections;
}
