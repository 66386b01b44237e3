//! This library, as a service uses it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use xtask::zookeeper::certificate;
use zk_benches::contest::{Board, Clock, Hold, Job, Kind, Refusal, sequence_of};
use zk_recipes::session::{Client, Config};
use zk_recipes::{Guard, LocalQueueLimits, LockError, Mutex, RwLock, Semaphore};
use zk_tls::Tls;

/// A way to use the library.
#[derive(Clone, Copy)]
pub(crate) enum Variant {
    Plain,
    /// The waiters of a session share a local queue.
    LocalQueue,
    /// Connections use TLS.
    Tls,
}

/// Runs a job.
pub(crate) async fn run(job: &Job, variant: Variant) -> Result<Vec<Hold>, Refusal> {
    if job.kind == Kind::Connect {
        return open_sessions(job, variant).await;
    }
    let (mut clients, mut mutexes) = (Vec::new(), Vec::new());
    let door = Door::of(variant)?;
    for _ in 0..job.sessions {
        let client = door.connect(job).await?;
        let mutex = Mutex::new(&client, &job.path)?;
        mutexes.push(match variant {
            Variant::LocalQueue => mutex.with_local_queue(LocalQueueLimits::default()),
            Variant::Plain | Variant::Tls => mutex,
        });
        clients.push(client);
    }
    let clock = Clock;
    let board = Arc::new(Board::new(job));
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for waiter in 0..job.waiters {
        let client = clients[waiter % job.sessions].clone();
        let mutex = mutexes[waiter % job.sessions].clone();
        let (board, tell) = (Arc::clone(&board), tell.clone());
        let contender = Contender { job: job.clone(), waiter, clock, board, tell };
        tasks.push(tokio::spawn(async move {
            // The receiver stops at the first failure, so this send may fail.
            if let Err(error) = contender.contend(&client, mutex).await {
                let _ = contender.tell.send(Err(error));
            }
        }));
    }
    drop(tell);
    // The channel closes without a message if no task contends any more.
    if let Some(outcome) = told.recv().await {
        outcome?;
    }
    let holds = board.take();
    for task in tasks {
        task.abort();
    }
    for client in clients {
        client.close().await;
    }
    Ok(holds)
}

/// Opens and closes sessions, one after the other.
async fn open_sessions(job: &Job, variant: Variant) -> Result<Vec<Hold>, Refusal> {
    let (clock, door) = (Clock, Door::of(variant)?);
    let mut sessions = Vec::new();
    for _ in 0..job.holds {
        let call = clock.now();
        let client = door.connect(job).await?;
        let (owner, release) = (clock.now(), clock.now());
        client.close().await;
        let released = clock.now();
        sessions.push(Hold { call, owner, release, released, order: -1, shared: false });
    }
    Ok(sessions)
}

/// The way to the server.
enum Door {
    Plain,
    Tls(Tls),
}

impl Door {
    fn of(variant: Variant) -> io::Result<Self> {
        Ok(match variant {
            Variant::Plain | Variant::LocalQueue => Self::Plain,
            Variant::Tls => {
                let authority = certificate("ca.pem");
                let tls = Tls::builder().ca_file(authority).server_name("localhost").build();
                Self::Tls(tls.map_err(io::Error::other)?)
            }
        })
    }

    async fn connect(&self, job: &Job) -> Result<Client, Refusal> {
        let config = Config::new(&job.address)?.session_timeout(super::SESSION_TIMEOUT);
        Ok(match self {
            Self::Plain => config.connect().await?,
            Self::Tls(tls) => config.connector(tls.clone()).connect().await?,
        })
    }
}

struct Contender {
    job: Job,
    waiter: usize,
    clock: Clock,
    board: Arc<Board>,
    /// Reports the end of the contest, or a failure.
    tell: mpsc::UnboundedSender<Result<(), Refusal>>,
}

enum Lock {
    Mutex(Mutex),
    ReadWrite(RwLock),
    Semaphore(Semaphore),
}

impl Contender {
    async fn contend(&self, client: &Client, mutex: Mutex) -> Result<(), Refusal> {
        let path = &self.job.path;
        let lock = match self.job.kind {
            Kind::Handoff | Kind::Uncontended => Lock::Mutex(mutex),
            Kind::ReadWrite => Lock::ReadWrite(RwLock::new(client, path)?),
            Kind::Semaphore => {
                let permits = u32::try_from(self.job.permits)?;
                Lock::Semaphore(Semaphore::new(client, path, permits)?)
            }
            Kind::Connect => return Err(Refusal::Failed("a session is no lock".to_owned())),
        };
        for turn in 0.. {
            let shared = self.job.is_shared(self.waiter, turn);
            let hold = match &lock {
                Lock::Mutex(mutex) => self.hold(mutex.acquire(), false).await?,
                Lock::ReadWrite(sides) if shared => self.hold(sides.read().acquire(), true).await?,
                Lock::ReadWrite(sides) => self.write(sides).await?,
                Lock::Semaphore(semaphore) => self.permit(semaphore).await?,
            };
            if self.board.add(hold) {
                // The send fails only if another task has failed before.
                let _ = self.tell.send(Ok(()));
            }
            if !self.job.again {
                break;
            }
        }
        Ok(())
    }

    async fn hold(
        &self,
        acquire: impl Future<Output = Result<Guard, LockError>>,
        shared: bool,
    ) -> Result<Hold, Refusal> {
        let call = self.clock.now();
        let guard = acquire.await?;
        let owner = self.clock.now();
        let order = sequence_of(guard.node());
        self.sleep().await;
        let release = self.clock.now();
        guard.release().await?;
        Ok(Hold { call, owner, release, released: self.clock.now(), order, shared })
    }

    async fn write(&self, lock: &RwLock) -> Result<Hold, Refusal> {
        let call = self.clock.now();
        let guard = lock.write().acquire().await?;
        let owner = self.clock.now();
        let order = sequence_of(guard.node());
        self.sleep().await;
        let release = self.clock.now();
        guard.release().await?;
        Ok(Hold { call, owner, release, released: self.clock.now(), order, shared: false })
    }

    async fn permit(&self, lock: &Semaphore) -> Result<Hold, Refusal> {
        let call = self.clock.now();
        let lease = lock.acquire().await?;
        let owner = self.clock.now();
        self.sleep().await;
        let release = self.clock.now();
        lease.release().await?;
        let released = self.clock.now();
        Ok(Hold { call, owner, release, released, order: -1, shared: false })
    }

    /// Holds the lock as exactly as the other contestants, which sleep in threads.
    ///
    /// The timers of tokio fire up to a millisecond late. A client that prepares the hand-off during
    /// the hold would gain from a longer hold.
    async fn sleep(&self) {
        let hold = self.job.hold;
        if !hold.is_zero() {
            // It fails only if the runtime shuts down.
            let _ = tokio::task::spawn_blocking(move || pause(hold)).await;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a hold is nothing but time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
