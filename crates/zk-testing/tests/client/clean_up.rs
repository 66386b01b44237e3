//! Tests of nodes whose removal is pending while there is no connection.

use zk_session::limits::CLEAN_UPS_MAX;
use zk_session::{CreateMode, ErrorKind, Limit, Outcome, SessionEvent};
use zk_testing::{Cut, TestServer};

use crate::in_memory::client_of;

/// Models 66,000 guards that are dropped during an outage.
#[tokio::test(start_paused = true)]
async fn nodes_beyond_the_limit_are_removed_after_the_outage() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let nodes: Vec<String> = (0..66_000).map(|n| format!("/lock-{n}")).collect();
    for chunk in nodes.chunks(10_000) {
        let made = chunk.iter().map(|path| client.create(path, b"", CreateMode::Ephemeral));
        for created in made.collect::<Vec<_>>() {
            created.await.unwrap();
        }
    }
    let left = || {
        server.with(|ensemble| {
            let names = ensemble.tree().node("/").unwrap().children();
            names.filter(|name| name.starts_with("lock-")).count()
        })
    };
    assert_eq!(left(), 66_000);

    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    let (first, last) = nodes.split_at(65_999);
    first.iter().for_each(|path| drop(client.delete_guaranteed(path)));
    let refused = client.delete_guaranteed(&last[0]).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::LimitReached(Limit::CleanUps));
    assert_eq!(refused.outcome(), Outcome::Unknown, "it is deleted, and nobody is told");
    assert_eq!(client.stats().clean_up_pending, 66_000);
    assert_eq!(events.next().await, Some(SessionEvent::CleanUpBacklog { nodes: 1 }));

    server.accept_connects(0);
    assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    let waiting = 66_000 - CLEAN_UPS_MAX;
    assert_eq!(events.next().await, Some(SessionEvent::CleanUpBacklog { nodes: waiting }));
    while client.stats().clean_up_pending > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(left(), 0);
    assert!(client.is_connected());
}

#[tokio::test(start_paused = true)]
async fn protected_node_is_not_found_below_a_missing_parent() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    assert_eq!(client.find_protected("/none", "_c_").await, Ok(None));
    let created = client.create_builder("/n").protected().create().await.unwrap();
    let prefix = &created.path[1..created.path.len() - 1];
    assert_eq!(client.find_protected("/", prefix).await, Ok(Some(created.clone())));
}
