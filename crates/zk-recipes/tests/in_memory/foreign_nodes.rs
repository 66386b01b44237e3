//! Different recipes on one path, which do not exclude each other.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::session::{Acl, Client, CreateMode, ParentMode, Perms, RetryOn, path};
use zk_recipes::{Lock, LockError, LockGuard, Mutex, Recipe, RwLock, Semaphore, SemaphoreMutex};
use zk_testing::{Op, TestServer};

use crate::recorded_connection::{CREATE2, DELETE, GET_CHILDREN2, started_recorded};
use crate::{T, children, settle, started};

const PATH: &str = "/app/lock";

/// A lock of each recipe, and of each side of the read-write lock.
const KINDS: [&str; 6] = ["mutex", "named mutex", "reader", "writer", "semaphore", "single"];

fn lock(kind: &str, client: &Client, allows: bool) -> Arc<dyn Lock> {
    let mutex = Mutex::new(client, PATH).unwrap();
    let mutex = if allows { mutex.allow_foreign_nodes() } else { mutex };
    let rw = RwLock::new(client, PATH).unwrap();
    let rw = if allows { rw.allow_foreign_nodes() } else { rw };
    let permits = Semaphore::new(client, PATH, 2).unwrap();
    let permits = if allows { permits.allow_foreign_nodes() } else { permits };
    let single = SemaphoreMutex::new(client, PATH).unwrap();
    let single = if allows { single.allow_foreign_nodes() } else { single };
    match kind {
        "mutex" => Arc::new(mutex),
        "named mutex" => Arc::new(mutex.with_lock_name("job-").unwrap()),
        "reader" => Arc::new(rw.read().clone()),
        "writer" => Arc::new(rw.write().clone()),
        "semaphore" => Arc::new(permits),
        _ => Arc::new(single),
    }
}

/// Returns the recipe that the node names show, or `None` if they show none.
fn recipe(kind: &str) -> Option<Recipe> {
    match kind {
        "mutex" => Some(Recipe::Mutex),
        "named mutex" => None,
        "reader" | "writer" => Some(Recipe::ReadWriteLock),
        _ => Some(Recipe::Semaphore),
    }
}

/// Returns true if this lock refuses a path with a node of the other.
fn refuses(kind: &str, other: &str) -> bool {
    let own = recipe(kind).unwrap_or(Recipe::Mutex);
    recipe(other).is_some_and(|other| other != own)
}

fn nodes(server: &TestServer) -> usize {
    ["", "/locks", "/leases"]
        .iter()
        .flat_map(|below| children(server, &format!("{PATH}{below}")))
        .filter(|name| name.starts_with("_c_"))
        .count()
}

async fn acquire(
    lock: Arc<dyn Lock>,
    is_try: bool,
) -> Result<Option<Box<dyn LockGuard>>, LockError> {
    match is_try {
        true => lock.try_acquire_boxed().await,
        false => lock.acquire_boxed().await.map(Some),
    }
}

#[tokio::test(start_paused = true)]
async fn last_lock_name_decides_on_the_recipe() {
    let (_server, [one, other]) = started().await;
    let named = |client| Mutex::new(client, PATH).unwrap().with_lock_name(Mutex::LEADER_LATCH);
    let renamed = named(&one).unwrap().with_lock_name("lock-").unwrap();
    let _leader = named(&other).unwrap().acquire().await.unwrap();
    let refused = renamed.try_acquire().await.unwrap_err();
    let is_foreign =
        |it: &LockError| matches!(it, LockError::ForeignNode { recipe: Recipe::Election, .. });
    assert!(is_foreign(&refused), "{refused:?}");
}

/// The contender that arrives second checks the path, so the node of the first one stays valid.
#[tokio::test(start_paused = true)]
async fn waiter_is_not_refused_for_a_node_that_arrives_later() {
    let (_server, [one, other]) = started().await;
    let held = Mutex::new(&one, PATH).unwrap().acquire().await.unwrap();
    let mut ticket = Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap();
    let foreign = format!("{PATH}/__READ__0000000009");
    one.create(&foreign, b"", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(ticket.refresh().await.unwrap().ahead, 1);
    held.release().await.unwrap();
    ticket.acquire().await.unwrap().release().await.unwrap();
}

/// Of two concurrent contenders one or both are refused.
#[tokio::test(start_paused = true)]
async fn two_recipes_never_hold_one_path_together() {
    for delay in 0..12 {
        for first in KINDS {
            for second in KINDS {
                if !refuses(first, second) || !refuses(second, first) {
                    continue;
                }
                for is_used in [false, true] {
                    let case = format!("{first}, {second}, {delay}, used: {is_used}");
                    let (server, [one, other]) = started().await;
                    let locks = [lock(first, &one, false), lock(second, &other, false)];
                    if is_used {
                        one.ensure_path(PATH, ParentMode::Persistent).await.unwrap();
                    }
                    // Each answer to the first client is delayed, so the second one acquires in
                    // between.
                    drop(
                        server
                            .on_any_request()
                            .always()
                            .session(one.session_id())
                            .delay(Duration::from_millis(2)),
                    );
                    let (a, b) = tokio::join!(locks[0].try_acquire_boxed(), async {
                        // reason: virtual time, up to some step of the other
                        tokio::time::sleep(Duration::from_millis(delay)).await;
                        locks[1].try_acquire_boxed().await
                    });
                    assert!(a.is_err() || b.is_err(), "{case}: {a:?} {b:?}");
                }
            }
        }
    }
}

/// Which names belong to which recipe is a table beside [`Recipe`].
#[tokio::test(start_paused = true)]
async fn path_with_a_node_of_another_recipe_is_refused() {
    for first in KINDS {
        for second in KINDS {
            let case = format!("{second} beside {first}");
            let (server, [one, other]) = started().await;
            let held = lock(first, &one, true).acquire_boxed().await.unwrap();
            settle().await;
            for is_try in [true, false] {
                let acquiring = acquire(lock(second, &other, false), is_try);
                let acquired = tokio::time::timeout(T / 10, acquiring).await;
                if !refuses(second, first) {
                    assert!(!matches!(acquired, Ok(Err(_))), "{case}: {acquired:?}");
                    continue;
                }
                let (node, recipe) = (held.nodes()[0].to_owned(), recipe(first).unwrap());
                let refused = acquired.unwrap().unwrap_err();
                let text = refused.to_string();
                assert!(text.contains(&node) && text.contains(&recipe.to_string()), "{text}");
                assert_eq!(refused.retry_on(), RetryOn::Never);
                let path = PATH.to_owned();
                assert_eq!(refused, LockError::ForeignNode { path, node, recipe }, "{case}");
                settle().await;
                assert_eq!(nodes(&server), 1, "{case}");
                let allowed = acquire(lock(second, &other, true), is_try).await;
                assert!(allowed.expect(&case).is_some(), "{case}");
                settle().await;
            }
        }
    }
}

/// A node called `leases` may belong to any application.
///
/// An empty one belongs to a semaphore that is not in use, until the server removes it.
#[tokio::test(start_paused = true)]
async fn mutex_refuses_the_leases_node_of_an_idle_semaphore() {
    let (server, [one, other]) = started().await;
    let permits = Semaphore::new(&one, PATH, 2).unwrap();
    let mutex = Mutex::new(&other, PATH).unwrap();
    permits.acquire().await.unwrap().release().await.unwrap();
    settle().await;
    let leases = format!("{PATH}/leases");
    let refused = LockError::ForeignNode {
        path: PATH.to_owned(),
        node: leases.clone(),
        recipe: Recipe::Semaphore,
    };
    assert_eq!(mutex.try_acquire().await.unwrap_err(), refused);
    settle().await;
    assert!(server.reap_containers() >= 2);
    let held = mutex.acquire().await.expect("the semaphore has gone");
    // The handle has checked the path before. The nodes that it saw then have been removed.
    for is_try in [true, false] {
        let refused = acquire(Arc::new(permits.clone()), is_try).await.unwrap_err();
        assert!(matches!(refused, LockError::ForeignNode { recipe: Recipe::Mutex, .. }));
    }
    held.release().await.unwrap();
    settle().await;
    server.reap_containers();

    one.ensure_path(&format!("{PATH}/locks/of-an-app"), ParentMode::Persistent).await.unwrap();
    one.ensure_path(&format!("{leases}/of-a-landlord"), ParentMode::Persistent).await.unwrap();
    mutex.acquire().await.expect("it is somebody else's").release().await.unwrap();
}

/// A client that cannot read a node called `leases` does not take it for a semaphore's.
#[tokio::test(start_paused = true)]
async fn mutex_is_acquired_beside_leases_that_it_cannot_read() {
    let (_server, [one, other]) = started().await;
    let leases = format!("{PATH}/leases");
    one.ensure_path(&format!("{leases}/lease-0000000000"), ParentMode::Persistent).await.unwrap();
    let mutex = Mutex::new(&other, PATH).unwrap();
    mutex.acquire().await.expect_err("a lease can be read");
    one.set_acl(&leases, &[Acl::world(Perms::CREATE)], None).await.unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
}

/// A semaphore that is refused or dropped must not leave a node that makes other recipes refuse the
/// path. No server removes a container that never had a child.
#[tokio::test(start_paused = true)]
async fn dropped_semaphore_does_not_exclude_a_mutex() {
    let mut unused = 0;
    let waits = (0..20).flat_map(|wait| [(wait, true), (wait, false)]);
    for ((wait, is_try), is_held) in waits.flat_map(|it| [(it, true), (it, false)]) {
        let (server, [one, other]) = started().await;
        let mutex = Mutex::new(&one, PATH).unwrap();
        let held = if is_held { Some(mutex.acquire().await.unwrap()) } else { None };
        let answers = server.on_any_request().always().session(other.session_id());
        drop(answers.delay(Duration::from_millis(2)));
        let permits = lock("semaphore", &other, false);
        let wait = Duration::from_millis(wait);
        let asked = tokio::time::timeout(wait, acquire(permits, is_try)).await;
        let is_refused = matches!(&asked, Ok(Err(LockError::ForeignNode { .. })) | Err(_));
        assert!(is_refused || !is_held, "{asked:?}");
        drop((asked, held));
        settle().await;
        let has_leases = || children(&server, PATH).contains(&"leases".to_owned());
        assert!(!is_held || !has_leases(), "{wait:?} {is_try}");
        server.reap_containers();
        unused += usize::from(has_leases());
        drop(mutex.acquire().await.unwrap());
    }
    assert!(unused > 0);
}

/// The leases exist already, so that nothing has to be created.
#[tokio::test(start_paused = true)]
async fn semaphore_in_use_refuses_a_contender_of_a_mutex() {
    let (_server, [one, other]) = started().await;
    let _held = Semaphore::new(&one, "/s", 2).unwrap().acquire().await.unwrap();
    let contender = format!("/s/_c_{}-lock-", path::random_uuid(&other));
    other.create(&contender, b"", CreateMode::EphemeralSequential).await.unwrap();
    let refused = Semaphore::new(&other, "/s", 2).unwrap().acquire().await.map(drop).unwrap_err();
    assert!(matches!(refused, LockError::ForeignNode { .. }), "{refused}");
}

/// A check is repeated if its answer is lost with the connection.
#[tokio::test(start_paused = true)]
async fn foreign_node_is_found_after_a_lost_answer() {
    for (first, second) in [("mutex", "semaphore"), ("semaphore", "mutex")] {
        for op in [Op::Create2, Op::GetChildren2] {
            for nth in 1..4 {
                let (server, [one, other]) = started().await;
                let held = lock(first, &one, false).acquire_boxed().await.unwrap();
                settle().await;
                let session = other.session_id();
                drop(server.on(op).session(session).nth(nth).apply_then_drop_reply());
                let refused = lock(second, &other, false).acquire_boxed().await.unwrap_err();
                assert!(matches!(refused, LockError::ForeignNode { .. }), "{refused}");
                // reason: virtual time, in which the remaining nodes are deleted
                tokio::time::sleep(T / 4).await;
                assert_eq!(nodes(&server), 1, "{op:?} {nth}");
                drop(held);
            }
        }
    }
}

/// Requests that the check sends.
#[tokio::test(start_paused = true)]
async fn foreign_node_check_costs_what_the_documentation_says() {
    let (_server, client, record) = started_recorded().await;
    let mutex = Mutex::new(&client, PATH).unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap(); // creates the path
    for name in ["zzz", "locks"] {
        client.create(&format!("{PATH}/{name}"), b"", CreateMode::Persistent).await.unwrap();
    }
    record.take();
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2], vec![DELETE]], "no request");
    client.ensure_path(&format!("{PATH}/leases/x"), ParentMode::Persistent).await.unwrap();
    record.take();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let look = vec![GET_CHILDREN2];
    assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2], look, vec![DELETE]]);
}

/// The servers remove the unused node `leases`. A mutex that comes then finds no node of the semaphore, and
/// another client makes the node again.
#[tokio::test(start_paused = true)]
async fn semaphore_checks_its_path_again_after_its_node_was_reaped() {
    let (server, [one, other]) = started().await;
    let semaphore = Semaphore::new(&one, PATH, 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    settle().await;
    while server.reap_containers() > 0 {}
    let held = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
    let beside = lock("semaphore", &other, true).acquire_boxed().await.unwrap();
    let refused = semaphore.acquire().await.unwrap_err();
    drop(beside);
    assert!(matches!(refused, LockError::ForeignNode { recipe: Recipe::Mutex, .. }), "{refused}");
    held.release().await.unwrap();
}
