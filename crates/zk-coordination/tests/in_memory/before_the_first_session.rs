//! Recipes on a manager that has not opened its first session.

use zk_coordination::session::{SessionChange, SessionManager};
use zk_coordination::{Cache, Group, GroupMember, PersistentNode};
use zk_recipes::{Election, HeldLock, Leadership, Mutex, run_whenever_held};
use zk_testing::TestServer;

use crate::{T, config};

#[tokio::test(start_paused = true)]
async fn recipes_wait_for_the_first_session() {
    let server = TestServer::in_memory();
    server.refuse_connects(0);
    let sessions = SessionManager::start(config(1).connector(server.clone())).unwrap();
    let mut changes = sessions.changes();
    let candidacy = Election::new(&sessions, "/election", "me").unwrap().stand();
    let node = PersistentNode::builder(&sessions, "/node").data("here").start().unwrap();
    let cache = Cache::tree(&sessions, "/node").start().unwrap();
    let member = GroupMember::join(&sessions, "/group", "me", "data").unwrap();
    let held = run_whenever_held(
        &sessions,
        |client| Mutex::new(client, "/lock"),
        async |held: HeldLock| held.token(),
        |interruption| panic!("{interruption}"),
    );
    let outage = async {
        for _ in 0..3 {
            assert!(matches!(changes.next().await, Some(SessionChange::AttemptFailed { .. })));
        }
        server.accept_connects(0);
    };
    let (held, (), group) = tokio::join!(held, outage, Group::open(&sessions, "/group"));
    assert!(held.unwrap().czxid() > 0);
    member.wait_until_present(T).await.unwrap();
    group.unwrap().subscribe().wait_for(|members| members.len() == 1).await.unwrap();
    node.wait_until_present(T).await.unwrap();
    cache.wait_until_synced().await.unwrap();
    candidacy.subscribe().wait_for(Leadership::is_leader).await.unwrap();
}
