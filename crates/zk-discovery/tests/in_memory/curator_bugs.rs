//! Faults of Curator's `ServiceDiscovery` that this crate does not have.

use zk_discovery::session::{Config, CreateMode, SessionManager};
use zk_discovery::{Discovery, Rejection};
use zk_testing::{Cut, SessionId, TestServer};

use crate::{
    BASE, MS, T, client, config, cut_off, data, discovery, ids, pass, process, register,
    register_all, registered, settle, stored, two_processes, web,
};

const PATH: &str = "/services/web/a";

/// CURATOR-146, CURATOR-181: after a reconnect or an expiry, Curator registers the data of the first
/// registration again, and an update is lost.
#[tokio::test(start_paused = true)]
async fn curator_146_update_is_kept_after_a_reconnect() {
    let (server, sessions, discovery) = process().await;
    let registration = register(&discovery, web("a")).await;
    for (port, is_expiry) in [(1, true), (2, false), (3, true)] {
        let new = registration.instance().with_port(port);
        registration.update(new.clone()).await.unwrap();
        lose(&server, sessions.client().session_id(), is_expiry);
        pass(T).await; // in which the instance is registered again
        registration.wait_until_registered(T).await.unwrap();
        assert_eq!(stored(&server, PATH).unwrap(), new);
    }
}

/// CURATOR-181: an update during an outage.
#[tokio::test(start_paused = true)]
async fn curator_181_update_during_an_outage_is_registered() {
    let (server, _discovery, _, registration) = registered().await;
    cut_off(&server);
    let new = registration.instance().with_port(9090);
    let updating = async {
        pass(3 * T).await; // in which the session expires
        assert_eq!(data(&server, PATH), None);
        server.accept_connects(0);
    };
    let (updated, ()) = tokio::join!(registration.update(new.clone()), updating);
    updated.unwrap();
    assert_eq!(stored(&server, PATH).unwrap(), new);
}

/// CURATOR-164: an unregistration races with the registration after a reconnect, and the instance
/// stays registered.
#[tokio::test(start_paused = true)]
async fn curator_164_reconnect_does_not_undo_unregister() {
    for after in 0..40 {
        for is_expiry in [true, false] {
            let (server, sessions, discovery) = process().await;
            let registration = register(&discovery, web("a")).await;
            server.on_any_request().always().delay(10 * MS);
            lose(&server, sessions.client().session_id(), is_expiry);
            pass(after * 5 * MS).await; // after which the instance is unregistered
            registration.unregister().await.unwrap();
            assert_eq!(data(&server, PATH), None, "after {after}");
            pass(3 * T).await; // in which nothing may register the instance
            assert_eq!(data(&server, PATH), None, "after {after}");
        }
    }
}

/// CURATOR-175: an instance that is registered while ZooKeeper is down is never registered.
#[tokio::test(start_paused = true)]
async fn curator_175_registration_waits_for_the_ensemble() {
    let (server, _sessions, discovery) = process().await;
    cut_off(&server);
    let registration = discovery.register(web("a")).unwrap();
    assert!(registration.wait_until_registered(5 * T).await.is_err());
    server.accept_connects(0);
    registration.wait_until_registered(3 * T).await.unwrap();
    assert_eq!(stored(&server, PATH).unwrap(), registration.instance());
}

/// CURATOR-175: also at the start of the program.
#[tokio::test(start_paused = true)]
async fn curator_175_program_may_start_before_the_ensemble() {
    let server = TestServer::in_memory();
    server.refuse_connects(0);
    let config: Config = config(1).connect_timeout(20 * T);
    let connecting = tokio::spawn(SessionManager::connect(config.connector(server.clone())));
    pass(10 * T).await; // for which the ensemble is down
    server.accept_connects(0);
    let sessions = connecting.await.unwrap().unwrap();
    register(&Discovery::new(&sessions, BASE).unwrap(), web("a")).await.unregister().await.unwrap();
}

/// CURATOR-320: Curator deletes and creates all its nodes after each reconnect, and all readers read
/// them again.
#[tokio::test(start_paused = true)]
async fn curator_320_reconnect_writes_nothing() {
    let (server, sessions, ours) = process().await;
    let _registrations = register_all(&ours, 0..20).await;
    let cache = discovery(&server, 2).await.cache("web").await.unwrap();
    let before = cache.instances();
    assert_eq!(before.len(), 20);
    let zxid = server.with(|ensemble| ensemble.zxid());
    for _ in 0..5 {
        server.connection_of(sessions.client().session_id()).cut(Cut::Rst);
        pass(T / 2).await; // in which the session reconnects
        assert!(sessions.client().is_connected());
    }
    assert_eq!(server.with(|ensemble| ensemble.zxid()), zxid);
    assert!(std::sync::Arc::ptr_eq(&before, &cache.instances()));
}

/// CURATOR-617: an unregistration that fails with a lost connection has forgotten the instance, so a
/// second one does nothing, and the instance stays.
#[tokio::test(start_paused = true)]
async fn curator_617_unregister_can_be_repeated_after_a_loss() {
    let (server, _discovery, _, registration) = registered().await;
    cut_off(&server);
    for _ in 0..3 {
        let first = tokio::time::timeout(T / 10, registration.unregister()).await;
        assert!(first.is_err(), "{first:?}");
    }
    server.accept_connects(0);
    registration.unregister().await.unwrap();
    assert_eq!(data(&server, PATH), None);
}

/// CURATOR-705: a cache is empty directly after its start.
#[tokio::test(start_paused = true)]
async fn curator_705_opened_cache_has_all_instances() {
    let (server, ours, theirs) = two_processes().await;
    let _registrations = register_all(&theirs, 0..300).await;
    server.on_any_request().always().delay(10 * MS);
    assert_eq!(ours.cache("web").await.unwrap().instances().len(), 300);
    assert_eq!(ours.provider("web").await.unwrap().instances().len(), 300);
    assert_eq!(ours.instances("web").await.unwrap().len(), 300);
}

/// In Curator, the listener of the cache fails with the data of one node that is no instance, and
/// other instances may be missing.
#[tokio::test(start_paused = true)]
async fn broken_neighbour_is_skipped_and_reported() {
    let server = TestServer::in_memory();
    let (discovery, operator) = (discovery(&server, 1).await, client(&server, 2).await);
    let cache = discovery.cache("web").await.unwrap();
    let _a = register(&discovery, web("a")).await;
    let broken = [("b", "{\"name\":"), ("c", ""), ("d", "{\"serviceType\":\"FOO\"}"), ("e", "[]")];
    for (name, text) in broken {
        let path = format!("/services/web/{name}");
        operator.create(&path, text.as_bytes(), CreateMode::Persistent).await.unwrap();
    }
    let _f = register(&discovery, web("f")).await;
    settle().await;
    for instances in [cache.instances(), discovery.instances("web").await.unwrap()] {
        assert_eq!(ids(&instances), ["a", "f"]);
        let rejected: Vec<_> = instances.rejected().iter().map(Rejection::path).collect();
        let expected = ["b", "c", "d", "e"].map(|name| format!("/services/web/{name}"));
        assert_eq!(rejected, expected);
    }
    let before = cache.instances();
    operator.set_data("/services/web/b", web("b").to_json().as_bytes(), None).await.unwrap();
    let after = cache.changed(&before).await.unwrap();
    assert_eq!((ids(&after), after.rejected().len()), (vec!["a", "b", "f"], 3));
}

/// Expires a session, or cuts its connection.
fn lose(server: &TestServer, session_id: SessionId, is_expiry: bool) {
    if is_expiry {
        server.expire(session_id);
    } else {
        server.connection_of(session_id).cut(Cut::Rst);
    }
}
