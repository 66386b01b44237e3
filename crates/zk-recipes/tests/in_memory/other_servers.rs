//! Every kind of lock on every kind of server, over lost connections. Most Keepers end a session with its
//! connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zk_recipes::LockGuard;
use zk_recipes::session::{Client, OpCode, RetryOn, ServerKind, SessionEnd, SessionManager};
use zk_testing::{Settings, TestServer, Version};

use crate::election::{candidate, sessions};
use crate::{Kind, T, children};

fn server(version: Version) -> TestServer {
    TestServer::in_memory_with(Settings::new().version(version))
}

type Shared = Arc<Box<dyn LockGuard>>;

/// The guards of one lock, of all sessions.
#[derive(Clone, Default)]
struct Guards(Arc<Mutex<Vec<Shared>>>);

impl Guards {
    /// Adds a guard. Those that it excludes must be lost.
    fn add(&self, guard: &Shared, kind: Kind) -> bool {
        let mut all = self.all();
        let is_alone = all.iter().all(|other| !other.is_held());
        all.push(Arc::clone(guard));
        is_alone || kind == Kind::Reader
    }

    fn remove(&self, guard: Shared) -> Option<Box<dyn LockGuard>> {
        self.all().retain(|other| !Arc::ptr_eq(other, &guard));
        Arc::into_inner(guard)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Shared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Acquires and releases, on one session after the other.
async fn contend(sessions: SessionManager, guards: Guards, version: Version, kind: Kind) -> u32 {
    let mut granted = 0;
    while granted < 12 {
        let client = sessions.open_client().await.unwrap();
        let guard = match kind.lock(&client).acquire_boxed().await {
            Ok(guard) => guard,
            Err(error) => {
                assert_ne!(error.retry_on(), RetryOn::Never, "{version:?} {kind:?}: {error}");
                if error.retry_on() == RetryOn::NewSession {
                    client.wait_for_end().await;
                }
                continue;
            }
        };
        let guard = Arc::new(guard);
        assert!(guards.add(&guard, kind), "{version:?} {kind:?}");
        granted += 1;
        tokio::time::sleep(Duration::from_millis(3)).await; // reason: others come in between
        if let Some(guard) = guards.remove(guard) {
            drop(guard.release_boxed().await);
        }
    }
    granted
}

#[tokio::test(start_paused = true)]
async fn locks_exclude_each_other_on_every_server() {
    for version in Version::ALL {
        for kind in Kind::ALL {
            let server = server(version);
            let managers = [1, 2, 3, 4].map(|seed| sessions(&server, seed));
            let managers = futures::future::join_all(managers).await;
            drop(server.on_any_request().with_probability(0.02).drop_before_applying());
            drop(server.on_any_request().with_probability(0.02).apply_then_drop_reply());
            let guards = Guards::default();
            let contending = managers.iter().map(|sessions| {
                tokio::spawn(contend(sessions.clone(), guards.clone(), version, kind))
            });
            let contending: Vec<_> = contending.collect();
            let granted = async {
                for contender in contending {
                    assert_eq!(contender.await.unwrap(), 12);
                }
            };
            tokio::time::timeout(100 * T, granted).await.expect("somebody waits for ever");
            server.clear_faults();
            // reason: guaranteed deletes and the next sessions' searches have no end to wait for
            tokio::time::sleep(T / 2).await;
            let left = kind.folders().iter().flat_map(|folder| children(&server, folder));
            let left: Vec<_> = left.filter(|name| name.contains("_c_")).collect();
            assert!(left.is_empty(), "{version:?} {kind:?}: {left:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn leader_is_replaced_on_every_server() {
    for version in Version::ALL {
        let server = server(version);
        let [one, other] = [1, 2].map(|seed| candidate(&server, seed));
        let (one, other) = (one.await, other.await);
        let first = one.stand();
        let led = tokio::time::timeout(T, first.wait_to_lead()).await.unwrap().unwrap();
        let second = other.stand();
        drop(led);
        first.resign().await.unwrap();
        tokio::time::timeout(T, second.wait_to_lead()).await.expect("in time").unwrap();
    }
}

async fn cut(server: &TestServer, client: &Client) {
    server.on_any_request().session(client.session_id()).drop_before_applying();
    drop(client.exists("/").await);
}

/// A waiter behind the node of a lost session would wait for its timeout. The next session deletes the node.
#[tokio::test(start_paused = true)]
async fn node_of_a_lost_session_blocks_nobody_on_a_keeper() {
    for version in [Version::Keeper25_8, Version::Keeper26_6, Version::RaftKeeper] {
        let server = server(version);
        let (one, other) = (sessions(&server, 1).await, sessions(&server, 2).await);
        let client = one.client();
        assert_eq!(client.server_kind(), ServerKind::Keeper);
        assert_eq!(client.supports(OpCode::Create2), version == Version::Keeper26_6);
        let guard = Kind::Mutex.lock(&client).acquire_boxed().await.unwrap();
        let waiter = Kind::Mutex.lock(&other.client());
        let waiting = tokio::spawn(async move { waiter.acquire_boxed().await });
        cut(&server, &client).await;
        assert_eq!(client.wait_for_end().await, SessionEnd::NotResumed);
        assert!(!guard.is_held());
        drop(guard);
        tokio::time::timeout(T / 10, waiting).await.expect("before the timeout").unwrap().unwrap();
        assert!(server.with(|ensemble| ensemble.is_alive(client.session_id())));
    }
}
