//! Caches of services: contents, changes, rejected nodes.

use zk_discovery::session::{Acl, CreateMode, Perms};
use zk_discovery::{Discovery, Rejection};
use zk_testing::TestServer;

use crate::{
    BASE, T, client, discovery, ids, pass, poll_times, process, register, register_all, registered,
    sessions, settle, two_processes, web,
};

#[tokio::test(start_paused = true)]
async fn cache_follows_registrations_and_updates() {
    let (_server, ours, theirs) = two_processes().await;
    let cache = ours.cache("web").await.unwrap();
    let empty = cache.instances();
    assert!(empty.is_empty() && empty.rejected().is_empty());
    let b = register(&theirs, web("b")).await;
    let one = cache.changed(&empty).await.unwrap();
    assert_eq!(ids(&one), ["b"]);
    let a = register(&theirs, web("a")).await;
    let two = cache.changed(&one).await.unwrap();
    assert_eq!(ids(&two), ["a", "b"]);
    assert!(std::sync::Arc::ptr_eq(&two.as_slice()[1], &one.as_slice()[0]), "parsed once");
    a.update(a.instance().with_payload("busy")).await.unwrap();
    let updated = cache.changed(&two).await.unwrap();
    assert_eq!(updated.get("a").unwrap().payload(), "busy");
    b.unregister().await.unwrap();
    assert_eq!(ids(&cache.changed(&updated).await.unwrap()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn changed_waits_after_each_dropped_future() {
    let (_server, _sessions, discovery) = process().await;
    let cache = discovery.cache("web").await.unwrap();
    let empty = cache.instances();
    for id in ["a", "b", "c"] {
        let before = cache.instances();
        assert!(std::sync::Arc::ptr_eq(&before, &cache.instances()));
        assert!(tokio::time::timeout(10 * T, cache.changed(&before)).await.is_err());
        std::mem::forget(register(&discovery, web(id)).await);
        settle().await;
    }
    assert_eq!(ids(&cache.changed(&empty).await.unwrap()), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_permission_are_reported() {
    let (_server, discovery, operator, _a) = registered().await;
    let secret = "/services/web/secret";
    operator.create(secret, b"", CreateMode::Persistent).await.unwrap();
    operator.set_acl(secret, &[Acl::world(Perms::ADMIN)], None).await.unwrap();
    let instances = discovery.instances("web").await.unwrap();
    assert_eq!(ids(&instances), ["a"]);
    assert_eq!(instances.rejected(), [Rejection::Unreadable { path: secret.into() }]);
    assert!(instances.rejected()[0].to_string().contains(secret));
}

#[tokio::test(start_paused = true)]
async fn names_lists_the_services() {
    let server = TestServer::in_memory();
    let (discovery, operator) = (discovery(&server, 1).await, client(&server, 2).await);
    assert_eq!(discovery.names().await.unwrap(), [""; 0]);
    let _web = register(&discovery, web("a")).await;
    operator.create("/services/empty", b"", CreateMode::Container).await.unwrap();
    assert_eq!(discovery.names().await.unwrap(), ["empty", "web"]);
    assert_eq!(discovery.base(), BASE);
}

/// The next calls return the names and the instances, also on the next session.
#[tokio::test(start_paused = true)]
async fn dropped_names_and_instances_have_no_effect() {
    for is_expired in [false, true] {
        let mut completed = (0, 0);
        for polls in 0..40 {
            let server = TestServer::in_memory();
            let sessions = sessions(&server, 1).await;
            let ours = Discovery::new(&sessions, BASE).unwrap();
            let _a = register(&discovery(&server, 2).await, web("a")).await;
            let before = server.with(|ensemble| (ensemble.zxid(), ensemble.watches(0)));
            if is_expired {
                server.expire(sessions.client().session_id());
            }
            let names = poll_times(polls, ours.names()).await;
            let found = poll_times(polls, ours.instances("web")).await;
            completed.0 += usize::from(names.is_some());
            completed.1 += usize::from(found.is_some());
            for _ in 0..2 {
                pass(T / 10).await; // the session removes watches a moment after they are dropped
                let (zxid, watches) =
                    server.with(|ensemble| (ensemble.zxid(), ensemble.watches(0)));
                assert_eq!(watches, before.1, "{is_expired}, {polls} polls");
                assert!(is_expired || zxid == before.0, "{polls} polls: a read writes nothing");
                assert_eq!(ours.names().await.unwrap(), ["web"], "{is_expired}, {polls} polls");
                assert_eq!(ids(&ours.instances("web").await.unwrap()), ["a"], "{polls} polls");
            }
            assert!(names.is_none_or(|names| names.unwrap() == ["web"]), "{polls} polls");
            assert!(found.is_none_or(|found| ids(&found.unwrap()) == ["a"]), "{polls} polls");
        }
        let (names, instances) = completed;
        assert!(is_expired || names > 0 && instances > 0, "{names} and {instances}");
        assert!(names <= 38 && instances <= 38, "they have several steps");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_cache_is_an_error_of_changed() {
    let (_server, sessions, discovery) = process().await;
    let cache = discovery.cache("web").await.unwrap();
    sessions.close().await;
    for _ in 0..2 {
        let error = cache.changed(&cache.instances()).await.unwrap_err();
        assert!(matches!(error, zk_discovery::DiscoveryError::Cache(_)), "{error}");
    }
    assert!(discovery.names().await.is_err());
}

/// The numbers are those of the documentation.
#[tokio::test(start_paused = true)]
async fn costs_are_as_documented() {
    let (server, sessions, discovery) = process().await;
    let _first = register(&discovery, web("first")).await; // creates the parents
    let requests = || sessions.client().stats().frames_sent;

    let before = requests();
    let registration = register(&discovery, web("a")).await;
    assert_eq!(requests() - before, 2);
    registration.update(registration.instance().with_port(1)).await.unwrap();
    assert_eq!(requests() - before, 5);
    registration.unregister().await.unwrap();
    assert_eq!(requests() - before, 8);

    let theirs = crate::discovery(&server, 2).await;
    let others = register_all(&theirs, 0..127).await;
    let before = requests();
    let provider = discovery.provider("web").await.unwrap();
    let opened = requests() - before;
    assert!((3..=8).contains(&opened), "{opened} requests for 128 instances");
    for _ in 0..1_000 {
        assert!(provider.instance().is_some());
    }
    assert_eq!(requests() - before, opened);
    others[0].update(others[0].instance().with_port(1)).await.unwrap();
    settle().await;
    assert_eq!(requests() - before, opened + 1);
    assert_eq!(discovery.names().await.unwrap(), ["web"]);
    assert_eq!(requests() - before, opened + 2);
}
