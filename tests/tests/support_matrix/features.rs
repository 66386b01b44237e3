//! Features of the libraries, each tried on a server in a session of its own.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use zk_coordination::{AtomicLong, Cache, Group, PersistentNode};
use zk_discovery::{Discovery, ServiceInstance};
use zk_recipes::session::{
    Config, CreateMode, Error, ErrorCode, OpCode, ParentMode, SessionManager,
};
use zk_recipes::{Election, LockError, Mutex, RwLock, Semaphore};

/// Tries a feature at a path.
type Probe = fn(SessionManager, String) -> Pin<Box<dyn Future<Output = bool>>>;

/// A feature.
pub(crate) struct Feature {
    /// The name in the table.
    pub(crate) name: &'static str,
    /// Operations in whose place the client sends others, if the servers lack them.
    operations: &'static [OpCode],
    works: Probe,
}

/// The features, in the order of the table.
pub(crate) const FEATURES: [Feature; 18] = [
    of("mutex", LOCK, |sessions, path| Box::pin(mutex(sessions, path))),
    of("read-write lock", LOCK, |sessions, path| Box::pin(rw_lock(sessions, path))),
    of("semaphore", LOCK, |sessions, path| Box::pin(semaphore(sessions, path))),
    of("election", LOCK, |sessions, path| Box::pin(election(sessions, path))),
    of("hand-off without a list", &[], |sessions, _| {
        Box::pin(async move { sessions.client().events_have_zxids().await })
    }),
    of("a session outlives its connection", &[], |sessions, _| Box::pin(resume(sessions))),
    of("counter", &[OpCode::Create2], |sessions, path| Box::pin(counter(sessions, path))),
    of("node that is kept up", &[OpCode::Create2], |sessions, path| Box::pin(kept(sessions, path))),
    of("group membership", &[], |sessions, path| {
        Box::pin(async move { Group::open(&sessions, &path).await.is_ok() })
    }),
    of("cache", &[OpCode::AddWatch, OpCode::MultiRead], |sessions, path| {
        Box::pin(cache(sessions, path))
    }),
    of("service discovery", &[OpCode::Create2], |sessions, path| {
        Box::pin(discovery(sessions, path))
    }),
    of("transactions", &[OpCode::Create2], |sessions, path| Box::pin(transaction(sessions, path))),
    of("containers", &[OpCode::CreateContainer], |sessions, path| {
        Box::pin(container(sessions, path))
    }),
    of("nodes with a time to live", &[], |sessions, path| Box::pin(time_to_live(sessions, path))),
    of("persistent watches", &[], |sessions, _| {
        Box::pin(async move { is_known(sessions.client().watch("/").await) })
    }),
    of("recursive watches", &[], |sessions, _| {
        Box::pin(async move { is_known(sessions.client().watch_recursive("/").await) })
    }),
    of("several reads in one request", &[], |sessions, _| {
        Box::pin(async move { is_known(sessions.client().multi_read().get_data("/").send().await) })
    }),
    of("identities of a connection", &[], |sessions, _| {
        Box::pin(async move { is_known(sessions.client().who_am_i().await) })
    }),
];

/// What a lock sends, and what other requests may stand in for.
const LOCK: &[OpCode] = &[OpCode::Create2, OpCode::SetWatches];

const fn of(name: &'static str, operations: &'static [OpCode], works: Probe) -> Feature {
    Feature { name, operations, works }
}

impl Feature {
    /// Tries the feature on a server, and returns what the table says of it.
    pub(crate) async fn on(&self, connect_string: &str) -> &'static str {
        let sessions = SessionManager::connect(config(connect_string)).await.unwrap();
        let client = sessions.client();
        let path = format!("/support-{}", self.name.replace(' ', "-"));
        if !(self.works)(sessions, path).await {
            return "no";
        }
        let is_emulated = self.operations.iter().any(|op| !client.supports(*op));
        if is_emulated { "emulated" } else { "yes" }
    }
}

async fn mutex(sessions: SessionManager, path: String) -> bool {
    let mutex = Mutex::new(&sessions.client(), &path).unwrap();
    let guard = mutex.acquire().await.unwrap();
    let (next, released) = tokio::join!(mutex.acquire(), guard.release());
    released.unwrap();
    next.unwrap().release().await.is_ok()
}

async fn rw_lock(sessions: SessionManager, path: String) -> bool {
    let lock = RwLock::new(&sessions.client(), &path).unwrap();
    let writer = lock.write().acquire().await.unwrap();
    let (next, released) = tokio::join!(lock.read().acquire(), writer.release());
    released.unwrap();
    next.unwrap().release().await.is_ok()
}

async fn semaphore(sessions: SessionManager, path: String) -> bool {
    let semaphore = Semaphore::new(&sessions.client(), &path, 2).unwrap();
    let permits = semaphore.acquire_many(2).await.unwrap();
    let (next, released) = tokio::join!(semaphore.acquire(), permits.release());
    released.unwrap();
    next.unwrap().release().await.is_ok()
}

async fn election(sessions: SessionManager, path: String) -> bool {
    let election = Election::new(&sessions, &path, "one").unwrap();
    let work = async |_| Ok::<_, LockError>(ControlFlow::Break(()));
    election.lead(work, drop).await.is_ok()
}

async fn resume(sessions: SessionManager) -> bool {
    let client = sessions.client();
    let server = client.stats().connected_to.unwrap().to_string();
    let credentials = client.detach().unwrap();
    config(&server).resume(credentials).connect().await.is_ok()
}

async fn counter(sessions: SessionManager, path: String) -> bool {
    AtomicLong::new(&sessions.client(), &path).unwrap().increment().await.is_ok()
}

async fn kept(sessions: SessionManager, path: String) -> bool {
    let node = PersistentNode::start(&sessions, &path, b"").unwrap();
    node.wait_until_present(LIMIT).await.is_ok()
}

async fn cache(sessions: SessionManager, path: String) -> bool {
    let opened = tokio::time::timeout(LIMIT, Cache::tree(&sessions, &path).open());
    opened.await.is_ok_and(|opened| opened.is_ok())
}

async fn discovery(sessions: SessionManager, path: String) -> bool {
    let discovery = Discovery::new(&sessions, &path).unwrap();
    let registration = discovery.register(ServiceInstance::new("service")).unwrap();
    registration.wait_until_registered(LIMIT).await.is_ok()
}

async fn transaction(sessions: SessionManager, path: String) -> bool {
    let created = sessions.client().multi().create(&path, b"", CreateMode::Ephemeral);
    created.check(&path, Some(0)).delete(&path, None).send().await.is_ok()
}

async fn container(sessions: SessionManager, path: String) -> bool {
    sessions.client().ensure_path(&path, ParentMode::Containers).await.is_ok()
}

async fn time_to_live(sessions: SessionManager, path: String) -> bool {
    let client = sessions.client();
    is_known(client.create_builder(&path).ttl(Duration::from_secs(60)).create().await)
}

/// Returns true for an answer, and false if the servers do not know the operation.
fn is_known<T>(answer: Result<T, Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED), "{error}");
            false
        }
    }
}

fn config(connect_string: &str) -> Config {
    Config::new(connect_string).unwrap().session_timeout(LIMIT)
}

/// Session timeout, and longest wait.
const LIMIT: Duration = Duration::from_secs(10);
