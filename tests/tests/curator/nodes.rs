//! Persistent nodes and group members of ours beside Curator's, on a real server.

use std::time::Duration;

use zk_coordination::session::{Client, SessionId, SessionManager};
use zk_coordination::{Group, GroupMember, NodeMode, NodeState, PersistentNode};
use zk_tests::{Curator, LIMIT, Settings, eventually, zookeeper_with};

use crate::{SHORT, address, sessions};

struct Peers {
    address: String,
    curator: Curator,
    sessions: SessionManager,
}

impl Peers {
    async fn new() -> Option<Self> {
        Self::at(address()?).await
    }

    async fn at(address: String) -> Option<Self> {
        let curator = Curator::with_program("CuratorNodes.java", &address, SHORT)?;
        let sessions = sessions(&address).await;
        Some(Self { address, curator, sessions })
    }

    /// Waits until Curator's member sees these members.
    async fn expect_theirs(&mut self, actor: &str, members: &[&str]) {
        let seen = eventually(LIMIT, async || {
            (self.curator.ok(actor, "members") == members).then_some(())
        });
        assert!(seen.await.is_some(), "Curator sees {:?}", self.curator.ok(actor, "members"));
    }
}

fn listed(group: &Group) -> Vec<String> {
    let members = group.members();
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    members.iter().map(|(id, member)| format!("{id}={}", text(member.data()))).collect()
}

/// Waits until our group has these members.
async fn expect_ours(group: &mut Group, members: &[&str]) {
    while listed(group) != members {
        let changed = tokio::time::timeout(LIMIT, group.changed()).await;
        assert!(changed.is_ok(), "we see {:?}", listed(group));
        changed.unwrap().unwrap();
    }
}

async fn data_and_owner(client: &Client, path: &str) -> (String, SessionId) {
    let node = client.get_data(path).await.unwrap();
    let data = String::from_utf8(node.data.to_vec()).unwrap();
    (data, node.stat.ephemeral_owner)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_members_list_alike() {
    let Some(mut peers) = Peers::new().await else { return };
    let mut group = Group::open(&peers.sessions, "/interop/group").await.unwrap();
    let ours = GroupMember::join(&peers.sessions, "/interop/group", "ours", "1").unwrap();
    ours.wait_until_present(LIMIT).await.unwrap();
    peers.curator.ok("java", "join /interop/group theirs 2");
    expect_ours(&mut group, &["ours=1", "theirs=2"]).await;
    peers.expect_theirs("java", &["ours=1", "theirs=2"]).await;
    ours.set_data("3").await.unwrap();
    peers.curator.ok("java", "payload 4");
    expect_ours(&mut group, &["ours=3", "theirs=4"]).await;
    peers.expect_theirs("java", &["ours=3", "theirs=4"]).await;
    ours.leave().await.unwrap();
    peers.expect_theirs("java", &["theirs=4"]).await;
    peers.curator.ok("java", "close");
    expect_ours(&mut group, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_of_a_java_member_is_ours_after_its_process_is_killed() {
    let Some(mut peers) = Peers::new().await else { return };
    let path = "/interop/killed-group";
    peers.curator.ok("java", &format!("join {path} a theirs"));
    let mut group = Group::open(&peers.sessions, path).await.unwrap();
    expect_ours(&mut group, &["a=theirs"]).await;
    let ours = GroupMember::join(&peers.sessions, path, "a", "ours").unwrap();
    let mut state = ours.subscribe();
    let conflict = state.wait_for(|state| *state != NodeState::Pending).await.unwrap().clone();
    assert!(matches!(conflict, NodeState::Conflict { .. }), "{conflict}");
    expect_ours(&mut group, &["a=theirs"]).await;
    peers.curator.kill();
    ours.wait_until_present(LIMIT).await.unwrap();
    expect_ours(&mut group, &["a=ours"]).await;
    ours.leave().await.unwrap();
}

/// Curator overwrites the payload of our member, which restores it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_member_with_our_id_does_not_change_our_payload() {
    let Some(mut peers) = Peers::new().await else { return };
    let path = "/interop/twins";
    let ours = GroupMember::join(&peers.sessions, path, "a", "ours").unwrap();
    let joined = ours.wait_until_present(LIMIT).await.unwrap();
    peers.curator.ok("java", &format!("join {path} a theirs"));
    let mut state = ours.subscribe();
    let restored = state.wait_for(|state| state.stat().is_some_and(|stat| stat.version >= 2));
    drop(tokio::time::timeout(LIMIT, restored).await.expect("two changes").unwrap());
    peers.expect_theirs("java", &["a=ours"]).await;
    let mut group = Group::open(&peers.sessions, path).await.unwrap();
    expect_ours(&mut group, &["a=ours"]).await;
    assert_eq!(group.members().get("a").unwrap().czxid(), joined.czxid);
    ours.leave().await.unwrap();
    expect_ours(&mut group, &["a=theirs"]).await;
    peers.curator.ok("java", "close");
    expect_ours(&mut group, &[]).await;
}

/// Curator adopts the node of our process, overwrites its data, and creates the node again when our
/// session has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_our_dead_process_passes_to_java_and_back() {
    let Some(mut peers) = Peers::new().await else { return };
    let path = "/interop/kept";
    let observer = Client::connect(&peers.address).await.unwrap();
    let dying = sessions(&peers.address).await;
    let node = PersistentNode::start(&dying, path, "ours").unwrap();
    node.wait_until_present(LIMIT).await.unwrap();
    let old = dying.client().session_id();
    dying.client().detach(); // the session goes on without its process
    peers.curator.ok("java", &format!("keep {path} theirs"));
    let ours = PersistentNode::start(&peers.sessions, path, "next").unwrap();
    let passed = eventually(LIMIT, async || {
        let owner = observer.exists(path).await.unwrap().map(|stat| stat.ephemeral_owner);
        owner.filter(|owner| *owner != old)
    });
    passed.await.expect("the session expires");
    let (data, owner) = data_and_owner(&observer, path).await;
    let is_ours = owner == peers.sessions.client().session_id();
    if !is_ours {
        assert_eq!(data, "theirs");
        let mut states = ours.subscribe();
        let is_told = states.wait_for(|state| matches!(state, NodeState::Conflict { .. }));
        tokio::time::timeout(LIMIT, is_told).await.expect("no conflict").unwrap();
    }
    let before = observer.exists(path).await.unwrap().expect("a node").czxid;
    peers.curator.ok("java", "close");
    // Curator deletes the node even if it is ours, and our session hears of that later.
    let created = eventually(LIMIT, async || {
        observer.get_data(path).await.ok().filter(|node| node.stat.czxid != before)
    });
    let node = created.await.expect("a new node");
    assert_eq!(node.stat.ephemeral_owner, peers.sessions.client().session_id());
    assert_eq!(&node.data[..], b"next");
    ours.wait_until_present(LIMIT).await.unwrap();
    ours.close().await.unwrap();
    assert!(observer.exists(path).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_ttl_node_outlives_the_java_process() {
    let Some(zookeeper) = zookeeper_with(&Settings::default().container_check_ms(50)) else {
        return;
    };
    let Some(mut peers) = Peers::at(zookeeper.connect_string()).await else { return };
    let ttl = Duration::from_secs(4);
    let builder = PersistentNode::builder(&peers.sessions, "/ttl/kept").mode(NodeMode::Ttl(ttl));
    let ours = builder.data("ours").start().unwrap();
    let created = ours.wait_until_present(LIMIT).await.unwrap().czxid;
    peers.curator.ok("java", "keep-ttl /ttl/kept theirs 4000");
    let client = peers.sessions.client();
    let touched = eventually(LIMIT, async || client.exists("/ttl/kept/touch").await.unwrap());
    touched.await.expect("Curator's child");
    peers.curator.kill();
    let expired = eventually(LIMIT, async || {
        client.exists("/ttl/kept/touch").await.unwrap().is_none().then_some(())
    });
    expired.await.expect("the child expires");
    let (data, _) = data_and_owner(&client, "/ttl/kept").await;
    assert_eq!(data, "theirs", "our renewals keep the data of Curator");
    let renewals = ours.state().stat().unwrap().version;
    let mut state = ours.subscribe();
    let renewed =
        state.wait_for(|state| state.stat().is_some_and(|stat| stat.version > renewals + 1));
    drop(tokio::time::timeout(LIMIT, renewed).await.expect("renewals").unwrap());
    assert_eq!(client.exists("/ttl/kept").await.unwrap().unwrap().czxid, created);
    ours.close().await.unwrap();
    assert!(client.exists("/ttl/kept").await.unwrap().is_none());
}
