//! A thread for sessions of callers that block their own thread or have no runtime.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::ThreadId;
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::mpsc as tasks;
use tokio::task::AbortHandle;

/// A thread with a runtime. It ends when all handles to it are dropped and all sessions that it
/// drives have ended.
#[derive(Debug)]
pub(crate) struct DriverThread {
    runtime: Handle,
    id: ThreadId,
    /// The thread ends when the last clone is dropped. Each driver holds a clone.
    keep: tasks::Sender<()>,
}

impl DriverThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system cannot start a thread, or cannot provide a poller for sockets.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let (keep, mut dropped) = tasks::channel::<()>(1);
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("zk-session".to_owned());
        // The thread creates the runtime, because a runtime that is dropped in a task of another
        // one panics.
        let joined = thread.spawn(move || {
            match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    drop(tell.send(Ok(runtime.handle().clone())));
                    runtime.block_on(dropped.recv());
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
        let runtime = told.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??;
        Ok(Arc::new(Self { runtime, id: joined.thread().id(), keep }))
    }

    /// Runs the driver of a session.
    pub(crate) fn drive(
        self: &Arc<Self>,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> SessionThread {
        let (running, ended) = mpsc::channel::<()>();
        let keep = self.keep.clone();
        self.runtime.spawn(async move {
            driver.await;
            drop((running, keep));
        });
        SessionThread { thread: Arc::clone(self), ended: ended.into() }
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }
}

/// The thread that drives one session.
pub(crate) struct SessionThread {
    thread: Arc<DriverThread>,
    /// Disconnected once the session has ended.
    ended: std::sync::Mutex<mpsc::Receiver<()>>,
}

impl SessionThread {
    pub(crate) fn thread(&self) -> &Arc<DriverThread> {
        &self.thread
    }

    /// Blocks the caller until the session has ended, at most for `at_most`. It does not block on
    /// the driver's own thread, because the driver could not continue meanwhile.
    pub(crate) fn wait_for_driver(&mut self, at_most: Duration) {
        if std::thread::current().id() != self.thread.id {
            // Nothing is ever sent: the end is the drop of the sender.
            drop(self.ended.get_mut().map(|ended| ended.recv_timeout(at_most)));
        }
    }
}

/// A handle to the [dedicated thread of a session](crate::Config::dedicated_thread), for programs
/// without a runtime.
///
/// It keeps the thread running. It does not keep the session open.
#[derive(Clone, Debug)]
pub struct DedicatedThread(Arc<DriverThread>);

impl DedicatedThread {
    pub(crate) fn new(thread: &Arc<DriverThread>) -> Self {
        Self(Arc::clone(thread))
    }

    /// Runs a future to completion on the calling thread. Its timers, and the tasks that it spawns,
    /// run on the session's thread.
    ///
    /// # Panics
    /// In a task, or in the `block_on` of a runtime: await the future there.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn wait_ends_when_driver_has_ended() -> io::Result<()> {
        let thread = DriverThread::start()?;
        let (release, released) = oneshot::channel::<()>();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&has_ended);
        let mut session = thread.drive(async move {
            drop(released.await);
            ends.store(true, Ordering::SeqCst);
        });
        session.wait_for_driver(Duration::ZERO);
        assert!(!has_ended.load(Ordering::SeqCst));
        drop(release);
        session.wait_for_driver(LONG);
        assert!(has_ended.load(Ordering::SeqCst));
        Ok(())
    }

    #[test]
    fn wait_on_the_drivers_own_thread_returns_at_once() -> io::Result<()> {
        let thread = DriverThread::start()?;
        let (tell, told) = mpsc::channel();
        let mut session = thread.drive(std::future::pending());
        thread.spawn(async move {
            session.wait_for_driver(LONG);
            assert_eq!(tell.send(()), Ok(()));
        });
        assert_eq!(told.recv_timeout(LONG / 2), Ok(()));
        Ok(())
    }

    #[test]
    fn thread_ends_when_its_last_session_has_ended() -> io::Result<()> {
        let thread = DriverThread::start()?;
        let (release, released) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel::<()>();
        let session = thread.drive(async move { drop(released.await) });
        // A task of the thread is dropped together with its runtime.
        thread.spawn(async move {
            std::future::pending::<()>().await;
            drop(tell);
        });
        drop((session, thread));
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty), "a session goes on");
        drop(release);
        assert_eq!(told.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
        Ok(())
    }
}
