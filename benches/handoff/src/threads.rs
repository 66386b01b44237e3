//! A thread for each session of a contestant on blocking sockets.

use std::io;
use std::thread;

use zk_benches::contest::{Hold, Job};

use crate::raw::Raw;

/// Runs `contend` with the number of each session, and returns all holds. Sessions close when the
/// last thread has ended, so that no hand-off includes the end of a session.
pub(crate) fn run(
    job: &Job,
    contend: impl Fn(usize) -> io::Result<(Raw, Vec<Hold>)> + Sync,
) -> io::Result<Vec<Hold>> {
    let outcomes: Vec<io::Result<(Raw, Vec<Hold>)>> = thread::scope(|scope| {
        let contend = &contend;
        let start = |session| scope.spawn(move || contend(session));
        let threads: Vec<_> = (0..job.sessions).map(start).collect();
        let ended = || io::Error::other("a thread panicked");
        threads.into_iter().map(|it| it.join().unwrap_or_else(|_| Err(ended()))).collect()
    });
    let (mut sessions, mut holds) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        let (session, of_session) = outcome?;
        sessions.push(session);
        holds.extend(of_session);
    }
    Ok(holds)
}

/// Sleeps for the duration of a hold.
#[allow(clippy::disallowed_methods, reason = "the hold itself is what takes time")]
pub(crate) fn hold(job: &Job) {
    if !job.hold.is_zero() {
        thread::sleep(job.hold);
    }
}
