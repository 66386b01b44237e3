//! Registrations: creation, updates, conflicts, loss and the end.

use zk_discovery::session::{ErrorCode, ErrorKind, RetryOn};
use zk_discovery::{Discovery, DiscoveryError, NodeState, ServiceInstance, ServiceType};
use zk_testing::{Op, SessionId, TestServer};

use crate::{
    BASE, T, client, cut_off, data, discovery, poll_times, process, register, registered, sessions,
    settle, stored, two_processes, web,
};

const PATH: &str = "/services/web/a";

#[tokio::test(start_paused = true)]
async fn instance_is_registered_with_its_json() {
    let (server, _discovery, _, registration) = registered().await;
    assert_eq!(registration.path(), PATH);
    assert_eq!(data(&server, PATH).unwrap(), registration.instance().to_json());
    let owner = server.with(|ensemble| ensemble.tree().node(PATH).unwrap().stat().ephemeral_owner);
    assert_ne!(owner, SessionId::NONE);
    let kind = |path: &str| server.with(|ensemble| ensemble.tree().node(path).unwrap().kind());
    assert_eq!(kind("/services/web"), zk_testing::server::NodeKind::Container);
    assert_eq!(kind(BASE), zk_testing::server::NodeKind::Container);
    registration.unregister().await.unwrap();
    assert_eq!(data(&server, PATH), None);
}

#[tokio::test(start_paused = true)]
async fn each_type_has_its_kind_of_node() {
    let (server, _sessions, discovery) = process().await;
    for service_type in [
        ServiceType::Dynamic,
        ServiceType::DynamicSequential,
        ServiceType::Static,
        ServiceType::Permanent,
    ] {
        let registration = register(&discovery, web("a").with_service_type(service_type)).await;
        let NodeState::Present { path, stat } = registration.state() else { panic!() };
        assert_eq!(
            stat.ephemeral_owner != SessionId::NONE,
            service_type.is_dynamic(),
            "{service_type}"
        );
        assert_eq!(path == PATH, service_type != ServiceType::DynamicSequential, "{path}");
        assert_eq!(stored(&server, &path).unwrap().service_type(), service_type);
        registration.unregister().await.unwrap();
        assert_eq!(data(&server, &path), None, "{service_type}");
    }
}

/// No server accepts it, so it must not replace the instance that the next session registers.
#[tokio::test(start_paused = true)]
async fn too_large_update_keeps_the_registered_instance() {
    let (server, _sessions, discovery) = process().await;
    let huge = || web("a").with_address("a".repeat(2 << 20));
    let DiscoveryError::Client(error) = discovery.register(huge()).unwrap_err() else { panic!() };
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    let registration = register(&discovery, web("a")).await;
    let error = registration.update(huge()).await.unwrap_err();
    let DiscoveryError::NotRegistered { state: NodeState::Refused { error }, .. } = &error else {
        panic!("{error}")
    };
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    assert_eq!(registration.instance().address(), web("a").address());
    client(&server, 2).await.delete(PATH, None).await.unwrap();
    settle().await;
    assert_eq!(data(&server, PATH).unwrap(), registration.instance().to_json());
    registration.wait_until_registered(T).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sequential_instances_may_have_one_id() {
    let (_server, _sessions, discovery) = process().await;
    let instance = web("a").with_service_type(ServiceType::DynamicSequential);
    let _first = register(&discovery, instance.clone()).await;
    let _second = register(&discovery, instance).await;
    assert_eq!(discovery.instances("web").await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn update_to_another_instance_is_an_error() {
    let (server, _discovery, _, registration) = registered().await;
    let before = registration.instance();
    for other in [
        web("b"),
        ServiceInstance::new("stock").with_id("a"),
        web("a").with_service_type(ServiceType::Static),
    ] {
        let error = registration.update(other).await.unwrap_err();
        assert!(matches!(error, DiscoveryError::OtherInstance { .. }), "{error}");
    }
    assert_eq!(registration.instance(), before);
    assert_eq!(stored(&server, PATH).unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn invalid_names_and_ids_are_rejected() {
    let (server, _sessions, discovery) = process().await;
    for name in ["", "/", "/web", "web/", "a//b", ".", "..", "a\0"] {
        let error = discovery.register(ServiceInstance::new(name)).unwrap_err();
        assert!(matches!(error, DiscoveryError::InvalidName { .. }), "{name:?}: {error}");
        assert_eq!(error.retry_on(), RetryOn::Never);
        assert!(discovery.cache(name).await.is_err(), "{name:?}");
    }
    for id in ["", "/", "a/b", ".", "..", "a\0"] {
        let error = discovery.register(web(id)).unwrap_err();
        assert!(matches!(error, DiscoveryError::InvalidId { .. }), "{id:?}: {error}");
    }
    assert!(Discovery::new(&sessions(&server, 2).await, "services").is_err());
}

#[tokio::test(start_paused = true)]
async fn names_may_have_several_levels_and_the_root_is_a_base() {
    let server = TestServer::in_memory();
    let discovery = Discovery::new(&sessions(&server, 1).await, "/").unwrap();
    let instance = ServiceInstance::new("shop/web").with_id("a");
    let _registered = register(&discovery, instance).await;
    assert!(data(&server, "/shop/web/a").is_some());
    assert_eq!(discovery.instances("shop/web").await.unwrap().len(), 1);
}

/// Curator deletes the node of the other process.
#[tokio::test(start_paused = true)]
async fn instance_of_another_process_is_a_conflict() {
    let (server, ours, theirs) = two_processes().await;
    let first = register(&theirs, web("a").with_port(1)).await;
    let second = ours.register(web("a").with_port(2)).unwrap();
    let error = second.wait_until_registered(T).await.unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::SameSession);
    let DiscoveryError::NotRegistered { state: NodeState::Conflict { .. }, .. } = error else {
        panic!("{error}")
    };
    let error = second.update(web("a").with_port(3)).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::NotRegistered { .. }), "{error}");
    assert_eq!(stored(&server, PATH).unwrap().port(), Some(1));
    first.unregister().await.unwrap();
    second.wait_until_registered(T).await.unwrap();
    assert_eq!(stored(&server, PATH).unwrap().port(), Some(3), "the latest update");
}

#[tokio::test(start_paused = true)]
async fn dropped_registration_is_unregistered() {
    let (server, _sessions, discovery) = process().await;
    drop(register(&discovery, web("a")).await);
    settle().await;
    assert_eq!(data(&server, PATH), None);
}

#[tokio::test(start_paused = true)]
async fn unregistered_instance_rejects_updates_and_waits() {
    let (_server, discovery, _, registration) = registered().await;
    registration.unregister().await.unwrap();
    registration.unregister().await.unwrap();
    let updated = registration.update(web("a")).await.unwrap_err();
    let waited = registration.wait_until_registered(T).await.unwrap_err();
    for error in [updated, waited] {
        let DiscoveryError::NotRegistered { state, .. } = error else { panic!("{error}") };
        assert!(state.is_closed());
    }
    let again = register(&discovery, web("a")).await;
    assert!(again.state().is_present());
}

#[tokio::test(start_paused = true)]
async fn rejected_unregistration_is_an_error_in_each_call() {
    let (server, _discovery, _, registration) = registered().await;
    server.on(Op::Delete).always().answer(ErrorCode::NO_AUTH);
    for _ in 0..2 {
        let error = registration.unregister().await.unwrap_err();
        let DiscoveryError::NotUnregistered { error, .. } = error else { panic!("{error}") };
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    }
}

#[tokio::test(start_paused = true)]
async fn lost_reply_leaves_one_registration() {
    for op in [Op::Create2, Op::CreateContainer, Op::Exists, Op::SetData, Op::Delete, Op::Sync] {
        for is_applied in [true, false] {
            let (server, _sessions, discovery) = process().await;
            match is_applied {
                true => server.on(op).apply_then_drop_reply(),
                false => server.on(op).drop_before_applying(),
            };
            let registration = register(&discovery, web("a")).await;
            let new = registration.instance().with_port(9090);
            registration.update(new.clone()).await.unwrap();
            assert_eq!(registration.instance(), new, "{op:?}");
            assert_eq!(stored(&server, PATH).unwrap(), new, "{op:?}");
            registration.unregister().await.unwrap();
            assert_eq!(data(&server, PATH), None, "{op:?}");
        }
    }
}

/// Drops each future after each number of polls.
#[tokio::test(start_paused = true)]
async fn dropped_futures_leave_nothing_behind() {
    for polls in 0..6 {
        let (server, _sessions, discovery) = process().await;
        let registration = discovery.register(web("a")).unwrap();
        drop(poll_times(polls, registration.wait_until_registered(T)).await);
        registration.wait_until_registered(T).await.unwrap();
        let new = registration.instance().with_port(9090);
        drop(poll_times(polls, registration.update(new.clone())).await);
        settle().await;
        let expected = if polls == 0 { 8080 } else { 9090 };
        assert_eq!(stored(&server, PATH).unwrap().port(), Some(expected), "{polls}");
        drop(poll_times(polls, registration.unregister()).await);
        settle().await;
        assert_eq!(data(&server, PATH).is_none(), polls > 0, "{polls}");
        registration.unregister().await.unwrap();
        assert_eq!(data(&server, PATH), None, "{polls}");
    }
}

#[tokio::test(start_paused = true)]
async fn previous_session_option_replaces_the_old_instance() {
    let server = TestServer::in_memory();
    let old = sessions(&server, 1).await;
    let registration = register(&Discovery::new(&old, BASE).unwrap(), web("a")).await;
    let old_id = old.client().session_id();
    cut_off(&server);
    std::mem::forget(registration); // the process is killed
    server.accept_connects(0);
    let restarted = discovery(&server, 2).await;
    let instance = web("a").with_port(9090);
    let registration =
        restarted.register_with(instance, |node| node.previous_session(old_id)).unwrap();
    registration.wait_until_registered(T / 10).await.unwrap();
    assert_eq!(stored(&server, PATH).unwrap().port(), Some(9090));
}
